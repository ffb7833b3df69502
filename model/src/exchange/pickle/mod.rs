//! PyTorch's files since version 1.6: a zip archive with a pickle of the structure and one entry per storage.
//!
//! candle reads the pickle itself, `protocols` restating what is later than protocol 2; what is in it (which dictionary
//! holds the weights, strides, data types) is decided here, because candle passes over what it cannot read.
//!
//! # Not done
//! Whole pickled modules (`torch.save(model)`), which need the Python classes; sparse and quantised tensors.

mod protocols;
mod unpickle;

use super::{Weights, bad_file};
use crate::exchange::safetensors::each;
use crate::parameters::NamedTensors;
use candle_core::pickle::Object;
use half::{bf16, f16};
use std::io::{Cursor, Read};
use std::path::Path;
use unpickle::unpickle;

/// The keys under which training scripts keep the weights, the likeliest first.
const KEYS: [&str; 8] = [
    "state_dict",
    "model_state_dict",
    "model",
    "net",
    "network",
    "module",
    "generator",
    "weights",
];

/// How many values tensors may have for each byte of the file. Several may be of one storage, which takes 200 bytes to name
/// once more and no memory until it is copied; one set of weights for all of twelve layers needs three. The bytes of
/// storages count as well: several may be the same part of the file.
const VALUES: usize = 16;

/// How many keys are named in a line, and how many letters of each.
const MOST_NAMED: usize = 12;
const LONGEST_NAME: usize = 100;

/// More axes than weights have; PyTorch's own operations take 64.
const MOST_AXES: usize = 64;

type Archive<'a> = zip::ZipArchive<Cursor<&'a [u8]>>;

/// The weights of a PyTorch file in memory, converted to f32.
pub(super) fn parse(path: &Path, bytes: &[u8]) -> crate::error::Result<Weights> {
    let bad = |reason: String| bad_file(path, reason);
    let mut archive =
        Archive::new(Cursor::new(bytes)).map_err(|error| bad(format!("damaged zip: {error}")))?;
    let pickled = (0..archive.len())
        .filter_map(|index| Some(archive.by_index(index).ok()?.name().ok()?.into_owned()))
        .find(|name| name == "data.pkl" || name.ends_with("/data.pkl"))
        .ok_or_else(|| bad("a zip archive without data.pkl: no PyTorch file".into()))?;
    let folder = pickled.trim_end_matches("data.pkl").to_string();
    if entry(&mut archive, &format!("{folder}byteorder")).is_ok_and(|order| order == b"big") {
        return Err(bad("it was written on a big-endian machine".into()));
    }
    let content = entry(&mut archive, &pickled).map_err(bad)?;
    let root = unpickle(&content).map_err(bad)?;
    let mut notes = Vec::new();
    let state = state_dict(root, &mut notes).map_err(bad)?;
    let described = described(state).map_err(bad)?;
    let mut tensors = NamedTensors::new();
    let mut room = bytes.len().saturating_mul(VALUES);
    let mut take = |count: usize| -> crate::error::Result<()> {
        room = room.checked_sub(count).ok_or_else(|| {
            bad(format!(
                "its tensors share their values too often: there are more than {VALUES} for each of its bytes"
            ))
        })?;
        Ok(())
    };
    let mut last: Option<(Storage, Vec<f32>)> = None;
    for (name, found) in described {
        let what = |reason: String| bad(format!("`{name}`: {reason}"));
        let (storage, all) = match last.take() {
            Some(kept) if kept.0 == found.storage => kept,
            _ => {
                let place = format!("{folder}data/{}", found.storage.key);
                let data = entry(&mut archive, &place).map_err(what)?;
                take(data.len())?;
                let all = found.storage.numbers(&data).map_err(what)?;
                (found.storage.clone(), all)
            }
        };
        let values = found.gather(&all).map_err(what)?;
        take(values.len())?;
        // Python would keep the later one, and candle has lost which that is.
        if tensors.contains_key(&name) {
            return Err(what("there are two of this name".into()));
        }
        last = Some((storage, all));
        tensors.insert(name, (found.shape, values));
    }
    Ok(Weights {
        path: path.into(),
        tensors,
        facts: None,
        notes,
    })
}

