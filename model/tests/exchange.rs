//! Weights from and to other programs: what goes out comes back, and what does not fit is named.

use ::safetensors::tensor::{Dtype, TensorView, serialize};
use squall_model::exchange::{
    ImportOptions, Layout, PYTORCH, WeightProblem, WeightSource, Weights, import, safetensors,
};
use squall_model::networks::NetworkName;
use squall_model::parameters::{NamedTensors, Parameter};
use squall_model::{Backend, ModelError, ModelFile, Network, NetworkConfig};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;

fn tiny() -> NetworkConfig {
    NetworkConfig {
        width: 0.05,
        blocks: vec![1, 1],
        channels_in: 4,
        atrous_rates: vec![2],
        ..NetworkConfig::default()
    }
}

fn network(config: &NetworkConfig, seed: u64) -> Network {
    Network::build(config, Backend::best(), seed).unwrap()
}

fn problems(error: ModelError) -> Vec<WeightProblem> {
    match error {
        ModelError::Import { problems, .. } => problems,
        other => panic!("expected an import error, found {other}"),
    }
}

#[test]
fn exported_weights_come_back_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    let source = network(&tiny(), 1);
    let named = source.parameters().to_named().unwrap();
    let facts = BTreeMap::from([("contract".to_string(), "{\"a\": 1}".to_string())]);
    safetensors::write(&path, &named, &PYTORCH, &facts).unwrap();
    let weights = Weights::read(&path).unwrap();
    assert_eq!(weights.facts.as_ref(), Some(&facts));
    assert!(weights.tensors.contains_key("encoder.post.running_var"));
    let layout = Layout::guess(&weights);
    assert_eq!(layout.name, "pytorch");
    let mut target = network(&tiny(), 2);
    assert_ne!(target.parameters().to_named().unwrap(), named);
    let report = import(&mut target, &weights, &layout, &ImportOptions::default()).unwrap();
    assert_eq!(target.parameters().to_named().unwrap(), named);
    assert_eq!(report.taken, named.len());
    assert!(report.kept.is_empty() && report.unused.is_empty());
}

/// PyTorch's modules refuse a tensor of another shape, even one of as many values.
#[test]
fn exported_weights_have_the_shapes_of_the_network_that_they_are_for() {
    let folder = tempfile::tempdir().unwrap();
    let pooled = "bottleneck.global_avg_pool.global_average_pool";
    for (layout, blocks, shapes) in [
        (
            "deepcam",
            vec![1],
            [
                (format!("{pooled}.2.weights"), vec![16, 1, 1]),
                (format!("{pooled}.2.bias"), vec![16, 1, 1]),
                (format!("{pooled}.1.weight"), vec![16, 120, 1, 1]),
            ],
        ),
        (
            "cgnet",
            vec![2, 2],
            [
                ("level2_0.F_glo.fc.0.weight".to_string(), vec![1, 8]),
                ("level2_0.F_glo.fc.0.bias".to_string(), vec![1]),
                ("classifier.0.conv.weight".to_string(), vec![3, 16, 1, 1]),
            ],
        ),
    ] {
        let config = NetworkConfig {
            width: 0.06,
            blocks,
            ..NetworkConfig::of(layout.parse().unwrap())
        };
        let named = network(&config, 1).parameters().to_named().unwrap();
        let (path, layout) = (folder.path().join(layout), Layout::named(layout).unwrap());
        safetensors::write(&path, &named, &layout, &BTreeMap::new()).unwrap();
        let weights = Weights::read(&path).unwrap();
        for (name, shape) in shapes {
            assert_eq!(weights.tensors[&name].0, shape, "{name}");
        }
        assert_eq!(Layout::guess(&weights).name, layout.name);
        let mut target = network(&config, 2);
        let options = ImportOptions::default();
        let report = import(&mut target, &weights, &layout, &options).unwrap();
        assert_eq!(target.parameters().to_named().unwrap(), named);
        // To pad as ClimateNet does is told only to a network that does not.
        let is_told = |notes: &[String]| notes.iter().any(|note| note.contains("pads latitude"));
        let is_cgnet = layout.name == "cgnet";
        assert_eq!(is_told(&report.notes), is_cgnet);
        let as_theirs = NetworkConfig {
            periodic_latitude: is_cgnet,
            ..config
        };
        let mut target = network(&as_theirs, 2);
        let report = import(&mut target, &weights, &layout, &options).unwrap();
        assert!(!is_told(&report.notes), "{:?}", report.notes);
    }
}

