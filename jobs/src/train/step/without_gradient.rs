//! Parameters that the first backward pass did not reach.

use super::Learner;

/// The result of looking for such parameters.
#[derive(Debug)]
pub(super) enum WithoutGradient {
    /// No step has been done yet.
    Unknown,
    /// Found but not yet reported.
    Found(Vec<String>),
    /// None found, or already reported.
    Settled,
}

impl Learner {
    /// Returns the parameters that the first backward pass did not reach; only the first call returns them.
    ///
    /// Reported rather than treated as an error: a branch whose activations all start below zero also has no gradient,
    /// and may get one later. A gap in the network's backward pass shows at the first step of any run.
    pub(in crate::train) fn take_without_gradient(&mut self) -> Option<Vec<String>> {
        let WithoutGradient::Found(names) = &mut self.without_gradient else {
            return None;
        };
        let names = std::mem::take(names);
        self.without_gradient = WithoutGradient::Settled;
        Some(names)
    }

    /// Searches after the first step and logs any that were found.
    pub(super) fn find_without_gradient(&mut self) {
        if !matches!(self.without_gradient, WithoutGradient::Unknown) {
            return;
        }
        let zero = self.gradients.all_zero(self.network.parameters());
        let names: Vec<String> = zero.iter().map(|p| p.name.clone()).collect();
        self.without_gradient = if names.is_empty() {
            WithoutGradient::Settled
        } else {
            tracing::warn!(
                "the gradient of {} is exactly zero after the first step: nothing is learnt there",
                names.join(", ")
            );
            WithoutGradient::Found(names)
        };
    }
}
