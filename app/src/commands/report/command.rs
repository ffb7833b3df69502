//! The command line that makes a page again.

use super::{Report, TITLE};
use crate::arguments::{MIN_CONFIDENCE, quoted};
use squall_climate::report::{MovieOptions, ReportOptions};

impl Report {
    /// The command with all options that are not the default, as a shell takes it.
    pub(super) fn command(&self) -> String {
        let mut words: Vec<String> = vec!["squall".into(), "report".into()];
        words.extend(self.folders.iter().map(|folder| quoted(folder)));
        let mut add = |option: &str, value: &str| {
            words.extend([option.to_string(), quoted(value)]);
        };
        if let Some(class) = self.tags.tag_class {
            add("--tag-class", class.name());
        }
        if let Some(fields) = &self.fields {
            add("--fields", fields);
        }
        if self.title != TITLE {
            add("--title", &self.title);
        }
        if !self.about.is_empty() {
            add("--about", &self.about);
        }
        for movie in &self.movie {
            add("--movie", &movie.to_string_lossy());
        }
        if self.movie_width != MovieOptions::default().width {
            add("--movie-width", &self.movie_width.to_string());
        }
        if self.frames != ReportOptions::default().max_frames {
            add("--frames", &self.frames.to_string());
        }
        for run in &self.training {
            add("--training", run);
        }
        if self.min_confidence != MIN_CONFIDENCE {
            add("--min-confidence", &self.min_confidence.to_string());
        }
        if let Some(recipe) = &self.recipe {
            add("--recipe", &recipe.to_string_lossy());
        }
        add("--out", &self.out.to_string_lossy());
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parsed;

    #[test]
    fn the_command_has_every_option_that_was_given() {
        let again = |words: &[&str]| parsed::<Report>(words).unwrap().command();
        assert_eq!(again(&["masks"]), "squall report masks --out report.html");
        let all = [
            "my masks:events",
            "--tag-class",
            "tropical_cyclone",
            "--fields",
            "run/*.nc",
            "--title",
            "Katrina's year",
            "--about",
            "$5",
            "--movie",
            "a.png",
            "--movie",
            "b",
            "--movie-width",
            "321",
            "--frames",
            "7",
            "--training",
            "A=run",
            "--min-confidence",
            "0.75",
            "--recipe",
            "small.toml",
            "--out",
            "page.html",
        ];
        assert_eq!(
            again(&all),
            "squall report 'my masks:events' --tag-class tropical_cyclone --fields 'run/*.nc' \
             --title 'Katrina'\\''s year' --about '$5' --movie a.png --movie b --movie-width 321 --frames 7 \
             --training A=run --min-confidence 0.75 --recipe small.toml --out page.html"
        );
    }
}
