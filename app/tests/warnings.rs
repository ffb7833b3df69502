//! Commands warn of what they use.

mod common;

use common::{path, simulate, squall, text};
use std::path::Path;

/// Gives a channel a unit that it cannot have: ZBOT is then computed, PS is not there.
fn spoil(channel: &str, unit: &str, fields: &Path) {
    let entries = std::fs::read_dir(fields).expect("readable");
    for file in entries.map(|entry| entry.expect("an entry").path()) {
        if file.extension().is_some_and(|e| e == "nc") {
            let mut file = netcdf::append(&file).expect("opened");
            let mut variable = file.variable_mut(channel).expect("the channel");
            variable.put_attribute("units", unit).expect("written");
        }
    }
}

#[test]
fn channels_that_nobody_uses_are_no_reason_to_warn() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 1, 3);
    spoil("ZBOT", "K", &fields);
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

/// Vapour transport over levels ends at the ground, or below it where PS cannot be read.
#[test]
fn surface_pressure_is_of_use_where_transport_is_summed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 1, 3);
    spoil("PS", "K", &fields);
    for (method, is_said) in [
        ("deepcam", false),
        ("tempest", true),
        ("percentile", true),
        ("bard", true),
    ] {
        let out = folder.path().join(method);
        let call = ["label", path(&fields), "--method", method, "--out"];
        let output = squall().args(call).arg(&out).output().expect("starts");
        let said = text(&output);
        assert_eq!(
            said.contains("`PS` cannot serve as PS"),
            is_said,
            "{method}: {said}"
        );
    }
}