/// What the tensors of a dictionary are, by name; those of one storage stand together, so that it is read and converted
/// once.
fn described(state: Pairs) -> Result<Vec<(String, Rebuilt)>, String> {
    let mut all = Vec::with_capacity(state.len());
    for (key, value) in state {
        let Object::Unicode(name) = key else {
            return Err(format!("expected names as keys, found {}", told(&key)));
        };
        if name == "_metadata" {
            continue;
        }
        let found = rebuild(value).map_err(|reason| format!("`{name}`: {reason}"))?;
        all.push((name, found));
    }
    all.sort_by(|(_, a), (_, b)| a.storage.cmp(&b.storage));
    Ok(all)
}

fn entry(archive: &mut Archive<'_>, name: &str) -> Result<Vec<u8>, String> {
    let mut file = (archive.by_name(name)).map_err(|error| format!("entry `{name}`: {error}"))?;
    let mut content = Vec::new();
    file.read_to_end(&mut content)
        .map_err(|error| format!("entry `{name}`: {error}"))?;
    Ok(content)
}

type Pairs = Vec<(Object, Object)>;

/// The dictionary that holds tensors: the likeliest one inside the root, or the root itself.
fn state_dict(root: Object, notes: &mut Vec<String>) -> Result<Pairs, String> {
    let Object::Dict(mut pairs) = root else {
        return Err(
            "expected a dictionary of weights, found another object; save `model.state_dict()`, not the model".into(),
        );
    };
    // Tensors beside such a dictionary are no weights: a loss, the state of random numbers.
    while let Some(at) = weights_in(&pairs)? {
        let (key, inner) = pairs.swap_remove(at);
        let rest = match pairs[..] {
            [] => String::new(),
            _ => format!("; not read: {}", names_of(&pairs)),
        };
        notes.push(format!("weights are those under `{}`{rest}", name_of(&key)));
        let Object::Dict(inner) = inner else {
            unreachable!("only dictionaries are likely")
        };
        pairs = inner;
    }
    if pairs.iter().any(|(_, value)| is_tensor(value)) {
        return Ok(pairs);
    }
    if let Some(kind) = (pairs.iter()).find_map(|(_, value)| other_tensor(value)) {
        return Err(format!(
            "its tensors are not plain ones but made by `{kind}` (sparse, quantised or of 8 bits): save them as f32"
        ));
    }
    Err(format!(
        "it holds no tensors under any of {} (it has: {})",
        KEYS.join(", "),
        names_of(&pairs)
    ))
}

/// Where a dictionary is that holds the weights, if these pairs are not the weights.
fn weights_in(pairs: &[(Object, Object)]) -> Result<Option<usize>, String> {
    match likeliest(pairs) {
        Some(at) => Ok(Some(at)),
        None => stored_before(pairs),
    }
}

/// Where the likeliest dictionary with tensors is.
fn likeliest(pairs: &[(Object, Object)]) -> Option<usize> {
    let holds = |key: &str| {
        let is_it = |(name, value): &(Object, Object)| name_of(name) == key && holds_tensors(value);
        pairs.iter().position(is_it)
    };
    KEYS.into_iter().find_map(holds)
}

/// Where the weights are for which an empty dictionary under a likely name stands: where a file has one dictionary twice,
/// candle gives the second as it was before it was filled.
fn stored_before(pairs: &[(Object, Object)]) -> Result<Option<usize>, String> {
    let is_empty = |(key, value): &&(Object, Object)| {
        KEYS.contains(&name_of(key).as_str())
            && matches!(value, Object::Dict(pairs) if pairs.is_empty())
    };
    let Some((empty, _)) = pairs.iter().find(is_empty) else {
        return Ok(None);
    };
    let full: Vec<usize> = (0..pairs.len())
        .filter(|&at| holds_only_tensors(&pairs[at].1))
        .collect();
    // Others may lie deeper, and be those that are stored again.
    let others: usize = pairs
        .iter()
        .map(|(_, value)| dictionaries_of_tensors(value))
        .sum();
    match full[..] {
        [] if others == 0 => Ok(None),
        [at] if others == 1 => Ok(Some(at)),
        _ => Err(format!(
            "`{}` is empty, or one of {others} dictionaries of tensors stored again, and it is not known which: save it alone",
            name_of(empty)
        )),
    }
}

