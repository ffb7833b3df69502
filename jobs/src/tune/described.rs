//! The description of a search in its folder (`search.json`): everything that determines its results. A search resumes
//! only if it is unchanged.

use super::Values;
use crate::error::{JobError, Result};
use crate::recipe::Recipe;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// The contents of `search.json`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct SearchDescription {
    /// The text of the varied recipe.
    recipe: String,
    /// The hash of the data.
    data: String,
    /// Hash of a detector's boxes, which `data` does not cover; `None` in searches of versions that did not record it.
    #[serde(default)]
    boxes: Option<String>,
    /// Hashes of further files that trials read, by path; empty in searches of versions that did not record them.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// The number format that `precision = "auto"` selected when the search began; `None` if no trial uses it, and in
    /// searches of versions that did not record it.
    #[serde(default)]
    auto: Option<String>,
    /// What each trial changes in the recipe.
    trials: Vec<Values>,
    /// The value of `--halts`.
    halts: usize,
    /// The value of `--keep-one-of`.
    keep_one_of: usize,
    /// The value of `--repeats`; 1 in searches of versions without it.
    #[serde(default = "one")]
    repeats: usize,
}

fn one() -> usize {
    1
}

impl SearchDescription {
    /// Parses a `search.json`; errors name `path`, where it was read or would be written.
    ///
    /// # Errors
    /// [`JobError::Damaged`].
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| JobError::damaged(path, error))
    }

    /// The differences from the search `there` in the folder that affect results, one phrase each.
    ///
    /// # Errors
    /// [`JobError::Recipe`] if this search's recipe cannot be read.
    pub fn changes_of_result(&self, there: &Self) -> Result<Vec<String>> {
        let new = Recipe::parse(&self.recipe, &[])?;
        let mut changes = match Recipe::parse(&there.recipe, &[]) {
            Ok(old) => {
                let mut changes = new.changes_of_result(&old);
                // Compared here because `Recipe::changes_of_result` is for resumed runs, which no longer read it;
                // trials that have not started will.
                let [is, was] = [&new, &old].map(start_of);
                push_if_changed(&mut changes, "training.start_from", was, is);
                changes
            }
            // Another version of the program wrote it.
            Err(error) => vec![format!("its recipe cannot be read ({error})")],
        };
        if self.data != there.data {
            changes.push(format!(
                "its data have the hash {}, those of --data {}",
                there.data, self.data
            ));
        }
        if let (Some(is), Some(was)) = (&self.boxes, &there.boxes)
            && is != was
        {
            changes.push(format!(
                "its boxes have the hash {was}, those of --data {is}"
            ));
        }
        if let (Some(is), Some(was)) = (&self.auto, &there.auto)
            && is != was
        {
            changes.push(format!(
                "`precision` is auto, which was {was} where it began and is {is} here"
            ));
        }
        for (path, was) in &there.files {
            if let Some(is) = self.files.get(path).filter(|is| *is != was) {
                changes.push(format!("`{path}` had the hash {was}, has {is}"));
            }
        }
        changes.extend(self.other_trials(there));
        push_if_changed(&mut changes, "--halts", there.halts, self.halts);
        let (was, is) = (there.keep_one_of, self.keep_one_of);
        push_if_changed(&mut changes, "--keep-one-of", was, is);
        push_if_changed(&mut changes, "--repeats", there.repeats, self.repeats);
        Ok(changes)
    }

    /// How the trials differ, if they do.
    fn other_trials(&self, there: &Self) -> Option<String> {
        let (was, is) = (there.trials.len(), self.trials.len());
        if was != is {
            return Some(format!("it has {was} trials, here are {is}"));
        }
        let mut pairs = there.trials.iter().zip(&self.trials).enumerate();
        let (number, (was, is)) = pairs.find(|(_, (was, is))| was != is)?;
        let (was, is) = (in_words(was), in_words(is));
        Some(format!("trial {number} was {was}, is {is}"))
    }
}

/// The files that a recipe reads besides the store.
pub(super) fn files_of(recipe: &Recipe) -> impl Iterator<Item = PathBuf> {
    let (start, found) = (&recipe.training.start_from, &recipe.detection.pseudo_labels);
    start.iter().chain(found).cloned()
}

/// Hashes of files, by path. Unreadable files are left out: the trial that needs one will report it.
pub(super) fn hashes_of(files: &BTreeSet<PathBuf>) -> BTreeMap<String, String> {
    let hashes = files
        .iter()
        .filter_map(|path| Some((path.display().to_string(), hash_of(path)?)));
    hashes.collect()
}