#[test]
fn everything_that_does_not_fit_is_named_and_nothing_is_changed() {
    let named = network(&tiny(), 1).parameters().to_named().unwrap();
    let mut weights = Weights {
        path: "foreign.pt".into(),
        tensors: named,
        ..Weights::default()
    };
    let layout = Layout::named("squall").unwrap();
    let classify = weights.tensors.remove("decoder.classify.bias").unwrap();
    weights.tensors.insert("head.bias".into(), classify);
    let stem = weights.tensors.get_mut("encoder.stem.bias").unwrap();
    *stem = (vec![3], vec![0.0; 3]);
    let mut target = network(&tiny(), 2);
    let before = target.parameters().to_named().unwrap();
    let options = ImportOptions::default();
    let error = import(&mut target, &weights, &layout, &options).unwrap_err();
    let text = error.to_string();
    for part in [
        "foreign.pt",
        "missing `decoder.classify.bias` of shape [3]",
        "`encoder.stem.bias` has shape [3], `encoder.stem.bias` needs [8]",
        "`head.bias` of shape [3] has no place",
    ] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    assert_eq!(problems(error).len(), 3);
    assert_eq!(target.parameters().to_named().unwrap(), before);
    // What may be missing must be said; another shape and an unknown tensor stay errors.
    let options = ImportOptions {
        allow_missing: vec!["decoder.classify.*".into()],
        ..options
    };
    let error = import(&mut target, &weights, &layout, &options).unwrap_err();
    assert_eq!(problems(error).len(), 2);
    // The encoder alone leaves the decoder as it was.
    let named = network(&tiny(), 1).parameters().to_named().unwrap();
    weights.tensors = named.clone();
    let options = ImportOptions {
        encoder_only: true,
        ..ImportOptions::default()
    };
    let report = import(&mut target, &weights, &layout, &options).unwrap();
    let after = target.parameters().to_named().unwrap();
    for (name, values) in &after {
        let expected = if name.starts_with("encoder.") {
            &named[name]
        } else {
            &before[name]
        };
        assert_eq!(values, expected, "{name}");
    }
    assert_eq!(report.taken + report.kept.len(), after.len());
    let of_encoder = named
        .iter()
        .filter(|(name, _)| name.starts_with("encoder."));
    let count: usize = of_encoder.map(|(_, (_, values))| values.len()).sum();
    assert_eq!(report.values, count);
}

#[test]
fn weights_that_may_be_missing_keep_their_values() {
    let mut tensors = network(&tiny(), 1).parameters().to_named().unwrap();
    let missing = "decoder.classify.weight";
    tensors.remove(missing).unwrap();
    let weights = Weights {
        path: "foreign.pt".into(),
        tensors,
        ..Weights::default()
    };
    let options = ImportOptions {
        allow_missing: vec!["decoder.classify.*".into()],
        ..ImportOptions::default()
    };
    let layout = Layout::named("squall").unwrap();
    let mut target = network(&tiny(), 2);
    let before = target.parameters().to_named().unwrap();
    let report = import(&mut target, &weights, &layout, &options).unwrap();
    assert_eq!(report.kept, [missing]);
    let after = target.parameters().to_named().unwrap();
    assert_eq!(after[missing], before[missing]);
    assert_eq!(report.taken, after.len() - 1);
    // It becomes part of the model that is written, and so it must be a number.
    let spoil = |p: &Parameter, values: &mut [f32]| {
        if p.name == missing {
            values[2] = f32::NAN;
        }
    };
    target.parameters_mut().update(spoil).unwrap();
    let error = import(&mut target, &weights, &layout, &options).unwrap_err();
    let expected = WeightProblem::NotFinite {
        name: missing.into(),
        tensor: None,
        count: 1,
    };
    assert_eq!(problems(error), [expected]);
}

