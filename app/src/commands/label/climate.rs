//! The climate whose percentiles serve as thresholds: that of another run, or the run's own, saved for other runs.

use super::Label;
use super::masks::Masks;
use super::rules::{Rules, TABLES};
use crate::failure::Advice;
use crate::input::name_of;
use squall_climate::ClimateError;
use squall_climate::detect::percentile::{
    ClimateOrigin, Moisture, MoistureRecord, MonthlyThresholds, PercentileThresholds,
    SavedClimatology,
};
use squall_climate::detect::{Method, TransportSource};
use squall_data::{Archive, DataError, atomic};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Folder of a climatology. It is separate because all netCDF files next to masks are read as masks.
const FOLDER: &str = "climatology";
const FILE: &str = "percentile_thresholds.nc";

/// Mask attributes that identify the climate: whose it is, and a fingerprint ([`squall_data::mask_file`] uses the first
/// name, too).
pub const WHOSE: &str = "percentile_climatology_of";
pub const CLIMATE: &str = "percentile_climatology";

/// The value of [`WHOSE`] for the run's own climate.
pub const OWN: &str = "the run itself";
const GIVEN: &str = "another run";

/// The climatology of another run (`--climatology`).
pub struct Given {
    path: PathBuf,
    /// What was read.
    pub climatology: SavedClimatology,
}

impl Given {
    /// Opens the climatology that a command names, if any.
    ///
    /// # Errors
    /// What cannot be found, or is not a climatology.
    pub fn open(command: &Label) -> anyhow::Result<Option<Self>> {
        let Some(named) = &command.climatology else {
            return Ok(None);
        };
        let path = find(named)?;
        let climatology = SavedClimatology::read(&path)?;
        tracing::info!(
            "percentile goes by `{}`: {}",
            path.display(),
            climatology.describe()
        );
        Ok(Some(Self { path, climatology }))
    }

    /// Copies the numbers that the climatology was made with into the thresholds.
    ///
    /// # Errors
    /// A different number in the command's own file of thresholds.
    pub fn rule(&self, command: &Label, own: &mut PercentileThresholds) -> anyhow::Result<()> {
        let all = command.read_thresholds::<toml::Table>(TABLES)?;
        let table = all
            .as_ref()
            .and_then(|all| all.get(Method::Percentile.name()));
        let table = table.and_then(toml::Value::as_table);
        let is_set = |key: &str| table.is_some_and(|table| table.contains_key(key));
        if let Some((key, its, own)) = self.climatology.contradiction(own, is_set) {
            let thresholds = command.thresholds.as_deref().unwrap_or(Path::new(""));
            return Err(Advice::usage(
                format!(
                    "`{key}` of [percentile] is {own} in `{}`, and the climatology `{}` was made by {its}",
                    thresholds.display(),
                    self.path.display()
                ),
                format!(
                    "leave `{key}` out, or make the climatology anew by these thresholds: a percentile cannot be changed \
                     once it is taken"
                ),
            ));
        }
        self.climatology.rule(own);
        Ok(())
    }

    /// Rejects fields that it does not apply to, before any is read.
    ///
    /// # Errors
    /// [`ClimateError::Climatology`].
    pub fn check(&self, archive: &Archive) -> Result<(), ClimateError> {
        self.climatology
            .check(&self.path, archive.grid(), archive.times())
    }

    /// Rejects vapour transport from another source.
    ///
    /// # Errors
    /// [`ClimateError::Climatology`].
    pub fn check_transport(&self, source: TransportSource) -> Result<(), ClimateError> {
        self.climatology.check_transport(&self.path, source)
    }

    /// Rejects moisture that is computed differently or over other levels; logs where that cannot be determined, and
    /// where only names differ.
    ///
    /// # Errors
    /// [`ClimateError::Climatology`].
    pub fn check_moisture(&self, own: &MoistureRecord) -> Result<(), ClimateError> {
        if let Some(doubt) = self.climatology.check_moisture(&self.path, own)? {
            tracing::warn!("{doubt}");
        }
        Ok(())
    }
}

/// Finds the file of a climatology: the path itself, or inside or next to a folder of labels.
fn find(named: &Path) -> anyhow::Result<PathBuf> {
    if !named.is_dir() {
        return Ok(named.to_path_buf());
    }
    let within = [
        PathBuf::from(FILE),
        Path::new(FOLDER).join(FILE),
        // With several methods each has its own folder.
        Path::new(Method::Percentile.name()).join(FOLDER).join(FILE),
    ];
    let mut files = within.iter().map(|file| named.join(file));
    files.find(|file| file.is_file()).ok_or_else(|| {
        Advice::input(
            format!("`{}` has no {FOLDER}/{FILE}", named.display()),
            "label the run whose climate counts by `squall label --method percentile` first: that is where it saves its thresholds",
        )
    })
}

/// The climatology of a run: the given one, or its own with these thresholds.
pub fn in_force(
    rules: &Rules,
    archive: &Archive,
    (transport, moisture): (Option<TransportSource>, Option<&MoistureRecord>),
    usual: &Arc<MonthlyThresholds>,
) -> Result<SavedClimatology, ClimateError> {
    if let Some(given) = &rules.climate {
        return Ok(given.climatology.clone());
    }
    let numbers = &rules.thresholds.percentile;
    let first = archive.paths().next().map(name_of).unwrap_or_default();
    let input = match archive.paths().count() {
        0 | 1 => first,
        2 => format!("{first} and 1 more file"),
        count => format!("{first} and {} more files", count - 1),
    };
    let times = archive.times();
    let span = [times.first(), times.last()];
    let moves = numbers.moisture == Moisture::Transport;
    let origin = ClimateOrigin {
        input,
        span: span.map(|time| time.map(ToString::to_string).unwrap_or_default()),
        calendar: archive.calendar().cf_name().into(),
        transport: transport
            .filter(|_| moves)
            .map(|source| source.describe().into()),
        moisture: moisture.cloned(),
    };
    SavedClimatology::new(usual.clone(), numbers, archive.grid().clone(), origin)
}

/// Percentile masks with attributes for whose climate they use and, if known yet, its fingerprint.
pub fn with_climate<'a>(masks: Masks<'a>, given: Option<&Given>) -> Masks<'a> {
    match given {
        Some(given) => masks
            .saying(WHOSE, GIVEN)
            .saying(CLIMATE, &given.climatology.describe()),
        None => masks.saying(WHOSE, OWN),
    }
}

/// Saves a climatology next to masks, and records it in their attributes.
pub fn keep(climatology: &SavedClimatology, masks: &mut Masks<'_>) -> Result<(), ClimateError> {
    let folder = masks.folder().join(FOLDER);
    std::fs::create_dir_all(&folder).map_err(DataError::io("create folder", &folder))?;
    // Removes leftovers of a killed run.
    atomic::sweep(&folder, |name| name == FILE)?;
    let path = folder.join(FILE);
    climatology.write(&path)?;
    tracing::info!(
        "the thresholds of percentile are in `{}`: --climatology applies them to other runs",
        path.display()
    );
    masks.say(CLIMATE, &climatology.describe());
    Ok(())
}
