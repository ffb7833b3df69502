//! Suggests the key that an unknown key most likely stands for, for error messages.

use super::{Recipe, flat};

/// Names used by PyTorch and its training scripts, among them the options of MLPerf HPC's DeepCAM, and keys without a
/// default.
const WORDS: [(&str, &str); 30] = [
    ("accumulate_grad_batches", "training.accumulate"),
    ("accumulation_steps", "training.accumulate"),
    ("amp", "precision.compute"),
    ("average", "training.average"),
    ("batch_size", "training.batch"),
    ("channels", "data.channels"),
    ("class_weights", "loss.class_weights"),
    ("epochs", "training.epochs"),
    ("early_stopping", "training.patience"),
    ("ema_decay", "training.average"),
    ("eps", "optimiser.epsilon"),
    ("global_batch", "distributed.global_batch"),
    ("global_batch_size", "distributed.global_batch"),
    ("gradient_accumulation_frequency", "training.accumulate"),
    ("gradient_accumulation_steps", "training.accumulate"),
    ("learning_rate", "schedule.rate"),
    ("local_batch_size", "training.batch"),
    ("lr", "schedule.rate"),
    ("lr_warmup_steps", "schedule.warmup_steps"),
    ("max_epochs", "training.epochs"),
    ("max_steps", "training.steps"),
    ("model_ema", "training.average"),
    ("model_ema_decay", "training.average"),
    ("monitor", "training.best_by"),
    ("num_workers", "data.threads"),
    ("save_frequency", "training.checkpoint_every_steps"),
    ("start_lr", "schedule.rate"),
    ("steps", "training.steps"),
    ("target_iou", "training.target_score"),
    ("validation_frequency", "training.validate_every_steps"),
];

/// The full keys that a word may stand for: another program's name for them, or keys that end with it.
pub(super) fn keys(word: &str) -> Vec<String> {
    if let Some((_, key)) = WORDS.iter().find(|(other, _)| *other == word) {
        return vec![key.to_string()];
    }
    (flat(&Recipe::default().table()).into_keys())
        .filter(|key| key.rsplit('.').next() == Some(word))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told is one that a recipe takes: of a wrong type, not unknown.
    #[test]
    fn what_is_meant_is_a_key() {
        for (_, key) in WORDS {
            let change = format!("{key}={{ no_such = 1 }}");
            let error = Recipe::parse("", &[change]).unwrap_err().to_string();
            let last = key.rsplit('.').next().unwrap_or_default();
            assert!(!error.contains(&format!("unknown key `{last}`")), "{error}");
        }
    }

    #[test]
    fn words_of_other_places_and_programs_are_understood() {
        for (change, expected) in [
            ("batch=4", "did you mean `training.batch`?"),
            ("steps=10", "did you mean `training.steps`?"),
            ("optimiser.lr=0.1", "did you mean `schedule.rate`?"),
            ("training.batch_size=4", "did you mean `training.batch`?"),
            ("accumulate=4", "did you mean `training.accumulate`?"),
            ("best_by=mean_iou", "did you mean `training.best_by`?"),
            (
                "training.gradient_accumulation_steps=4",
                "did you mean `training.accumulate`?",
            ),
            ("training.ema_decay=0.9", "did you mean `training.average`?"),
            ("training.rule=sgd", "did you mean `optimiser.rule`?"),
            ("training.bach=4", "did you mean `batch`?"),
        ] {
            let error = Recipe::parse("", &[change.to_string()]).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        assert_eq!(keys("nonsense"), Vec::<String>::new());
    }
}
