//! Prevents writing into another command's output folder: readers take all masks, or all tables, of a folder for those
//! of one run.

use crate::failure::Advice;
use squall_climate::stream::is_result;
use squall_data::store::INDEX_FILE;
use std::collections::BTreeSet;
use std::path::Path;

/// The contents that a command writes into its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Fields of `squall simulate`.
    Fields,
    /// The truth of `squall simulate`.
    Truth,
    /// Masks and tables of `squall label`.
    Labels,
    /// Masks or boxes of `squall infer`.
    Masks,
    /// A store of `squall stage`.
    Store,
    /// A run of `squall train`.
    Training,
    /// A search of `squall tune`.
    Search,
    /// Tables of `squall events`.
    Events,
    /// Output of `squall compare`.
    Changes,
    /// Output of `squall trends`.
    Trends,
}

/// File names that identify a folder's contents, and the description of these.
const KNOWN: [(&str, Holds, &str); 12] = [
    ("run.txt", Holds::Truth, "the truth of a simulated run"),
    ("objects.csv", Holds::Labels, "tables of labels"),
    (FINISHED, Holds::Masks, "what `squall infer` writes"),
    (INDEX_FILE, Holds::Store, "a sample store"),
    ("shard-00000.bin", Holds::Store, "a sample store"),
    ("checkpoint.safetensors", Holds::Training, TRAINING),
    ("best.safetensors", Holds::Training, TRAINING),
    ("search.json", Holds::Search, "a search of `squall tune`"),
    ("events.csv", Holds::Events, "tables of `squall events`"),
    ("tracks.csv", Holds::Events, "tables of tracks"),
    ("changes.json", Holds::Changes, "a comparison of two runs"),
    ("trends.json", Holds::Trends, "trends of a run"),
];

const TRAINING: &str = "a run of `squall train`";

/// The log of finished files of an inference.
const FINISHED: &str = "finished.jsonl";

impl Holds {
    /// Whether the command writes a netCDF file of this name.
    fn writes(self, name: &str) -> bool {
        match self {
            Self::Fields => name.starts_with("squall_"),
            Self::Truth => name.starts_with("truth."),
            Self::Labels => name.starts_with("labels."),
            Self::Masks => name.starts_with("masks."),
            Self::Events => is_result(name) || name.starts_with("tracks."),
            Self::Changes => name == "maps.nc",
            Self::Store | Self::Training | Self::Search | Self::Trends => false,
        }
    }

    /// A sentence that names the commands which read this folder.
    fn taken_by(self) -> &'static str {
        match self {
            Self::Fields => "`squall label` and `squall infer` take it",
            Self::Truth | Self::Labels | Self::Masks => {
                "`squall events` and `squall report` take its masks or boxes"
            }
            Self::Store => "`squall train --data` and `squall infer` take it",
            Self::Training => {
                "`squall model show` tells of the models in it, `squall report --training` shows its losses"
            }
            Self::Search => "`squall tune` goes on with it",
            Self::Events => {
                "`squall compare`, `squall trends` and `squall score` take it, `squall report` behind its masks (MASKS:DIR)"
            }
            Self::Changes => "`squall report` and the page changes.html in it show it",
            Self::Trends => "the page trends.html in it shows them",
        }
    }

    /// Describes the foreign contents that a file name indicates; `None` if the command itself writes this file.
    fn stranger(self, name: &str, beside: &BTreeSet<String>) -> Option<&'static str> {
        // Events of boxes may be next to them: `squall report` and `squall score` accept this folder.
        let are_both = beside.contains(FINISHED) && matches!(self, Self::Masks | Self::Events);
        if are_both && (is_result(name) || name == FINISHED) {
            return None;
        }
        if name.ends_with(".nc") {
            return (!self.writes(name)).then_some("masks or fields");
        }
        // The truth of a simulated run has tables with the same names as labels and events.
        if self == Self::Truth && ["objects.csv", "tracks.csv"].contains(&name) {
            return None;
        }
        let known = KNOWN.iter().find(|(known, ..)| *known == name);
        known.and_then(|(_, whose, what)| (*whose != self).then_some(*what))
    }
}

