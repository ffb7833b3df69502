//! Repeats: the runs of a trial with several seeds, and what they say together.

use super::Trial;

/// The seed of a repeat: the recipe's own, and those that follow it. Numbers in TOML have 63 bits.
pub(super) fn seed_of(recipe_seed: u64, repeat: usize) -> u64 {
    recipe_seed.wrapping_add(repeat as u64) & i64::MAX as u64
}

/// A trial with the means of its repeats' scores, at the rungs that all of them have reached.
///
/// It fails if any of them fails, but only once all have come that far: what is found then does not depend on which ended
/// first. Steps skipped by any count, and so does a network without storms: its score is that of the background.
pub(super) fn together(runs: &[Trial]) -> Trial {
    let reached = runs.iter().map(|run| run.scores.len()).min().unwrap_or(0);
    let all_done = runs.iter().all(|run| run.is_done(reached));
    let failed = runs.iter().filter(|_| all_done).find_map(reason);
    let rungs = 0..reached;
    let named = runs.iter().find(|run| !run.score_name.is_empty());
    Trial {
        number: runs[0].number,
        repeat: 0,
        values: runs[0].values.clone(),
        scores: rungs
            .clone()
            .map(|rung| mean(&scores_at(runs, rung)))
            .collect(),
        steps: runs.iter().map(|run| run.steps).min().unwrap_or(0),
        score_name: named.map_or(String::new(), |run| run.score_name.clone()),
        failed,
        seconds: runs.iter().map(|run| run.seconds).sum(),
        skipped: (rungs.clone())
            .map(|rung| runs.iter().map(|run| run.skipped_at(rung)).sum())
            .collect(),
        empty: (rungs.clone())
            .map(|rung| runs.iter().any(|run| run.is_empty_at(rung)))
            .collect(),
        best: None,
    }
}

/// Why a run failed, if it did.
fn reason(run: &Trial) -> Option<String> {
    let reason = run.failed.clone()?;
    Some(match run.repeat {
        0 => reason,
        repeat => format!("repeat {repeat}: {reason}"),
    })
}

/// The scores of all repeats at a rung that all have reached.
pub(super) fn scores_at(runs: &[Trial], rung: usize) -> Vec<f64> {
    runs.iter().map(|run| run.scores[rung]).collect()
}

fn mean(scores: &[f64]) -> f64 {
    scores.iter().sum::<f64>() / scores.len() as f64
}

/// The sample standard deviation; `None` for less than two scores.
pub(super) fn spread(scores: &[f64]) -> Option<f64> {
    let mean = mean(scores);
    let squares: f64 = scores.iter().map(|score| (score - mean).powi(2)).sum();
    (scores.len() > 1).then(|| (squares / (scores.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(repeat: usize, scores: &[f64], failed: bool) -> Trial {
        Trial {
            number: 4,
            repeat,
            scores: scores.to_vec(),
            steps: 10 * scores.len() as u64,
            failed: failed.then(|| "diverged".to_string()),
            seconds: 1.5,
            skipped: vec![0; scores.len()],
            empty: vec![false; scores.len()],
            ..Trial::default()
        }
    }

    #[test]
    fn a_trial_is_the_mean_of_its_repeats() {
        let mut runs = [run(0, &[0.25, 0.5], false), run(1, &[0.75], false)];
        let both = together(&runs);
        assert_eq!((both.scores.as_slice(), both.steps), (&[0.5][..], 10));
        assert_eq!((both.number, both.seconds), (4, 3.0));
        assert!(both.is_done(0) && !both.is_done(1) && !both.finds_nothing());
        // One that skipped steps or found nothing marks the trial.
        (runs[1].skipped, runs[1].empty) = (vec![3], vec![true]);
        let both = together(&runs);
        assert_eq!((both.skipped, both.empty), (vec![3], vec![true]));
        // A single run is what it was.
        assert_eq!(together(&runs[..1]), runs[0]);
    }

    /// The reason would be that of whichever broke down first.
    #[test]
    fn a_trial_fails_once_all_its_repeats_have_come_that_far() {
        let mut runs = [run(0, &[0.5], false), run(1, &[0.5], true)];
        let both = together(&runs);
        assert!(both.failed.is_none() && !both.is_done(1), "{both:?}");
        runs[0].scores.push(0.6);
        let both = together(&runs);
        assert_eq!(both.failed.as_deref(), Some("repeat 1: diverged"));
        assert_eq!((both.scores.len(), both.score()), (1, None));
        runs[0] = run(0, &[0.5], true);
        assert_eq!(together(&runs).failed.as_deref(), Some("diverged"));
    }

    /// Of 1, 2 and 6 with a mean of 3: squares of 4, 1 and 9, of which half is 7.
    #[test]
    fn the_spread_is_that_of_a_sample() {
        assert_eq!(spread(&[1.0, 2.0, 6.0]), Some(7_f64.sqrt()));
        assert_eq!(spread(&[1.0]), None);
    }

    #[test]
    fn seeds_follow_that_of_the_recipe() {
        assert_eq!([0, 1, 2].map(|repeat| seed_of(7, repeat)), [7, 8, 9]);
        assert_eq!(seed_of(i64::MAX as u64, 1), 0);
    }
}
