//! Signals that ranks exchange with the facts of a step: stop, save.

/// Signals raised by ranks: a stop request by any rank, a due checkpoint by the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Signals {
    /// The run must end cleanly.
    pub stop: bool,
    /// A checkpoint must be written.
    pub save: bool,
}

impl Signals {
    /// Number of values that encode the signals.
    pub const FACTS: usize = 2;

    /// The values that one rank sends.
    pub fn facts(self) -> [f32; Self::FACTS] {
        [self.stop, self.save].map(|said| f32::from(u8::from(said)))
    }

    /// Decodes the signals of any rank from the sums of these values over ranks.
    pub fn of_facts(sums: &[f32]) -> Self {
        let said = |at: usize| sums.get(at).is_some_and(|sum| *sum > 0.5);
        Self {
            stop: said(0),
            save: said(1),
        }
    }
}
