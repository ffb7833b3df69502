use crate::stand_in_gpu::{Arg, Gpu, Memory, Storage};
use crate::{args, distance, draw, grid, values};
use half::bf16;
use squall_model::optim::{Larc, Mirror, Optimizer, OptimizerConfig, Rounding, Rule, Update};
use squall_model::parameters::Kind;
use squall_model::{Backend, Gradients, Network, NetworkConfig};

const FILE: &str = "optimizer.cu";
const CHUNK: usize = 4096;
const RATE: f32 = 3e-3;

/// A network's parameters: many tensors side by side, some of several chunks.
fn network() -> Network {
    let config = NetworkConfig {
        channels_in: 5,
        width: 0.11,
        blocks: vec![1, 1],
        atrous_rates: vec![2],
        ..NetworkConfig::default()
    };
    Network::build(&config, Backend::Reference, 1).unwrap()
}

/// The tables of `kernels/README.md`, on the GPU.
struct Tables {
    chunk_tensor: Memory,
    chunk_start: Memory,
    tensor_first: Memory,
    tensor_end: Memory,
    chunks: usize,
    tensors: usize,
}

impl Tables {
    fn of(gpu: &Gpu, ends: &[usize]) -> Self {
        let (mut tensor, mut start, mut first) = (Vec::new(), Vec::new(), vec![0i32]);
        let mut at = 0;
        for (index, &end) in ends.iter().enumerate() {
            while at < end {
                tensor.push(index as i32);
                start.push(at as i64);
                at = (at + CHUNK).min(end);
            }
            first.push(tensor.len() as i32);
        }
        let bytes32 = |v: &[i32]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
        let bytes64 = |v: &[i64]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
        let ends64: Vec<i64> = ends.iter().map(|&end| end as i64).collect();
        Self {
            chunk_tensor: gpu.upload_bytes(&bytes32(&tensor)),
            chunk_start: gpu.upload_bytes(&bytes64(&start)),
            tensor_first: gpu.upload_bytes(&bytes32(&first)),
            tensor_end: gpu.upload_bytes(&bytes64(&ends64)),
            chunks: tensor.len(),
            tensors: ends.len(),
        }
    }

    fn args(&self) -> [Arg<'_>; 3] {
        [&self.chunk_tensor, &self.chunk_start, &self.tensor_end].map(Arg::from)
    }

    fn grid(&self) -> [u32; 3] {
        [self.chunks as u32, 1, 1]
    }

    fn per_tensor(&self) -> [u32; 3] {
        [self.tensors as u32, 1, 1]
    }

    /// Σ x² of each tensor.
    fn squares(&self, gpu: &Gpu, x: &Memory) -> Memory {
        let (partial, out) = (gpu.sums(self.chunks), gpu.sums(self.tensors));
        let all = [args![&partial, x], &self.args()[..]].concat();
        gpu.run(FILE, "squares_by_chunk", self.grid(), &all);
        let all = args![&out, &partial, &self.tensor_first, self.tensors as i32];
        gpu.run(FILE, "sums_by_tensor", self.per_tensor(), all);
        out
    }
}

