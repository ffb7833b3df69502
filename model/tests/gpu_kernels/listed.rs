//! `kernels/README.md`, against which the backend is written, says what the sources say.

use crate::stand_in_gpu::{Gpu, KERNELS};
use std::collections::BTreeMap;

/// The letters of a list of arguments such as `T* y, const T* x ?, i64 n`; the same `shape` stands for "the same i32s".
fn letters(arguments: &str, shape: &str) -> String {
    let list = arguments.split(',').map(str::trim);
    let letter = |argument: &str| -> String {
        match argument {
            a if a.contains('*') => "p".into(),
            a if a.starts_with("i32 b …") || a.starts_with("the same") => shape.into(),
            "T4" => "ppp".into(),
            a if a.starts_with("i32") => "i".into(),
            a if a.starts_with("i64") || a.starts_with("u64") => "l".into(),
            a if a.starts_with("f32") => "f".into(),
            a if a.starts_with("f64") => "d".into(),
            other => panic!("`{other}` is no argument"),
        }
    };
    list.map(letter).collect()
}

/// File and arguments of each kernel of the README.
fn listed() -> BTreeMap<String, (String, String)> {
    let text = std::fs::read_to_string(format!("{KERNELS}/README.md")).unwrap();
    let (mut all, mut file) = (BTreeMap::new(), String::new());
    // What "the same" refers to: the last list of a file that was written out.
    let (mut shape, mut whole) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            file = name.to_string();
            shape = "i".repeat(match name {
                "pool.cu" | "channels.cu" => 10,
                "convolve.cu" => 14,
                _ => 13,
            });
        }
        let cells: Vec<&str> = line.split(" | ").collect();
        let is_row = line.starts_with("| `") && file.ends_with(".cu") && cells.len() >= 4;
        if !is_row {
            continue;
        }
        let names: Vec<&str> = cells[0].split('`').skip(1).step_by(2).collect();
        let arguments = cells[1].replace(" (as above)", "");
        let found = match arguments.split_once(", the same") {
            Some((first, rest)) if rest.trim().is_empty() => {
                // The first argument differs, all others are those of the kernel before.
                letters(first, "") + &whole[1..]
            }
            _ => letters(&arguments, &shape),
        };
        whole.clone_from(&found);
        for name in names {
            let expanded: Vec<String> = match name {
                _ if name.ends_with("_S") => ["f32", "bf16", "f16"]
                    .map(|s| format!("{}{s}", name.strip_suffix('S').unwrap()))
                    .to_vec(),
                "cast_FROM_TO" => [
                    "f32_bf16", "f32_f16", "bf16_f32", "bf16_f16", "f16_f32", "f16_bf16",
                ]
                .map(|pair| format!("cast_{pair}"))
                .to_vec(),
                "normalise_FROM_TO" => [
                    "f32_f32", "f32_bf16", "f32_f16", "f16_f32", "f16_bf16", "f16_f16",
                ]
                .map(|pair| format!("normalise_{pair}"))
                .to_vec(),
                _ => vec![name.to_string()],
            };
            for name in expanded {
                all.insert(name, (file.clone(), found.clone()));
            }
        }
    }
    all
}

/// Kernels that the sources export, with `_S` for the three storages.
fn exported(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("{KERNELS}/{file}")).unwrap();
    let mut names = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        for macro_name in ["EXPORT_KERNEL(", "EXPORT_KERNEL_WITH_BARRIERS("] {
            let Some(name) = line.strip_prefix(macro_name) else {
                continue;
            };
            let name = name.split(')').next().unwrap();
            if let Some(stem) = name.strip_suffix("_##S") {
                names.extend(["f32", "bf16", "f16"].map(|s| format!("{stem}_{s}")));
            } else if !name.contains("##") {
                names.push(name.to_string());
            }
        }
    }
    names
}

#[test]
fn the_readme_lists_every_kernel_with_its_arguments() {
    let Some(gpu) = Gpu::open() else { return };
    let listed = listed();
    assert!(listed.len() > 100, "{} kernels", listed.len());
    for (name, (file, letters)) in &listed {
        let compiled = gpu.letters(file, name);
        assert_eq!(compiled.as_ref(), Some(letters), "{file}: {name}");
    }
    let files = std::fs::read_dir(KERNELS).unwrap();
    let mut count = 0;
    for file in files.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        for name in exported(&file) {
            count += 1;
            assert!(
                listed.contains_key(&name),
                "the README has no {name} of {file}"
            );
        }
    }
    assert!(count > 100, "{count} kernels in the sources");
}
