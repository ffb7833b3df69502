//! Measures the progress of work in a folder.

use crate::plan::counted;
use squall_climate::detect::MethodsFolder;
use squall_climate::label::LabelFolder;
use squall_climate::stream::RunFolder;
use squall_jobs::RunDir;
use squall_jobs::train::checkpoint::{newest_step, newest_step_by_facts};
use std::path::Path;

/// The progress of work in a folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Steps of the newest readable checkpoint.
    Step(u64),
    /// Steps of the newest checkpoints of all trials of a search, and bytes of their records.
    Trials(u64, u64),
    /// Times of events that are done, as saved in an unfinished run.
    Times(usize),
    /// Times of labels that the first and the second pass have done, as saved in an unfinished run.
    Labels([usize; 2]),
    /// Number and total size of files, except unfinished ones.
    Files(u64, u64),
}

impl State {
    pub(super) fn of(folder: &Path) -> Self {
        if let Some(step) = newest_step(folder) {
            return Self::Step(step);
        }
        if folder.join("search.json").is_file() {
            return Self::of_trials(folder);
        }
        if let Some(times) = RunFolder::times_saved(folder) {
            return Self::Times(times);
        }
        let labels = LabelFolder::times_saved(folder);
        if let Some(times) = labels.or_else(|| MethodsFolder::times_saved(folder)) {
            return Self::Labels(times);
        }
        // Files that a training rewrites at every start before its first checkpoint are not progress.
        if RunDir::metrics_of(folder).exists() {
            return Self::Files(0, 0);
        }
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let finished = entries.filter(|e| !e.file_name().to_string_lossy().starts_with('.'));
        let sizes: Vec<u64> = finished
            .filter_map(|entry| entry.metadata().ok())
            .map(|data| data.len())
            .collect();
        Self::Files(sizes.len() as u64, sizes.iter().sum())
    }