/// A few steps on the host and on the GPU; gives how far values are apart, relative to how far they moved.
fn run(config: &OptimizerConfig, scale: f32) {
    let Some(gpu) = Gpu::open() else { return };
    let mut network = network();
    let ends: Vec<usize> = network.parameters().iter().map(|p| p.range.end).collect();
    let decays = |p: &squall_model::parameters::Parameter| {
        let decays = config.decay_all || p.kind == Kind::Weight;
        if decays { config.weight_decay } else { 0.0 }
    };
    let decay: Vec<f32> = network.parameters().iter().map(decays).collect();
    let count = network.parameters().count();
    let read = |network: &mut Network| {
        network
            .parameters_mut()
            .update_all(|values| values.to_vec())
            .unwrap()
    };
    let start = read(&mut network);
    let mut optimizer = Optimizer::new(config, network.parameters()).unwrap();
    let mut mirror = Mirror::new(network.parameters(), Rounding::Nearest).unwrap();

    let tables = Tables::of(&gpu, &ends);
    let (there, decay) = (gpu.f32s(&start), gpu.f32s(&decay));
    let rates: Vec<f32> = (network.parameters().iter())
        .map(|p| {
            let of_encoder = config
                .rates
                .get("encoder")
                .filter(|_| p.name.starts_with("encoder."));
            of_encoder.copied().unwrap_or(1.0)
        })
        .collect();
    let rates = gpu.f32s(&rates);
    let state: Vec<Memory> = (0..2).map(|_| gpu.f32s(&vec![0.0; count])).collect();
    let direction = gpu.room(count, Storage::F32);
    let copies = gpu.room(count, Storage::F32);
    for step in 1..4u64 {
        let slopes: Vec<f32> = draw(step, count).iter().map(|g| g / scale).collect();
        let mut gradients = Gradients::new(network.parameters());
        gradients.as_mut_slice().copy_from_slice(&slopes);
        let update = Update {
            rate: RATE,
            gradient_scale: scale,
            mirror: Some(&mut mirror),
        };
        let norm_want = optimizer
            .update(network.parameters_mut(), &gradients, update)
            .unwrap();

        let slopes = gpu.f32s(&slopes);
        let [factor, own_decay] = [(); 2].map(|()| gpu.room(ends.len(), Storage::F32));
        let norm = gpu.sums(1);
        let skip = gpu.upload_bytes(&[9; 4]);
        let (of_gradient, of_weights) =
            (tables.squares(&gpu, &slopes), tables.squares(&gpu, &there));
        let larc = config.larc.unwrap_or_default();
        let all = args![
            &factor,
            &own_decay,
            &norm,
            &skip,
            &of_gradient,
            if config.larc.is_some() {
                of_weights.at(0)
            } else {
                Arg::NONE
            },
            &decay,
            ends.len() as i32,
            scale,
            config.clip_norm.unwrap_or(0.0) as f32,
            larc.eta,
            larc.epsilon,
            larc.clip,
            config.rule == Rule::AdamW,
            RATE,
            &rates
        ];
        gpu.run(FILE, "step_factors", [1; 3], all);
        assert_eq!(gpu.download_bytes(&skip), [0; 4]);
        let got = gpu.download_f64(&norm)[0];
        assert!(
            (got / norm_want - 1.0).abs() < 1e-6,
            "{got} instead of {norm_want}"
        );
        let on_gpu = OnGpu {
            gpu: &gpu,
            tables: &tables,
            config,
            step,
            memory: [&there, &slopes, &state[0], &state[1], &direction],
            tables_of: [&own_decay, &factor, &rates],
            skip: &skip,
            mirror: (copies.at(0), 1, 0),
        };
        let squares = on_gpu.step();
        let new = gpu.download(&there, Storage::F32);
        if let Some(squares) = squares {
            let sum: f64 = gpu.download_f64(&squares).iter().sum();
            let want: f64 = new.iter().map(|v| f64::from(*v).powi(2)).sum();
            assert!((sum / want - 1.0).abs() < 1e-9);
        }
        let want = read(&mut network);
        let moved = |to: &[f32]| {
            to.iter()
                .zip(&start)
                .map(|(a, b)| a - b)
                .collect::<Vec<_>>()
        };
        let apart = distance(&moved(&new), &moved(&want));
        assert!(apart < 2e-5, "{config:?} step {step}: {apart}");
        let rounded: Vec<f32> = new.iter().map(|&v| bf16::from_f32(v).to_f32()).collect();
        assert_eq!(gpu.download(&copies, Storage::F32), rounded);
    }
    let [first, second] = optimizer.state().unwrap();
    assert!(distance(&gpu.download(&state[0], Storage::F32), &first) < 2e-5);
    if !second.is_empty() {
        assert!(distance(&gpu.download(&state[1], Storage::F32), &second) < 2e-5);
    }
}

