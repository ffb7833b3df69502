//! What many events and tracks say together.

pub mod basin;
pub mod category;

pub use basin::Basin;
pub use category::Category;
