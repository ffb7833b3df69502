//! Pickles as PyTorch writes them, and what no file should do.

use super::*;
use crate::exchange::MOST_WRAPPERS;
use half::bf16;
use std::io::Write;
use zip::write::SimpleFileOptions;

fn parse_bytes(bytes: &[u8]) -> crate::error::Result<Weights> {
    parse(Path::new("made.pt"), bytes)
}

/// A pickle as PyTorch writes it, put together by hand.
#[derive(Default)]
struct Pickle(Vec<u8>);

impl Pickle {
    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, text: &str) -> Self {
        let length = (text.len() as u32).to_le_bytes();
        self.raw(b"X").raw(&length).raw(text.as_bytes())
    }

    fn class(self, module: &str, name: &str) -> Self {
        self.raw(format!("c{module}\n{name}\n").as_bytes())
    }

    fn numbers(self, numbers: &[u8]) -> Self {
        let opened = self.raw(b"(");
        let filled = numbers.iter().fold(opened, |p, &n| p.raw(&[b'K', n]));
        filled.raw(b"t")
    }

    fn tensor(self, kind: &str, key: &str, offset: u8, size: &[u8], strides: &[u8]) -> Self {
        let call = self.class("torch._utils", "_rebuild_tensor_v2").raw(b"((");
        let storage = call.text("storage").class("torch", kind).text(key);
        let stored = storage.text("cpu").raw(b"K\x0ctQ").raw(&[b'K', offset]);
        stored.numbers(size).numbers(strides).raw(b"\x89NtR")
    }

    fn zip(self, storages: &[(&str, Vec<u8>)]) -> Vec<u8> {
        zip_of(&[&b"\x80\x02"[..], &self.0, b"."].concat(), storages)
    }

    /// A text of protocol 4, which is remembered.
    fn short(self, text: &str) -> Self {
        let length = u8::try_from(text.len()).unwrap();
        self.raw(&[0x8c, length]).raw(text.as_bytes()).raw(b"\x94")
    }
}

