//! The program on a GPU, as a user types it; on the stand-in where there is no driver.
#![cfg(feature = "cuda")]

mod common;

use common::stand_in::{on, stand_in, with_stand_in, works};
use common::{Need, lacks, mpirun, path, run, score, simulate, skipped, squall, stage, text};
use serde_json::Value;
use std::fs;
use std::path::Path;

#[test]
fn what_is_missing_is_named() {
    let Some(stand_in) = stand_in() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let some = |name: &str, libraries: &[&str]| {
        let to = folder.path().join(name);
        fs::create_dir_all(&to).expect("a folder");
        for library in libraries {
            fs::copy(stand_in.join(library), to.join(library)).expect("copied");
        }
        to
    };
    let driver_only = some("driver", &["libcuda.so.1"]);
    let no_cudnn = some("no-cudnn", &["libcuda.so.1", "libnvrtc.so.13"]);
    let nothing = some("nothing", &[]);
    let two_compilers = some("two-compilers", &["libcuda.so.1", "libnvrtc.so.13"]);
    let [later, earlier] =
        ["libnvrtc.so.13", "libnvrtc.so.12"].map(|name| two_compilers.join(name));
    fs::copy(later, earlier).expect("copied");
    let infer = |device| {
        [
            "infer", "fields", "--model", "m", "--out", "o", "--device", device,
        ]
    };
    type Case<'a> = (&'a Path, (&'a str, &'a str), &'a str, i32, &'a [&'a str]);
    let cases: [Case<'_>; 13] = [
        (
            &driver_only,
            ("A", ""),
            "cuda",
            4,
            &["NVRTC", "libnvrtc.so.13", "SQUALL_CUDA_LIBRARIES"],
        ),
        (
            &no_cudnn,
            ("A", ""),
            "cuda",
            4,
            &["cuDNN", "libcudnn.so.9", "SQUALL_CUDA_LIBRARIES"],
        ),
        // A GPU that cannot be used is told, not passed over.
        (&no_cudnn, ("A", ""), "auto", 4, &["cuDNN"]),
        (
            &stand_in,
            ("SQUALL_STAND_IN_DEVICES", "0"),
            "cuda",
            4,
            &["sees no GPU", "--device cpu"],
        ),
        (
            &stand_in,
            ("SQUALL_STAND_IN_DRIVER", "11080"),
            "cuda",
            4,
            &["expected CUDA 12.0, found 11.8"],
        ),
        (
            &stand_in,
            ("SQUALL_STAND_IN_CAPABILITY", "75"),
            "cuda:0",
            4,
            &[
                "GPU 0 (Squall stand-in GPU) is too old",
                "expected compute capability 8.0 or later, found 7.5",
                "--device cpu",
            ],
        ),
        // No library would help.
        (
            &driver_only,
            ("SQUALL_STAND_IN_CAPABILITY", "70"),
            "cuda",
            4,
            &["found 7.0"],
        ),
        (
            &stand_in,
            ("SQUALL_STAND_IN_CUDNN", "8907"),
            "cuda",
            4,
            &["cuDNN 8.9.7 does not fit", "version 9", "nvidia-cudnn-cu13"],
        ),
        (
            &stand_in,
            ("SQUALL_STAND_IN_DRIVER", "12080"),
            "cuda",
            4,
            &[
                "NVRTC 13.0 does not fit",
                "CUDA 12",
                "nvidia-cuda-nvrtc-cu12",
            ],
        ),
        // Of two compilers the one that goes with the driver is taken.
        (
            &two_compilers,
            ("SQUALL_STAND_IN_DRIVER", "12080"),
            "cuda",
            4,
            &["cuDNN", "libcudnn.so.9"],
        ),
        (
            &stand_in,
            ("SQUALL_STAND_IN_DEVICES", "2"),
            "cuda:2",
            2,
            &["no GPU 2", "sees 2 (0 to 1)"],
        ),
        (
            &stand_in,
            ("A", ""),
            "gpu",
            2,
            &["expected `auto`, `cpu`, `cuda` or `cuda:N`"],
        ),
        (
            &nothing,
            ("A", ""),
            "cuda",
            4,
            &["NVIDIA's driver", "libcuda.so.1", "--device cpu"],
        ),
    ];
    for (libraries, variable, device, code, words) in cases {
        if libraries == nothing && squall_has_driver() {
            skipped("this machine has NVIDIA's driver");
            continue;
        }
        let output = on(libraries, &[variable], &infer(device));
        let told = text(&output);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{device} {variable:?}: {told}"
        );
        for word in words {
            assert!(told.contains(word), "`{word}` is missing in:\n{told}");
        }
    }
}

/// Whether the loader finds a driver by itself.
fn squall_has_driver() -> bool {
    let version = squall()
        .arg("--version")
        .output()
        .expect("the program starts");
    text(&version).contains("GPU 0")
}