/// Numbers as other programs keep them.
#[test]
fn every_type_of_numbers_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    let write = |dtype, data: &[u8]| {
        let view = TensorView::new(dtype, vec![1], data).unwrap();
        std::fs::write(&path, serialize([("w", view)], None).unwrap()).unwrap();
        Weights::read(&path)
    };
    for (dtype, data, value) in [
        (Dtype::F32, &(-2.5f32).to_le_bytes()[..], -2.5),
        (Dtype::F64, &(-2.5f64).to_le_bytes()[..], -2.5),
        // −1.25 · 2: the exponents 16 of a bias of 15, and 128 of 127.
        (Dtype::F16, &0xc100u16.to_le_bytes()[..], -2.5),
        (Dtype::BF16, &0xc020u16.to_le_bytes()[..], -2.5),
        (Dtype::I64, &(-3i64).to_le_bytes()[..], -3.0),
        (Dtype::I32, &70_000i32.to_le_bytes()[..], 70_000.0),
        (Dtype::U8, &[200][..], 200.0),
        (Dtype::BOOL, &[1][..], 1.0),
    ] {
        let read = write(dtype, data).unwrap();
        assert_eq!(read.tensors["w"], (vec![1], vec![value]), "{dtype:?}");
    }
    let error = write(Dtype::I8, &[1]).unwrap_err().to_string();
    assert!(error.contains("tensor `w`: no numbers of I8"), "{error}");
}

#[test]
fn weights_that_are_no_numbers_are_refused() {
    let named = network(&tiny(), 1).parameters().to_named().unwrap();
    let mut target = network(&tiny(), 2);
    let before = target.parameters().to_named().unwrap();
    let mut weights = Weights {
        path: "foreign.pt".into(),
        tensors: named,
        ..Weights::default()
    };
    let stem = weights.tensors.get_mut("encoder.stem.bias").unwrap();
    (stem.1[0], stem.1[3]) = (f32::NAN, f32::NEG_INFINITY);
    // Whatever may be missing.
    let options = ImportOptions {
        allow_missing: vec!["*".into()],
        ..ImportOptions::default()
    };
    let layout = Layout::named("squall").unwrap();
    let error = import(&mut target, &weights, &layout, &options).unwrap_err();
    let expected = "2 values of `encoder.stem.bias` are NaN or infinite in f32";
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(problems(error).len(), 1);
    assert_eq!(target.parameters().to_named().unwrap(), before);
    // Numbers of f64 that f32 has no room for.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    let large: Vec<u8> = [1e300f64, 1.0]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let view = TensorView::new(Dtype::F64, vec![2], &large).unwrap();
    std::fs::write(&path, serialize([("large", view)], None).unwrap()).unwrap();
    let read = Weights::read(&path).unwrap();
    assert_eq!(read.tensors["large"].1, [f32::INFINITY, 1.0]);
}

#[test]
fn a_normalisation_that_is_no_number_is_named_where_it_is_folded_in() {
    let config = NetworkConfig {
        width: 0.125,
        blocks: vec![2, 1, 2],
        channels_in: 6,
        ..NetworkConfig::default()
    };
    let mut weights = Weights {
        path: "resnet.pth".into(),
        tensors: torchvision(&config.blocks, 8),
        ..Weights::default()
    };
    let gamma = weights.tensors.get_mut("bn1.weight").unwrap();
    gamma.1[0] = f32::NAN;
    let options = ImportOptions {
        encoder_only: true,
        ..ImportOptions::default()
    };
    let layout = Layout::guess(&weights);
    let error = import(&mut network(&config, 1), &weights, &layout, &options).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("1 values of `encoder.stem.bias`"), "{text}");
    assert!(text.contains(", from `bn1.weight`"), "{text}");
}

