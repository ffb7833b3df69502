//! Builds the command line that reproduces a page, shown on the page.

use std::fmt::Display;

/// A command line of this program, quoted for a shell.
pub struct CommandLine(String);

impl CommandLine {
    /// Creates a command line with its inputs.
    pub fn new(command: &str, inputs: impl IntoIterator<Item = impl Display>) -> Self {
        let words = inputs.into_iter().map(|input| quoted(&input.to_string()));
        Self(words.fold(format!("squall {command}"), |line, word| line + " " + &word))
    }

    /// Adds an option, once for each of its values.
    pub fn with(mut self, option: &str, values: impl IntoIterator<Item = impl Display>) -> Self {
        for value in values {
            self.0 += &format!(" {option} {}", quoted(&value.to_string()));
        }
        self
    }

    /// Adds an option unless its value is the default.
    pub fn with_other<T: Display + PartialEq>(self, option: &str, value: T, usual: T) -> Self {
        let other = (value != usual).then_some(value);
        self.with(option, other)
    }

    /// Adds a flag if it is set.
    pub fn with_flag(mut self, option: &str, given: bool) -> Self {
        if given {
            self.0 += &format!(" {option}");
        }
        self
    }

    /// The quoted command line.
    pub fn text(self) -> String {
        self.0
    }
}

/// Quotes a word if it contains characters that are special to a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