/// Where `auto` finds no GPU it says why, once, and the CPU computes.
#[test]
fn without_a_gpu_the_cpu_computes_and_says_why() {
    let Some(stand_in) = stand_in() else { return };
    let none = [("SQUALL_STAND_IN_DEVICES", "0")];
    let bench = ["bench", "infer", "--size", "24x36", "--repeat", "1"];
    let output = on(&stand_in, &none, &bench);
    let told = text(&output);
    assert!(output.status.success(), "{told}");
    let why = "the CPU computes: no GPU: NVIDIA's driver sees no GPU";
    assert_eq!(told.matches(why).count(), 1, "{told}");
}

/// A GPU that lacks instructions is as good as none, which is a warning.
#[test]
fn with_an_old_gpu_the_cpu_computes_and_warns() {
    let Some(stand_in) = stand_in() else { return };
    let old = [("SQUALL_STAND_IN_CAPABILITY", "75")];
    let bench = ["bench", "infer", "--size", "24x36", "--repeat", "1", "-q"];
    let output = on(&stand_in, &old, &bench);
    let told = text(&output);
    assert!(output.status.success(), "{told}");
    let why = "the CPU computes: GPU 0 (Squall stand-in GPU) is too old";
    assert_eq!(told.matches(why).count(), 1, "{told}");
}

/// A benchmark names a batch that fits, and its memory is that of the GPU.
#[test]
fn a_benchmark_fits_the_gpu_and_counts_its_memory() {
    let Some(stand_in) = stand_in() else { return };
    let bench = |memory: &str, batch: &str| {
        let words =
            "bench infer --size 24x36 --precision bf16 --repeat 1 --json -q --device cuda --batch";
        let words: Vec<&str> = words.split(' ').chain([batch]).collect();
        on(&stand_in, &[("SQUALL_STAND_IN_MEMORY", memory)], &words)
    };
    let refused = bench("50000000", "1000");
    let told = text(&refused);
    assert_eq!(refused.status.code(), Some(2), "{told}");
    let (_, after) = told.split_once("--batch ").expect("a batch that fits");
    let fits: usize = after
        .split(' ')
        .next()
        .expect("a word")
        .parse()
        .expect("a number");
    assert!(fits > 0 && fits < 1000, "{told}");
    let rows: Value = serde_json::from_str(&works(bench("8000000000", "2"))).expect("JSON");
    let row = &rows[0];
    let number = |key: &str| row[key].as_f64().expect("a number");
    assert!(
        row["device"].as_str().expect("words").starts_with("GPU 0"),
        "{row}"
    );
    let (peak, predicted) = (number("peak_mb"), number("predicted_mb"));
    // Its weights are 1.4 MB.
    assert!(peak < predicted && peak > 1.4, "{row}");
}

/// Rules are computed on the CPU, whose memory counts, whatever GPU there is.
#[test]
fn a_benchmark_of_the_cpu_says_so() {
    let Some(stand_in) = stand_in() else { return };
    let words = "bench label --grid 48x72 --repeat 1 --json -q --device cuda";
    let words: Vec<&str> = words.split(' ').collect();
    let none: [(&str, &str); 0] = [];
    let rows: Vec<Value> =
        serde_json::from_str(&works(on(&stand_in, &none, &words))).expect("JSON");
    for row in &rows {
        let device = row["device"].as_str().expect("words");
        assert!(!device.starts_with("GPU"), "{row}");
        assert!(row["peak_mb"].as_f64() > Some(1.0), "{row}");
    }
}

/// Ranks that a launcher starts: two of them must not share a GPU, and NCCL must be one that the program knows.
#[test]
fn ranks_and_their_gpus_are_checked() {
    let Some(stand_in) = stand_in() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 2, 1);
    let (truth, store) = (fields.join("truth"), folder.path().join("store"));
    stage(&fields, &truth, &store, &[]);
    let out = folder.path().join("trained");
    let settings = [
        "training.steps=2",
        "training.validate_every_steps=2",
        "network.width=0.08",
        "distributed.global_batch=2",
        "distributed.algorithm=nccl",
    ];
    let cases = [
        (
            ["cuda:0", "2", "22809"],
            "ranks 0 and 1 would both compute on GPU 0",
        ),
        (
            ["cuda", "2", "2708"],
            "NCCL 2.7.8 does not fit: expected 2.9 or a later 2",
        ),
        (
            ["cuda", "1", "22809"],
            "ranks 0 and 1 would both compute on GPU 0",
        ),
    ];
    for ([device, gpus, nccl], said) in cases {
        let mut command = mpirun();
        command
            .args([
                "-n",
                "2",
                env!("CARGO_BIN_EXE_squall"),
                "train",
                "--recipe",
                "small",
            ])
            .args([
                "--data",
                path(&store),
                "--out",
                path(&out),
                "--device",
                device,
                "-q",
            ]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        with_stand_in(&mut command, &stand_in);
        let output = command
            .env("SQUALL_STAND_IN_DEVICES", gpus)
            .env("SQUALL_STAND_IN_NCCL", nccl)
            .output();
        let Ok(output) = output else {
            return lacks(Need::Mpirun, "mpirun");
        };
        let told = text(&output);
        assert!(!output.status.success(), "{told}");
        assert!(told.contains(said), "no `{said}` in:\n{told}");
    }
}

