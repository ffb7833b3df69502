//! Passes that are written down and launched as a whole: the same bits as one operation after the other, and what
//! cannot be written down.
#![cfg(feature = "cuda")]

mod common;
mod gpu_alone;
mod stand_in_gpu;

use candle_core::{DType, Tensor};
use common::{draw, field, values};
use gpu_alone::Device;
use squall_model::detection::{
    BoxTarget, DetectionLossConfig, DetectionTargets, DetectorGradient, MaskTargets,
};
use squall_model::input::{Scaling, Stored, Uploader};
use squall_model::networks::NetworkName;
use squall_model::ops::loss::Criterion;
use squall_model::optim::{Average, Mirror, Optimizer, OptimizerConfig, Rounding, Update};
use squall_model::{
    Backend, Captured, Gradients, Network, NetworkConfig, Pass, Recompute, SavedActivations,
    Storage,
};
use stand_in_gpu::{Deaf, break_capture, graph_memory, graph_memory_reserved, run_late};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const EXTENTS: [usize; 4] = [2, 12, 20, 4];

fn thin(name: NetworkName, blocks: &[usize]) -> NetworkConfig {
    NetworkConfig {
        channels_in: 4,
        width: 0.06,
        blocks: blocks.to_vec(),
        atrous_rates: match name {
            NetworkName::Tiramisu | NetworkName::CgNet => NetworkConfig::of(name).atrous_rates,
            _ => vec![2],
        },
        ..NetworkConfig::of(name)
    }
}

/// A network that learns, with everything that a step leaves.
struct Learner {
    network: Network,
    optimizer: Optimizer,
    gradients: Gradients,
    storage: Storage,
    extents: [usize; 4],
    /// Whether a detector makes its input again.
    reconstruct: bool,
    /// Kernels that the optimiser rounds.
    copies: Option<Mirror>,
    captured: Option<Arc<Captured>>,
}

/// The gradient of what the network gave.
enum Gradient {
    Masks(Tensor),
    Boxes(DetectorGradient),
}

impl Learner {
    fn new(config: &NetworkConfig, storage: &Storage, gpu: Backend) -> Self {
        let network = Network::build(config, gpu, 3).unwrap();
        Self {
            optimizer: Optimizer::new(&OptimizerConfig::default(), network.parameters()).unwrap(),
            gradients: Gradients::new(network.parameters()),
            storage: storage.clone(),
            extents: match network.is_detector() {
                true => [2 * config.frames(), 32, 64, 4],
                false => EXTENTS,
            },
            reconstruct: true,
            copies: None,
            captured: None,
            network,
        }
    }

    /// From now on the optimiser rounds kernels at random.
    fn round_kernels(&mut self) {
        let rounding = Rounding::Stochastic { seed: 7 };
        let mut copies = Mirror::new(self.network.parameters(), rounding).unwrap();
        let parameters = self.network.parameters_mut();
        (self.optimizer.fill_mirror(parameters, &mut copies)).unwrap();
        parameters.compute_with(&copies, &self.storage).unwrap();
        self.copies = Some(copies);
    }

    fn capture(&mut self) -> Result<(), String> {
        self.capture_for(&field(1, self.extents))
    }

    fn capture_for(&mut self, x: &Tensor) -> Result<(), String> {
        let captured = Captured::capture(
            &self.network,
            x,
            &self.storage,
            &mut self.gradients,
            self.reconstruct,
        );
        self.captured = Some(Arc::new(captured.map_err(|error| error.to_string())?));
        Ok(())
    }

    fn fits(&self, captured: &Captured) -> bool {
        let x = field(1, self.extents);
        captured.fits(&self.network, &x, &self.gradients, self.reconstruct)
    }

    /// The loss and the gradient's norm of a step with other fields and labels than any other.
    fn step(&mut self, number: u64) -> [f64; 2] {
        let x = field(10 + number, self.extents);
        if let Some(captured) = &self.captured {
            assert!(self.fits(captured));
        }
        let backend = self.network.backend();
        let mut pass = Pass::train(backend, &self.storage, number).launching(self.captured.clone());
        let (loss, gradient) = match self.network.is_detector() {
            true => self.boxes(&x, number, &mut pass),
            false => self.masks(&x, number, &mut pass),
        };
        self.network.update_running_statistics(&mut pass).unwrap();
        self.gradients.clear();
        let gradients = &mut self.gradients;
        let learnt = match gradient {
            Gradient::Masks(dlogits) => self.network.backward(&dlogits, pass, gradients),
            Gradient::Boxes(gradient) => self.network.backward_detection(gradient, pass, gradients),
        };
        learnt.unwrap();
        let parameters = self.network.parameters_mut();
        let update = Update {
            mirror: self.copies.as_mut(),
            ..Update::rate(1e-3)
        };
        let norm = (self.optimizer).update(parameters, &self.gradients, update);
        if let Some(copies) = &self.copies {
            parameters.compute_with(copies, &self.storage).unwrap();
        }
        [loss, norm.unwrap()]
    }