#[test]
fn an_encoder_is_taken_from_a_network_with_another_decoder() {
    let own = network(&tiny(), 1).parameters().to_named().unwrap();
    let cases = [
        ("squall", "encoder.extra"),
        ("pytorch", "encoder.extra.weight"),
    ];
    for (name, odd) in cases {
        let layout = Layout::named(name).unwrap();
        let theirs = own.iter().map(|(ours, values)| {
            let named = match (layout.source)(ours) {
                WeightSource::Same(named) => named,
                other => panic!("{ours}: {other:?}"),
            };
            let foreign = named
                .replace("decoder.", "head.")
                .replace("aspp.", "context.");
            (foreign, values.clone())
        });
        let mut weights = Weights {
            path: "foreign.pt".into(),
            tensors: theirs.collect(),
            ..Weights::default()
        };
        let options = ImportOptions {
            encoder_only: true,
            ..ImportOptions::default()
        };
        let mut target = network(&tiny(), 2);
        let report = import(&mut target, &weights, &layout, &options).unwrap();
        let after = target.parameters().to_named().unwrap();
        let encoder = |named: &NamedTensors| -> NamedTensors {
            let of_it = named
                .iter()
                .filter(|(name, _)| name.starts_with("encoder."));
            of_it
                .map(|(name, values)| (name.clone(), values.clone()))
                .collect()
        };
        assert_eq!(encoder(&after), encoder(&own), "{name}");
        assert_eq!(report.taken, encoder(&own).len());
        assert!(
            report
                .unused
                .iter()
                .all(|(_, why)| why == "no part of the encoder")
        );
        assert_eq!(report.unused.len(), own.len() - report.taken);
        // The encoder itself must fit.
        weights.tensors.insert(odd.into(), (vec![1], vec![1.0]));
        let error = import(&mut target, &weights, &layout, &options).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(&format!("`{odd}` of shape [1] has no place")),
            "{text}"
        );
    }
}

#[test]
fn each_naming_tells_what_is_the_encoders() {
    let check = |layout: &str, name: &str, expected: bool| {
        let layout = Layout::named(layout).unwrap();
        assert_eq!((layout.encoder)(name), expected, "{name}");
    };
    check("deepcam", "xception_features.conv1.weight", true);
    check("deepcam", "upsample.deconv1.0.weight", false);
    check("torchvision-resnet", "layer3.1.conv2.weight", true);
    check("torchvision-resnet", "aux_classifier.0.weight", false);
    check("cgnet", "level1_0.conv.weight", true);
    check("cgnet", "classifier.0.conv.weight", false);
    // A network without a part of that name has no encoder to take.
    let config = NetworkConfig {
        width: 0.06,
        blocks: vec![2, 2],
        ..NetworkConfig::of(NetworkName::CgNet)
    };
    let mut cgnet = network(&config, 1);
    let weights = Weights {
        tensors: cgnet.parameters().to_named().unwrap(),
        ..Weights::default()
    };
    let options = ImportOptions {
        encoder_only: true,
        ..ImportOptions::default()
    };
    let layout = Layout::named("squall").unwrap();
    let error = import(&mut cgnet, &weights, &layout, &options).unwrap_err();
    assert!(
        error.to_string().contains("has no part called encoder"),
        "{error}"
    );
}

