//! Commands warn of what they use.

mod common;

use common::{path, simulate, squall, text};
use std::path::Path;

/// Leaves ZBOT to be computed, because its unit is none of a height.
fn spoil_height(fields: &Path) {
    let entries = std::fs::read_dir(fields).expect("readable");
    for file in entries.map(|entry| entry.expect("an entry").path()) {
        if file.extension().is_some_and(|e| e == "nc") {
            let mut file = netcdf::append(&file).expect("opened");
            let mut height = file.variable_mut("ZBOT").expect("ZBOT");
            height.put_attribute("units", "K").expect("written");
        }
    }
}

#[test]
fn channels_that_nobody_uses_are_no_reason_to_warn() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 1, 3);
    spoil_height(&fields);
    let says = |call: &[&str]| {
        let output = squall().args(call).output().expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        said.contains("ZBOT is computed") || said.contains("`ZBOT` cannot serve")
    };
    assert!(says(&["inspect", path(&fields)]));
    let (labels, events) = (at("labels"), at("events"));
    for method in ["deepcam", "tempest"] {
        let out = at(method);
        let label = ["label", path(&fields), "--method", method, "--out"];
        assert!(!says(&[&label[..], &[path(&out)]].concat()), "{method}");
    }
    assert!(!says(&["label", path(&fields), "--out", path(&labels)]));
    let call = ["events", path(&labels), "--fields", path(&fields), "--out"];
    assert!(!says(&[&call[..], &[path(&events)]].concat()));
    let store = at("store");
    let stage = ["stage", path(&fields), "--labels", path(&labels), "--out"];
    assert!(says(&[&stage[..], &[path(&store)]].concat()));
}
