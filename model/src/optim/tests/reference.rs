//! Every rule against plain loops in f64 that say what it is.

use super::*;

/// One tensor of the reference: values, moments, weight decay, and what its rate is multiplied by.
#[derive(Clone)]
struct Tensor {
    w: Vec<f64>,
    m: Vec<f64>,
    v: Vec<f64>,
    decay: f64,
    slower: f64,
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// What LARC multiplies a tensor's gradient and the decay beside it by, from the norms of tensor and gradient.
fn larc_factor(larc: &Larc, w: f64, g: f64, decay: f64, rate: f64) -> f64 {
    let local = if w > 0.0 && g > 0.0 {
        f64::from(larc.eta) * w / (g + decay * w)
    } else {
        f64::from(larc.epsilon)
    };
    if larc.clip {
        local.min(rate) / rate
    } else {
        local
    }
}

/// What LAMB multiplies a tensor's direction by, from the norms of tensor and direction.
fn lamb_trust(w: f64, u: f64, decay: f64) -> f64 {
    if decay != 0.0 && w > 0.0 && u > 0.0 {
        w / u
    } else {
        1.0
    }
}

/// Step `t` (from 1) of all tensors, as the papers write it.
fn reference(
    config: &OptimizerConfig,
    tensors: &mut [Tensor],
    gradients: &[Vec<f64>],
    rate: f64,
    t: i32,
) {
    let (beta1, beta2, epsilon, mu) = (
        f64::from(config.beta1),
        f64::from(config.beta2),
        f64::from(config.epsilon),
        f64::from(config.momentum),
    );
    let whole = norm(&gradients.concat());
    let clip = config
        .clip_norm
        .map_or(1.0, |limit| (limit / whole).min(1.0));
    let correct = |beta: f64| {
        if config.bias_correction {
            1.0 - beta.powi(t)
        } else {
            1.0
        }
    };
    for (tensor, gradient) in tensors.iter_mut().zip(gradients) {
        let rate = rate * tensor.slower;
        let g: Vec<f64> = gradient.iter().map(|g| g * clip).collect();
        let decay = tensor.decay;
        let l2 = match config.rule {
            Rule::Sgd | Rule::Adam => decay,
            Rule::AdamW | Rule::Lamb => 0.0,
        };
        let factor = config.larc.as_ref().map_or(1.0, |larc| {
            larc_factor(larc, norm(&tensor.w), norm(&g), l2, rate)
        });
        let mut direction = vec![0.0; g.len()];
        for i in 0..g.len() {
            let (w, m, v) = (&mut tensor.w[i], &mut tensor.m[i], &mut tensor.v[i]);
            let g = factor * (g[i] + l2 * *w);
            match config.rule {
                Rule::Sgd => {
                    *m = mu * *m + g;
                    *w -= rate * if config.nesterov { g + mu * *m } else { *m };
                }
                Rule::Adam | Rule::AdamW => {
                    *m = beta1 * *m + (1.0 - beta1) * g;
                    *v = beta2 * *v + (1.0 - beta2) * g * g;
                    let step = (*m / correct(beta1)) / ((*v / correct(beta2)).sqrt() + epsilon);
                    let shrink = if config.rule == Rule::AdamW {
                        decay * *w
                    } else {
                        0.0
                    };
                    *w -= rate * (step + shrink);
                }
                Rule::Lamb => {
                    *m = beta1 * *m
                        + if config.grad_averaging {
                            1.0 - beta1
                        } else {
                            1.0
                        } * g;
                    *v = beta2 * *v + (1.0 - beta2) * g * g;
                    direction[i] = (*m / correct(beta1)) / ((*v / correct(beta2)).sqrt() + epsilon)
                        + decay * *w;
                }
            }
        }
        if config.rule == Rule::Lamb {
            let trust = lamb_trust(norm(&tensor.w), norm(&direction), decay);
            tensor
                .w
                .iter_mut()
                .zip(&direction)
                .for_each(|(w, u)| *w -= rate * trust * u);
        }
    }
}

#[test]
fn every_rule_is_what_plain_loops_say() {
    for config in configs() {
        let mut parameters = network(&SIZES, 3);
        let mut optimizer = Optimizer::new(&config, &parameters).unwrap();
        let mut tensors: Vec<Tensor> = parameters
            .iter()
            .map(|p| {
                let w: Vec<f32> = p.tensor().flatten_all().unwrap().to_vec1().unwrap();
                let decays = config.decay_all || p.kind == Kind::Weight;
                let slower = (config.rates.get("p3")).filter(|_| p.name == "p3.weight");
                Tensor {
                    slower: slower.map_or(1.0, |factor| f64::from(*factor)),
                    m: vec![0.0; w.len()],
                    v: vec![0.0; w.len()],
                    w: w.into_iter().map(f64::from).collect(),
                    decay: if decays {
                        f64::from(config.weight_decay)
                    } else {
                        0.0
                    },
                }
            })
            .collect();
        let start: Vec<f64> = tensors.iter().flat_map(|t| t.w.clone()).collect();
        for t in 1..=4 {
            let fresh = gradients(&parameters, t);
            let split: Vec<Vec<f64>> = (parameters.iter())
                .map(|p| {
                    fresh.as_slice()[p.range.clone()]
                        .iter()
                        .map(|&g| f64::from(g))
                        .collect()
                })
                .collect();
            let rate = 0.01 / t as f32;
            let found = optimizer.step(&mut parameters, &fresh, rate).unwrap();
            assert_relative_eq!(found, norm(&split.concat()), max_relative = 1e-12);
            reference(&config, &mut tensors, &split, f64::from(rate), t as i32);
        }
        let expected: Vec<f64> = tensors.iter().flat_map(|t| t.w.clone()).collect();
        let got = values(&mut parameters);
        let moved = norm(
            &expected
                .iter()
                .zip(&start)
                .map(|(a, b)| a - b)
                .collect::<Vec<_>>(),
        );
        let off = norm(
            &expected
                .iter()
                .zip(&got)
                .map(|(a, &b)| a - f64::from(b))
                .collect::<Vec<_>>(),
        );
        // Each of the four steps rounds every value to f32 (6e-8 of about 0.5), small steps lose more of their length.
        let rounding = 4.0 * 3e-8 * (got.len() as f64).sqrt();
        assert!(
            moved > 0.0 && off < 1e-5 * moved + rounding,
            "{config:?}: off {off} of {moved}"
        );
    }
}
