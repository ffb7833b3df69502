//! Masks of a page, with the tables of their events.

use super::inputs::split;
use crate::commands::score::kind::has_masks;
use crate::commands::score::{Score, Scores, table_path};
use crate::failure::Advice;
use crate::input;
use crate::made_by::ENSEMBLE;
use crate::tags::Tags;
use squall_climate::detect::Method;
use squall_climate::report::{Source, SourceKind, SourceWind};
use squall_climate::{table, track};
use squall_data::mask_file::{About, MaskArchive};
use squall_data::{Calendar, Class, DataError, Time, Variable};
use std::path::Path;

/// One source of masks.
pub(super) struct Masks {
    pub(super) kind: SourceKind,
    /// Whether the user declared their kind.
    pub(super) named: bool,
    /// Their name on the page.
    pub(super) label: String,
    pub(super) folder: String,
    pub(super) tables: String,
    pub(super) archive: MaskArchive,
}

impl Masks {
    pub(super) fn open(
        argument: &str,
        named: Option<SourceKind>,
        tags: Tags,
    ) -> anyhow::Result<Self> {
        let (folder, given) = split(argument);
        let tables = given.unwrap_or(folder);
        let archive = (tags.open(folder)).map_err(|error| explained(error, folder))?;
        if given.is_some() && table_path(tables).is_none() {
            return Err(Advice::usage(
                format!("`{tables}` has neither events.csv nor objects.csv"),
                format!(
                    "`squall events {folder} --out {tables}` makes them; without `:{tables}` the page shows the masks alone"
                ),
            ));
        }
        let kind = named.unwrap_or_else(|| kind_of(&archive));
        Ok(Self {
            kind,
            named: named.is_some(),
            label: kind.name().to_string(),
            folder: folder.to_string(),
            tables: tables.to_string(),
            archive,
        })
    }

    /// Their name within a sentence.
    pub(super) fn in_sentence(&self) -> String {
        if self.label == self.kind.name() {
            format!("the {}", self.label)
        } else {
            self.label.clone()
        }
    }

    /// What made them, and the folder they are in: `the DeepCAM rules, in labels`.
    pub(super) fn made_by(&self) -> String {
        let first = self.archive.paths().next();
        let title = first.and_then(|path| About::read(path).ok()?.attributes.remove("title"));
        let folder = Path::new(&self.folder);
        let folder = folder.file_name().unwrap_or(folder.as_os_str());
        let (made_by, folder) = (maker(&self.archive, title), folder.to_string_lossy());
        match made_by.as_str() {
            "" => format!("in {folder}"),
            made_by => format!("{made_by}, in {folder}"),
        }
    }

    /// The channels that they were made of, as far as their files say.
    pub(super) fn channels(&self) -> Vec<Variable> {
        let first = self.archive.paths().next();
        let Some(about) = first.and_then(|path| About::read(path).ok()) else {
            return Vec::new();
        };
        let text = |name: &str| about.attributes.get(name).map(String::as_str);
        let names = text("squall_channels").unwrap_or_default().split(' ');
        let title = text("title");
        let mut methods = Method::ALL.into_iter();
        let rules = methods.find(|method| title == Some(method.title()));
        (names.filter_map(Variable::from_name))
            .chain(
                rules
                    .into_iter()
                    .flat_map(|rules| rules.channels().iter().copied()),
            )
            .collect()
    }

    /// Events and tracks of the masks, in the calendar of the page; `None` without an event table.
    pub(super) fn source(&self, calendar: Calendar) -> anyhow::Result<Option<Source>> {
        let Some(path) = table_path(&self.tables) else {
            return Ok(None);
        };
        let events = table::read_events(path, calendar)?;
        let strange = events
            .iter()
            .find(|event| self.archive.find(event.time).is_none());
        if let Some(event) = strange {
            return Err(Advice::usage(
                format!(
                    "the events of `{}` are not those of `{}`: one is at {}, of which there is no mask",
                    self.tables, self.folder, event.time
                ),
                format!(
                    "`squall events {} --out FOLDER` makes their table; give it as `{}:FOLDER`",
                    self.folder, self.folder
                ),
            ));
        }
        let tracks = Path::new(&self.tables).join("tracks.csv");
        // A simulation's track table has different columns, but its objects have track ids.
        let tracks = match (self.has_objects(), tracks.is_file()) {
            (true, _) => track::from_events(&events),
            (false, true) => table::read_tracks(&tracks, calendar)?,
            (false, false) => Vec::new(),
        };
        Ok(Some(
            Source::new(self.kind, events, tracks)
                .with_wind(self.wind())
                .of_times(self.archive.times().len()),
        ))
    }

    /// Whether they can have cyclones.
    pub(super) fn tells_cyclones(&self) -> bool {
        self.archive.classes().contains(&Class::TropicalCyclone)
    }

    /// Whether the rules of `deepcam` made them, as far as their first file says.
    pub(super) fn is_of_deepcam(&self) -> bool {
        let first = self.archive.paths().next();
        let about = first.and_then(|path| About::read(path).ok());
        let title = about.and_then(|mut about| about.attributes.remove("title"));
        title.is_some_and(|title| title == Method::Deepcam.title())
    }

    /// Whether the ensemble of `bard` made them.
    pub(super) fn is_of_bard(&self) -> bool {
        let mut attributes = self.archive.made_by().iter();
        attributes.any(|(name, _)| *name == ENSEMBLE)
    }

