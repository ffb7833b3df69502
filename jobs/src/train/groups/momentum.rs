//! The momentum of the servers' optimiser: less than the recipe's, because asynchrony acts like momentum.

use crate::recipe::{Momentum, MomentumRule};
use squall_model::optim::{OptimizerConfig, Rule};

/// The implicit momentum of asynchrony. With G groups, each update carries a gradient of older parameters, and on
/// average parameters move as if SGD had momentum 1 - 1 / G.
///
/// # Source
/// Mitliagkas et al. 2016 (arXiv:1605.09774), theorem 3 (queues of equal workers); Hadjis et al. 2016
/// (arXiv:1606.04487) section IV.
pub fn implicit(groups: usize) -> f64 {
    1.0 - 1.0 / groups.max(1) as f64
}

/// The explicit momentum that adds up to `total` with the [`implicit`] one; 0 if the implicit one is already larger, in
/// which case fewer groups would need fewer steps.
///
/// # Source
/// Hadjis et al. 2016 (arXiv:1606.04487): explicit and implicit momentum add up, and the optimal sum does not depend on
/// the number of groups.
pub fn explicit(total: f32, groups: usize) -> f32 {
    (f64::from(total) - implicit(groups)).max(0.0) as f32
}

/// The servers' optimiser, and the factor on the learning rate of a group.
///
/// It is the recipe's optimiser with another momentum (SGD) or beta1 (Adam, AdamW, LAMB); the theory covers SGD. With
/// momentum m a gradient eventually moves SGD's parameters by rate / (1 - m): if the rule reduces momentum, the rate
/// grows so that a gradient has the same total effect as in synchronous training. The averages of Adam and LAMB have
/// the same length for any beta1.
///
/// Gradients arrive at servers already clipped, because only a group knows the norm of its whole gradient.
pub fn of_servers(
    config: &OptimizerConfig,
    momentum: Option<Momentum>,
    groups: usize,
) -> (OptimizerConfig, f32) {
    let change = |total: f32| match momentum {
        None => total,
        Some(Momentum::Is(momentum)) => momentum,
        Some(Momentum::As(MomentumRule::Tuned)) => explicit(total, groups),
    };
    let mut changed = OptimizerConfig {
        clip_norm: None,
        ..config.clone()
    };
    let mut faster = 1.0;
    match config.rule {
        Rule::Sgd => {
            changed.momentum = change(config.momentum);
            if let Some(Momentum::As(MomentumRule::Tuned)) = momentum {
                faster = (1.0 - changed.momentum) / (1.0 - config.momentum);
            }
        }
        Rule::Adam | Rule::AdamW | Rule::Lamb => changed.beta1 = change(config.beta1),
    }
    (changed, faster)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explicit_and_implicit_momentum_add_up() {
        for (groups, expected) in [
            (1, 0.9),
            (2, 0.4),
            (4, 0.15),
            (8, 0.025),
            (10, 0.0),
            (64, 0.0),
        ] {
            let found = explicit(0.9, groups);
            assert!((found - expected).abs() < 1e-6, "{groups}: {found}");
            if expected > 0.0 {
                let total = f64::from(found) + implicit(groups);
                assert!(
                    (total - f64::from(0.9f32)).abs() < 1e-6,
                    "{groups}: {total}"
                );
            }
        }
        // One group is synchronous: not a bit changes.
        assert_eq!(explicit(0.9, 1), 0.9);
    }

    /// A linear model of the queue: each of G workers holds a gradient of old parameters, and a random one delivers.
    /// The mean of many runs must move as SGD with momentum 1 - 1 / G and rate / G does.
    #[test]
    fn a_queue_of_equal_workers_moves_like_momentum() {
        use rand::{Rng, SeedableRng};
        let (groups, rate, steps, runs) = (4, 0.1, 12, 40_000);
        let mut random = rand::rngs::StdRng::seed_from_u64(1);
        let mut mean = vec![0.0; steps];
        for _ in 0..runs {
            // Gradient of w² / 2 at what each worker last read.
            let (mut w, mut read) = (1.0, vec![1.0; groups]);
            for mean in &mut mean {
                let who = random.random_range(0..groups);
                w -= rate * read[who];
                read[who] = w;
                *mean += w / f64::from(runs);
            }
        }
        // E[w'] - w = (1 - 1/G) (w - w_before) - (rate / G) w, from the theorem.
        let (mut before, mut w) = (1.0, mean[0]);
        for &found in &mean[1..] {
            let next = w + implicit(groups) * (w - before) - rate / groups as f64 * w;
            (before, w) = (w, next);
            assert!((found - w).abs() < 0.01, "{found} instead of {w}");
        }
    }

    #[test]
    fn the_rule_decides_which_number_is_momentum() {
        let tuned = Some(Momentum::As(MomentumRule::Tuned));
        let sgd = OptimizerConfig {
            rule: Rule::Sgd,
            clip_norm: Some(1.0),
            ..OptimizerConfig::default()
        };
        let (found, faster) = of_servers(&sgd, tuned, 2);
        assert!((found.momentum - 0.4).abs() < 1e-6 && found.beta1 == sgd.beta1);
        assert_eq!(found.clip_norm, None);
        // 1 / (1 - 0.9) in step, 6 / (1 - 0.4) here.
        assert!((faster - 6.0).abs() < 1e-5, "{faster}");
        assert_eq!(of_servers(&sgd, tuned, 1).1, 1.0);
        assert_eq!(of_servers(&sgd, Some(Momentum::Is(0.4)), 2).1, 1.0);
        let adam = OptimizerConfig::default();
        let (found, faster) = of_servers(&adam, tuned, 2);
        assert!((found.beta1 - 0.4).abs() < 1e-6 && faster == 1.0);
        assert_eq!(of_servers(&adam, None, 2), (adam.clone(), 1.0));
        let fixed = of_servers(&adam, Some(Momentum::Is(0.3)), 9).0;
        assert_eq!(fixed.beta1, 0.3);
    }
}
