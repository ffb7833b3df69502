//! The program as it is built by default, without the code for GPUs.
#![cfg(not(feature = "cuda"))]

mod common;

use common::refuses;

#[test]
fn a_gpu_that_is_asked_for_is_refused() {
    let infer = ["infer", "fields", "--model", "m", "--out", "o"];
    let words = ["built without GPUs", "hint: build with `--features cuda`"];
    for device in ["cuda", "cuda:1"] {
        refuses(&[&infer[..], &["--device", device]].concat(), 2, &words);
    }
    // The processor is asked for, so that what comes next is looked at.
    for device in ["auto", "cpu"] {
        refuses(
            &[&infer[..], &["--device", device]].concat(),
            3,
            &["no usable input in `fields`"],
        );
    }
}
