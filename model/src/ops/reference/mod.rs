//! Plain loops that follow the definitions: slow and obvious, with sums in f64. Tests compare every faster
//! implementation with them, so nothing here is optimised.

pub(super) mod conv;
pub(super) mod conv3d;
pub(super) mod loss;
pub(super) mod norm;
pub(super) mod resample;
