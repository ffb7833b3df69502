//! Problems of an archive's files, and the channels that they concern.

use crate::Variable;
use serde::{Deserialize, Serialize};

/// Something that was skipped, guessed or replaced.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Problem {
    /// The sentence for the user.
    pub text: String,
    pub about: About,
}

/// What a problem concerns.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum About {
    /// No particular channel.
    All,
    /// A channel that is computed or has a stand-in.
    Channel(Variable),
    /// A channel that a variable cannot provide.
    Refused(Variable),
    /// A channel that only some times have.
    Missing {
        channel: Variable,
        /// The number of times without it, and the first of them.
        times: String,
    },
}

impl Problem {
    /// A problem of no particular channel.
    pub fn general(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            about: About::All,
        }
    }

    /// A problem of a channel that is computed or has a stand-in.
    pub fn of_channel(channel: Variable, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            about: About::Channel(channel),
        }
    }

    /// A problem of a variable that cannot provide a channel.
    pub fn refused(channel: Variable, text: String) -> Self {
        Self {
            text,
            about: About::Refused(channel),
        }
    }

    /// A problem of a channel that is missing at some times.
    pub fn missing(channel: Variable, times: String) -> Self {
        Self {
            text: format!("{channel} is missing at {times}"),
            about: About::Missing { channel, times },
        }
    }

    /// Whether it concerns one of these channels, or no particular one.
    pub fn concerns(&self, used: &[Variable]) -> bool {
        match &self.about {
            About::All => true,
            About::Channel(channel) | About::Refused(channel) | About::Missing { channel, .. } => {
                used.contains(channel)
            }
        }
    }
}

/// The sentences of problems; channels that are missing at the same times share one.
pub(super) fn together<'a>(problems: impl Iterator<Item = &'a Problem>) -> Vec<String> {
    let mut told: Vec<(Vec<&str>, Option<&str>)> = Vec::new();
    for problem in problems {
        let (words, times) = match &problem.about {
            About::Missing { channel, times } => (channel.name(), Some(times.as_str())),
            About::All | About::Channel(_) | About::Refused(_) => (problem.text.as_str(), None),
        };
        match told.iter_mut().find(|(_, known)| *known == times) {
            Some((names, _)) if times.is_some() => names.push(words),
            _ => told.push((vec![words], times)),
        }
    }
    let say = |(words, times): (Vec<&str>, Option<&str>)| match times {
        Some(times) if words.len() > 1 => format!("{} are missing at {times}", words.join(", ")),
        Some(times) => format!("{} is missing at {times}", words[0]),
        None => words[0].into(),
    };
    told.into_iter().map(say).collect()
}
