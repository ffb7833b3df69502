//! What can go wrong between two masks and a score.

use squall_data::DataError;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, ValidationError>;

/// Every error that input can cause in this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValidationError {
    /// Reading failed.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An operation or a network failed.
    #[error(transparent)]
    Model(#[from] squall_model::ModelError),
    /// Two things that are to be compared do not fit.
    #[error("{what}: expected {expected}, found {found}")]
    Mismatch {
        /// What is compared.
        what: &'static str,
        /// What would be right.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A request that no input could satisfy.
    #[error("{0}")]
    Invalid(String),
}