#[test]
fn the_version_says_which_gpu() {
    let Some(stand_in) = stand_in() else { return };
    let version = works(on(&stand_in, &[], &["--version"]));
    for word in [
        "GPU 0: ",
        "compute capability",
        "driver for CUDA",
        "NVRTC",
        "cuDNN",
    ] {
        assert!(version.contains(word), "`{word}` is missing in {version}");
    }
}

/// Losses of every step.
fn losses(run: &Path) -> Vec<f64> {
    let lines = fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter_map(|line| line["loss"].as_f64()).collect()
}

#[test]
fn training_and_inference_give_what_the_cpu_gives() {
    let Some(stand_in) = stand_in() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 3, 1);
    let (labels, store) = (at("labels"), at("store"));
    run(&["label", path(&fields), "--out", path(&labels), "-q"]);
    stage(&fields, &labels, &store, &[]);
    let train = |device, out: &Path, more: &[&str]| {
        let mut arguments = vec![
            "train",
            "--recipe",
            "small",
            "--data",
            path(&store),
            "--out",
            path(out),
            "--device",
            device,
        ];
        for setting in [
            "precision=f32",
            "training.steps=4",
            "training.validate_every_steps=2",
            "network.width=0.08",
            "network.decoder_width=0.05",
        ] {
            arguments.extend(["--set", setting]);
        }
        arguments.extend(more);
        on(&stand_in, &[], &[&arguments[..], &["-q"]].concat())
    };
    let (cpu, gpu) = (at("cpu"), at("gpu"));
    works(train("cpu", &cpu, &[]));
    works(train("cuda", &gpu, &[]));
    let (expected, got) = (losses(&cpu), losses(&gpu));
    assert!(
        expected.len() >= 4 && got.len() == expected.len(),
        "{expected:?}, {got:?}"
    );
    for (got, expected) in got.iter().zip(&expected) {
        assert!(
            (got - expected).abs() < 2e-3 * expected,
            "{got} against {expected}"
        );
    }
    // The same command again gives the same bits.
    let again = at("again");
    works(train("cuda:0", &again, &[]));
    assert_eq!(losses(&again), got);
    // Batches of a step add up, also where the passes become graphs between two of them.
    let three = ["--set", "training.accumulate=3"];
    let learnt = |name: &str, device: &'static str, more: &[&str]| {
        works(train(device, &at(name), &[&three[..], more].concat()));
        losses(&at(name))
    };
    let singly = learnt("singly", "cuda", &["--set", "training.cuda_graphs=false"]);
    let whole = learnt("whole", "cuda", &["--set", "training.cuda_graphs=true"]);
    assert_eq!(whole, singly);
    let expected = learnt("batches", "cpu", &[]);
    for (got, expected) in whole.iter().zip(&expected) {
        assert!(
            (got - expected).abs() < 2e-3 * expected,
            "{got} against {expected}"
        );
    }

    let model = gpu.join("best.safetensors");
    let masks = |device, out: &Path| {
        let arguments = [
            "infer",
            path(&fields),
            "--model",
            path(&model),
            "--out",
            path(out),
            "--device",
            device,
            "-q",
        ];
        works(on(&stand_in, &[], &arguments));
    };
    let (ours, theirs) = (at("gpu-masks"), at("cpu-masks"));
    masks("cuda", &ours);
    masks("cpu", &theirs);
    let scores = score(&ours, &theirs, &[]);
    let iou = scores["pixels"]["mean_iou"].as_f64().expect("a number");
    assert!(iou > 0.99, "{iou}");

    // A GPU with too little memory: refused before anything is computed, with what would fit.
    let little_run = at("little");
    let little = [("SQUALL_STAND_IN_MEMORY", "30000000")];
    let arguments = [
        "train",
        "--recipe",
        "small",
        "--data",
        path(&store),
        "--out",
        path(&little_run),
        "--device",
        "cuda",
    ];
    let many = [
        "--set",
        "training.batch=8",
        "--set",
        "training.steps=4",
        "--set",
        "training.validate_every_steps=2",
    ];
    let output = on(&stand_in, &little, &[&arguments[..], &many].concat());
    let told = text(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("fit"), "{told}");
}
