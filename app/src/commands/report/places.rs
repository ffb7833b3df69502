//! Output paths of a page and its movies: they must not overwrite inputs, nor files that are not pages.

use super::Report;
use super::inputs::Inputs;
use crate::failure::Advice;
use crate::input;
use squall_data::{Archive, DataError};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Parses the path of a movie; rejects extensions of unsupported formats.
pub(super) fn movie_place(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let end = path.extension().unwrap_or_default().to_ascii_lowercase();
    let others = ["gif", "mp4", "webm", "avi", "mov", "mkv", "mpg"];
    if others.iter().any(|other| end == *other) {
        Err(
            "movies are animated PNG (.png, .apng) or a folder of numbered pictures, of which ffmpeg makes others"
                .to_string(),
        )
    } else {
        Ok(path)
    }
}

impl Report {
    /// Rejects overwriting a file that is not a page, such as a table that was meant as input.
    pub(super) fn check_place(&self) -> anyhow::Result<()> {
        let end = self.out.extension().unwrap_or_default();
        let is_page = ["html", "htm"]
            .iter()
            .any(|of| end.eq_ignore_ascii_case(of));
        let hint = "a page is called so: --out report.html";
        let out = self.out.display();
        if !is_page {
            return Err(Advice::usage(
                format!("--out {out} ends in neither .html nor .htm"),
                hint,
            ));
        }
        if is_replaceable(&self.out)? {
            Ok(())
        } else {
            Err(Advice::usage(
                format!("--out {out} is there and is no page of HTML"),
                "choose another name, or remove that file",
            ))
        }
    }

    /// Rejects a page or a movie that would overwrite an input.
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

/// Whether the file does not exist, is empty, or begins like our pages.
fn is_replaceable(path: &Path) -> Result<bool, DataError> {
    if !path.is_file() {
        return Ok(true);
    }
    let mut begin = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(256).read_to_end(&mut begin));
    read.map_err(DataError::io("read", path))?;
    let begin = String::from_utf8_lossy(&begin).to_ascii_lowercase();
    let begin = begin.trim_start_matches('\u{feff}').trim_start();
    let is_page = ["<!doctype html", "<html", "<!--"]
        .iter()
        .any(|page| begin.starts_with(page));
    Ok(begin.is_empty() || is_page)
}

#[cfg(test)]
mod tests {
    use super::{is_replaceable, movie_place};

    #[test]
    fn movies_of_other_kinds_are_refused() {
        for text in ["run.png", "run.APNG", "pictures", "a.b/pictures.d"] {
            assert!(movie_place(text).is_ok(), "{text}");
        }
        for text in ["run.gif", "run.MP4"] {
            assert!(movie_place(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_page_takes_the_place_of_a_page_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("report.html");
        assert!(is_replaceable(&at).unwrap(), "nothing is there");
        for (text, expected) in [
            ("", true),
            ("<!DOCTYPE html>\n<html>", true),
            ("\u{feff} <html lang=\"en\">", true),
            ("class,time,lon_deg,lat_deg\n", false),
            ("<?xml version=\"1.0\"?>", false),
        ] {
            std::fs::write(&at, text).unwrap();
            assert_eq!(is_replaceable(&at).unwrap(), expected, "{text}");
        }
    }
}