fn hash_of(path: &Path) -> Option<String> {
    // Regular files only: reading a pipe here would leave it empty for the trial.
    let mut file = path.is_file().then(|| File::open(path).ok())??;
    let (mut hash, mut piece) = (Xxh3::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut piece).ok()? {
            0 => return Some(format!("{:032x}", hash.digest128())),
            count => hash.update(&piece[..count]),
        }
    }
}

/// Describes the model that trials start from.
fn start_of(recipe: &Recipe) -> String {
    match &recipe.training.start_from {
        Some(path) => format!("\"{}\"", path.display()),
        None => "nothing".into(),
    }
}

fn push_if_changed<T: PartialEq + std::fmt::Display>(
    changes: &mut Vec<String>,
    key: &str,
    was: T,
    is: T,
) {
    if was != is {
        changes.push(format!("`{key}` was {was}, is {is}"));
    }
}

/// Describes what a trial changes in the recipe.
pub(super) fn in_words(values: &Values) -> String {
    let pairs = values.iter().map(|(key, value)| format!("{key}={value}"));
    match values.is_empty() {
        true => "the recipe as it is".into(),
        false => pairs.collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(overrides: &[&str]) -> SearchDescription {
        let overrides: Vec<String> = overrides.iter().map(|change| change.to_string()).collect();
        let trial = |rate: &str| vec![("schedule.rate".to_string(), rate.to_string())];
        SearchDescription {
            recipe: Recipe::parse("", &overrides).unwrap().to_toml(),
            data: "abc".into(),
            boxes: None,
            files: BTreeMap::new(),
            auto: None,
            trials: vec![trial("1e-3"), trial("2e-3")],
            halts: 2,
            keep_one_of: 3,
            repeats: 1,
        }
    }

    #[test]
    fn keys_that_change_no_result_let_a_search_go_on() {
        let there = described(&[]);
        let same = |new: &SearchDescription| new.changes_of_result(&there).unwrap().is_empty();
        assert!(same(&there));
        for change in [
            "training.checkpoint_every_seconds=7",
            "training.ignore_memory=true",
            "data.threads=3",
        ] {
            assert!(same(&described(&[change])), "{change}");
        }
    }

    #[test]
    fn what_differs_in_a_search_is_named() {
        let there = described(&[]);
        let check = |new: SearchDescription, expected: &[&str]| {
            let changes = new.changes_of_result(&there).unwrap();
            assert_eq!(changes.len(), expected.len(), "{changes:?}");
            for (change, words) in changes.iter().zip(expected) {
                assert!(change.contains(words), "{changes:?}");
            }
        };
        let changes = ["seed=5", "training.start_from='a.safetensors'"];
        let start = "`training.start_from` was nothing, is \"a.safetensors\"";
        check(described(&changes), &["`seed` was ", start]);
        let mut new = described(&[]);
        (new.data, new.halts, new.keep_one_of) = ("def".into(), 1, 2);
        let halts = ["`--halts` was 2, is 1", "`--keep-one-of` was 3, is 2"];
        check(new, &["hash abc, those of --data def", halts[0], halts[1]]);
        let mut repeated = described(&[]);
        repeated.repeats = 3;
        check(repeated, &["`--repeats` was 1, is 3"]);
        let with_boxes = |hash: &str| SearchDescription {
            boxes: Some(hash.into()),
            ..described(&[])
        };
        let changes = with_boxes("5").changes_of_result(&with_boxes("4"));
        let boxes = "its boxes have the hash 4, those of --data 5";
        assert_eq!(changes.unwrap(), [boxes]);
        // The other search is of a version that kept no such hash.
        check(with_boxes("5"), &[]);
        let with_file = |hash: &str| SearchDescription {
            files: BTreeMap::from([("a.safetensors".to_string(), hash.to_string())]),
            ..described(&[])
        };
        let changes = with_file("5").changes_of_result(&with_file("4"));
        let file = "`a.safetensors` had the hash 4, has 5";
        assert_eq!(changes.unwrap(), [file]);
        check(with_file("5"), &[]);
        let on = |device: &str| SearchDescription {
            auto: Some(device.to_string()),
            ..described(&[])
        };
        let changes = on("f32").changes_of_result(&on("bf16")).unwrap();
        let auto = "`precision` is auto, which was bf16 where it began and is f32 here";
        assert_eq!(changes, [auto]);
        check(on("f32"), &[]);
        let mut new = described(&[]);
        new.trials[1][0].1 = "3e-3".into();
        let trial = "trial 1 was schedule.rate=2e-3, is schedule.rate=3e-3";
        check(new.clone(), &[trial]);
        new.trials.truncate(1);
        check(new, &["it has 2 trials, here are 1"]);
        let mut old = there.clone();
        old.recipe = "no_such_key = 1".into();
        let changes = there.changes_of_result(&old).unwrap();
        assert!(changes[0].contains("no_such_key"), "{changes:?}");
    }
}
