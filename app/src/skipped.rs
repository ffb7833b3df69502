//! Skips times with unreadable data if `--skip-bad` is given.

use crate::failure::Advice;
use crate::plan::counted;
use squall_data::{DataError, Time};
use squall_jobs::InferReport;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Skips these times, and warns about each of their files once.
#[derive(Debug, Default)]
pub struct Skipped {
    allowed: bool,
    what_follows: &'static str,
    named: Mutex<BTreeSet<Option<PathBuf>>>,
}

impl Skipped {
    /// Without `skip_bad` nothing will be skipped. `what_follows` completes the sentence about a time: "is left out".
    pub fn new(skip_bad: bool, what_follows: &'static str) -> Self {
        Self {
            allowed: skip_bad,
            what_follows,
            ..Self::default()
        }
    }

    /// The data of a time; `None` if it was unreadable and may be skipped.
    ///
    /// # Errors
    /// The error of reading, if times may not be skipped or the file's content is not to blame.
    pub fn or_none<T>(
        &self,
        time: Time,
        read: Result<T, DataError>,
    ) -> Result<Option<T>, DataError> {
        let error = match read {
            Ok(read) => return Ok(Some(read)),
            Err(error) if !self.allowed || !error.is_damage() => return Err(error),
            Err(error) => error,
        };
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.insert(error.path().map(Path::to_path_buf)) {
            let follows = self.what_follows;
            tracing::warn!(
                "{time} {follows}, and so is all of its file that cannot be read: {error}"
            );
        }
        Ok(None)
    }
}

/// Reports how many of all times are missing from the result: unreadable ones, those with implausible values, or those
/// for which a network outputs NaN.
///
/// # Errors
/// [`DataError::NoInput`] if no time is left.
pub fn say(left_out: usize, times: usize, input: &str) -> Result<(), DataError> {
    match left_out {
        0 => {}
        all if all == times => {
            return Err(DataError::no_input(
                input,
                format!("none of its {times} times can be used"),
            ));
        }
        1 => tracing::warn!("1 time of {times} could not be used and is left out"),
        some => tracing::warn!("{some} times of {times} could not be used and are left out"),
    }
    Ok(())
}

/// Fails if no time is left because the network outputs NaN for all of them. The fields are not to blame, so the exit
/// code is that of a run which ends at the first such time: repeating the command would give NaN again.
pub fn check_network(report: &InferReport) -> anyhow::Result<()> {
    let skipped = &report.skipped;
    match skipped.first() {
        Some(first) if report.masks == 0 && skipped.iter().all(|time| time.of_network) => {
            let times = counted(skipped.len(), "time");
            Err(Advice::input(
                format!("nothing is left of {times}: {}", first.reason),
                "numbers grew too large on the way through the network: compute in --precision f32, into another --out; if that was f32, the model is of no use for these fields",
            ))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{INPUT, classify};
    use squall_data::Calendar;
    use squall_jobs::infer::{Gives, SkippedTime, Spent};
    use squall_jobs::{JobError, Outcome};

    #[test]
    fn times_are_left_out_only_where_they_may_be() {
        let time = Time::new(Calendar::NoLeap, 2000, 1, 1, 6, 0, 0).expect("a time");
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("fields.nc");
        std::fs::write(&file, "fields").expect("written");
        let read = |skip_bad, path: &Path| {
            let cut = DataError::unreadable(path, "cut");
            Skipped::new(skip_bad, "is left out")
                .or_none::<()>(time, Err(cut))
                .ok()
        };
        assert_eq!(read(true, &file), Some(None));
        assert_eq!(read(false, &file), None);
        // Not the file's content, but the disk that has gone, or a request without sense.
        assert_eq!(read(true, &folder.path().join("gone.nc")), None);
        let skipped = Skipped::new(true, "is left out");
        let senseless = Err::<(), _>(DataError::Invalid("no such time".into()));
        assert!(skipped.or_none(time, senseless).is_err());
        assert_eq!(skipped.or_none(time, Ok(1)).ok(), Some(Some(1)));
        assert!(say(0, 8, "run").is_ok() && say(7, 8, "run").is_ok());
        let error = say(8, 8, "run").expect_err("nothing is left");
        assert!(error.to_string().contains("8 times can be used"), "{error}");
    }

    /// Who reads that the input cannot be used looks for the fault in the files; and with the code of a failed run, which
    /// it had for a while, `squall supervise` tried it again.
    #[test]
    fn a_network_that_gives_nan_everywhere_ends_alike_with_and_without_skip_bad() {
        let report = |masks: usize, reasons: &[(&str, bool)]| InferReport {
            outcome: Outcome::Finished,
            gives: Gives::Masks,
            masks,
            new_masks: masks,
            files: Vec::new(),
            skipped: (reasons.iter())
                .map(|(reason, of_network)| SkippedTime {
                    time: "2000-01-01T00:00:00".into(),
                    reason: reason.to_string(),
                    of_network: *of_network,
                })
                .collect(),
            skipped_files: 0,
            missing_values: 0,
            ranks: 1,
            members: 1,
            seconds: 1.0,
            wait_seconds: 0.0,
            compute_seconds: 0.0,
            spent: Spent::default(),
        };
        let at_once = JobError::NotFinite {
            model: "m".into(),
            time: "2000-01-01T00:00:00".into(),
            origin: None,
            points: 3,
        };
        let reason = at_once.to_string();
        let (nan, cut) = ((reason.as_str(), true), ("cannot read `h2.nc`: cut", false));
        let error = check_network(&report(0, &[nan, nan])).unwrap_err();
        assert_eq!(classify(&error).0, INPUT);
        assert_eq!(classify(&at_once.into()).0, INPUT);
        assert!(error.to_string().contains("of 2 times: the output"));
        for (masks, reasons) in [(1, vec![nan]), (0, vec![nan, cut]), (0, vec![])] {
            assert!(check_network(&report(masks, &reasons)).is_ok());
        }
    }
}
