//! Signals that ranks send to each other with the facts of a step: to stop, to save.

/// Whether a rank was told to stop, and whether the first finds that a checkpoint is due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Signals {
    /// The run is to end in order.
    pub stop: bool,
    /// A checkpoint is to be written.
    pub save: bool,
}

impl Signals {
    /// How many values they are sent as.
    pub const FACTS: usize = 2;

    /// The values that one rank sends.
    pub fn facts(self) -> [f32; Self::FACTS] {
        [self.stop, self.save].map(|said| f32::from(u8::from(said)))
    }

    /// The signals of at least one rank, from the sums of these values over ranks.
    pub fn of_facts(sums: &[f32]) -> Self {
        let said = |at: usize| sums.get(at).is_some_and(|sum| *sum > 0.5);
        Self {
            stop: said(0),
            save: said(1),
        }
    }
}
