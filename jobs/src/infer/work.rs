//! How far the work of a rank is, for the ranks that wait for it.
//!
//! A rank whose heartbeat goes on may still be stuck: a read that never returns, a GPU whose driver hangs. So the
//! heartbeat also carries what the computing thread is busy with, for which mask file, and a count of how often that has
//! changed. That thread is enough: it soon waits for a stuck reader or writer.

use crate::comm::lock;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

/// A read may take this many times longer than other work: files may come from tape.
const READS: u32 = 4;

/// What a rank is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    #[default]
    Reading,
    Computing,
    Writing,
    /// Its own work is done.
    Waiting,
}

impl Stage {
    const ALL: [Self; 4] = [Self::Reading, Self::Computing, Self::Writing, Self::Waiting];

    fn name(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Computing => "computing",
            Self::Writing => "writing",
            Self::Waiting => "waiting",
        }
    }
}

/// The work of a rank at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Standing {
    /// Grows with everything that is begun or done.
    count: u64,
    stage: Stage,
    /// The mask file; empty between two files.
    file: String,
}

impl Standing {
    /// Reads what [`fmt::Display`] writes; `None` for other texts.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let count = words.next()?.parse().ok()?;
        let name = words.next()?;
        let stage = Stage::ALL.into_iter().find(|stage| stage.name() == name)?;
        Some(Self {
            count,
            stage,
            file: words.next()?.to_string(),
        })
    }

    /// How long it may stand still, if a batch may take `limit` for each of `members` predictions.
    pub fn limit(&self, limit: Duration, members: u32) -> Duration {
        match self.stage {
            Stage::Reading => limit.saturating_mul(READS),
            Stage::Computing => limit.saturating_mul(members),
            Stage::Writing | Stage::Waiting => limit,
        }
    }

    /// What it is busy with: "reading the fields of `masks.nc`".
    pub fn in_words(&self) -> String {
        let what = match self.stage {
            Stage::Reading => "reading the fields of",
            Stage::Computing => "computing",
            Stage::Writing => "writing",
            Stage::Waiting => return "waiting for other ranks".to_string(),
        };
        match self.file.as_str() {
            "" => format!("{what} mask files"),
            file => format!("{what} `{file}`"),
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.count, self.stage.name(), self.file)
    }
}

/// The work of this rank, shared by its threads.
#[derive(Debug, Default)]
pub(super) struct Work(Mutex<Standing>);

impl Work {
    /// Begins something, for this mask file.
    pub fn begin(&self, stage: Stage, file: &str) {
        let mut standing = lock(&self.0);
        standing.count += 1;
        standing.stage = stage;
        standing.file.clear();
        standing.file.push_str(file);
    }

    /// Counts something as done within the current stage.
    pub fn advance(&self) {
        lock(&self.0).count += 1;
    }

    /// The work at this moment.
    pub fn standing(&self) -> Standing {
        lock(&self.0).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_others_read_what_a_rank_writes() {
        let work = Work::default();
        let said = |work: &Work| {
            let standing = work.standing();
            assert_eq!(
                Standing::parse(&standing.to_string()),
                Some(standing.clone())
            );
            standing.in_words()
        };
        assert_eq!(said(&work), "reading the fields of mask files");
        for stage in Stage::ALL {
            work.begin(stage, "masks 7.nc");
            let words = said(&work);
            assert_eq!(words.contains("`masks 7.nc`"), stage != Stage::Waiting);
            let before = work.standing();
            work.advance();
            assert_ne!(work.standing(), before);
        }
        for other in ["", "7", "7 reading", "x reading a.nc", "7 sleeping a.nc"] {
            assert_eq!(Standing::parse(other), None, "{other}");
        }
    }

    #[test]
    fn reads_and_ensembles_may_take_longer() {
        let limit = Duration::from_secs(10);
        let of = |stage| {
            let work = Work::default();
            work.begin(stage, "");
            work.standing().limit(limit, 3).as_secs()
        };
        assert_eq!(Stage::ALL.map(of), [40, 30, 10, 10]);
        let endless = Standing::default().limit(Duration::MAX, 3);
        assert_eq!(endless, Duration::MAX);
    }
}
