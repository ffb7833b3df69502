//! Decides when a long command saves its state.

use std::time::Instant;

/// Default interval between saved states.
pub const SAVE_EVERY_SECONDS: f64 = 30.0;

/// Saving takes at most this fraction (one in ...) of the time.
const ONE_PART_OF: f64 = 20.0;

/// Schedules saves: no more often than requested, and so that saving takes at most a twentieth of the time. An interval
/// of zero saves after every step, whatever the cost.
pub struct Saving {
    pause: f64,
    last: Instant,
    took: f64,
}

impl Saving {
    /// The first state is due this many seconds from now.
    pub fn every(seconds: f64) -> Self {
        Self {
            pause: seconds,
            last: Instant::now(),
            took: 0.0,
        }
    }

    /// Whether the next state is due.
    pub fn is_due(&self) -> bool {
        let least = if self.pause > 0.0 {
            self.pause.max(ONE_PART_OF * self.took)
        } else {
            0.0
        };
        self.last.elapsed().as_secs_f64() >= least
    }

    /// Saves with `act`, and restarts the interval when it ends.
    ///
    /// # Errors
    /// The error of `act`; the state is then still due.
    pub fn save<E>(&mut self, act: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let began = Instant::now();
        act()?;
        (self.took, self.last) = (began.elapsed().as_secs_f64(), Instant::now());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn saving_costs_a_twentieth_of_the_time_unless_no_pause_is_asked_for() {
        let pause = Duration::from_millis(20);
        for (seconds, is_due) in [(0.0, true), (0.001, false), (1e9, false)] {
            let mut saving = Saving::every(seconds);
            let saved = saving.save(|| {
                std::thread::sleep(pause);
                Ok::<_, ()>(())
            });
            assert_eq!(saved, Ok(()));
            // Well before 20 times the pause have gone by.
            assert_eq!(saving.is_due(), is_due, "every {seconds} s");
        }
        let mut saving = Saving::every(0.001);
        std::thread::sleep(pause);
        assert!(saving.is_due());
        assert_eq!(saving.save(|| Err("full")), Err("full"));
        assert!(saving.is_due(), "nothing was saved");
    }
}
