//! The program version, precise enough to distinguish builds.

/// Returns the version, a hash of the sources that affect results, and the build settings. Ranks that run the same
/// program get the same text.
///
/// # Example
/// ```
/// assert!(squall_jobs::code::version().contains("sources "));
/// ```
pub fn version() -> String {
    format!(
        "{}, sources {}, {}",
        env!("CARGO_PKG_VERSION"),
        env!("SQUALL_SOURCES"),
        env!("SQUALL_BUILD")
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_sources_are_known() {
        let hash = env!("SQUALL_SOURCES");
        assert_eq!(hash.len(), 16);
        // What nothing at all would give: then the build script found no file.
        assert_ne!(hash, "cbf29ce484222325");
        assert!(super::version().contains(hash));
    }
}
