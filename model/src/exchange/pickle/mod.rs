//! PyTorch's file format since version 1.6: a zip archive with a pickle of the structure and one entry per storage.
//!
//! candle parses the pickle itself, after `protocols` has translated it to protocol 2. The contents (which dictionary
//! holds the weights, strides, data types) are interpreted here, because candle skips what it cannot read.
//!
//! # Not done
//! Whole pickled modules (`torch.save(model)`), which need the Python classes; sparse and quantised tensors.

mod protocols;
mod rebuilt;
mod state_dict;
mod unpickle;

use super::{Weights, bad_file};
use crate::parameters::NamedTensors;
use candle_core::pickle::Object;
use rebuilt::{Rebuilt, Storage, rebuild};
use state_dict::{Pairs, describe, state_dict};
use std::io::{Cursor, Read};
use std::path::Path;
use unpickle::unpickle;

/// The maximum number of tensor values per byte of the file. Several tensors may share a storage; a further reference
/// takes 200 bytes in the file and no memory until it is copied. One set of weights for all of twelve layers needs
/// three values per byte. The bytes of storages count as well, because several may refer to the same part of the file.
const VALUES: usize = 16;

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
        // Python would keep the later entry, but candle has lost the order.
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
        edited: false,
        notes,
    })
}

/// The tensors of a dictionary by name. Those of one storage are adjacent, so that it is read and converted once.
fn described(state: Pairs) -> Result<Vec<(String, Rebuilt)>, String> {
    let mut all = Vec::with_capacity(state.len());
    for (key, value) in state {
        let Object::Unicode(name) = key else {
            return Err(format!("expected names as keys, found {}", describe(&key)));
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

#[cfg(test)]
mod tests;
