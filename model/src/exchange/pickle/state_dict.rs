//! Finds the dictionary of a pickle that holds the weights, and describes its other contents.

use super::rebuilt::class_name;
use candle_core::pickle::Object;

/// The keys under which training scripts store weights, most likely first.
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

/// The maximum number of keys listed in a message, and of characters of each.
const MOST_NAMED: usize = 12;
const LONGEST_NAME: usize = 100;

/// Keys and values of a dictionary.
pub(super) type Pairs = Vec<(Object, Object)>;

/// The dictionary of tensors: the most likely one inside the root, or the root itself.
pub(super) fn state_dict(root: Object, notes: &mut Vec<String>) -> Result<Pairs, String> {
    let Object::Dict(mut pairs) = root else {
        return Err(
            "expected a dictionary of weights, found another object; save `model.state_dict()`, not the model".into(),
        );
    };
    // Tensors beside the weights' dictionary are not weights: a loss, or a random generator's state.
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

/// The index of the dictionary that holds the weights, unless these pairs are the weights themselves.
fn weights_in(pairs: &[(Object, Object)]) -> Result<Option<usize>, String> {
    match likeliest(pairs) {
        Some(at) => Ok(Some(at)),
        None => stored_before(pairs),
    }
}

/// The index of the most likely dictionary of tensors.
fn likeliest(pairs: &[(Object, Object)]) -> Option<usize> {
    let holds = |key: &str| {
        let is_it = |(name, value): &(Object, Object)| name_of(name) == key && holds_tensors(value);
        pairs.iter().position(is_it)
    };
    KEYS.into_iter().find_map(holds)
}

/// The index of the weights if an empty dictionary has a likely name. If a file stores one dictionary twice, candle
/// returns the second reference as it was before it was filled.
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
    // Other dictionaries may be nested deeper, and may be the ones that are stored twice.
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

/// The number of dictionaries that hold only tensors, in an object including itself.
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

/// Whether it is a dictionary that holds only tensors.
fn holds_only_tensors(object: &Object) -> bool {
    let Object::Dict(pairs) = object else {
        return false;
    };
    // PyTorch's module versions are ignored.
    let mut entries = (pairs.iter()).filter(|(key, _)| name_of(key) != "_metadata");
    !pairs.is_empty() && entries.all(|(_, value)| is_tensor(value))
}

/// Whether it is a dictionary that holds tensors, directly or in nested dictionaries.
fn holds_tensors(object: &Object) -> bool {
    match object {
        Object::Dict(pairs) => {
            (pairs.iter()).any(|(_, value)| is_tensor(value) || holds_tensors(value))
        }
        _ => false,
    }
}

/// The first keys, for a message.
fn names_of(pairs: &[(Object, Object)]) -> String {
    let names = pairs.iter().take(MOST_NAMED).map(|(key, _)| name_of(key));
    let mut names: Vec<String> = names.collect();
    if pairs.len() > names.len() {
        names.push(format!("{} more", pairs.len() - names.len()));
    }
    names.join(", ")
}

/// A key, truncated for a message.
fn name_of(key: &Object) -> String {
    match key {
        Object::Unicode(name) => name.chars().take(LONGEST_NAME).collect(),
        other => describe(other),
    }
}

/// A short description of an object, which itself may be longer than the file.
pub(super) fn describe(object: &Object) -> String {
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

/// The first constructor of an unsupported kind of tensor in an object.
fn other_tensor(object: &Object) -> Option<&str> {
    match object {
        Object::Reduce { callable, .. } if !is_tensor(object) => {
            class_name(callable).filter(|name| name.starts_with("_rebuild_"))
        }
        Object::Dict(pairs) => pairs.iter().find_map(|(_, value)| other_tensor(value)),
        _ => None,
    }
}