/// Weights with the names and shapes of torchvision's ResNet, all values `value(name)`.
fn torchvision(blocks: &[usize], root: usize) -> NamedTensors {
    let mut tensors = NamedTensors::new();
    let mut add = |name: String, shape: &[usize]| {
        let count: usize = shape.iter().product();
        let value = if name.ends_with("running_var") {
            4.0
        } else {
            0.5
        };
        tensors.insert(name, (shape.to_vec(), vec![value; count]));
    };
    let mut conv = |name: &str, norm: &str, shape: [usize; 4]| {
        add(format!("{name}.weight"), &shape);
        for leaf in ["weight", "bias", "running_mean", "running_var"] {
            add(format!("{norm}.{leaf}"), &shape[..1]);
        }
        add(format!("{norm}.num_batches_tracked"), &[]);
    };
    conv("conv1", "bn1", [root, 3, 7, 7]);
    let mut ins = root;
    for (block, &count) in blocks.iter().enumerate() {
        let inner = root << block;
        for unit in 0..count {
            let at = |part: &str| format!("layer{}.{unit}.{part}", block + 1);
            conv(&at("conv1"), &at("bn1"), [inner, ins, 1, 1]);
            conv(&at("conv2"), &at("bn2"), [inner, inner, 3, 3]);
            conv(&at("conv3"), &at("bn3"), [4 * inner, inner, 1, 1]);
            if unit == 0 {
                let shape = [4 * inner, ins, 1, 1];
                conv(&at("downsample.0"), &at("downsample.1"), shape);
            }
            ins = 4 * inner;
        }
    }
    add("fc.weight".into(), &[1000, ins]);
    add("fc.bias".into(), &[1000]);
    tensors
}

#[test]
fn a_torchvision_encoder_fills_every_weight_of_ours() {
    let config = NetworkConfig {
        width: 0.125,
        blocks: vec![2, 1, 2],
        channels_in: 6,
        ..NetworkConfig::default()
    };
    let weights = Weights {
        path: "resnet.pth".into(),
        tensors: torchvision(&config.blocks, 8),
        ..Weights::default()
    };
    let layout = Layout::guess(&weights);
    assert_eq!(layout.name, "torchvision-resnet");
    let mut target = network(&config, 1);
    // The decoder that it has not must be left out explicitly.
    let error = import(&mut target, &weights, &layout, &ImportOptions::default()).unwrap_err();
    assert!(
        error.to_string().contains("missing `aspp.conv_1x1.weight`"),
        "{error}"
    );
    let options = ImportOptions {
        encoder_only: true,
        ..ImportOptions::default()
    };
    let report = import(&mut target, &weights, &layout, &options).unwrap();
    assert!(report.kept.iter().all(|name| !name.starts_with("encoder.")));
    assert!(report.unused.iter().any(|(name, _)| name == "fc.weight"));
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.contains("post-activated"))
    );
    let named = target.parameters().to_named().unwrap();
    // γ / √(σ² + ε) = 0.25; the mean of three kernels of 0.5, times 3 / 6.
    let stem = named["encoder.stem.weight"].1[0];
    assert!((stem - 0.25 * 0.25).abs() < 1e-6, "{stem}");
    let bias = named["encoder.block2.unit1.shortcut.bias"].1[0];
    assert!((bias - (0.5 - 0.5 * 0.25)).abs() < 1e-6, "{bias}");
    assert_eq!(named["encoder.block1.unit2.preact.shift"].1[0], 0.0);
    assert_eq!(
        named["encoder.block3.unit2.conv2.norm.running_variance"].1[0],
        4.0
    );
    // A network without batch normalisation has no place for it.
    let published = NetworkConfig {
        batch_norm: false,
        ..config
    };
    let error = import(&mut network(&published, 1), &weights, &layout, &options).unwrap_err();
    assert!(error.to_string().contains("batch_norm"), "{error}");
}

