//! A summary as text: the network as a tree with one line per layer, and totals.

use super::{Row, Summary};
use crate::ops::Backend;
use candle_core::DType;
use std::fmt;
use std::num::NonZeroUsize;

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [h, w, c] = self.input;
        let clip = match self.frames {
            1 => String::new(),
            frames => format!("{frames} frames of "),
        };
        writeln!(f, "{} on {clip}{h} x {w} x {c}", self.network)?;
        write_tree(f, &self.layers)?;
        self.write_totals(f)
    }
}

/// Writes a line for every layer, below header lines for the parts of the network that contain it.
fn write_tree(f: &mut fmt::Formatter<'_>, layers: &[Row]) -> fmt::Result {
    let mut open: Vec<&str> = Vec::new();
    for row in layers {
        let path: Vec<&str> = row.name.split('.').collect();
        let shared = open.iter().zip(&path).take_while(|(a, b)| a == b).count();
        for (depth, part) in path.iter().enumerate().skip(shared) {
            let label = format!("{:indent$}{part}", "", indent = 2 * depth + 2);
            if depth + 1 < path.len() {
                writeln!(f, "{label}")?;
            } else {
                write_layer(f, &label, row)?;
            }
        }
        open = path;
    }
    Ok(())
}

fn write_layer(f: &mut fmt::Formatter<'_>, label: &str, row: &Row) -> fmt::Result {
    let [h, w, c] = row.output;
    let shape = format!("{h} x {w} x {c}");
    let flops = match row.forward_flops {
        0 => String::new(),
        flops => format!("{:.2} GF", flops as f64 / 1e9),
    };
    writeln!(
        f,
        "{label:<40} {shape:>18} {:>12} {flops:>12}",
        row.parameters
    )
}

impl Summary {
    fn write_totals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        let backend = Backend::best();
        let training = |dtype: DType| {
            gigabytes(self.training_bytes(backend, 1, &dtype.into(), 2 * self.parameters))
        };
        let inference = |dtype: DType| {
            let whole = NonZeroUsize::MIN;
            let bytes = self.inference_bytes(backend, 1, &dtype.into(), whole);
            gigabytes(bytes.unwrap_or(0))
        };
        writeln!(
            f,
            "parameters {:.2} M; forward {:.3} TF, training {:.2} TF per sample; activations {:.2} GB in f32; memory of one \
             sample: training step {:.2} GB (bf16 {:.2}), inference {:.2} GB (bf16 {:.2})",
            self.parameters as f64 / 1e6,
            self.forward_flops as f64 / 1e12,
            self.training_flops as f64 / 1e12,
            self.activation_bytes as f64 / 1e9,
            training(DType::F32),
            training(DType::BF16),
            inference(DType::F32),
            inference(DType::BF16),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networks::NetworkName;
    use crate::{Network, NetworkConfig};

    /// A clip of eight frames through the detector over time, whose inference leaves out the decoder.
    #[test]
    fn every_layer_has_its_line_and_totals_their_numbers() {
        let config = NetworkConfig::published(NetworkName::Detector3d);
        let network = Network::outline(&config, Backend::Reference, 1).unwrap();
        let summary = network.summary(192, 288).unwrap();
        let text = summary.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "detector-3d on 8 frames of 192 x 288 x 16");
        let rows = lines.iter().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, h, "x", w, "x", c, parameters, ..] = words[..] else {
                return None;
            };
            let shape = [h, w, c].map(|extent| extent.parse::<usize>().ok());
            Some((name, shape, parameters.parse::<usize>().ok()))
        });
        let expected = summary.layers.iter().map(|row| {
            let (_, leaf) = row.name.rsplit_once('.').unwrap();
            (leaf, row.output.map(Some), Some(row.parameters))
        });
        assert!(rows.eq(expected), "{text}");
        // 50.02 million parameters; three passes of training.
        let totals = lines[lines.len() - 1];
        let tera = |flops: u64| flops as f64 / 1e12;
        let forward = format!("forward {:.3} TF", tera(summary.forward_flops));
        let training = format!("training {:.2} TF", tera(summary.training_flops));
        for part in ["parameters 50.02 M", &forward, &training] {
            assert!(totals.contains(part), "{part}: {totals}");
        }
    }
}