    /// The state of a search, whose trials advance in their own folders.
    fn of_trials(search: &Path) -> Self {
        let trials = std::fs::read_dir(search.join("trials"));
        let (mut steps, mut bytes) = (0_u64, 0);
        for trial in trials.into_iter().flatten().flatten() {
            let trial = trial.path();
            steps = steps.saturating_add(newest_step_by_facts(&trial).unwrap_or(0));
            let known = std::fs::metadata(trial.join("trial.json"));
            bytes += known.map_or(0, |data| data.len());
        }
        Self::Trials(steps, bytes)
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Step(step) => write!(f, "newest valid checkpoint at step {step}"),
            Self::Trials(steps, _) => {
                write!(
                    f,
                    "{} in the newest checkpoints of all trials",
                    counted(*steps, "step")
                )
            }
            Self::Times(times) => {
                write!(f, "events of {} saved", counted(*times, "time"))
            }
            Self::Labels([first, second]) => {
                let times = counted(*first, "time");
                write!(
                    f,
                    "{times} of the first pass and {second} of the second saved"
                )
            }
            Self::Files(0, _) => f.write_str("nothing there yet"),
            Self::Files(files, bytes) => {
                write!(f, "{} of {bytes} bytes there", counted(*files, "file"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_are_no_progress() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(State::of(folder.path()), State::Files(0, 0));
        std::fs::write(folder.path().join(".a.nc.7.tmp"), "half").unwrap();
        assert_eq!(State::of(folder.path()), State::Files(0, 0));
        std::fs::write(folder.path().join("a.nc"), "whole").unwrap();
        assert_eq!(State::of(folder.path()), State::Files(1, 5));
    }

    /// Their tables are unfinished to the end: each start seemed to leave nothing.
    #[test]
    fn events_advance_with_their_saved_state() {
        let folder = tempfile::tempdir().unwrap();
        let partial = folder.path().join(".events.partial");
        std::fs::create_dir(&partial).unwrap();
        assert_eq!(State::of(folder.path()), State::Files(0, 0));
        for next in [14, 76] {
            let saved = serde_json::json!({
                "fingerprint": "a", "next": next, "stream": { "tracker": [1.5, 2.5] }
            });
            squall_data::wire::write_file(partial.join("state.cbor"), &saved).unwrap();
            assert_eq!(State::of(folder.path()), State::Times(next));
        }
        let told = State::of(folder.path()).to_string();
        assert_eq!(told, "events of 76 times saved");
        std::fs::write(partial.join("state.cbor"), "{").unwrap();
        assert_eq!(State::of(folder.path()), State::Files(0, 0));
    }

    /// The first pass writes no masks: each start of it seemed to leave nothing.
    #[test]
    fn labels_advance_with_their_saved_states() {
        let folder = tempfile::tempdir().unwrap();
        let partial = folder.path().join(".methods.partial");
        std::fs::create_dir(&partial).unwrap();
        std::fs::write(folder.path().join("labels.nc"), "masks").unwrap();
        assert_eq!(State::of(folder.path()), State::Files(1, 5));
        let save = |name: &str, state: &serde_json::Value| {
            let saved = serde_json::json!({ "fingerprint": "a", "state": state });
            squall_data::wire::write_file(partial.join(name), &saved).unwrap();
        };
        for seen in [30, 60] {
            let state = serde_json::json!({ "surveys": [[0.5]], "seen": seen });
            save("first.cbor", &state);
            assert_eq!(State::of(folder.path()), State::Labels([seen, 0]));
        }
        let state = serde_json::json!({ "bytes": [[7, 0]], "pass": { "done": 14 } });
        save("second.cbor", &state);
        let state = State::of(folder.path());
        assert_eq!(state, State::Labels([60, 14]));
        let told = "60 times of the first pass and 14 of the second saved";
        assert_eq!(state.to_string(), told);
    }

    /// Each start writes another file for TensorBoard, and other seconds.
    #[test]
    fn a_training_advances_with_its_checkpoints_alone() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        write("recipe.toml", "").unwrap();
        write("metrics.jsonl", "{}\n").unwrap();
        let before = State::of(folder.path());
        assert_eq!(before.to_string(), "nothing there yet");
        write("metrics.jsonl", "{}\n{}\n").unwrap();
        write("events.out.tfevents.1.squall.0", "more").unwrap();
        assert_eq!(State::of(folder.path()), before);
        checkpoint(folder.path(), 5);
        assert_eq!(State::of(folder.path()), State::Step(5));
    }

    #[test]
    fn a_search_advances_with_any_of_its_trials() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("search.json"), "{}").unwrap();
        let trial = |number: u64| folder.path().join(format!("trials/{number:04}"));
        assert_eq!(State::of(folder.path()), State::Trials(0, 0));
        for number in [0, 1] {
            std::fs::create_dir_all(trial(number)).unwrap();
            checkpoint(&trial(number), 5 + number);
        }
        assert_eq!(State::of(folder.path()), State::Trials(11, 0));
        std::fs::write(trial(1).join("trial.json"), "known").unwrap();
        assert_eq!(State::of(folder.path()), State::Trials(11, 5));
        // Values are not looked at, only whether all of them are there.
        let newest = trial(1).join("checkpoint.safetensors");
        let mut bytes = std::fs::read(&newest).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&newest, &bytes).unwrap();
        assert_eq!(State::of(folder.path()), State::Trials(11, 5));
        std::fs::write(&newest, &bytes[1..]).unwrap();
        assert_eq!(State::of(folder.path()), State::Trials(5, 5));
    }

    /// A checkpoint of so many steps, without weights.
    fn checkpoint(folder: &Path, step: u64) {
        let facts = format!(
            r#"{{"progress":{{"step":{step},"skipped_in_row":0,"skipped":0}},"best":null,"validation_due":false,"data_hash":"","ranks":[1,1]}}"#
        );
        let mut file = squall_model::ModelFile::default();
        file.facts.insert("checkpoint".to_string(), facts);
        file.tensors.insert("a".to_string(), (vec![1], vec![0.0]));
        file.write(&folder.join("checkpoint.safetensors")).unwrap();
    }
}
