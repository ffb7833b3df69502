//! Warns of recipe keys that were changed but have no effect, given the values of other keys.

use super::{Recipe, Task, flat};
use squall_model::optim::schedule::Decay;
use squall_model::optim::{OptimizerConfig, Rule, Schedule};

/// A key, whether it was changed from its default, and whether it is read.
type Use = (&'static str, bool, bool);

impl Recipe {
    /// Changed keys that the task, network, optimiser rule or learning-rate decay does not read, one sentence each.
    ///
    /// A recipe may contain them, so that changing a single key switches rules; but a user who expects them to have an
    /// effect is warned.
    pub(crate) fn without_effect(&self) -> Vec<String> {
        let told = |key: &str, chosen: &str| {
            let value = self.value_of(chosen).unwrap_or_default();
            format!("`{key}` has no effect: `{chosen}` is {value}, which does not read it")
        };
        let of = |chosen: &str, uses: &[Use]| -> Vec<String> {
            (uses.iter())
                .filter(|(_, changed, read)| *changed && !read)
                .map(|(key, ..)| told(key, chosen))
                .collect()
        };
        let unread = |key: &String| Some(told(key, self.decides_against(key)?));
        [
            self.changed().iter().filter_map(unread).collect(),
            of("optimiser.rule", &of_rule(&self.optimiser)),
            of("schedule.decay", &of_decay(&self.schedule)),
        ]
        .concat()
    }

    /// The keys that differ from their defaults.
    fn changed(&self) -> Vec<String> {
        let usual = flat(&Self::default().table());
        let now = flat(&self.table()).into_iter();
        now.filter(|(key, value)| usual.get(key) != Some(value))
            .map(|(key, _)| key)
            .collect()
    }

    /// The key of the task or the network whose value disables another key; `None` if the key is read.
    fn decides_against(&self, key: &str) -> Option<&'static str> {
        let name = self.network.name;
        let boxes = self.task == Task::Detect;
        let masks = !boxes || self.network.mask_classes > 0;
        let by_task = match key.split('.').next() {
            Some("detection") => boxes,
            Some("loss") => masks,
            _ => key != "training.best_by" || masks,
        };
        let centres = name.finds_centres();
        let by_network = match key {
            "detection.loss.segmentation" if boxes && centres && !masks => {
                return Some("network.mask_classes");
            }
            "detection.loss.centre"
            | "detection.loss.size"
            | "detection.loss.object"
            | "detection.loss.no_object"
            | "detection.loss.class" => !centres,
            "detection.loss.scores" | "detection.loss.overlap" => centres,
            "detection.loss.reconstruction" | "detection.reconstruction_end" => name.reconstructs(),
            "detection.loss.segmentation" => masks,
            "data.clip_stride" => self.clips().is_some(),
            _ => true,
        };
        match (by_task, by_network) {
            (false, _) => Some("task"),
            (true, false) => Some("network.name"),
            (true, true) => None,
        }
    }
}

fn of_rule(now: &OptimizerConfig) -> [Use; 7] {
    let usual = OptimizerConfig::default();
    // The keys that it reads: those of momentum, of moments, of LAMB's first moment.
    let (momentum, moments, averaging) = match now.rule {
        Rule::Sgd => (true, false, false),
        Rule::Adam | Rule::AdamW => (false, true, false),
        Rule::Lamb => (false, true, true),
    };
    let differs = |a: f32, b: f32| a.to_bits() != b.to_bits();
    [
        (
            "optimiser.momentum",
            differs(now.momentum, usual.momentum),
            momentum,
        ),
        (
            "optimiser.nesterov",
            now.nesterov != usual.nesterov,
            momentum,
        ),
        ("optimiser.beta1", differs(now.beta1, usual.beta1), moments),
        ("optimiser.beta2", differs(now.beta2, usual.beta2), moments),
        (
            "optimiser.epsilon",
            differs(now.epsilon, usual.epsilon),
            moments,
        ),
        (
            "optimiser.bias_correction",
            now.bias_correction != usual.bias_correction,
            moments,
        ),
        (
            "optimiser.grad_averaging",
            now.grad_averaging != usual.grad_averaging,
            averaging,
        ),
    ]
}

