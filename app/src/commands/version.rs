//! `squall --version`: what is built in.

/// Version, code state and the compute backend in use.
pub fn text() -> String {
    format!(
        "{} ({})",
        env!("CARGO_PKG_VERSION"),
        squall_model::ops::Backend::best().describe()
    )
}
