//! The names of runs in notes. The only run of a side has the label of the side; members are named by the part of their
//! path that differs.

use super::SideInput;
use std::ffi::OsStr;
use std::fmt::Display;
use std::path::PathBuf;

/// Maximum number of members listed individually.
const MAX_LISTED: usize = 3;

/// The names of the runs of both sides. Runs are numbered consecutively, those of the first side first.
#[derive(Debug, Clone)]
pub(super) struct Names([SideNames; 2]);

/// The names of a side and of its runs.
#[derive(Debug, Clone)]
struct SideNames {
    label: String,
    members: Vec<String>,
}

impl Names {
    pub(super) fn of(inputs: [&SideInput; 2]) -> Self {
        Self(inputs.map(|input| SideNames {
            label: input.label.clone(),
            members: distinguishing_parts(&input.folders),
        }))
    }

    /// The labels of the sides.
    pub(super) fn labels(&self) -> [&str; 2] {
        self.0.each_ref().map(|side| side.label.as_str())
    }

    /// The names of the runs within each side.
    pub(super) fn members(&self) -> [&[String]; 2] {
        self.0.each_ref().map(|side| side.members.as_slice())
    }

    /// Whether a side has several runs.
    pub(super) fn has_members(&self) -> bool {
        self.members().iter().any(|members| members.len() > 1)
    }

    /// Where a file is required: `of every run` or `on both sides`.
    pub(super) fn everywhere(&self) -> &'static str {
        if self.has_members() {
            "of every run"
        } else {
            "on both sides"
        }
    }

    /// Formats runs for a sentence: `present`, `m1 and m2 of present`, `all 4 members of present and warmer`.
    pub(super) fn format_runs(&self, runs: &[usize]) -> String {
        let mut said = Vec::new();
        let mut before = 0;
        for side in &self.0 {
            let own: Vec<&str> = (side.members.iter().enumerate())
                .filter(|(place, _)| runs.contains(&(before + place)))
                .map(|(_, name)| name.as_str())
                .collect();
            before += side.members.len();
            if !own.is_empty() {
                said.push(side.format_members(&own));
            }
        }
        listed(&said)
    }

    /// Formats each value; if a side has several runs, with the runs that have it.
    pub(super) fn each<T: Display>(&self, groups: &[(T, Vec<usize>)]) -> Vec<String> {
        let each = groups.iter().map(|(value, runs)| {
            if self.has_members() {
                format!("{value} in {}", self.format_runs(runs))
            } else {
                value.to_string()
            }
        });
        each.collect()
    }
}

impl SideNames {
    fn format_members(&self, members: &[&str]) -> String {
        let label = &self.label;
        match (self.members.len(), members.len()) {
            (1, _) => label.clone(),
            (all, some) if all == some => format!("all {all} members of {label}"),
            // A single further name is as short as its count.
            (_, some) if some <= MAX_LISTED + 1 => format!("{} of {label}", listed(members)),
            (_, some) => format!(
                "{} and {} more members of {label}",
                members[..MAX_LISTED].join(", "),
                some - MAX_LISTED
            ),
        }
    }
}

