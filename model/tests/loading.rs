//! What goes on from a checkpoint holds it once: where it belongs.

use squall_model::optim::{Optimizer, OptimizerConfig};
use squall_model::{Backend, ModelError, ModelFile, Network, NetworkConfig, StoredFile};

/// Of this process, in bytes; none where the system does not say.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(1024 * kilobytes)
}

fn network(seed: u64) -> Network {
    let config = NetworkConfig::of("tiramisu".parse().unwrap());
    Network::build(&config, Backend::Reference, seed).unwrap()
}

/// One test, because peaks are of the whole process.
#[test]
fn tensors_go_to_where_they_belong_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    let (saved, mut resumed) = (network(1), network(2));
    let optimizer = |network: &Network| {
        Optimizer::new(&OptimizerConfig::default(), network.parameters()).unwrap()
    };
    let (state, mut restored) = (optimizer(&saved), optimizer(&resumed));
    let mut contents = saved.parameters().lend();
    state.lend_to(&mut contents).unwrap();
    contents.write(&path).unwrap();
    drop(contents);

    let master = (resumed.parameters().iter().next()).map(|p| p.tensor().clone());
    let moments = |of: &Optimizer| of.state().unwrap().map(|values| values.as_ptr());
    let places = moments(&restored);
    let before = peak_memory();
    let file = StoredFile::open(&path).unwrap();
    resumed.parameters_mut().load(&path, &file).unwrap();
    restored.load_from(&path, &file.facts, &file).unwrap();
    let after = peak_memory();

    let bytes = 4 * saved.parameters().count() as u64;
    if let (Some(before), Some(after)) = (before, after) {
        // The moments are touched for the first time. With the file and its tensors beside them it was eight times that of
        // the parameters and more.
        let taken = after - before;
        assert!(taken < 3 * bytes, "{taken} bytes for parameters of {bytes}");
    }
    assert_eq!(moments(&restored), places);
    let values = |network: &Network| network.parameters().to_named().unwrap();
    assert!(values(&resumed) == values(&saved));
    // Whoever holds a parameter sees its new values.
    let seen = master.unwrap().flatten_all().unwrap().to_vec1::<f32>();
    let first = saved.parameters().iter().next().unwrap();
    assert!(seen.unwrap() == first.values().unwrap());
    refuses_what_does_not_fit(&mut resumed, &mut restored);
}

/// Shapes are looked at before any value is replaced.
fn refuses_what_does_not_fit(network: &mut Network, optimizer: &mut Optimizer) {
    let path = std::path::Path::new("here");
    let before = network.parameters().to_named().unwrap();
    let mut file = ModelFile {
        tensors: before.clone(),
        ..ModelFile::default()
    };
    optimizer.save_into(&mut file).unwrap();
    for (_, values) in file.tensors.values_mut() {
        values.iter_mut().for_each(|value| *value += 1.0);
    }
    let last = network
        .parameters()
        .iter()
        .next_back()
        .unwrap()
        .name
        .clone();
    let buffer = network.parameters().buffers().last();
    let buffer = buffer.map(|buffer| buffer.name.clone());
    for name in buffer.into_iter().chain([last.clone()]) {
        let mut other = file.clone();
        other.tensors.remove(&name);
        let error = (network.parameters_mut().load(path, &other.tensors)).unwrap_err();
        assert!(matches!(error, ModelError::MissingWeight { .. }), "{error}");
        assert!(network.parameters().to_named().unwrap() == before, "{name}");
    }
    let moment = file.tensors.get_mut(&format!("optimizer.second.{last}"));
    moment.unwrap().0.push(1);
    let state = optimizer.state().unwrap().map(|values| values.to_vec());
    let error = (optimizer.load_from(path, &file.facts, &file.tensors)).unwrap_err();
    assert!(matches!(error, ModelError::WeightShape { .. }), "{error}");
    assert!(optimizer.state().unwrap().map(|values| values.to_vec()) == state);
}
