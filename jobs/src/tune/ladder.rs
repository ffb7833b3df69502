//! Successive halving: all trials train a little, the best ones to the end.

/// The number of trials at every rung.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladder {
    trials: usize,
    rungs: usize,
    keep_one_of: usize,
    repeats: usize,
}

impl Ladder {
    /// A ladder for this many trials: one of `keep_one_of` trials (rounded up) advances from each of the `rungs`, the
    /// last of which is the end of a run.
    ///
    /// # Errors
    /// What was expected and found, if the numbers are invalid.
    ///
    /// # Example
    /// ```
    /// use squall_jobs::tune::Ladder;
    /// let ladder = Ladder::new(20, 3, 3)?;
    /// let halts = ladder.halts(400)?;
    /// assert_eq!(halts, [44, 132, 400]);
    /// assert_eq!([0, 1, 2].map(|rung| ladder.trials_at(rung)), [20, 7, 3]);
    /// assert_eq!(ladder.work(&halts), 20 * 44 + 7 * 88 + 3 * 268);
    /// # Ok::<(), String>(())
    /// ```
    pub fn new(trials: usize, rungs: usize, keep_one_of: usize) -> Result<Self, String> {
        if trials < 2 {
            return Err(format!("expected 2 trials or more, found {trials}"));
        }
        if !(1..=8).contains(&rungs) {
            return Err(format!("expected 1 to 8 halts, found {rungs}"));
        }
        if !(2..=10).contains(&keep_one_of) {
            return Err(format!(
                "expected one of 2 to 10 trials to stay, found {keep_one_of}"
            ));
        }
        Ok(Self {
            trials,
            rungs,
            keep_one_of,
            repeats: 1,
        })
    }

    /// The same ladder for trials of this many runs each, with different seeds.
    ///
    /// # Errors
    /// What was expected and found, if the number is invalid.
    pub fn repeated(self, repeats: usize) -> Result<Self, String> {
        match (1..=100).contains(&repeats) {
            true => Ok(Self { repeats, ..self }),
            false => Err(format!("expected 1 to 100 repeats, found {repeats}")),
        }
    }

    /// Steps until each rung for a trial of `steps` steps. Each rung has `keep_one_of` times the steps of the previous
    /// one; the last is the end.
    ///
    /// # Errors
    /// What was expected and found, if there are too few steps.
    pub fn halts(&self, steps: u64) -> Result<Vec<u64>, String> {
        let times = |rung: usize| (self.keep_one_of as u64).pow(rung as u32);
        let parts = times(self.rungs - 1);
        if steps < parts {
            return Err(format!(
                "{steps} steps are too few for {} halts: expected {parts} or more",
                self.rungs
            ));
        }
        let first = steps / parts;
        let early = (0..self.rungs - 1).map(|rung| first * times(rung));
        Ok(early.chain([steps]).collect())
    }

    /// Number of trials at the start.
    #[must_use]
    pub fn trials(&self) -> usize {
        self.trials
    }

    /// Number of rungs, including the end.
    #[must_use]
    pub fn rungs(&self) -> usize {
        self.rungs
    }

    /// One of this many trials advances from a rung.
    #[must_use]
    pub fn keep_one_of(&self) -> usize {
        self.keep_one_of
    }

    /// Runs of each trial, with different seeds.
    #[must_use]
    pub fn repeats(&self) -> usize {
        self.repeats
    }

    /// Number of trials that train up to this rung, counted from 0.
    #[must_use]
    pub fn trials_at(&self, rung: usize) -> usize {
        (0..rung).fold(self.trials, |stay, _| stay.div_ceil(self.keep_one_of))
    }

    /// Total steps of all runs, if all have these rungs.
    #[must_use]
    pub fn work(&self, halts: &[u64]) -> u64 {
        let before = std::iter::once(&0).chain(halts);
        let parts = halts.iter().zip(before).map(|(halt, before)| halt - before);
        let each = parts.enumerate();
        let of_one: u64 = each
            .map(|(rung, part)| self.trials_at(rung) as u64 * part)
            .sum();
        self.repeats as u64 * of_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |trials, rungs, keep| Ladder::new(trials, rungs, keep).unwrap_err();
        assert!(refused(1, 1, 3).contains("2 trials or more, found 1"));
        assert!(refused(9, 0, 3).contains("halts"));
        assert!(refused(9, 2, 1).contains("found 1"));
        let ladder = Ladder::new(9, 3, 3).unwrap();
        let none = ladder.clone().repeated(0).unwrap_err();
        assert!(none.contains("1 to 100 repeats, found 0"), "{none}");
        assert!(ladder.halts(8).unwrap_err().contains("8 steps are too few"));
        assert_eq!(ladder.halts(9).unwrap(), [1, 3, 9]);
        assert_eq!(ladder.halts(17).unwrap(), [1, 3, 17]);
    }

    #[test]
    fn one_halt_is_the_end() {
        let all = Ladder::new(5, 1, 3).unwrap();
        let halts = all.halts(40).unwrap();
        assert_eq!(
            (halts.as_slice(), all.trials_at(0), all.work(&halts)),
            (&[40][..], 5, 200)
        );
        assert_eq!(all.repeated(3).unwrap().work(&halts), 600);
    }
}
