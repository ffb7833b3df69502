//! Weights out of the program and back in.

mod common;

use common::{json, path, refuses, run, squall, stage, staged, text};
use squall_model::ModelFile;
use std::fs;
use std::path::{Path, PathBuf};

/// A model of one training step.
fn model(folder: &Path) -> PathBuf {
    let store = staged(folder, 3, 5);
    let out = folder.join("trained");
    run(&[
        "train",
        "--recipe",
        "small",
        "--data",
        path(&store),
        "--out",
        path(&out),
        "--quiet",
        "--set",
        "training.steps=1",
        "--set",
        "network.width=0.05",
        "--set",
        "network.decoder_width=0.05",
        "--set",
        "training.validation_samples=1",
    ]);
    out.join("last.safetensors")
}

#[test]
fn a_model_leaves_and_comes_back_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = model(folder.path());
    let at = |name: &str| folder.path().join(name);
    let (weights, sample, onnx) = (at("w.safetensors"), at("s.safetensors"), at("m.onnx"));
    run(&[
        "model",
        "export",
        path(&model),
        "--out",
        path(&weights),
        "--sample",
        path(&sample),
    ]);
    run(&["model", "export", path(&model), "--out", path(&onnx)]);
    assert!(fs::metadata(&onnx).expect("written").len() > 10_000);
    let export = |name: &str, more: &[&str]| {
        let out = at(name);
        let call = ["model", "export", path(&model), "--out", path(&out)];
        run(&[&call[..], more].concat());
        fs::read(&out).expect("written")
    };
    let holds = |file: &[u8], text: &str| {
        let mut parts = file.windows(text.len());
        parts.any(|part| part == text.as_bytes())
    };
    // The name decides no more than it is asked to.
    let whole = fs::read(&onnx).expect("written");
    assert!(export("graph.bin", &["--format", "onnx"]) == whole);
    // Classes are cast from the place of the largest logit.
    let logits = export("logits.onnx", &["--logits-only"]);
    assert!(holds(&whole, "Cast:classes") && !holds(&logits, "Cast:classes"));
    assert!(export("other.onnx", &["--grid", "24x40"]) != whole);
    let small = at("small.safetensors");
    let more = ["--layout", "squall", "--grid", "24x40", "--sample"];
    let own = export(
        "own-names.safetensors",
        &[&more[..], &[path(&small)]].concat(),
    );
    let of_sample = fs::read(&small).expect("written");
    assert!(holds(&of_sample, "[1,24,40,16]"), "a sample of that grid");
    let pytorch = fs::read(&weights).expect("written");
    let ours = ".running_variance\"";
    assert!(holds(&own, ours) && !holds(&pytorch, ours));
    let back = at("back.safetensors");
    let said = run(&["model", "import", path(&weights), "--out", path(&back)]);
    assert!(said.contains("by the layout pytorch"), "{said}");
    let show = |file: &Path| -> serde_json::Value {
        serde_json::from_str(&run(&["model", "show", path(file), "--json"])).expect("JSON")
    };
    let (before, after) = (show(&model), show(&back));
    assert_eq!(before["tensors"], after["tensors"]);
    assert_eq!(before["contract"], after["contract"]);
    assert_eq!(after["non_finite"], 0);
    // Neither steps nor score of those that were exported are those of weights that another program changed.
    let edited = at("edited.safetensors");
    let mut bytes = fs::read(&weights).expect("written");
    let last = bytes.len() - 2;
    bytes[last] ^= 1;
    fs::write(&edited, bytes).expect("written");
    let own = at("own.safetensors");
    run(&["model", "import", path(&edited), "--out", path(&own)]);
    let own = show(&own);
    let contract = &own["contract"];
    assert_eq!(before["contract"]["step"], 1);
    assert!(
        contract["step"] == 0 && contract["score"].is_null(),
        "{contract}"
    );
    let said = run(&["model", "show", path(&back), "--tensors"]);
    for part in ["network   deeplabv3plus", "TMQ", "decoder.classify.weight"] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }

    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/data/pytorch_checkpoint.pt");
    let refuses = |arguments: &[&str], code: i32, words: &[&str]| {
        let output = squall().args(arguments).output().expect("it starts");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        for word in words {
            assert!(said.contains(word), "{word} is not in: {said}");
        }
    };
    let bad = at("bad.safetensors");
    refuses(
        &["model", "import", path(&fixture), "--out", path(&bad)],
        2,
        &["not what they mean", "hint:", "--like"],
    );
    refuses(
        &[
            "model",
            "import",
            path(&fixture),
            "--like",
            path(&model),
            "--out",
            path(&bad),
        ],
        3,
        &[
            "pytorch_checkpoint.pt",
            "missing `aspp",
            "and ",
            " more",
            "hint:",
        ],
    );
    assert!(!bad.exists());
    refuses(
        &["model", "show", path(&onnx)],
        3,
        &["m.onnx", "ONNX Runtime", "hint:", "safetensors"],
    );
    refuses(
        &["model", "export", path(&model), "--out", "m.pt"],
        2,
        &["neither .safetensors nor .onnx", "hint:"],
    );
    // Nor is anything asked for in vain, or written twice under one name.
    let [to_weights, to_graph] = [&bad, &at("bad.onnx")].map(|out| {
        let out = path(out);
        ["model", "export", path(&model), "--out", out].map(str::to_string)
    });
    for (out, options) in [
        (&to_weights, &["--logits-only"][..]),
        (&to_weights, &["--grid", "24x48"][..]),
        (&to_graph, &["--layout", "squall"][..]),
    ] {
        let given = out
            .iter()
            .map(String::as_str)
            .chain(options.iter().copied());
        let given: Vec<&str> = given.collect();
        refuses(&given, 2, &[options[0], "is for", "hint:"]);
    }
    let twice = [
        "model",
        "export",
        path(&model),
        "--out",
        path(&bad),
        "--sample",
        path(&bad),
    ];
    refuses(&twice, 2, &["--out and --sample are one file", "hint:"]);
    assert!(!bad.exists() && !at("bad.onnx").exists());
    // Nothing is read and replaced.
    let before = [&model, &weights].map(|file| fs::read(file).expect("readable"));
    let [model, weights] = [&model, &weights].map(|file| path(file));
    let words = ["would be replaced", "hint:"];
    let export = ["model", "export", model, "--out", model];
    refuses(&export, 2, &words);
    let sample = ["model", "export", model, "--out", path(&bad), "--sample"];
    refuses(&[&sample[..], &[model]].concat(), 2, &words);
    refuses(&["model", "import", weights, "--out", weights], 2, &words);
    let like = ["model", "import", weights, "--like", model, "--out", model];
    refuses(&like, 2, &words);
    assert!(!bad.exists());
    assert!([model, weights].map(|file| fs::read(file).expect("readable")) == before);
}