fn of_decay(now: &Schedule) -> [Use; 7] {
    let usual = Schedule::default();
    let is = |decays: &[Decay]| decays.contains(&now.decay);
    let differs = |a: f32, b: f32| a.to_bits() != b.to_bits();
    [
        (
            "schedule.t_max",
            now.t_max.is_some(),
            is(&[Decay::Poly, Decay::Cosine]),
        ),
        (
            "schedule.end",
            differs(now.end, usual.end),
            is(&[Decay::Poly, Decay::Cosine, Decay::Exponential]),
        ),
        (
            "schedule.power",
            differs(now.power, usual.power),
            is(&[Decay::Poly]),
        ),
        (
            "schedule.milestones",
            !now.milestones.is_empty(),
            is(&[Decay::Multistep, Decay::Piecewise]),
        ),
        (
            "schedule.shares",
            !now.shares.is_empty(),
            is(&[Decay::Piecewise]),
        ),
        (
            "schedule.factor",
            differs(now.factor, usual.factor),
            is(&[Decay::Multistep, Decay::Exponential]),
        ),
        (
            "schedule.decay_steps",
            now.decay_steps.is_some(),
            is(&[Decay::Exponential]),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::BUILT_IN;
    use super::*;
    use std::path::Path;

    #[test]
    fn keys_that_nothing_reads_are_told() {
        let told = |changes: &[&str]| {
            let changes: Vec<String> = changes.iter().map(|change| change.to_string()).collect();
            Recipe::parse("", &changes).unwrap().without_effect()
        };
        assert_eq!(
            told(&["optimiser.momentum=0.5", "optimiser.rule=adamw"]),
            [
                "`optimiser.momentum` has no effect: `optimiser.rule` is adamw, which does not read it"
            ]
        );
        assert_eq!(
            told(&["schedule.power=2", "schedule.milestones=[3]"]),
            ["power", "milestones"].map(|key| format!(
                "`schedule.{key}` has no effect: `schedule.decay` is cosine, which does not read it"
            ))
        );
        let best_by = "training.best_by=area_mean_iou";
        let detector = ["task=detect", "network.name=detector-2d", best_by];
        let boxes = "`training.best_by` has no effect: `task` is detect, which does not read it";
        assert_eq!(told(&detector), [boxes]);
        let of = |key: &str, chosen: &str| {
            format!("`{key}` has no effect: `{chosen}, which does not read it")
        };
        let of_boxes = [
            "detection.loss.size=3",
            "detection.suppression.max_boxes=9",
            "data.clip_stride=2",
        ];
        assert_eq!(
            told(&of_boxes),
            [
                of("data.clip_stride", "network.name` is deeplabv3plus"),
                of("detection.loss.size", "task` is segment"),
                of("detection.suppression.max_boxes", "task` is segment"),
            ]
        );
        let dense = ["task=detect", "network.name=detector-dense"];
        let unread = [
            "loss.weighting=none",
            "detection.loss.size=3",
            "detection.loss.reconstruction=2",
            "detection.loss.segmentation=2",
        ];
        assert_eq!(
            told(&[&dense[..], &unread].concat()),
            [
                of(
                    "detection.loss.reconstruction",
                    "network.name` is detector-dense"
                ),
                of("detection.loss.segmentation", "network.mask_classes` is 0"),
                of("detection.loss.size", "network.name` is detector-dense"),
                of("loss.weighting", "task` is detect"),
            ]
        );
        let read = [
            "network.mask_classes=3",
            "loss.weighting=none",
            "detection.loss.segmentation=2",
            "detection.loss.overlap=2",
        ];
        assert_eq!(told(&[&dense[..], &read].concat()), Vec::<String>::new());
        let over_time = [
            "task=detect",
            "network.name=detector-3d",
            "data.clip_stride=2",
            "detection.loss.size=3",
            "detection.reconstruction_end=1",
        ];
        assert_eq!(told(&over_time), Vec::<String>::new());
        let overlap = [&over_time[..], &["detection.loss.overlap=2"]].concat();
        assert_eq!(
            told(&overlap),
            [of("detection.loss.overlap", "network.name` is detector-3d")]
        );
        let read = [
            best_by,
            "optimiser.rule=sgd",
            "optimiser.momentum=0.5",
            "schedule.decay=multistep",
            "schedule.milestones=[3]",
            "schedule.factor=0.5",
        ];
        assert_eq!(told(&read), Vec::<String>::new());
    }

    #[test]
    fn recipes_that_come_with_the_program_have_none() {
        for (name, _) in BUILT_IN {
            let recipe = Recipe::named(Path::new(name), &[]).unwrap();
            assert_eq!(recipe.without_effect(), Vec::<String>::new(), "{name}");
        }
    }
}