    fn masks(&self, x: &Tensor, number: u64, pass: &mut Pass) -> (f64, Gradient) {
        let logits = self.network.forward(x, pass).unwrap();
        let labels = self.labels(number);
        let weights = [0.2, 1.0, 0.5];
        let backend = self.network.backend();
        let loss = backend.softmax_cross_entropy(&logits, &labels, &weights, 1.0);
        let loss = loss.unwrap();
        (loss.value(), Gradient::Masks(loss.gradient))
    }

    fn labels(&self, number: u64) -> Vec<u8> {
        let [b, h, w, _] = self.extents;
        let labels = draw(50 + number, b * h * w);
        labels.iter().map(|v| ((v + 1.0) * 1.4) as u8).collect()
    }

    fn boxes(&self, x: &Tensor, number: u64, pass: &mut Pass) -> (f64, Gradient) {
        let output = self.network.detect(x, pass, self.reconstruct).unwrap();
        let target = BoxTarget {
            class: 1,
            y_min: 8.0 + number as f32,
            x_min: 12.0,
            y_max: 15.0 + number as f32,
            x_max: 19.0,
        };
        // The last frame has no labels.
        let mut boxes = vec![Some(vec![target]); output.frames()];
        *boxes.last_mut().unwrap() = None;
        let labels = self.labels(number);
        let masks: Vec<_> = (labels.chunks_exact(labels.len() / self.extents[0]))
            .map(Some)
            .collect();
        let criterion = Criterion::cross_entropy(&[0.2, 1.0, 0.5]);
        let targets = DetectionTargets {
            fields: x,
            boxes: &boxes,
            masks: self.network.gives_masks().then_some(MaskTargets {
                labels: &masks,
                criterion: &criterion,
            }),
        };
        let loss = output.loss(&targets, &DetectionLossConfig::default(), 1.0);
        let loss = loss.unwrap();
        (loss.total, Gradient::Boxes(loss.gradient))
    }

    /// The logits of a forward pass that nothing follows.
    fn look(&self) -> Vec<f32> {
        let mut pass = Pass::train(self.network.backend(), self.storage.clone(), 99)
            .launching(self.captured.clone());
        let logits = self
            .network
            .forward(&field(77, EXTENTS), &mut pass)
            .unwrap();
        values(&self.network.backend().to_host(&logits).unwrap())
    }

    /// All values of the network, running statistics among them.
    fn values(&self) -> Vec<Vec<f32>> {
        let named = self.network.parameters().to_named().unwrap();
        named.into_values().map(|(_, values)| values).collect()
    }
}

/// Six steps, the last four of which are launched as a whole, against six that are not.
fn agree(config: &NetworkConfig, storage: &Storage, gpu: Backend) {
    let what = format!("{} {storage:?}", config.name.as_str());
    let mut plain = Learner::new(config, storage, gpu);
    let mut whole = Learner::new(config, storage, gpu);
    for number in 0..6 {
        if number == 2 {
            let captured = whole.capture();
            captured.unwrap_or_else(|why| panic!("{what}: {why}"));
        }
        assert_eq!(plain.step(number), whole.step(number), "{what}");
    }
    assert!(plain.values() == whole.values(), "{what}");
}

