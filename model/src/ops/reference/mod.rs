//! Plain loops: slow, obvious, the judge of every fast path. Sums are f64.

pub(super) mod conv;
pub(super) mod conv3d;
pub(super) mod loss;
pub(super) mod norm;
pub(super) mod resample;