/// Of a detector the score is no IoU, and no stride of its encoder is a key of it.
#[test]
fn a_detector_is_shown_as_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut file = ModelFile::read(&model(folder.path())).expect("a model");
    let contract = file.facts.get("contract").expect("a contract");
    let mut contract: serde_json::Value = serde_json::from_str(contract).expect("JSON");
    let channels = contract["network"]["channels_in"].clone();
    let network = |name: &str| serde_json::json!({ "name": name, "channels_in": channels });
    let classes = [
        "tropical_depression",
        "tropical_cyclone",
        "extratropical_cyclone",
        "atmospheric_river",
    ];
    let masks = ["background", "tropical_cyclone", "atmospheric_river"];
    contract["classes"] = serde_json::json!(classes);
    contract["score"] = serde_json::json!(0.25);
    let path_of = folder.path().join("detector.safetensors");
    let mut show = |contract: &serde_json::Value| {
        let json = contract.to_string();
        file.facts.insert("contract".into(), json);
        file.write(&path_of).expect("written");
        run(&["model", "show", path(&path_of)])
    };
    contract["network"] = network("detector-15pf");
    let said = show(&contract);
    for part in [
        "network   detector-15pf, width 1, batch normalisation\n",
        "mAP 0.250",
    ] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    assert!(!said.contains("IoU") && !said.contains("masks"), "{said}");
    contract["network"] = network("detector-dense");
    contract["network"]["mask_classes"] = serde_json::json!(3);
    contract["mask_classes"] = serde_json::json!(masks);
    let said = show(&contract);
    for part in [
        "width 1, blocks [3, 4, 6, 3], batch normalisation\n",
        "masks     background, tropical_cyclone, atmospheric_river\n",
        "score of boxes and masks 0.250",
    ] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
}

#[test]
fn weights_that_are_not_finite_neither_leave_nor_come_in() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = model(folder.path());
    let at = |name: &str| folder.path().join(name);
    for odd in [f32::NAN, f32::INFINITY] {
        let mut file = ModelFile::read(&model).expect("a model");
        let (tensor, (_, values)) = file.tensors.iter_mut().next().expect("a tensor");
        let tensor = tensor.clone();
        values[0] = odd;
        file.write(&at("odd.safetensors")).expect("written");
        for (action, out) in [
            ("export", "w.safetensors"),
            ("export", "m.onnx"),
            ("import", "back.safetensors"),
        ] {
            let (file, out) = (at("odd.safetensors"), at(out));
            let mut arguments = vec!["model", action, path(&file), "--out", path(&out)];
            if action == "import" {
                arguments.extend(["--layout", "squall"]);
            }
            let output = squall().args(arguments).output().expect("it starts");
            let said = text(&output);
            assert_eq!(output.status.code(), Some(3), "{said}");
            let told = format!("1 values of `{tensor}` are NaN or infinite");
            assert!(
                said.contains(&told) && said.contains("odd.safetensors"),
                "{said}"
            );
            assert!(!out.exists(), "{}", out.display());
        }
    }
}