#[test]
fn passes_launched_as_a_whole_learn_the_same_bits() {
    let Some(device) = Device::open() else { return };
    let gpu = device.backend;
    let deeplab = thin(NetworkName::DeepLabV3Plus, &[1, 1]);
    let networks = [
        thin(NetworkName::DeepCam, &[1]),
        NetworkConfig {
            batch_norm: false,
            ..thin(NetworkName::DeepLabV3PlusDeconv, &[1, 1])
        },
        thin(NetworkName::DeepLabV3PlusBilinear, &[1, 1]),
        NetworkConfig {
            latitude_input: true,
            ..deeplab.clone()
        },
        NetworkConfig {
            periodic_latitude: true,
            ..thin(NetworkName::CgNet, &[2, 2])
        },
        NetworkConfig {
            dropout: 0.2,
            ..thin(NetworkName::Tiramisu, &[1, 2, 2])
        },
    ];
    for config in &networks {
        agree(config, &DType::F32.into(), gpu);
    }
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        agree(&deeplab, &dtype.into(), gpu);
    }
    for recompute in [Recompute::Norms, Recompute::Blocks] {
        let storage = Storage::from(DType::F32).keeping(recompute, SavedActivations::Bf16);
        agree(&deeplab, &storage, gpu);
    }
    // What is computed again drops the same values.
    let tiramisu = &networks[networks.len() - 1];
    let storage = Storage::from(DType::F32).keeping(Recompute::Blocks, SavedActivations::Same);
    agree(tiramisu, &storage, gpu);
}

/// The loss, which decides boxes on the host, lies between the graphs.
#[test]
fn detectors_launched_as_a_whole_learn_the_same_bits() {
    let Some(device) = Device::open() else { return };
    let gpu = device.backend;
    let tiny = |name, blocks: &[usize]| NetworkConfig {
        channels_in: 4,
        width: 0.05,
        blocks: blocks.to_vec(),
        ..NetworkConfig::of(name)
    };
    let flat = tiny(NetworkName::Detector2d, &[2]);
    let over_time = NetworkConfig {
        time_steps: 3,
        ..tiny(NetworkName::Detector3d, &[2])
    };
    let dense = NetworkConfig {
        mask_classes: 3,
        ..thin(NetworkName::DetectorDense, &[1, 1])
    };
    for config in [&flat, &over_time, &dense] {
        agree(config, &DType::F32.into(), gpu);
    }
    agree(&flat, &DType::BF16.into(), gpu);
    // Those that make the input again are others than those that do not.
    let mut learner = Learner::new(&flat, &DType::F32.into(), gpu);
    learner.step(0);
    learner.capture().unwrap();
    let captured = learner.captured.take().unwrap();
    assert!(learner.fits(&captured));
    learner.reconstruct = false;
    assert!(!learner.fits(&captured));
}

/// They are rounded where the graphs read them.
#[test]
fn passes_launched_as_a_whole_see_kernels_as_each_step_rounds_them() {
    let Some(device) = Device::open() else { return };
    let config = thin(NetworkName::DeepLabV3Plus, &[1, 1]);
    let learner = || Learner::new(&config, &DType::BF16.into(), device.backend);
    let (mut nearest, mut plain, mut whole) = (learner(), learner(), learner());
    plain.round_kernels();
    whole.round_kernels();
    nearest.step(0);
    plain.step(0);
    whole.step(0);
    whole.capture().unwrap();
    for number in 1..4 {
        let losses = plain.step(number);
        assert_eq!(losses, whole.step(number));
        assert_ne!(losses, nearest.step(number));
    }
    assert!(plain.values() == whole.values());
    // What was written down before kernels were rounded reads others.
    nearest.capture().unwrap();
    nearest.round_kernels();
    let captured = nearest.captured.take().unwrap();
    assert!(!nearest.fits(&captured));
}

/// Averages take the place of parameters where those lie, and leave it again.
#[test]
fn passes_launched_as_a_whole_go_on_after_the_average_was_judged() {
    let Some(device) = Device::open() else { return };
    let config = thin(NetworkName::DeepLabV3Plus, &[1, 1]);
    let storage = Storage::from(DType::F32);
    let learner = || Learner::new(&config, &storage, device.backend);
    let (mut plain, mut whole) = (learner(), learner());
    let mut average = Average::new(0.5, whole.network.parameters()).unwrap();
    let judge = |network: &Network| {
        let logits = network.infer(&field(77, EXTENTS), DType::F32).unwrap();
        values(&device.backend.to_host(&logits).unwrap())
    };
    for number in 0..5 {
        if number == 2 {
            whole.capture().unwrap();
        }
        assert_eq!(plain.step(number), whole.step(number));
        average.update(whole.network.parameters()).unwrap();
        let own = judge(&whole.network);
        average.exchange(whole.network.parameters_mut()).unwrap();
        assert!(judge(&whole.network) != own);
        average.exchange(whole.network.parameters_mut()).unwrap();
        assert!(judge(&whole.network) == own);
    }
    assert!(plain.values() == whole.values());
}