/// A file with this pickle and these storages.
fn zip_of(pickle: &[u8], storages: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default();
    zip.start_file("made/data.pkl", stored).unwrap();
    zip.write_all(pickle).unwrap();
    for (key, data) in storages {
        zip.start_file(format!("made/data/{key}"), stored).unwrap();
        zip.write_all(data).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// {"epoch": 3, "model": {"module.w": 2 x 3 stored by columns after one other value}}
fn nested(kind: &str, data: Vec<u8>) -> Vec<u8> {
    let root = Pickle::default().raw(b"}(").text("epoch").raw(b"K\x03");
    let inner = root.text("model").raw(b"}(").text("module.w");
    let whole = inner.tensor(kind, "0", 1, &[2, 3], &[1, 2]).raw(b"uu");
    whole.zip(&[("0", data)])
}

#[test]
fn nested_dictionaries_and_any_strides_are_read() {
    let data = floats(&[9.0, 1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let mut weights = parse_bytes(&nested("FloatStorage", data)).unwrap();
    weights.strip_wrappers();
    let (shape, values) = &weights.tensors["w"];
    assert_eq!(
        (&shape[..], &values[..]),
        (&[2, 3][..], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0][..])
    );
    assert_eq!(weights.notes.len(), 2, "{:?}", weights.notes);
    assert!(weights.notes[0].contains("under `model`; not read: epoch"));
    let halves = [9.0, 1.0, 4.0, 2.0, 5.0, 3.0, 6.0].map(|v| bf16::from_f32(v).to_le_bytes());
    let weights = parse_bytes(&nested("BFloat16Storage", halves.concat())).unwrap();
    assert_eq!(weights.tensors["module.w"].1[5], 6.0);
}

/// Seven numbers as PyTorch stores each type; the last of them is the last of the weights.
#[test]
fn every_type_of_numbers_is_read() {
    let stored = |kind: &str| -> Vec<u8> {
        (1i8..8)
            .flat_map(|i| match kind {
                "DoubleStorage" => f64::from(i).to_le_bytes().to_vec(),
                "HalfStorage" => half::f16::from_f32(f32::from(i)).to_le_bytes().to_vec(),
                "LongStorage" => i64::from(-i).to_le_bytes().to_vec(),
                "IntStorage" => i32::from(-i).to_le_bytes().to_vec(),
                _ => vec![i.unsigned_abs()],
            })
            .collect()
    };
    for (kind, last) in [
        ("DoubleStorage", 7.0),
        ("HalfStorage", 7.0),
        ("LongStorage", -7.0),
        ("IntStorage", -7.0),
        ("ByteStorage", 7.0),
    ] {
        let weights = parse_bytes(&nested(kind, stored(kind))).unwrap();
        assert_eq!(weights.tensors["module.w"].1[5], last, "{kind}");
    }
}

#[test]
fn wrappers_are_taken_off_in_any_order() {
    for name in [
        "module._orig_mod.w",
        "_orig_mod.module.w",
        "model.module.model.w",
    ] {
        let named = Pickle::default().raw(b"}(").text(name);
        let whole = named.tensor("FloatStorage", "0", 0, &[1], &[1]).raw(b"u");
        let mut weights = parse_bytes(&whole.zip(&[("0", floats(&[7.0]))])).unwrap();
        weights.strip_wrappers();
        assert_eq!(weights.tensors["w"].1, [7.0], "{name}");
    }
    // Each of 14 000 would be a pass over all names, and a note.
    let name = format!("{}w", "module.".repeat(14_000));
    let mut many = Weights::default();
    many.tensors.insert(name, (vec![1], vec![7.0]));
    many.strip_wrappers();
    assert_eq!(many.notes.len(), MOST_WRAPPERS);
    let mut empty = Weights::default();
    empty.strip_wrappers();
    assert!(empty.notes.is_empty());
}

/// A checkpoint as scripts save it: `{"epoch": 3, "model_state_dict": {"w": 1, 2}, "loss": 0.5}`.
#[test]
fn tensors_beside_the_weights_are_no_weights() {
    let loss = |pickle: Pickle| pickle.tensor("FloatStorage", "1", 0, &[], &[]);
    let weights = |pickle: Pickle| {
        let inner = pickle.text("model_state_dict").raw(b"}(").text("w");
        inner.tensor("FloatStorage", "0", 0, &[2], &[1]).raw(b"u")
    };
    let root = || Pickle::default().raw(b"}(").text("epoch");
    let after = loss(weights(root().raw(b"K\x03")).text("loss")).raw(b"u");
    let before = weights(loss(root())).raw(b"u");
    for (pickle, others) in [(after, vec!["epoch", "loss"]), (before, vec!["epoch"])] {
        let storages = [("0", floats(&[1.0, 2.0])), ("1", floats(&[0.5]))];
        let read = parse_bytes(&pickle.zip(&storages)).unwrap();
        assert_eq!(read.tensors["w"], (vec![2], vec![1.0, 2.0]));
        assert_eq!(read.tensors.len(), 1);
        let note = &read.notes[0];
        assert!(
            note.contains("under `model_state_dict`; not read: "),
            "{note}"
        );
        assert!(others.iter().all(|name| note.contains(name)), "{note}");
    }
    // A name of the network is no dictionary of its weights.
    let named = Pickle::default().raw(b"}(").text("model").text("resnet");
    let named = named.text("net").raw(b"}(").text("w");
    let named = named.tensor("FloatStorage", "0", 0, &[1], &[1]).raw(b"uu");
    let read = parse_bytes(&named.zip(&[("0", floats(&[7.0]))])).unwrap();
    assert_eq!(read.tensors["w"].1, [7.0]);
}

/// `{"best": weights, "state_dict": weights}`: PyTorch stores them once.
#[test]
fn weights_that_are_stored_twice_are_read_once() {
    let weights = |pickle: Pickle, memo: &[u8]| {
        let filled = pickle.raw(b"}q").raw(memo).raw(b"(").text("w");
        filled.tensor("FloatStorage", "0", 0, &[2], &[1]).raw(b"u")
    };
    let storages = [("0", floats(&[1.0, 2.0]))];
    let best = weights(Pickle::default().raw(b"}(").text("best"), &[1]);
    let twice = best.text("state_dict").raw(b"h\x01u");
    let read = parse_bytes(&twice.zip(&storages)).unwrap();
    assert_eq!(read.tensors["w"].1, [1.0, 2.0]);
    let note = &read.notes[0];
    assert!(
        note.contains("under `best`; not read: state_dict"),
        "{note}"
    );
    // Whether the first or the second is meant is not told.
    let best = weights(Pickle::default().raw(b"}(").text("best"), &[1]);
    let mean = weights(best.text("mean"), &[2]);
    let twice = mean.text("state_dict").raw(b"h\x01u");
    let error = parse_bytes(&twice.zip(&storages)).unwrap_err().to_string();
    assert!(
        error.contains("`state_dict` is empty, or one of "),
        "{error}"
    );
    // Those that are meant may lie deeper than others.
    let mean = weights(Pickle::default().raw(b"}(").text("ema"), &[2]);
    let best = weights(mean.text("best").raw(b"}(").text("weights"), &[1]).raw(b"u");
    let twice = best.text("state_dict").raw(b"h\x01u");
    let error = parse_bytes(&twice.zip(&storages)).unwrap_err().to_string();
    assert!(error.contains("one of 2 dictionaries"), "{error}");
}

#[test]
fn a_later_protocol_is_named() {
    let error = parse_bytes(&zip_of(b"\x80\x06\x95", &[])).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("protocol 6"), "{error}");
}

/// What `torch.save(..., pickle_protocol=4)` writes of `{"epoch": 3, "rng": bytes, "seen": {1}, "far": 2**80, "model":
/// state}`, with the operations of protocol 5 and the rarer ones of both beside them.
fn later_pickle() -> Vec<u8> {
    let frame = b"\x95\x00\x00\x00\x00\x00\x00\x00\x00";
    let root = Pickle::default().raw(b"\x80\x05").raw(frame).raw(b"}\x94(");
    let root = root.short("epoch").raw(b"K\x03");
    let root = root.short("rng").raw(b"C\x02.u\x94");
    let root = root.short("seen").raw(b"\x8f\x94(K\x01\x90");
    let root = root
        .short("far")
        .raw(b"\x8a\x0b")
        .raw(&[0; 10])
        .raw(b"\x01");
    let root = root
        .short("model")
        .short("collections")
        .short("OrderedDict");
    let state = root.raw(b"\x93\x94)R\x94(").short("w");
    let call = state.short("torch._utils").short("_rebuild_tensor_v2");
    let kind = call.raw(b"\x93\x94((").short("storage").short("torch");
    let key = kind.short("FloatStorage").raw(b"\x93\x94").short("0");
    let first = key.short("cpu").raw(b"K\x02t\x94QK\x00K\x02\x85\x94");
    let first = first.raw(b"K\x01\x85\x94\x89h\x0a)R\x94t\x94R\x94");
    // The texts, classes and strides of the first once more, and a frame between the names of a class.
    let second = first.short("b").raw(b"h\x0f((h\x10h\x11").raw(frame);
    let key = second.short("DoubleStorage").raw(b"\x93\x94").short("1");
    let second = key.raw(b"h\x15K\x01t\x94QK\x00\x8a\x01\x01\x85\x94");
    let second = second.raw(b"h\x18\x89h\x0a)R\x94t\x94R\x94u");
    let others = second
        .short("bytes")
        .raw(b"(B\x01\x00\x00\x00x\x96\x01\x00\x00\x00\x00\x00\x00\x00x");
    let others = others.raw(b"\x8e\x01\x00\x00\x00\x00\x00\x00\x00x\x8b\x01\x00\x00\x00\xfbt");
    let others = others
        .raw(b"\x8d\x03\x00\x00\x00\x00\x00\x00\x00new")
        .raw(b"h\x0a)}\x92");
    others.short("frozen").raw(b"(K\x01\x91u.").0
}

#[test]
fn protocols_4_and_5_are_read() {
    let storages = [
        ("0", floats(&[1.0, 2.0])),
        ("1", 7f64.to_le_bytes().to_vec()),
    ];
    let read = parse_bytes(&zip_of(&later_pickle(), &storages)).unwrap();
    assert_eq!(read.tensors["w"], (vec![2], vec![1.0, 2.0]));
    assert_eq!(read.tensors["b"], (vec![1], vec![7.0]));
    assert_eq!(read.tensors.len(), 2);
    let note = &read.notes[0];
    assert!(note.contains("weights are those under `model`"), "{note}");
    for name in ["epoch", "rng", "seen", "far", "bytes", "new", "frozen"] {
        assert!(note.contains(name), "{name}: {note}");
    }
}

/// Nothing ends the program, whatever is cut off or changed.
#[test]
fn a_damaged_pickle_of_protocol_5_is_an_error_or_another_pickle() {
    let whole = later_pickle();
    for cut in 0..whole.len() {
        let error = unpickle(&whole[..cut]).unwrap_err();
        assert!(
            error.contains("its pickle cannot be read"),
            "{cut}: {error}"
        );
    }
    for at in 0..whole.len() {
        for value in 0..=u8::MAX {
            let mut changed = whole.clone();
            changed[at] = value;
            if let Err(error) = unpickle(&changed) {
                assert!(error.contains("its pickle "), "{at} is {value}: {error}");
            }
        }
    }
}

#[test]
fn whole_numbers_of_any_length_keep_their_sign() {
    let number = |bytes: &[u8]| unpickle(&[&b"\x80\x04"[..], bytes, b"."].concat()).unwrap();
    assert_eq!(number(b"\x8a\x00"), Object::Long(0));
    assert_eq!(number(b"\x8a\x01\xfb"), Object::Long(-5));
    assert_eq!(number(b"\x8a\x02\xfb\x00"), Object::Long(251));
    assert_eq!(number(b"\x8b\x02\x00\x00\x00\xfb\x00"), Object::Long(251));
    assert_eq!(
        number(b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00"),
        Object::None
    );
}

#[test]
fn tensors_of_one_storage_are_parts_of_it() {
    let first = Pickle::default().raw(b"}(").text("a");
    let second = first.tensor("FloatStorage", "0", 0, &[2], &[1]).text("b");
    let third = second.tensor("FloatStorage", "0", 2, &[1], &[1]).text("c");
    // The same bytes as numbers of another type.
    let whole = third.tensor("IntStorage", "0", 0, &[1], &[1]).raw(b"u");
    let read = parse_bytes(&whole.zip(&[("0", floats(&[1.0, 2.0, 3.0]))])).unwrap();
    assert_eq!(read.tensors["a"].1, [1.0, 2.0]);
    assert_eq!(read.tensors["b"].1, [3.0]);
    assert_eq!(read.tensors["c"].1, [1.0f32.to_bits() as f32]);
}

/// As PyTorch stores tensors and parameters on which a script has set attributes.
#[test]
fn tensors_with_attributes_are_read() {
    let read = |tensor: &dyn Fn(Pickle) -> Pickle| {
        let whole = tensor(Pickle::default().raw(b"}(").text("w")).raw(b"u");
        parse_bytes(&whole.zip(&[("0", floats(&[7.0]))]))
    };
    let of_class = |pickle: Pickle, class: &str| {
        let call = pickle.class("torch._tensor", "_rebuild_from_type_v2");
        let inner = call.raw(b"(").class("torch._utils", "_rebuild_tensor_v2");
        let storage = inner.class("torch", class).raw(b"((").text("storage");
        let stored = storage.class("torch", "FloatStorage").text("0").text("cpu");
        let extents = stored.raw(b"K\x01tQK\x00").numbers(&[1]).numbers(&[1]);
        extents.raw(b"\x89Nt}tR")
    };
    let parameter = |pickle: Pickle| {
        let call = pickle.class("torch._utils", "_rebuild_parameter_with_state");
        let inner = call.raw(b"(").tensor("FloatStorage", "0", 0, &[1], &[1]);
        inner.raw(b"\x88N}tR")
    };
    let tensor = |pickle: Pickle| of_class(pickle, "Tensor");
    for read in [read(&tensor), read(&parameter)] {
        assert_eq!(read.unwrap().tensors["w"], (vec![1], vec![7.0]));
    }
    // What another class makes of its values is not known.
    let strange = read(&|pickle| of_class(pickle, "Packed")).unwrap_err();
    let expected = "`w`: expected a plain tensor, found _rebuild_from_type_v2";
    assert!(strange.to_string().contains(expected), "{strange}");
}

/// Names are cheap: of a few megabytes they could make terabytes.
#[test]
fn one_storage_is_not_copied_without_end() {
    let read = |tensors: usize| {
        let named = |pickle: Pickle, number: usize| {
            let named = pickle.text(&format!("w{number}"));
            named.tensor("FloatStorage", "0", 0, &[255, 255], &[255, 1])
        };
        let all = (0..tensors).fold(Pickle::default().raw(b"}("), named);
        let storage = floats(&[1.0; 255 * 255]);
        parse_bytes(&all.raw(b"u").zip(&[("0", storage)]))
    };
    let tied = read(24).unwrap();
    assert_eq!(tied.tensors.len(), 24);
    assert_eq!(tied.tensors["w23"].1.len(), 255 * 255);
    let error = read(100).unwrap_err().to_string();
    assert!(error.contains("share their values too often"), "{error}");
}

/// {"w10": value, "w11": value, ...}, each the first value of a storage; so many of these have the 64 KiB that are in the
/// file once.
fn of_own_storages(tensors: u8) -> Vec<u8> {
    let keys: Vec<String> = (10..10 + tensors).map(|key| key.to_string()).collect();
    let named = |pickle: Pickle, key: &String| {
        let named = pickle.text(&format!("w{key}"));
        named.tensor("FloatStorage", key, 0, &[1], &[1])
    };
    let all = keys.iter().fold(Pickle::default().raw(b"}("), named);
    let mut storages: Vec<(&str, Vec<u8>)> =
        keys.iter().map(|key| (key.as_str(), Vec::new())).collect();
    storages[0].1 = floats(&[7.0; 1 << 14]);
    let mut zip = all.raw(b"u").zip(&storages);
    let is_entry = |at: &usize| zip[*at..].starts_with(b"PK\x01\x02");
    let entries: Vec<usize> = (0..zip.len()).filter(is_entry).collect();
    // Behind the pickle's: checksum and lengths, and where the bytes lie.
    for &entry in &entries[2..] {
        for part in [16..28, 42..46] {
            let from = entries[1] + part.start..entries[1] + part.end;
            zip.copy_within(from, entry + part.start);
        }
    }
    zip
}

/// The directory of a zip archive may name the same bytes again and again.
#[test]
fn storages_are_not_read_without_end() {
    let read = parse_bytes(&of_own_storages(8)).unwrap();
    assert_eq!(read.tensors.len(), 8);
    assert_eq!(read.tensors["w17"].1, [7.0]);
    let error = parse_bytes(&of_own_storages(60)).unwrap_err().to_string();
    assert!(error.contains("share their values too often"), "{error}");
}

/// As where weights that decay and those that do not were put together. Read again for each tensor, these would be 20
/// times as long as the file.
#[test]
fn storages_whose_tensors_alternate_are_read_once() {
    let named = |pickle: Pickle, number: usize| {
        let named = pickle.text(&format!("w{number}"));
        named.tensor("FloatStorage", ["0", "1"][number % 2], 0, &[1], &[1])
    };
    let all = (0..40).fold(Pickle::default().raw(b"}("), named);
    let storages = [
        ("0", floats(&[1.0; 1 << 14])),
        ("1", floats(&[2.0; 1 << 14])),
    ];
    let read = parse_bytes(&all.raw(b"u").zip(&storages)).unwrap();
    assert_eq!(read.tensors["w38"].1, [1.0]);
    assert_eq!(read.tensors["w39"].1, [2.0]);
}

/// A key may be as long as the file, or, brought back again and again, longer.
#[test]
fn long_keys_and_many_make_no_long_message() {
    let key = Pickle::default().raw(b"}((").raw(&b"N".repeat(100_000));
    let whole = key.raw(b"t").tensor("FloatStorage", "0", 0, &[1], &[1]);
    let storages = [("0", floats(&[7.0]))];
    let error = parse_bytes(&whole.raw(b"u").zip(&storages)).unwrap_err();
    let error = error.to_string();
    let expected = "expected names as keys, found a list";
    assert!(error.contains(expected) && error.len() < 200, "{error}");
    let others = (0..1000).fold(Pickle::default().raw(b"}("), |pickle, number| {
        pickle.text(&format!("k{number}")).raw(b"N")
    });
    let inner = others.text("model").raw(b"}(").text("w");
    let whole = inner.tensor("FloatStorage", "0", 0, &[1], &[1]).raw(b"uu");
    let read = parse_bytes(&whole.zip(&storages)).unwrap();
    let note = &read.notes[0];
    assert!(note.ends_with(", 988 more") && note.len() < 200, "{note}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let check = |bytes: &[u8], expected: &str| {
        let error = parse_bytes(bytes).unwrap_err().to_string();
        assert!(
            error.contains("made.pt") && error.contains(expected),
            "{error}"
        );
    };
    check(
        &nested("FloatStorage", floats(&[1.0; 6])),
        "`module.w`: it reaches past the end",
    );
    check(
        &nested("ComplexFloatStorage", floats(&[1.0; 7])),
        "ComplexFloatStorage",
    );
    check(&nested("FloatStorage", vec![])[..40], "damaged zip");
    let other = Pickle::default().raw(b"}(").text("epoch").raw(b"K\x03u");
    check(&other.zip(&[]), "no tensors under any of state_dict");
    let quantised = |pickle: Pickle| {
        let call = pickle.class("torch._utils", "_rebuild_qtensor");
        call.raw(b"(K\x00tR")
    };
    let alone = quantised(Pickle::default().raw(b"}(").text("w")).raw(b"u");
    check(&alone.zip(&[]), "made by `_rebuild_qtensor`");
    let inner = Pickle::default().raw(b"}(").text("state_dict").raw(b"}(");
    let inner = quantised(inner.text("w")).raw(b"uu");
    check(&inner.zip(&[]), "made by `_rebuild_qtensor`");
    // Plain ones, under a name that nobody knows.
    let elsewhere = Pickle::default().raw(b"}(").text("elsewhere").raw(b"}(");
    let elsewhere = elsewhere.text("w");
    let elsewhere = elsewhere.tensor("FloatStorage", "0", 0, &[1], &[1]);
    check(
        &elsewhere.raw(b"uu").zip(&[]),
        "no tensors under any of state_dict",
    );
    check(
        &Pickle::default().raw(b"K\x03").zip(&[]),
        "save `model.state_dict()`",
    );
    let missing = Pickle::default().raw(b"}(").text("w");
    let missing = missing.tensor("FloatStorage", "7", 0, &[1], &[1]).raw(b"u");
    check(&missing.zip(&[]), "`w`: entry `made/data/7`");
    let huge = Pickle::default().raw(b"}(").text("w");
    let huge = huge
        .tensor("FloatStorage", "0", 0, &[255; 20], &[0; 20])
        .raw(b"u");
    check(&huge.zip(&[("0", floats(&[1.0]))]), "past the end");
    let twice = |pickle: Pickle| {
        let named = pickle.text("w");
        named.tensor("FloatStorage", "0", 0, &[1], &[1])
    };
    let twice = twice(twice(Pickle::default().raw(b"}("))).raw(b"u");
    check(
        &twice.zip(&[("0", floats(&[1.0]))]),
        "`w`: there are two of this name",
    );
    // A step along each axis for each value: of a file of a megabyte each may be 100 000.
    let of_axes = |count: usize| {
        let named = Pickle::default().raw(b"}(").text("w");
        let ones = vec![1; count];
        let whole = named.tensor("FloatStorage", "0", 0, &ones, &ones).raw(b"u");
        whole.zip(&[("0", floats(&[1.0]))])
    };
    assert_eq!(parse_bytes(&of_axes(64)).unwrap().tensors["w"].1, [1.0]);
    check(&of_axes(65), "`w`: expected at most 64 axes, found 65");
    let short = Pickle::default().raw(b"}(").text("w");
    let short = short
        .class("torch._utils", "_rebuild_tensor_v2")
        .raw(b")Ru");
    check(&short.zip(&[]), "a tensor without storage");
}