/// How many dictionaries of tensors and nothing else an object is or holds.
fn dictionaries_of_tensors(object: &Object) -> usize {
    let own = usize::from(holds_only_tensors(object));
    let inner: usize = match object {
        Object::Dict(pairs) => pairs
            .iter()
            .map(|(_, value)| dictionaries_of_tensors(value))
            .sum(),
        Object::List(all) | Object::Tuple(all) => all.iter().map(dictionaries_of_tensors).sum(),
        _ => 0,
    };
    own + inner
}

/// Whether it is a dictionary of tensors and nothing else.
fn holds_only_tensors(object: &Object) -> bool {
    let Object::Dict(pairs) = object else {
        return false;
    };
    // What PyTorch keeps of versions of modules.
    let mut entries = (pairs.iter()).filter(|(key, _)| name_of(key) != "_metadata");
    !pairs.is_empty() && entries.all(|(_, value)| is_tensor(value))
}

/// Whether it is a dictionary with tensors, its own or of dictionaries in it.
fn holds_tensors(object: &Object) -> bool {
    match object {
        Object::Dict(pairs) => {
            (pairs.iter()).any(|(_, value)| is_tensor(value) || holds_tensors(value))
        }
        _ => false,
    }
}

/// The names of the first keys.
fn names_of(pairs: &[(Object, Object)]) -> String {
    let names = pairs.iter().take(MOST_NAMED).map(|(key, _)| name_of(key));
    let mut names: Vec<String> = names.collect();
    if pairs.len() > names.len() {
        names.push(format!("{} more", pairs.len() - names.len()));
    }
    names.join(", ")
}

/// The name of a key, as much of it as a line has room for.
fn name_of(key: &Object) -> String {
    match key {
        Object::Unicode(name) => name.chars().take(LONGEST_NAME).collect(),
        other => told(other),
    }
}

/// What an object is, in a few words: it may be longer than the file.
fn told(object: &Object) -> String {
    match object {
        Object::Int(number) => number.to_string(),
        Object::Long(number) => number.to_string(),
        Object::Float(number) => number.to_string(),
        Object::Bool(_) => "a truth value".into(),
        Object::None => "nothing".into(),
        Object::Unicode(_) => "a text".into(),
        Object::Tuple(_) | Object::List(_) => "a list".into(),
        Object::Dict(_) => "a dictionary".into(),
        _ => "an object".into(),
    }
}

fn class_name(object: &Object) -> Option<&str> {
    match object {
        Object::Class { class_name, .. } => Some(class_name),
        _ => None,
    }
}

fn is_tensor(object: &Object) -> bool {
    match object {
        Object::Reduce { callable, .. } => class_name(callable).is_some_and(|name| {
            [
                "_rebuild_tensor_v2",
                "_rebuild_parameter",
                "_rebuild_parameter_with_state",
                "_rebuild_from_type_v2",
            ]
            .contains(&name)
        }),
        _ => false,
    }
}

/// What makes a tensor of a kind that is not read, the first in an object.
fn other_tensor(object: &Object) -> Option<&str> {
    match object {
        Object::Reduce { callable, .. } if !is_tensor(object) => {
            class_name(callable).filter(|name| name.starts_with("_rebuild_"))
        }
        Object::Dict(pairs) => pairs.iter().find_map(|(_, value)| other_tensor(value)),
        _ => None,
    }
}

/// Where values lie that several tensors may share.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Storage {
    /// `FloatStorage` and so on.
    kind: String,
    /// The entry that holds it.
    key: String,
}

/// A tensor as the pickle describes it.
struct Rebuilt {
    storage: Storage,
    /// Where it begins in its storage, in values.
    offset: usize,
    shape: Vec<usize>,
    /// Distances between neighbours along each axis, in values.
    strides: Vec<usize>,
}

/// Whether it is the class of plain tensors or parameters.
fn is_plain(class: Option<&Object>) -> bool {
    matches!(class.and_then(class_name), Some("Tensor" | "Parameter"))
}

