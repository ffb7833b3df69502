//! A tensor as described by a pickle: the location and layout of its values.

use super::state_dict::describe;
use crate::exchange::safetensors::each;
use candle_core::pickle::Object;
use half::{bf16, f16};

/// An upper limit on axes; PyTorch's own operations allow 64.
const MOST_AXES: usize = 64;

/// The name of a class.
pub(super) fn class_name(object: &Object) -> Option<&str> {
    match object {
        Object::Class { class_name, .. } => Some(class_name),
        _ => None,
    }
}

/// A storage, which several tensors may share.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Storage {
    /// The class name, such as `FloatStorage`.
    kind: String,
    /// The archive entry that holds it.
    pub key: String,
}

/// A tensor as described by the pickle.
pub(super) struct Rebuilt {
    pub storage: Storage,
    /// The offset of its first value in the storage, in values.
    offset: usize,
    pub shape: Vec<usize>,
    /// Strides along each axis, in values.
    strides: Vec<usize>,
}

/// Whether this is the class of plain tensors or parameters.
fn is_plain(class: Option<&Object>) -> bool {
    matches!(class.and_then(class_name), Some("Tensor" | "Parameter"))
}

/// Interprets `torch._utils._rebuild_tensor_v2(storage, offset, size, stride, ...)`.
pub(super) fn rebuild(object: Object) -> Result<Rebuilt, String> {
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
        // A tensor with attributes: (function, class, arguments, attributes).
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
        other => {
            return Err(format!(
                "expected a whole number, found {}",
                describe(other)
            ));
        }
    };
    usize::try_from(number).map_err(|_| format!("expected a whole number, found {number}"))
}

fn wholes(object: Object) -> Result<Vec<usize>, String> {
    match object {
        Object::Tuple(items) => items.iter().map(whole).collect(),
        other => Err(format!("expected extents, found {}", describe(&other))),
    }
}

impl Storage {
    /// The values as f32.
    pub fn numbers(&self, data: &[u8]) -> Result<Vec<f32>, String> {
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
    /// The values in row-major order, for any strides (channels_last weights are not contiguous).
    pub fn gather(&self, all: &[f32]) -> Result<Vec<f32>, String> {
        if self.strides.len() != self.shape.len() {
            return Err("as many strides as extents are needed".into());
        }
        // Limited, because the gather loop costs time per axis and value.
        if self.shape.len() > MOST_AXES {
            return Err(format!(
                "expected at most {MOST_AXES} axes, found {}",
                self.shape.len()
            ));
        }
        let outside = || "it reaches past the end of its storage".to_string();
        let count = (self.shape.iter()).try_fold(1usize, |n, &extent| n.checked_mul(extent));
        // Every value of a weight is stored, so a broadcast tensor that exceeds its storage is not a weight.
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