#[test]
fn a_damaged_model_file_is_not_imported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let mut file = ModelFile {
        tensors: network(&tiny(), 1).parameters().to_named().unwrap(),
        ..ModelFile::default()
    };
    file.facts.insert("contract".into(), "{}".into());
    file.write(&path).unwrap();
    let read = Weights::read(&path).unwrap();
    assert_eq!(read.tensors, file.tensors);
    assert_eq!(Layout::guess(&read).name, "squall");
    assert_eq!(read.facts, Some(file.facts));
    // A bit of a value.
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - 6;
    bytes[at] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    let error = Weights::read(&path).unwrap_err().to_string();
    let expected = [
        "m.safetensors",
        "its contents do not have the checksum",
        "--like",
    ];
    assert!(expected.iter().all(|part| error.contains(part)), "{error}");
    // What another program has converted, metadata and all, cannot be compared.
    let facts = HashMap::from([("squall".to_string(), r#"{"checksum": "0"}"#.to_string())]);
    for (dtype, data, is_read) in [
        (Dtype::F16, &[0, 0x3c][..], true),
        (Dtype::F32, &[0; 4][..], false),
    ] {
        let view = TensorView::new(dtype, vec![1], data).unwrap();
        let converted = serialize([("w", view)], Some(facts.clone())).unwrap();
        std::fs::write(&path, converted).unwrap();
        assert_eq!(Weights::read(&path).is_ok(), is_read, "{dtype:?}");
    }
}

#[test]
fn a_file_from_pytorch_is_read() {
    // Made by validation/peers/make_fixture.py: a nested checkpoint of a data-parallel model with halves and
    // channels_last.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pytorch_checkpoint.pt");
    let weights = Weights::read(&path).unwrap();
    let expected = [
        "as_bf16",
        "as_half",
        "column",
        "conv.bias",
        "conv.weight",
        "norm.bias",
        "norm.num_batches_tracked",
        "norm.running_mean",
        "norm.running_var",
        "norm.weight",
    ];
    assert_eq!(weights.tensors.keys().collect::<Vec<_>>(), expected);
    let (shape, values) = &weights.tensors["conv.weight"];
    assert_eq!(shape, &[2, 3, 2, 2]);
    let counted: Vec<f32> = (0..24).map(|i| i as f32).collect();
    assert_eq!(values, &counted, "channels_last memory, PyTorch's order");
    assert_eq!(weights.tensors["as_half"].1, [0.5, 1.5, 2.5]);
    assert_eq!(weights.tensors["as_bf16"].1, [0.5, 1.5, 2.5]);
    assert_eq!(
        weights.tensors["column"].1,
        [2.0, 5.0],
        "a column of a matrix"
    );
    assert_eq!(
        weights.tensors["norm.num_batches_tracked"],
        (vec![], vec![7.0])
    );
    let notes = weights.notes.join("; ");
    assert!(
        notes.contains("not read: ") && notes.contains("optimizer"),
        "{notes}"
    );
    assert!(notes.contains("`module.`"), "{notes}");
}

/// A file of fields, given by mistake: a terabyte, of which nothing lies on the disk.
#[test]
fn a_file_that_is_no_weights_is_not_read_into_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("century.nc");
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(b"\x89HDF\r\n\x1a\n").unwrap();
    file.set_len(1 << 40).unwrap();
    let error = Weights::read(&path).unwrap_err().to_string();
    for word in ["century.nc", "neither a PyTorch file"] {
        assert!(error.contains(word), "{word} is not in: {error}");
    }
}

#[test]
fn other_files_are_refused_with_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let check = |bytes: &[u8], expected: &str| {
        let path = folder.path().join("w.pt");
        std::fs::write(&path, bytes).unwrap();
        let error = Weights::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("w.pt") && error.contains(expected),
            "{error}"
        );
    };
    check(b"", "neither a PyTorch file");
    check(
        b"\x80\x02}q\x00.",
        "neither a PyTorch file (version 1.6 or later)",
    );
    check(b"PK\x03\x04 and no more", "damaged zip");
    check(b"\x02\0\0\0\0\0\0\0{}", "it holds no tensors");
    check(b"\x08\x08\x12\x07pytorch", "ONNX Runtime");
}