/// Weights of ClimateNet got the means and deviations of the store behind --like without a word.
#[test]
fn imported_weights_have_the_normalisation_that_they_were_trained_with() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = model(folder.path());
    let at = |name: &str| folder.path().join(name);
    let (weights, own) = (at("w.safetensors"), at("own.safetensors"));
    run(&["model", "export", path(&model), "--out", path(&weights)]);
    let import = ["model", "import", path(&weights), "--like", path(&model)];
    let import = [&import[..], &["--out", path(&own)]].concat();
    let note = "fields are normalised as those of --like were";
    // Those of an encoder are trained on, perhaps after photographs, which have no such normalisation.
    let encoder = [&import[..], &["--encoder-only"]].concat();
    assert!(!run(&encoder).contains(note));
    assert!(run(&import).contains(note));
    let scales = |file: &Path| {
        let shown = json(&["model", "show", path(file), "--json"]);
        let scales = shown["contract"]["normalisation"]["channels"].as_array();
        scales.expect("channels").clone()
    };
    let of_like = scales(&model);
    assert_eq!(scales(&own), of_like);
    // As ClimateNet writes it, with keys that mean nothing here.
    let mut config = serde_json::json!({ "architecture": "cgnet", "fields": {} });
    for (k, scale) in of_like.iter().enumerate() {
        let name = scale["variable"].as_str().expect("a name");
        config["fields"][name] = serde_json::json!({ "mean": k as f64, "std": 2.0 });
    }
    let file = at("config.json");
    fs::write(&file, config.to_string()).expect("written");
    let import = [&import[..], &["--normalisation", path(&file)]].concat();
    assert!(!run(&import).contains(note));
    let given = scales(&own);
    assert_eq!(given.len(), of_like.len());
    for (k, scale) in given.iter().enumerate() {
        let numbers = ["subtract", "divide", "missing"].map(|key| scale[key].as_f64());
        assert_eq!(numbers, [Some(k as f64), Some(2.0), Some(k as f64)]);
    }
    config["fields"]["TMQ"]["std"] = 0.into();
    fs::write(&file, config.to_string()).expect("written");
    refuses(&import, 3, &["config.json", "TMQ", "by which nothing"]);
    let fields = config["fields"].as_object_mut().expect("fields");
    fields.remove("TMQ");
    fs::write(&file, config.to_string()).expect("written");
    refuses(&import, 3, &["config.json", "no mean and deviation of TMQ"]);
}

/// No test of the program had --roll, --mirror, --split, --precision or --batch: masks would have been made without them.
#[test]
fn inference_is_as_asked_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = model(folder.path());
    let at = |name: &str| folder.path().join(name);
    let (store, out) = (at("days"), at("masks"));
    let by_days = ["--block-days", "1"];
    stage(&at("run5"), &at("labels"), &store, &by_days);
    let sides = ["infer", path(&store), "--model", path(&model), "--out"];
    let words = "--split validation --roll 8,16 --mirror --precision bf16 --probabilities --artmip --file-per month \
                 --batch 2 --skip-bad --attribute institution=ours --json -q";
    let words: Vec<&str> = words.split_whitespace().collect();
    let report = json(&[&sides[..], &[path(&out)], &words[..]].concat());
    // One of three days; as it is and rolled twice, each of them mirrored as well.
    assert_eq!(
        (&report["masks"], &report["members"]),
        (&4.into(), &6.into())
    );
    let settings = fs::read_to_string(out.join("settings.json")).expect("settings");
    let settings: serde_json::Value = serde_json::from_str(&settings).expect("JSON");
    let views = serde_json::json!([
        [0, false],
        [8, false],
        [16, false],
        [0, true],
        [8, true],
        [16, true]
    ]);
    for (key, expected) in [
        ("views", views),
        ("dtype", "bf16".into()),
        ("probabilities", true.into()),
        ("artmip", true.into()),
        ("file_per", "month".into()),
        ("batch", 2.into()),
        ("bad_input", "skip".into()),
        ("attributes", serde_json::json!([["institution", "ours"]])),
    ] {
        assert_eq!(settings[key], expected, "{key}");
    }
    assert!(out.join("masks.2000-08.nc").is_file());
}
