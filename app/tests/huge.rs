//! Recipes of networks that no machine holds: refused with what would fit, not killed by the system.

mod common;

use common::{path, squall, text};

/// 470 TB of weights in one dense block alone.
const ABSURD: &str = "
    [network]
    name = 'tiramisu'
    blocks = [1000, 1000]
    growth = 1024
    kernel = 15";

/// 1.03 TB of weights: within what can be predicted, beyond this machine.
const WIDE: &str = "
    [network]
    name = 'deeplabv3plus'
    width = 8.0
    blocks = [1, 1, 1, 900]";

fn refused(arguments: &[&str], words: &[&str]) {
    let output = squall().args(arguments).output().expect("starts");
    let told = text(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
    for word in words {
        assert!(told.contains(word), "{arguments:?}: {told}");
    }
    // Not every command has such an option.
    assert!(
        !told.contains("panicked") && !told.contains("--set"),
        "{told}"
    );
}

#[test]
fn every_command_that_builds_a_recipes_network_refuses_what_nobody_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let recipe = folder.path().join("recipe.toml");
    std::fs::write(&recipe, ABSURD).expect("written");
    let words = ["`blocks`", "parameters", "in its recipe: network.width="];
    for part in ["step", "infer"] {
        let small = ["--size", "16x32", "--repeat", "1"];
        let asked = ["bench", part, "--network", path(&recipe)];
        refused(&[&asked[..], &small].concat(), &words);
    }
    let scale = ["scale", "--recipe", path(&recipe), "--machine", "summit"];
    refused(&scale, &words);
}

#[test]
fn a_benchmark_says_what_of_a_large_network_would_fit() {
    let folder = tempfile::tempdir().expect("a folder");
    let recipe = folder.path().join("recipe.toml");
    std::fs::write(&recipe, WIDE).expect("written");
    for part in ["step", "infer"] {
        let asked = ["bench", part, "--network", path(&recipe)];
        let small = ["--size", "16x32", "--repeat", "1"];
        let words = ["GB of memory", "in its recipe: network.width=", "hint:"];
        refused(&[&asked[..], &small].concat(), &words);
    }
}
