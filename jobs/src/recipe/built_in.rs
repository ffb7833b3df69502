//! Built-in recipes.

use super::Recipe;
use crate::error::{JobError, Result};
use squall_data::DataError;
use std::path::Path;

/// Name and text of each built-in recipe.
pub const BUILT_IN: [(&str, &str); 11] = [
    ("small", include_str!("../../recipes/small.toml")),
    ("full", include_str!("../../recipes/full.toml")),
    (
        "deeplabv3plus-published",
        include_str!("../../recipes/deeplabv3plus-published.toml"),
    ),
    ("deepcam", include_str!("../../recipes/deepcam.toml")),
    ("tiramisu", include_str!("../../recipes/tiramisu.toml")),
    ("cgnet", include_str!("../../recipes/cgnet.toml")),
    ("detect", include_str!("../../recipes/detect.toml")),
    (
        "detect-dense",
        include_str!("../../recipes/detect-dense.toml"),
    ),
    (
        "detect-over-time",
        include_str!("../../recipes/detect-over-time.toml"),
    ),
    (
        "detect-published",
        include_str!("../../recipes/detect-published.toml"),
    ),
    (
        "masks-and-boxes",
        include_str!("../../recipes/masks-and-boxes.toml"),
    ),
];

impl Recipe {
    /// Loads a recipe file, or a built-in recipe by name; a file takes precedence.
    ///
    /// # Errors
    /// As [`Recipe::read`]; [`JobError::Recipe`] naming the built-in recipes.
    ///
    /// # Example
    /// ```
    /// use squall_jobs::Recipe;
    /// use std::path::Path;
    /// let small = Recipe::named(Path::new("small"), &["training.batch=4".into()])?;
    /// assert_eq!((small.name.as_str(), small.training.batch), ("small", 4));
    /// let error = Recipe::named(Path::new("smal"), &[]).unwrap_err().to_string();
    /// assert!(error.contains("deepcam"), "{error}");
    /// # Ok::<(), squall_jobs::JobError>(())
    /// ```
    pub fn named(name: &Path, overrides: &[String]) -> Result<Self> {
        match built_in(name)? {
            Some(text) => Self::parse(text, overrides),
            None => Self::read(name, overrides),
        }
    }

    /// The text of a recipe file, or of a built-in recipe by name; a file takes precedence.
    ///
    /// # Errors
    /// [`JobError::Recipe`] naming the built-in recipes; [`JobError::Data`] if the file cannot be read.
    pub fn text_of(name: &Path) -> Result<String> {
        match built_in(name)? {
            Some(text) => Ok(text.to_string()),
            None => Ok(std::fs::read_to_string(name).map_err(DataError::io("read", name))?),
        }
    }

    /// The names of the built-in recipes, formatted for messages.
    pub fn built_in_names() -> String {
        BUILT_IN.map(|(name, _)| name).join(", ")
    }
}

/// The text of a built-in recipe; `None` if there is a file of this name, and an error if there is neither.
fn built_in(name: &Path) -> Result<Option<&'static str>> {
    let mut known = BUILT_IN.iter();
    match known.find(|(known, _)| name.as_os_str() == *known) {
        Some(&(_, text)) if !name.is_file() => Ok(Some(text)),
        _ if !name.exists() => Err(JobError::recipe(format!(
            "there is no recipe `{}`: expected a TOML file, or one of {}",
            name.display(),
            Recipe::built_in_names()
        ))),
        _ => Ok(None),
    }
}