/// Nothing rests on the GPU having done what was put on its stream.
#[test]
fn a_stream_that_runs_late_gives_the_same_bits() {
    let Some(device) = Device::open() else { return };
    let gpu = device.backend;
    let Some(folder) = device.stand_in() else {
        return;
    };
    assert_eq!(run_late(folder, "all", Deaf::Nothing), 0);
    let dropout = NetworkConfig {
        dropout: 0.2,
        ..thin(NetworkName::DeepLabV3Plus, &[1, 1])
    };
    agree(&dropout, &DType::BF16.into(), gpu);
    let detector = NetworkConfig {
        channels_in: 4,
        width: 0.05,
        blocks: vec![2],
        ..NetworkConfig::of(NetworkName::Detector2d)
    };
    agree(&detector, &DType::BF16.into(), gpu);
    assert_eq!(run_late(folder, "others", Deaf::Nothing), 0);
}

/// Each refusal names what is in the way, and the network learns on as if it had not been tried.
#[test]
fn what_cannot_be_written_down_is_named_and_nothing_is_lost() {
    let Some(device) = Device::open() else { return };
    let gpu = device.backend;
    let deeplab = thin(NetworkName::DeepLabV3Plus, &[1, 1]);
    let latitude = NetworkConfig {
        latitude_input: true,
        ..deeplab.clone()
    };
    let cases = [
        (&latitude, "a copy from the host"),
        (&deeplab, "looking for an algorithm"),
    ];
    for (config, why) in cases {
        let mut plain = Learner::new(config, &DType::F32.into(), gpu);
        let mut tried = Learner::new(config, &DType::F32.into(), gpu);
        // Extents of no other test: nothing is chosen for them.
        let x = field(1, [1, 20, 36, 4]);
        let told = tried.capture_for(&x).unwrap_err();
        assert!(told.contains(why), "{told}");
        for number in 0..3 {
            assert_eq!(plain.step(number), tried.step(number), "{why}");
        }
        assert!(plain.values() == tried.values(), "{why}");
    }
}

/// What was written down is of one network where it lies, one shape, one buffer of gradients.
#[test]
fn passes_of_another_network_or_shape_do_not_fit() {
    let Some(device) = Device::open() else { return };
    let gpu = device.backend;
    let config = thin(NetworkName::DeepLabV3Plus, &[1, 1]);
    let mut learner = Learner::new(&config, &DType::F32.into(), gpu);
    learner.step(0);
    learner.capture().unwrap();
    let captured = learner.captured.take().unwrap();
    let x = field(1, EXTENTS);
    let other = Learner::new(&config, &DType::F32.into(), gpu);
    assert!(captured.fits(&learner.network, &x, &learner.gradients, true));
    assert!(!captured.fits(&other.network, &x, &learner.gradients, true));
    assert!(!captured.fits(&learner.network, &x, &other.gradients, true));
    let shorter = field(1, [1, 12, 20, 4]);
    assert!(!captured.fits(&learner.network, &shorter, &learner.gradients, true));
}

/// A call that the driver refuses in the middle: the network learns on as if nothing had been tried, and can be written
/// down later.
#[test]
fn a_failed_capture_changes_nothing() {
    let Some(device) = Device::open() else { return };
    let Some(folder) = device.stand_in() else {
        return;
    };
    let config = thin(NetworkName::DeepLabV3Plus, &[1, 1]);
    let mut plain = Learner::new(&config, &DType::F32.into(), device.backend);
    let mut tried = Learner::new(&config, &DType::F32.into(), device.backend);
    let mut number = 0;
    let mut both = |tried: &mut Learner| {
        assert_eq!(plain.step(number), tried.step(number), "step {number}");
        number += 1;
    };
    both(&mut tried);
    // At once, in the forward pass, in the backward pass.
    for after in [1, 40, 400] {
        break_capture(folder, after);
        let told = tried.capture().unwrap_err();
        // By the driver's name, or by cuDNN's where it is cuDNN that meets it.
        let names = ["CAPTURE", "CUDNN_STATUS_EXECUTION_FAILED"];
        assert!(names.iter().any(|name| told.contains(name)), "{told}");
        break_capture(folder, 0);
        both(&mut tried);
    }
    tried.capture().unwrap();
    both(&mut tried);
    both(&mut tried);
    assert!(plain.values() == tried.values());
}