/// What `torch._utils._rebuild_tensor_v2(storage, offset, size, stride, ...)` would build.
fn rebuild(object: Object) -> Result<Rebuilt, String> {
    let unreadable = |what: &str| format!("expected a plain tensor, found {what}");
    let Object::Reduce { callable, args } = object else {
        return Err(unreadable("no tensor"));
    };
    let Object::Tuple(mut args) = *args else {
        return Err(unreadable("a call without arguments"));
    };
    match class_name(&callable) {
        Some("_rebuild_tensor_v2") => {}
        Some("_rebuild_parameter" | "_rebuild_parameter_with_state") if !args.is_empty() => {
            return rebuild(args.swap_remove(0));
        }
        // One with attributes: by what it is made, its class, from what, the attributes.
        Some("_rebuild_from_type_v2") if args.len() > 2 && is_plain(args.get(1)) => {
            let inner = Box::new(args.swap_remove(2));
            let callable = Box::new(args.swap_remove(0));
            return rebuild(Object::Reduce {
                callable,
                args: inner,
            });
        }
        Some(other) => return Err(unreadable(other)),
        None => return Err(unreadable("another object")),
    }
    let mut args = args.into_iter();
    let mut next = || args.next().unwrap_or(Object::None);
    let (storage, offset, size, strides) = (next(), next(), next(), next());
    let Object::PersistentLoad(storage) = storage else {
        return Err(unreadable("a tensor without storage"));
    };
    let Object::Tuple(storage) = *storage else {
        return Err(unreadable("a storage without description"));
    };
    // ('storage', class, key, device, values)
    let (kind, key) = match &storage[..] {
        [_, class, Object::Unicode(key), ..] => (class_name(class), key.clone()),
        _ => return Err(unreadable("a storage of another form")),
    };
    Ok(Rebuilt {
        storage: Storage {
            kind: kind.unwrap_or("an unknown storage").to_string(),
            key,
        },
        offset: whole(&offset)?,
        shape: wholes(size)?,
        strides: wholes(strides)?,
    })
}

fn whole(object: &Object) -> Result<usize, String> {
    let number = match object {
        Object::Int(i) => i64::from(*i),
        Object::Long(i) => *i,
        other => return Err(format!("expected a whole number, found {}", told(other))),
    };
    usize::try_from(number).map_err(|_| format!("expected a whole number, found {number}"))
}

fn wholes(object: Object) -> Result<Vec<usize>, String> {
    match object {
        Object::Tuple(items) => items.iter().map(whole).collect(),
        other => Err(format!("expected extents, found {}", told(&other))),
    }
}

impl Storage {
    /// Its values as f32.
    fn numbers(&self, data: &[u8]) -> Result<Vec<f32>, String> {
        let all = match self.kind.as_str() {
            "FloatStorage" => each(data, f32::from_le_bytes),
            "DoubleStorage" => each(data, |b| f64::from_le_bytes(b) as f32),
            "HalfStorage" => each(data, |b| f16::from_le_bytes(b).to_f32()),
            "BFloat16Storage" => each(data, |b| bf16::from_le_bytes(b).to_f32()),
            "LongStorage" => each(data, |b| i64::from_le_bytes(b) as f32),
            "IntStorage" => each(data, |b| i32::from_le_bytes(b) as f32),
            "ByteStorage" | "BoolStorage" => each(data, |[b]: [u8; 1]| f32::from(b)),
            other => return Err(format!("no numbers that Squall reads: {other}")),
        };
        Ok(all)
    }
}

impl Rebuilt {
    /// Its values in order among those of its storage, whatever the strides (channels_last weights are not contiguous).
    fn gather(&self, all: &[f32]) -> Result<Vec<f32>, String> {
        if self.strides.len() != self.shape.len() {
            return Err("as many strides as extents are needed".into());
        }
        // Each value takes a step along each of them.
        if self.shape.len() > MOST_AXES {
            return Err(format!(
                "expected at most {MOST_AXES} axes, found {}",
                self.shape.len()
            ));
        }
        let outside = || "it reaches past the end of its storage".to_string();
        let count = (self.shape.iter()).try_fold(1usize, |n, &extent| n.checked_mul(extent));
        // Every value of a weight is stored: a broadcast tensor of absurd size is not a weight.
        let count = count.filter(|&n| n <= all.len()).ok_or_else(outside)?;
        let mut values = Vec::with_capacity(count);
        let mut index = vec![0; self.shape.len()];
        for _ in 0..count {
            let at = (index.iter().zip(&self.strides))
                .try_fold(self.offset, |at, (&i, &stride)| {
                    at.checked_add(stride.checked_mul(i)?)
                });
            values.push(*at.and_then(|at| all.get(at)).ok_or_else(outside)?);
            for (i, &extent) in index.iter_mut().zip(&self.shape).rev() {
                *i += 1;
                if *i < extent {
                    break;
                }
                *i = 0;
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests;
