//! Parameters that the first backward pass did not reach.

use super::Learner;

/// Which parameters the first backward pass did not reach.
#[derive(Debug)]
pub(super) enum WithoutGradient {
    /// No step has been taken yet.
    Unknown,
    /// These, not reported yet.
    Found(Vec<String>),
    /// None, or reported.
    Settled,
}

impl Learner {
    /// The parameters that the first backward pass did not reach; only the first call returns them.
    ///
    /// They are reported and not an error: a branch whose activations all start below zero has no gradient either, and
    /// may get one later; what is missing from the network's backward pass shows at the first step of any run.
    pub(in crate::train) fn take_without_gradient(&mut self) -> Option<Vec<String>> {
        let WithoutGradient::Found(names) = &mut self.without_gradient else {
            return None;
        };
        let names = std::mem::take(names);
        self.without_gradient = WithoutGradient::Settled;
        Some(names)
    }

    /// Looks for them after the first step, and says so if there are any.
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