/// A loss that is no number has no backward pass: what the forward pass left is gone with the next one.
#[test]
fn a_forward_pass_may_have_no_backward_pass() {
    let Some(device) = Device::open() else { return };
    let config = thin(NetworkName::DeepLabV3Plus, &[1, 1]);
    let mut plain = Learner::new(&config, &DType::F32.into(), device.backend);
    let mut whole = Learner::new(&config, &DType::F32.into(), device.backend);
    for number in 0..5 {
        if number == 1 {
            whole.capture().unwrap();
        }
        if number == 3 {
            let [a, b] = [&plain, &whole].map(Learner::look);
            assert!(a == b);
        }
        assert_eq!(plain.step(number), whole.step(number), "step {number}");
    }
}

/// Gradients are those of the forward pass that they belong to, or there are none.
#[test]
fn the_backward_pass_of_an_earlier_forward_pass_is_refused() {
    let Some(device) = Device::open() else { return };
    let config = thin(NetworkName::DeepLabV3Plus, &[1, 1]);
    let mut learner = Learner::new(&config, &DType::F32.into(), device.backend);
    learner.step(0);
    learner.capture().unwrap();
    let x = field(1, EXTENTS);
    let Learner {
        network,
        gradients,
        storage,
        captured,
        ..
    } = &mut learner;
    let pass = || Pass::train(device.backend, storage.clone(), 1).launching(captured.clone());
    let (mut first, mut second) = (pass(), pass());
    let logits = network.forward(&x, &mut first).unwrap();
    network.forward(&x, &mut second).unwrap();
    let refused = network.backward(&logits, first, gradients).unwrap_err();
    assert!(refused.to_string().contains("earlier"), "{refused}");
    network.backward(&logits, second, gradients).unwrap();
    // Nor without any.
    let refused = network.backward(&logits, pass(), gradients).unwrap_err();
    assert!(refused.to_string().contains("earlier"), "{refused}");
}

/// What launches took is given back when the passes are.
#[test]
fn nothing_is_held_when_the_passes_are_gone() {
    let Some(device) = Device::open() else { return };
    let Some(folder) = device.stand_in() else {
        return;
    };
    let config = thin(NetworkName::DeepLabV3Plus, &[1, 1]);
    let mut learner = Learner::new(&config, &DType::F32.into(), device.backend);
    learner.step(0);
    for number in 1..4 {
        learner.capture().unwrap();
        learner.step(number);
        // Logits and statistics.
        let held = graph_memory(folder);
        assert!(held > 0 && held < 1 << 20, "{held} bytes");
        learner.captured = None;
        device.backend.wait().unwrap();
        assert_eq!(graph_memory(folder), 0);
    }
}

/// Too little memory would show when the passes are written down, and not in the middle of a step.
#[test]
fn both_passes_have_their_memory_before_they_are_launched() {
    let Some(device) = Device::open() else { return };
    let Some(folder) = device.stand_in() else {
        return;
    };
    let config = thin(NetworkName::DeepLabV3Plus, &[1, 1]);
    let mut learner = Learner::new(&config, &DType::F32.into(), device.backend);
    learner.step(0);
    learner.capture().unwrap();
    let reserved = graph_memory_reserved(folder);
    assert!(reserved > graph_memory(folder));
    learner.step(1);
    assert_eq!(graph_memory_reserved(folder), reserved);
}

/// Threads that bring fields end, and give back their memory, at any time.
#[test]
fn fields_come_and_go_while_passes_are_written_down() {
    let Some(device) = Device::open() else { return };
    let config = thin(NetworkName::DeepLabV3Plus, &[1, 1]);
    let mut learner = Learner::new(&config, &DType::F32.into(), device.backend);
    learner.step(0);
    let scaling = Scaling {
        subtract: vec![0.0; 4],
        factor: vec![1.0; 4],
        fill: vec![0.0; 4],
    };
    let uploaders = (0..60).map(|_| {
        let made = Uploader::of(device.backend, Stored::F32, std::slice::from_ref(&scaling));
        made.unwrap().unwrap()
    });
    let uploaders: Vec<_> = uploaders.collect();
    device.backend.wait().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for uploader in uploaders {
                drop(uploader.send(&[0; 4 * 4 * 60]).unwrap());
                drop(uploader);
                std::thread::yield_now();
            }
            over.store(true, Ordering::Relaxed);
        });
        let mut times = 0;
        while times < 3 || !over.load(Ordering::Relaxed) {
            learner.capture().unwrap();
            times += 1;
        }
    });
    learner.step(1);
}
