//! The movies of a page: their times and output files.

use squall_climate::report::{Frame, Movie, MovieFile, MovieOptions, ReportInput, select_frames};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Movies being written, all with the same pictures.
pub(super) struct Movies {
    movie: Movie,
    files: Vec<MovieFile>,
    /// Indices of the times shown.
    wanted: BTreeSet<usize>,
}

impl Movies {
    /// Starts the files, with at most `most` of all `times`; `None` if there are none.
    pub(super) fn begin(
        paths: &[PathBuf],
        page: &ReportInput,
        options: MovieOptions,
        times: usize,
        most: usize,
    ) -> anyhow::Result<Option<Self>> {
        if paths.is_empty() {
            return Ok(None);
        }
        let movie = Movie::new(page, options);
        let wanted: BTreeSet<usize> = select_frames(times, most).into_iter().collect();
        let files = paths
            .iter()
            .map(|path| movie.file(path, wanted.len()))
            .collect::<Result<_, _>>()?;
        Ok(Some(Self {
            movie,
            files,
            wanted,
        }))
    }

    /// Whether the `index`-th time is shown.
    pub(super) fn want(&self, index: usize) -> bool {
        self.wanted.contains(&index)
    }

    /// Adds the picture of the `index`-th time, if it is shown.
    pub(super) fn add(&mut self, index: usize, frame: &Frame<'_>) -> anyhow::Result<()> {
        if self.want(index) {
            let picture = self.movie.paint(frame)?;
            for file in &mut self.files {
                file.add(&picture)?;
            }
        }
        Ok(())
    }

    /// Completes the files and returns the number of pictures in each.
    pub(super) fn finish(self) -> anyhow::Result<usize> {
        for file in self.files {
            file.finish()?;
        }
        Ok(self.wanted.len())
    }
}
