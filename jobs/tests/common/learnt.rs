//! What a training left behind.

use squall_jobs::metrics::{Metric, read_metrics};
use squall_model::ModelFile;
use std::path::Path;

/// The loss of every step.
pub fn losses(folder: &Path) -> Vec<f64> {
    let metrics = read_metrics(&folder.join("metrics.jsonl")).unwrap();
    let loss = |metric| match metric {
        Metric::Step { loss, .. } => loss,
        _ => None,
    };
    metrics.into_iter().filter_map(loss).collect()
}

/// All parameters of the last model.
pub fn weights(folder: &Path) -> Vec<f32> {
    let file = ModelFile::read(&folder.join("last.safetensors")).unwrap();
    file.tensors.into_values().flat_map(|(_, v)| v).collect()
}

/// How far values are apart, relative to the second ones.
pub fn distance(a: &[f32], b: &[f32]) -> f64 {
    let square = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>();
    let off = square(&mut a.iter().zip(b).map(|(a, b)| f64::from(a - b)));
    (off / square(&mut b.iter().map(|&b| f64::from(b)))).sqrt()
}

/// Makes the checkpoint in a run's folder one of a version that did not say by which rules it trains.
pub fn as_of_an_earlier_version(folder: &Path) {
    as_by_rules(None, folder);
}

/// Makes the checkpoint in a run's folder one of a version with these rules of training.
pub fn as_by_rules(rules: Option<u32>, folder: &Path) {
    let path = folder.join("checkpoint.safetensors");
    let mut file = ModelFile::read(&path).unwrap();
    let facts = file.facts.get_mut("checkpoint").unwrap();
    let mut all: serde_json::Value = serde_json::from_str(facts).unwrap();
    let kept = all.as_object_mut().unwrap();
    assert!(kept.remove("rules").is_some());
    if let Some(rules) = rules {
        kept.insert("rules".into(), rules.into());
    }
    *facts = all.to_string();
    file.write(&path).unwrap();
}
