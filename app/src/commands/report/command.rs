//! The command line that reproduces a page.

use super::{Report, TITLE};
use crate::arguments::MIN_CONFIDENCE;
use crate::command_line::CommandLine;
use squall_climate::report::{MovieOptions, ReportOptions};
use squall_data::Class;

impl Report {
    /// The command with all options that differ from the defaults, quoted for a shell.
    pub(super) fn command(&self) -> String {
        let (movie, page) = (MovieOptions::default(), ReportOptions::default());
        CommandLine::new("report", &self.folders)
            .with("--tag-class", self.tags.tag_class.map(Class::name))
            .with("--fields", &self.fields)
            .with_other("--title", self.title.as_str(), TITLE)
            .with_other("--about", self.about.as_str(), "")
            .with("--movie", self.movie.iter().map(|path| path.display()))
            .with_other("--movie-width", self.movie_width, movie.width)
            .with_other("--frames", self.frames, page.max_frames)
            .with("--training", &self.training)
            .with_other("--min-confidence", self.min_confidence, MIN_CONFIDENCE)
            .with("--recipe", self.recipe.iter().map(|path| path.display()))
            .with("--out", [self.out.display()])
            .text()
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