    /// A note for the reader if a network made these masks of times that it was trained on.
    pub(super) fn learnt_times(&self) -> Option<String> {
        // A file of masks has at least one time.
        input::training_times(&self.archive, 0).map(|times| {
            format!(
                "{times} times of {} were its network's training: scores and agreement there say little about other weather (`squall infer STORE --split test` leaves them out).",
                self.in_sentence()
            )
        })
    }

    /// A note for the reader if these masks have other times than the first ones, whose times the page uses.
    pub(super) fn other_times(&self, first: &Self) -> Option<String> {
        let (own, shown) = (self.archive.times(), first.archive.times());
        let is_shown = |time: &&Time| first.archive.find(**time).is_some();
        let shared = own.iter().filter(is_shown).count();
        (shared < own.len() || shared < shown.len()).then(|| {
            format!(
                "Maps and agreement are of the times of {} ({}). Of {} there are {}, {shared} of them among those. Events are counted at all times of their source: such numbers cannot be compared.",
                first.in_sentence(),
                shown.len(),
                self.in_sentence(),
                own.len()
            )
        })
    }

    /// The wind of their events: objects of a simulation have their vortices' wind, while `squall events` reads that of
    /// the fields, also for the truth's masks.
    fn wind(&self) -> SourceWind {
        match (self.kind, self.has_objects()) {
            (SourceKind::Truth, true) => SourceWind::Vortex,
            _ => SourceWind::Fields,
        }
    }

    /// Whether the table is a simulation's object table.
    fn has_objects(&self) -> bool {
        table_path(&self.tables).is_some_and(|path| path.ends_with("objects.csv"))
    }

    pub(super) fn score_against(&self, truth: &Self) -> anyhow::Result<Scores> {
        let events = table_path(&self.tables).map(|path| path.to_string_lossy().into_owned());
        Score::of_masks(self.folder.clone(), truth.folder.clone(), events).score()
    }
}

/// What made masks: a network if they name its model, and the truth only if one of our synthetic runs wrote them, because
/// others may write of synthetic runs and training steps, too.
fn kind_of(masks: &MaskArchive) -> SourceKind {
    let has_model = |(name, _): &(&str, String)| *name == "squall_model_hash";
    let source = masks.source();
    if masks.made_by().iter().any(has_model) {
        SourceKind::Network
    } else if source.starts_with("squall ") && source.contains(" synthetic ") {
        SourceKind::Truth
    } else {
        SourceKind::Heuristic
    }
}

/// The rules or the network that made masks, as far as they say; `title` is that of their file.
fn maker(masks: &MaskArchive, title: Option<String>) -> String {
    let is_ours = |method: &Method| title.as_deref() == Some(method.title());
    let rules = Method::ALL.into_iter().find(is_ours);
    // Titles are "events of some classes by some rules".
    if let Some((_, rules)) = rules.and_then(|method| method.title().split_once(" by ")) {
        return rules.to_string();
    }
    let source = masks.source();
    match (kind_of(masks), source.split_once(", ")) {
        // The program and its version come first.
        (SourceKind::Network, Some((_, network))) => network.to_string(),
        _ => source.to_string(),
    }
}

/// Explains why masks could not be opened: if a folder has only event tables, the error says so rather than what its
/// files lack.
fn explained(error: DataError, folder: &str) -> anyhow::Error {
    let tables_alone =
        table_path(folder).is_some() && matches!(has_masks(Path::new(folder)), Ok(false));
    if tables_alone {
        Advice::usage(
            format!("`{folder}` has tables of events and no masks"),
            format!("give the masks that they were made of, and the tables behind: MASKS:{folder}"),
        )
    } else {
        error.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::mask_file::{MaskFileOptions, MaskWriter};
    use squall_data::{ClassMask, LatLonGrid};

    #[test]
    fn words_of_others_make_no_truth_and_no_network() {
        let folder = tempfile::tempdir().unwrap();
        let grid = LatLonGrid::global(4, 8).unwrap();
        let time = Time::parse("2000-01-01", Calendar::NoLeap).unwrap();
        let mask = ClassMask {
            time,
            codes: ndarray::Array2::zeros(grid.shape()),
        };
        for (number, (source, model, expected)) in [
            ("squall 0.1.0 synthetic present", None, SourceKind::Truth),
            (
                "TECA BARD on a synthetic control run",
                None,
                SourceKind::Heuristic,
            ),
            ("a table of 20 training steps", None, SourceKind::Heuristic),
            (
                "Squall 0.1.0, deepcam, 400 training steps",
                Some("3f2a"),
                SourceKind::Network,
            ),
            ("squall 0.1.0 label", None, SourceKind::Heuristic),
        ]
        .into_iter()
        .enumerate()
        {
            let path = folder.path().join(format!("{number}.nc"));
            let named = |hash: &str| ("squall_model_hash".to_string(), hash.to_string());
            let options = MaskFileOptions {
                source: source.into(),
                attributes: model.map(named).into_iter().collect(),
                ..MaskFileOptions::default()
            };
            let mut writer = MaskWriter::create(&path, &grid, time, &options).unwrap();
            writer.write(&mask, None).unwrap();
            writer.finish().unwrap();
            let masks = MaskArchive::open_file(&path).unwrap();
            assert_eq!(kind_of(&masks), expected, "{source}");
            let made_by = match expected {
                SourceKind::Network => "deepcam, 400 training steps",
                _ => source,
            };
            assert_eq!(maker(&masks, None), made_by);
            let title = Method::Deepcam.title().to_string();
            assert_eq!(maker(&masks, Some(title)), "the DeepCAM rules");
        }
    }
}