/// What a step on the GPU needs.
struct OnGpu<'a> {
    gpu: &'a Gpu,
    tables: &'a Tables,
    config: &'a OptimizerConfig,
    step: u64,
    /// Values, gradient, both moments, LAMB's direction.
    memory: [&'a Memory; 5],
    /// Of each tensor: decay, factor, what the rate is multiplied by.
    tables_of: [&'a Memory; 3],
    skip: &'a Memory,
    /// Copies, their kind, key.
    mirror: (Arg<'a>, i32, u64),
}

impl OnGpu<'_> {
    /// Gives Σ θ² of each chunk, of rules that write it.
    fn step(&self) -> Option<Memory> {
        let (gpu, config) = (self.gpu, self.config);
        let [values, slopes, first, second, direction] = self.memory;
        let [decay, factor, rates] = self.tables_of;
        let t4 = self.tables.args();
        let (copies, kind, key) = self.mirror;
        let unbias = |beta: f32| (1.0 / (1.0 - f64::from(beta).powf(self.step as f64))) as f32;
        let (beta1, beta2) = (config.beta1, config.beta2);
        let (unbias1, unbias2) = (unbias(beta1), unbias(beta2));
        let squares = gpu.sums(self.tables.chunks);
        let end = args![self.skip, copies, kind, key, &squares];
        match config.rule {
            Rule::Sgd => {
                let more = args![decay, factor, config.momentum, config.nesterov, RATE, rates];
                let all = [args![values, slopes, first], &t4[..], more, end].concat();
                gpu.run(FILE, "sgd_step", self.tables.grid(), &all);
            }
            Rule::Adam | Rule::AdamW => {
                let more = args![
                    decay,
                    factor,
                    beta1,
                    beta2,
                    config.epsilon,
                    unbias1,
                    unbias2,
                    RATE,
                    rates,
                    config.rule == Rule::AdamW
                ];
                let all = [args![values, slopes, first, second], &t4[..], more, end].concat();
                gpu.run(FILE, "adam_step", self.tables.grid(), &all);
            }
            Rule::Lamb => {
                let beta3 = if config.grad_averaging {
                    1.0 - beta1
                } else {
                    1.0
                };
                let partial = gpu.sums(2 * self.tables.chunks);
                let own_rates = gpu.room(self.tables.tensors, Storage::F32);
                let begin = args![direction, &partial, values, slopes, first, second];
                let more = args![
                    decay,
                    factor,
                    beta1,
                    beta2,
                    beta3,
                    config.epsilon,
                    unbias1,
                    unbias2,
                    self.skip
                ];
                let all = [begin, &t4[..], more].concat();
                gpu.run(FILE, "lamb_moments", self.tables.grid(), &all);
                let tensors = self.tables.tensors as i32;
                let all = args![
                    &own_rates,
                    &partial,
                    &self.tables.tensor_first,
                    decay,
                    RATE,
                    rates,
                    tensors
                ];
                gpu.run(FILE, "lamb_rates", self.tables.per_tensor(), all);
                let more = args![&own_rates, self.skip, copies, kind, key];
                let all = [args![values, direction], &t4[..], more].concat();
                gpu.run(FILE, "lamb_apply", self.tables.grid(), &all);
                return None;
            }
        }
        Some(squares)
    }
}

#[test]
fn sgd_is_the_hosts() {
    let momentum = OptimizerConfig {
        rule: Rule::Sgd,
        weight_decay: 0.01,
        ..OptimizerConfig::default()
    };
    let nesterov = OptimizerConfig {
        nesterov: true,
        decay_all: true,
        clip_norm: Some(0.5),
        ..momentum.clone()
    };
    run(&momentum, 1.0);
    run(&nesterov, 0.125);
}

#[test]
fn adam_is_the_hosts() {
    let config = |rule| OptimizerConfig {
        rule,
        weight_decay: 0.02,
        ..OptimizerConfig::default()
    };
    run(&config(Rule::Adam), 1.0);
    run(&config(Rule::AdamW), 1.0 / 1024.0);
}

#[test]
fn larc_is_the_hosts() {
    run(&OptimizerConfig::larc_adam(), 0.25);
    let scale = OptimizerConfig {
        rule: Rule::Sgd,
        larc: Some(Larc {
            clip: false,
            ..Larc::default()
        }),
        ..OptimizerConfig::default()
    };
    run(&scale, 1.0);
    // With decay so large that a step without its part in the local rate would be several times as long.
    for rule in [Rule::Sgd, Rule::Adam, Rule::AdamW] {
        let decaying = OptimizerConfig {
            rule,
            weight_decay: 2.0,
            ..OptimizerConfig::larc_adam()
        };
        run(&decaying, 0.5);
    }
}

#[test]
fn lamb_is_the_hosts() {
    run(&OptimizerConfig::mlperf_deepcam(), 1.0);
    let plain = OptimizerConfig {
        rule: Rule::Lamb,
        grad_averaging: false,
        weight_decay: 0.1,
        ..OptimizerConfig::default()
    };
    run(&plain, 0.5);
}

#[test]
fn rates_of_some_tensors_are_the_hosts() {
    let slower = |config: OptimizerConfig, factor| OptimizerConfig {
        rates: [("encoder".to_string(), factor)].into(),
        ..config
    };
    let sgd = OptimizerConfig {
        rule: Rule::Sgd,
        ..OptimizerConfig::default()
    };
    let decaying = OptimizerConfig {
        weight_decay: 0.1,
        ..OptimizerConfig::default()
    };
    run(&slower(sgd, 0.1), 1.0);
    run(&slower(decaying, 0.0), 1.0);
    run(&slower(OptimizerConfig::larc_adam(), 0.25), 1.0);
    run(&slower(OptimizerConfig::mlperf_deepcam(), 3.0), 1.0);
}

#[test]
fn tensors_that_begin_anywhere() {
    let Some(gpu) = Gpu::open() else { return };
    let (ends, count) = ([4099, 5000, 5001, 13_007, 13_009], 13_009);
    let tables = Tables::of(&gpu, &ends);
    let (start, slopes, speed) = (draw(1, count), draw(2, count), draw(3, count));
    let (decay, factor) = (draw(4, ends.len()), draw(5, ends.len()));
    let of_rate = draw(6, ends.len());
    let config = OptimizerConfig {
        rule: Rule::Sgd,
        momentum: 0.5,
        ..OptimizerConfig::default()
    };
    let [values, velocity] = [&start, &speed].map(|v| gpu.f32s(v));
    let [gradient, decays, factors, rates] =
        [&slopes, &decay, &factor, &of_rate].map(|v| gpu.f32s(v));
    let skip = gpu.upload_bytes(&[0; 4]);
    let copies = gpu.room(count, Storage::F32);
    let on_gpu = OnGpu {
        gpu: &gpu,
        tables: &tables,
        config: &config,
        step: 1,
        memory: [&values, &gradient, &velocity, &velocity, &velocity],
        tables_of: [&decays, &factors, &rates],
        skip: &skip,
        mirror: (copies.at(0), 1, 0),
    };
    let squares = on_gpu.step().map(|squares| gpu.download_f64(&squares));
    let step = |at: usize| {
        let tensor = ends.partition_point(|&end| end <= at);
        let slope = factor[tensor] * slopes[at] + decay[tensor] * start[at];
        start[at] - RATE * of_rate[tensor] * (0.5 * speed[at] + slope)
    };
    let want: Vec<f32> = (0..count).map(step).collect();
    let got = gpu.download(&values, Storage::F32);
    for (at, (got, want)) in got.iter().zip(&want).enumerate() {
        assert!((got - want).abs() < 1e-6, "{at}: {got} instead of {want}");
    }
    let halves: Vec<f32> = got.iter().map(|&v| bf16::from_f32(v).to_f32()).collect();
    assert_eq!(gpu.download(&copies, Storage::F32), halves);
    // One sum for each chunk: 2 of the first tensor, 1 of the next two, 2 of the fourth, 1 of the last.
    let first: f64 = got[..4096].iter().map(|v| f64::from(*v).powi(2)).sum();
    let squares = squares.unwrap();
    assert_eq!(squares.len(), 7);
    assert!((squares[0] / first - 1.0).abs() < 1e-9);
}

#[test]
fn a_step_whose_gradient_overflowed_changes_nothing() {
    let Some(gpu) = Gpu::open() else { return };
    let (ends, count) = ([4099, 5000, 5001], 5001);
    let tables = Tables::of(&gpu, &ends);
    let start = draw(1, count);
    for wrong in [f32::NAN, f32::INFINITY] {
        let mut slopes = draw(2, count);
        slopes[4100] = wrong;
        let slopes = gpu.f32s(&slopes);
        let of_gradient = tables.squares(&gpu, &slopes);
        let [factor, own_decay] = [(); 2].map(|()| gpu.room(3, Storage::F32));
        let norm = gpu.sums(1);
        let [rates, decay] = [1.0, 0.0].map(|value| gpu.f32s(&[value; 3]));
        let skip = gpu.upload_bytes(&[0; 4]);
        let all = args![
            &factor,
            &own_decay,
            &norm,
            &skip,
            &of_gradient,
            Arg::NONE,
            &decay,
            3,
            1.0f32,
            0.0f32,
            0.0f32,
            0.0f32,
            0,
            0,
            RATE,
            &rates
        ];
        gpu.run(FILE, "step_factors", [1; 3], all);
        assert_eq!(gpu.download_bytes(&skip), 1u32.to_le_bytes());
        for rule in [Rule::Sgd, Rule::AdamW, Rule::Lamb] {
            let config = OptimizerConfig {
                rule,
                ..OptimizerConfig::default()
            };
            let memory: Vec<Memory> = (0..4).map(|_| gpu.f32s(&start)).collect();
            let on_gpu = OnGpu {
                gpu: &gpu,
                tables: &tables,
                config: &config,
                step: 1,
                memory: [&memory[0], &slopes, &memory[1], &memory[2], &memory[3]],
                tables_of: [&own_decay, &factor, &rates],
                skip: &skip,
                mirror: (Arg::NONE, 0, 0),
            };
            on_gpu.step();
            for memory in &memory {
                assert_eq!(gpu.download(memory, Storage::F32), start, "{rule:?}");
            }
        }
    }
}

/// The finaliser of SplitMix64, as `optim::Mirror` keys its random bits.
fn mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[test]
fn half_copies_are_the_hosts() {
    let Some(gpu) = Gpu::open() else { return };
    let mut network = network();
    let optimizer = Optimizer::new(&OptimizerConfig::default(), network.parameters()).unwrap();
    let count = network.parameters().count();
    let start = network
        .parameters_mut()
        .update_all(|values| values.to_vec())
        .unwrap();
    let there = gpu.f32s(&start);
    let fill = |kind: i32, key: u64| {
        let copies = gpu.room(count, Storage::F32);
        let all = args![&copies, &there, count as i64, kind, key];
        gpu.run(FILE, "mirror_fill", grid::flat(count), all);
        gpu.download(&copies, Storage::F32)
    };
    for (rounding, kind, key) in [
        (Rounding::Nearest, 1, 0),
        // Before the first step its number is 0.
        (Rounding::Stochastic { seed: 42 }, 2, mix(42 ^ mix(0))),
    ] {
        let mut mirror = Mirror::new(network.parameters(), rounding).unwrap();
        optimizer
            .fill_mirror(network.parameters_mut(), &mut mirror)
            .unwrap();
        let want: Vec<f32> = mirror
            .values()
            .unwrap()
            .iter()
            .map(|v| v.to_f32())
            .collect();
        assert_eq!(fill(kind, key), want, "{rounding:?}");
    }
    assert_eq!(
        values(network.parameters().iter().next().unwrap().tensor()).len(),
        ends_of(&network)
    );
}

fn ends_of(network: &Network) -> usize {
    network.parameters().iter().next().unwrap().range.len()
}

#[test]
fn averages_go_a_share_of_the_way_and_exchanges_move_bits() {
    let Some(gpu) = Gpu::open() else { return };
    // One value, whole packs, packs and a rest in several blocks.
    for count in [1, 8, 4099] {
        let (start, values) = (draw(1, count), draw(2, count));
        let (average, there) = (gpu.f32s(&start), gpu.f32s(&values));
        let share = 0.3f32;
        let all = args![&average, &there, count as i64, share];
        gpu.run(FILE, "average_step", grid::flat(count), all);
        let moved = |(start, value): (&f32, &f32)| start + share * (value - start);
        let want: Vec<f32> = start.iter().zip(&values).map(moved).collect();
        assert_eq!(gpu.download(&average, Storage::F32), want);
        assert_eq!(gpu.download(&there, Storage::F32), values);
        let all = args![&average, &there, count as i64];
        gpu.run(FILE, "exchange_values", grid::flat(count), all);
        assert_eq!(gpu.download(&average, Storage::F32), values);
        assert_eq!(gpu.download(&there, Storage::F32), want);
    }
}