/// Groups equal values, ordered by the first run with each value, and lists the runs of each group.
pub(crate) fn grouped<T>(
    values: impl IntoIterator<Item = (usize, T)>,
    alike: impl Fn(&T, &T) -> bool,
) -> Vec<(T, Vec<usize>)> {
    let mut groups: Vec<(T, Vec<usize>)> = Vec::new();
    for (run, value) in values {
        match groups.iter_mut().find(|(known, _)| alike(known, &value)) {
            Some((_, runs)) => runs.push(run),
            None => groups.push((value, vec![run])),
        }
    }
    groups
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn listed(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.as_slice() {
        [] => String::new(),
        [one] => one.to_string(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The part of each folder's path between the common beginning and the common end.
fn distinguishing_parts(folders: &[PathBuf]) -> Vec<String> {
    let parts: Vec<Vec<&OsStr>> = folders.iter().map(|f| f.iter().collect()).collect();
    let Some(first) = parts.first() else {
        return Vec::new();
    };
    let shortest = parts.iter().map(Vec::len).min().unwrap_or(0);
    // Every name keeps at least one part.
    let most = shortest.saturating_sub(1);
    let lead = (0..most)
        .take_while(|&at| parts.iter().all(|path| path[at] == first[at]))
        .count();
    let alike =
        |path: &[&OsStr], at: usize| path[path.len() - 1 - at] == first[first.len() - 1 - at];
    let trail = (0..most - lead)
        .take_while(|&at| parts.iter().all(|path| alike(path, at)))
        .count();
    let between = |path: &Vec<&OsStr>| -> String {
        let own: PathBuf = path[lead..path.len() - trail].iter().collect();
        own.display().to_string()
    };
    parts.iter().map(between).collect()
}

/// The deepest common parent folder, as written; for one folder, the folder itself.
pub(super) fn common_folder(folders: &[PathBuf]) -> PathBuf {
    let shared = |all: PathBuf, folder: &PathBuf| -> PathBuf {
        let pairs = all.iter().zip(folder.iter());
        pairs
            .take_while(|(a, b)| a == b)
            .map(|(part, _)| part)
            .collect()
    };
    let mut folders = folders.iter();
    let first = folders.next().cloned().unwrap_or_default();
    let found = folders.fold(first, shared);
    if found.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn side(label: &str, folders: &[&str]) -> SideInput {
        SideInput {
            folders: folders.iter().map(PathBuf::from).collect(),
            label: label.into(),
            years: None,
        }
    }

    #[test]
    fn members_are_called_by_what_tells_their_folders_apart() {
        for (folders, names, holder) in [
            (
                &["present/m1/events", "present/m2/events"][..],
                &["m1", "m2"][..],
                "present",
            ),
            (&["m1", "m2"], &["m1", "m2"], "."),
            (&["/runs/a/1/e", "/runs/b/2/e"], &["a/1", "b/2"], "/runs"),
            (&["run", "run/sub"], &["run", "run/sub"], "run"),
            (&["x/a/a", "x/a/a/a"], &["a", "a/a"], "x/a/a"),
            (&["only/events"], &["events"], "only/events"),
        ] {
            let folders: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
            assert_eq!(distinguishing_parts(&folders), names, "{folders:?}");
            assert_eq!(common_folder(&folders), Path::new(holder), "{folders:?}");
        }
    }

    #[test]
    fn runs_in_a_sentence() {
        let members = ["p/1", "p/2", "p/3", "p/4", "p/5", "p/6"];
        let (a, b) = (side("present", &members), side("warmer", &["warmer"]));
        let names = Names::of([&a, &b]);
        for (runs, said) in [
            (&[1][..], "2 of present"),
            (&[0, 4], "1 and 5 of present"),
            (&[0, 1, 2, 3], "1, 2, 3 and 4 of present"),
            (&[0, 1, 2, 3, 4], "1, 2, 3 and 2 more members of present"),
            (&[0, 1, 2, 3, 4, 5], "all 6 members of present"),
            (&[6], "warmer"),
            (&[2, 6], "3 of present and warmer"),
        ] {
            assert_eq!(names.format_runs(runs), said);
        }
        let groups = [("0", vec![0, 1, 2, 3, 4, 5]), ("17", vec![6])];
        let each = ["0 in all 6 members of present", "17 in warmer"];
        assert_eq!(names.each(&groups), each);
        let names = Names::of([&b, &b]);
        assert_eq!(names.each(&[("0", vec![0]), ("17", vec![1])]), ["0", "17"]);
        assert_eq!(names.format_runs(&[0, 1]), "warmer and warmer");
    }

    #[test]
    fn equal_values_are_grouped() {
        let groups = grouped([4, 7, 4, 9].into_iter().enumerate(), |a, b| a == b);
        assert_eq!(groups, [(4, vec![0, 2]), (7, vec![1]), (9, vec![3])]);
    }
}
