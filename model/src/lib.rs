//! Squall crate.
