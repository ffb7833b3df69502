//! What ranks say of the run beside the facts of a step.

/// Whether a rank was told to stop, and whether the first finds that a checkpoint is due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Signals {
    /// The run is to end in order.
    pub stop: bool,
    /// A checkpoint is to be written.
    pub save: bool,
}

impl Signals {
    /// Values that say them.
    pub const FACTS: usize = 2;

    /// The values of one rank.
    pub fn facts(self) -> [f32; Self::FACTS] {
        [self.stop, self.save].map(|said| f32::from(u8::from(said)))
    }

    /// What is said by at least one rank, from the sums of their values.
    pub fn of_facts(sums: &[f32]) -> Self {
        let said = |at: usize| sums.get(at).is_some_and(|sum| *sum > 0.5);
        Self {
            stop: said(0),
            save: said(1),
        }
    }
}
