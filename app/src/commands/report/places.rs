//! Where a page and its movies go: never onto what they are made of.

use super::Report;
use super::inputs::Inputs;
use crate::input;
use squall_data::Archive;
use std::path::{Path, PathBuf};

impl Report {
    /// Refuses a page or a movie that would replace a file that is read, whatever that is called.
    pub(super) fn keep_inputs(
        &self,
        inputs: &Inputs,
        fields: Option<&Archive>,
    ) -> anyhow::Result<()> {
        let of_inputs = inputs.files();
        // The argument may be a list of paths.
        let list = self.fields.iter().map(Path::new);
        let mut read: Vec<&Path> = of_inputs.iter().map(PathBuf::as_path).collect();
        read.extend(fields.into_iter().flat_map(Archive::paths));
        read.extend(list.filter(|path| path.is_file()));
        read.extend(self.recipe.as_deref());
        let mut outputs = self.movie.iter().chain([&self.out]);
        outputs.try_for_each(|out| input::keep_inputs(&read, out))
    }
}
