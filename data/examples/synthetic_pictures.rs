//! Writes fields of a synthetic run as grey PNG-free PGM pictures:
//! `cargo run --example synthetic_pictures FOLDER [ROWSxCOLUMNS]`.

use squall_data::synthetic::{Scenario, SyntheticConfig, SyntheticRun};
use squall_data::{Calendar, Time, Variable};
use std::io::Write;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = std::path::PathBuf::from(arguments.next().unwrap_or_else(|| ".".into()));
    let grid = arguments.next().unwrap_or_else(|| "192x288".into());
    let (rows, columns) = grid.split_once('x').ok_or("a grid such as 192x288")?;
    let config = SyntheticConfig {
        rows: rows.parse()?,
        columns: columns.parse()?,
        start: Time::new(Calendar::NoLeap, 2000, 8, 1, 0, 0, 0)?,
        step_hours: 6,
        steps: 240,
        scenario: Scenario::PRESENT,
        seed: 1,
    };
    let run = SyntheticRun::new(config)?;
    let started = Instant::now();
    let mut out = std::io::stdout().lock();
    for index in [40, 120] {
        let (snapshot, truth) = run.snapshot(index);
        for variable in Variable::CHANNELS {
            let field = snapshot.field(variable).ok_or("every channel is there")?;
            let (low, high) = field
                .iter()
                .fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), &v| {
                    (l.min(v), h.max(v))
                });
            writeln!(out, "{index} {variable}: {low} to {high}")?;
            let mut picture = format!("P5 {} {} 255\n", field.ncols(), field.nrows()).into_bytes();
            let grey = |v: &f32| (255.0 * (v - low) / (high - low).max(1e-30)) as u8;
            field
                .rows()
                .into_iter()
                .rev()
                .for_each(|row| picture.extend(row.iter().map(grey)));
            std::fs::write(folder.join(format!("{index}_{variable}.pgm")), picture)?;
        }
        let codes = &truth.mask.codes;
        let mut picture = format!("P5 {} {} 255\n", codes.ncols(), codes.nrows()).into_bytes();
        codes
            .rows()
            .into_iter()
            .rev()
            .for_each(|row| picture.extend(row.iter().map(|code| code * 127)));
        std::fs::write(folder.join(format!("{index}_truth.pgm")), picture)?;
        writeln!(
            out,
            "{index}: {} objects, pixels {:?}",
            truth.objects.len(),
            truth.mask.pixel_counts()
        )?;
    }
    writeln!(out, "{:?} for two", started.elapsed())?;
    Ok(())
}
