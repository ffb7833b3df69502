//! Which algorithm runs a convolution, from one run to the next.
//!
//! What is fastest is measured and may come out differently the next time; kept, it gives the same bits.

use super::kept::keep;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Algorithms by problem.
pub(super) struct Algorithms {
    known: BTreeMap<String, i32>,
    file: Option<PathBuf>,
}

impl Algorithms {
    /// What earlier runs found; nothing if the file cannot be read.
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

    /// Keeps a choice. What another process found meanwhile stays.
    pub(super) fn add(&mut self, problem: String, algorithm: i32) {
        self.known.insert(problem, algorithm);
        let Some(file) = &self.file else { return };
        let mut all = parse(&std::fs::read_to_string(file).unwrap_or_default());
        all.extend(self.known.clone());
        let lines = all
            .iter()
            .map(|(problem, algorithm)| format!("{problem}: {algorithm}\n"));
        keep(file, lines.collect::<String>().as_bytes());
    }
}

/// Lines of a problem, a colon and a number; others are left out.
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
}
