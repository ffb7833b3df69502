//! The choice of the algorithm for each convolution, kept between runs.
//!
//! The fastest algorithm is found by timing, which may give different results the next time or on another rank. A
//! stored choice keeps results bit-identical. If several processes measure at the same time, all use the choice that
//! was written first.

use super::kept::keep;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// Algorithms by problem.
pub(super) struct Algorithms {
    known: BTreeMap<String, i32>,
    file: Option<PathBuf>,
}

impl Algorithms {
    /// Reads the choices of earlier runs; empty if the file cannot be read.
    pub(super) fn read(file: Option<PathBuf>) -> Self {
        let text = file
            .as_ref()
            .and_then(|file| std::fs::read_to_string(file).ok());
        Self {
            known: parse(&text.unwrap_or_default()),
            file,
        }
    }

    pub(super) fn get(&self, problem: &str) -> Option<i32> {
        self.known.get(problem).copied()
    }

    /// Stores a choice and returns the one to use: this one, or another process's if that was stored in the meantime.
    /// If this process already knew a choice for the problem, that one was unusable and is replaced.
    pub(super) fn add(&mut self, problem: String, algorithm: i32) -> i32 {
        let useless = self.known.insert(problem.clone(), algorithm);
        let Some(file) = &self.file else {
            return algorithm;
        };
        // Held until the file is written. On file systems without locks the last writer wins.
        let _lock = lock(file);
        let mut all = parse(&std::fs::read_to_string(file).unwrap_or_default());
        if let Some(&theirs) = all.get(&problem)
            && Some(theirs) != useless
        {
            self.known.insert(problem, theirs);
            return theirs;
        }
        all.insert(problem, algorithm);
        for (problem, &algorithm) in &self.known {
            all.entry(problem.clone()).or_insert(algorithm);
        }
        let lines = all
            .iter()
            .map(|(problem, algorithm)| format!("{problem}: {algorithm}\n"));
        keep(file, lines.collect::<String>().as_bytes());
        algorithm
    }
}

/// The lock of a file, in a separate file because the file itself is replaced; `None` if locking is not possible.
fn lock(file: &Path) -> Option<File> {
    if let Some(folder) = file.parent() {
        let _ = std::fs::create_dir_all(folder);
    }
    let mut beside = file.as_os_str().to_owned();
    beside.push(".lock");
    let mut options = OpenOptions::new();
    let lock = options.write(true).create(true).truncate(false);
    let lock = lock.open(beside).ok()?;
    lock.lock().ok().map(|()| lock)
}

/// Parses lines of a problem, a colon and a number; skips all others.
fn parse(text: &str) -> BTreeMap<String, i32> {
    let line = |line: &str| {
        let (problem, algorithm) = line.rsplit_once(": ")?;
        Some((problem.to_string(), algorithm.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_stay_from_one_run_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("some").join("sm_90.algorithms");
        let mut first = Algorithms::read(Some(file.clone()));
        let mut second = Algorithms::read(Some(file.clone()));
        first.add("forward f32 1 2".into(), 3);
        second.add("data bf16 1 2".into(), 1);
        let later = Algorithms::read(Some(file.clone()));
        assert_eq!(later.get("forward f32 1 2"), Some(3));
        assert_eq!(later.get("data bf16 1 2"), Some(1));
        assert_eq!(later.get("data bf16 1"), None);
        std::fs::write(&file, "cut off: \nforward f32 1 2: x\ndata bf16 1 2: 0").unwrap();
        let cut = Algorithms::read(Some(file));
        assert_eq!(
            (cut.get("forward f32 1 2"), cut.get("data bf16 1 2")),
            (None, Some(0))
        );
    }

    #[test]
    fn all_take_what_the_first_has_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sm_90.algorithms");
        let mut first = Algorithms::read(Some(file.clone()));
        let mut second = Algorithms::read(Some(file.clone()));
        assert_eq!(first.add("forward f32 1 2".into(), 3), 3);
        assert_eq!(second.add("forward f32 1 2".into(), 5), 3);
        assert_eq!(second.get("forward f32 1 2"), Some(3));
        // Nor does a later choice put back an earlier one.
        assert_eq!(second.add("data bf16 1 2".into(), 1), 1);
        let mut later = Algorithms::read(Some(file.clone()));
        assert_eq!(later.get("forward f32 1 2"), Some(3));
        // cuDNN does not have it any more: another is found.
        assert_eq!(later.add("forward f32 1 2".into(), 7), 7);
        let last = Algorithms::read(Some(file));
        assert_eq!(last.get("forward f32 1 2"), Some(7));
        assert_eq!(last.get("data bf16 1 2"), Some(1));
        // Without a file everybody has their own.
        assert_eq!(Algorithms::read(None).add("forward f32 1 2".into(), 5), 5);
        let nowhere = folder.path().join("sm_90.algorithms").join("below");
        let mut nowhere = Algorithms::read(Some(nowhere));
        assert_eq!(nowhere.add("forward f32 1 2".into(), 5), 5);
    }

    #[test]
    fn choices_at_the_same_time_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sm_90.algorithms");
        let process = |(own, mut known): (i32, Algorithms)| {
            let common = known.add("common".into(), own);
            for at in 0..5 {
                known.add(format!("{own} {at}"), at);
            }
            common
        };
        // None knows a choice of another when it begins.
        let all = [1, 2, 3, 4].map(|own| (own, Algorithms::read(Some(file.clone()))));
        let common = std::thread::scope(|scope| {
            let all = all.map(|one| scope.spawn(move || process(one)));
            all.map(|one| one.join().unwrap())
        });
        let last = Algorithms::read(Some(file));
        assert_eq!(common, [last.get("common").unwrap(); 4]);
        for (own, at) in (1..5).flat_map(|own| (0..5).map(move |at| (own, at))) {
            assert_eq!(last.get(&format!("{own} {at}")), Some(at));
        }
    }
}