/// Describes the contents of an output folder of ours and the commands that read it; `None` for other folders.
pub fn description(folder: &Path) -> Option<String> {
    let is_there = |name: &str| folder.join(name).is_file();
    let (_, holds, what) = KNOWN.iter().find(|(name, ..)| is_there(name))?;
    Some(format!("it holds {what}: {}", holds.taken_by()))
}

/// Rejects a folder with another command's output. The same command's output is continued or replaced.
pub fn check(out: &Path, own: Holds) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(out).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names: BTreeSet<String> = names.filter(|name| !name.starts_with('.')).collect();
    let strangers = names
        .iter()
        .filter_map(|name| Some((name, own.stranger(name, &names)?)));
    // Masks and fields first: they describe a folder better than tables next to them.
    let told = strangers.min_by_key(|(name, _)| !name.ends_with(".nc"));
    match told {
        Some((name, what)) => Err(Advice::usage(
            format!("`{}` holds {what} (`{name}`)", out.display()),
            "choose another folder with --out: all files in a folder are taken for those of one run",
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_another_command_is_refused_and_an_own_one_is_not() {
        use Holds::*;
        let folders: [(Holds, &[&str]); 10] = [
            (Fields, &["squall_present_seed1.cam.h2.2000-01-01-00000.nc"]),
            (
                Truth,
                &["run.txt", "truth.a.nc", "objects.csv", "tracks.csv"],
            ),
            (Labels, &["labels.a.nc", "objects.csv", "boxes.csv"]),
            (Masks, &["masks.a.nc", "settings.json", FINISHED]),
            (Store, &["shard-00000.bin", "store.json"]),
            (Training, &["best.safetensors", "recipe.toml"]),
            (Search, &["search.json", "best.toml"]),
            (Events, &["events.csv", "statistics.nc", "object_id.nc"]),
            (Changes, &["changes.json", "maps.nc"]),
            (Trends, &["trends.json", "trends.csv", "yearly.csv"]),
        ];
        for (holds, names) in folders {
            let folder = tempfile::tempdir().unwrap();
            for name in names.iter().chain(&[".lock", "notes.txt"]) {
                std::fs::write(folder.path().join(name), "text").unwrap();
            }
            for (command, _) in folders {
                let refused = check(folder.path(), command);
                assert_eq!(refused.is_err(), command != holds, "{command:?} {names:?}");
            }
        }
    }

    #[test]
    fn a_folder_of_ours_is_told_with_who_takes_it() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(description(folder.path()), None);
        std::fs::write(folder.path().join(INDEX_FILE), "text").unwrap();
        let said = description(folder.path()).unwrap();
        let store = "it holds a sample store: `squall train --data` and `squall infer` take it";
        assert_eq!(said, store);
    }

    /// Boxes and their events may share a folder, in which both commands go on.
    #[test]
    fn events_lie_beside_boxes_but_not_beside_masks() {
        let folder = tempfile::tempdir().unwrap();
        for name in [FINISHED, "boxes.csv", "events.csv", "statistics.nc"] {
            std::fs::write(folder.path().join(name), "text").unwrap();
        }
        check(folder.path(), Holds::Masks).unwrap();
        check(folder.path(), Holds::Events).unwrap();
        std::fs::write(folder.path().join("masks.a.nc"), "text").unwrap();
        check(folder.path(), Holds::Masks).unwrap();
        let error = check(folder.path(), Holds::Events).unwrap_err().to_string();
        assert!(error.contains("masks or fields (`masks.a.nc`)"), "{error}");
        check(&folder.path().join("absent"), Holds::Store).unwrap();
    }
}
