//! Describes a file or folder, as text and as data.

use crate::archive::coordinates::{TimeAxis, time_axis};
use crate::archive::scan;
use crate::archive::{
    Archive, BadFiles, Conversion, Match, conversion, files_of, matches, nc, on_library_thread,
};
use crate::error::Result;
use crate::gaps::Gaps;
use crate::mask_file::MaskArchive;
use crate::{Time, Variable};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// A kind of file in an archive: surface and level fields are often in separate files.
#[derive(Debug, Serialize)]
pub struct Make {
    /// The first file of this kind.
    pub file: PathBuf,
    /// The number of such files.
    pub files: usize,
    /// The variables of that file.
    pub variables: Vec<VariableInfo>,
}

/// One variable.
#[derive(Debug, Serialize)]
pub struct VariableInfo {
    /// Name in the file.
    pub name: String,
    /// Unit in the file.
    pub units: Option<String>,
    /// Dimension names and lengths.
    pub dimensions: Vec<(String, usize)>,
    /// Its uses: channels read directly or computed, vapour transport.
    pub channels: Vec<String>,
    /// The conversion to the channel's unit, or why there is none.
    pub conversion: Option<String>,
}

/// The description of a file or folder.
#[derive(Debug, Serialize)]
pub struct Inspection {
    /// The input as given.
    pub input: String,
    /// Number of files found.
    pub files: usize,
    /// Total size of all files in bytes.
    pub bytes: u64,
    /// The dialect: which model's or tool's conventions the files follow.
    pub dialect: &'static str,
    /// The kinds of files; if they do not form an archive, only the first that can be opened.
    pub makes: Vec<Make>,
    /// Channels available at every time.
    pub channels: Vec<String>,
    /// The grid, if it is a latitude-longitude grid.
    pub grid: Option<String>,
    /// Its rows and columns.
    pub grid_shape: Option<(usize, usize)>,
    /// The calendar.
    pub calendar: Option<String>,
    /// First time, last time, number of times.
    pub times: Option<(String, String, usize)>,
    /// Hours between times, if uniform.
    pub step_hours: Option<f64>,
    /// Numbers of tracks and of their points, for a file of tracks; filled in by the caller that can read these.
    pub tracks: Option<(usize, usize)>,
    /// What was guessed, skipped or is wrong.
    pub problems: Vec<String>,
    /// Whether any of it is readable as fields, masks or boxes; tables are not considered here.
    pub usable: bool,
    /// The other channels, with what they could be computed from; empty if no time has any channel.
    pub missing: Vec<String>,
    /// The channels that methods of labelling lack, by their names; filled in by the caller that knows them.
    pub label_lacks: BTreeMap<String, Vec<String>>,
}

impl Inspection {
    /// A new inspection with only the dialect known.
    pub fn new(input: &str, dialect: &'static str) -> Self {
        Self {
            input: input.to_string(),
            files: 0,
            bytes: 0,
            dialect,
            makes: Vec::new(),
            channels: Vec::new(),
            grid: None,
            grid_shape: None,
            calendar: None,
            times: None,
            step_hours: None,
            tracks: None,
            problems: Vec::new(),
            usable: false,
            missing: Vec::new(),
            label_lacks: BTreeMap::new(),
        }
    }
}

/// Inspects a file, folder, glob or list of files.
///
/// # Errors
/// [`crate::DataError`] of the first file, if nothing exists or no file is netCDF.
pub fn inspect(input: &str) -> Result<Inspection> {
    Ok(inspect_with_archive(input)?.0)
}

/// As [`inspect`], with the archive, if the files form one.
///
/// # Errors
/// As of [`inspect`].
pub fn inspect_with_archive(input: &str) -> Result<(Inspection, Option<Archive>)> {
    let files = files_of(input)?;
    let look = |path: &PathBuf| look(path).map(|variables| (path.clone(), variables));
    // The first that can be opened; earlier ones are listed among the problems.
    let (shown, first) = on_library_thread(|| match look(&files[0]) {
        Err(error) => (files[1..].iter())
            .find_map(|path| look(path).ok())
            .ok_or(error),
        found => found,
    })?;
    let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |m| m.len());
    let dialect = dialect(&shown, &first.iter().collect::<Vec<_>>());
    let mut inspection = Inspection {
        files: files.len(),
        bytes: files.iter().map(size).sum(),
        makes: vec![Make {
            file: shown.clone(),
            files: files.len(),
            variables: first,
        }],
        ..Inspection::new(input, dialect)
    };
    let archive = match Archive::open_with(input, BadFiles::Skip) {
        Err(error) => {
            inspection.problems.push(error.to_string());
            // WRF and rotated grids are rejected, but their dates are still informative.
            let axis =
                on_library_thread(|| nc::open(&shown).and_then(|file| time_axis(&shown, &file)));
            if let Ok(TimeAxis {
                times, calendar, ..
            }) = axis
            {
                inspection.calendar = Some(calendar.cf_name().to_string());
                inspection.set_times(&times);
            }
            None
        }
        Ok(mut archive) => {
            // As the commands do that read it.
            let together = archive.most_together();
            let left_out = archive.leave_out_times_without(&together);
            inspection.problems.extend(left_out);
            let names = archive.available().iter().map(|v| v.name().to_string());
            inspection.channels = names.collect();
            inspection.missing = missing(&archive);
            inspection.grid = Some(archive.grid().describe());
            inspection.grid_shape = Some(archive.grid().shape());
            inspection.calendar = Some(archive.calendar().cf_name().to_string());
            inspection.set_times(archive.times());
            inspection.set_makes(&archive)?;
            inspection.usable = has_fields(&archive);
            inspection
                .problems
                .extend(archive.problems().iter().cloned());
            Some(archive)
        }
    };
    let holds_events = !inspection.usable
        && (inspection.has_boxes() || MaskArchive::open_with(input, None, BadFiles::Skip).is_ok());
    if archive.is_some() && inspection.channels.is_empty() {
        let none = match inspection.missing.is_empty() {
            // Masks and boxes have no use for channels.
            true if holds_events => None,
            true => Some("no channel of the sixteen is there: nothing to label or to learn from"),
            false => Some(
                "no channel of the sixteen is at every time: files of some have other times than those of others",
            ),
        };
        inspection.problems.extend(none.map(String::from));
    }
    inspection.usable = inspection.usable || holds_events;
    Ok((inspection, archive))
}

/// The channels that are not at every time, with what they could be computed from; none if no time has any channel.
fn missing(archive: &Archive) -> Vec<String> {
    let counts = Variable::CHANNELS.map(|channel| (channel, archive.times_with(channel)));
    if counts.iter().all(|(_, count)| *count == 0) {
        return Vec::new();
    }
    let lacking = counts
        .into_iter()
        .filter(|(_, count)| *count < archive.times().len());
    let say = |(channel, count): (Variable, usize)| {
        let remark = match channel {
            _ if count > 0 => " (at some times only)",
            Variable::Tmq => " (or humidity on pressure levels, such as q)",
            Variable::Qrefht => " (or the dew point with the surface pressure: d2m and sp)",
            Variable::Zbot => " (or TREFHT)",
            _ => "",
        };
        format!("{channel}{remark}")
    };
    lacking.map(say).collect()
}

/// Whether the archive has fields that any command reads: a channel, vapour transport, or a field on pressure levels.
fn has_fields(archive: &Archive) -> bool {
    let has_levels = || !archive.times().is_empty() && !archive.level_fields(0).is_empty();
    !archive.available().is_empty() || archive.has_transport(0) || has_levels()
}

impl Inspection {
    /// Whether there are boxes in ExtremeWeather's format.
    fn has_boxes(&self) -> bool {
        let mut variables = self.makes.iter().flat_map(|make| &make.variables);
        variables.any(|variable| variable.name == "boxes" && variable.dimensions.len() == 3)
    }

    /// Fills in the contents by kind of file.
    fn set_makes(&mut self, archive: &Archive) -> Result<()> {
        let mut makes = Vec::new();
        for (path, files) in archive.makes() {
            makes.push(Make {
                file: path.to_path_buf(),
                files,
                variables: on_library_thread(|| look(path))?,
            });
        }
        let all = makes.iter().flat_map(|make| &make.variables);
        let all: Vec<&VariableInfo> = all.collect();
        if let Some(make) = makes.first() {
            self.dialect = dialect(&make.file, &all);
        }
        self.makes = makes;
        Ok(())
    }

    fn set_times(&mut self, times: &[Time]) {
        let (Some(first), Some(last)) = (times.first(), times.last()) else {
            return;
        };
        self.times = Some((first.to_string(), last.to_string(), times.len()));
        let mut steps = times.windows(2).map(|pair| pair[1].seconds_since(pair[0]));
        if let Some(step) = steps.next() {
            if steps.all(|other| other == step) {
                self.step_hours = Some(step as f64 / 3600.0);
            } else {
                let gaps = Gaps::of(times).map(|gaps| gaps.to_string());
                let uneven = || "the time axis is uneven".to_string();
                self.problems.push(gaps.unwrap_or_else(uneven));
            }
        }
    }
}

/// The variables of a file with the channels that they provide; no channels if the file is not readable as fields,
/// whatever the variables' names.
fn look(path: &Path) -> Result<Vec<VariableInfo>> {
    let layout = scan::scan(path).ok().map(|info| info.layout);
    let file = nc::open(path)?;
    let info = |variable: netcdf::Variable<'_>| {
        let name = variable.name();
        let units = nc::text(&variable, "units");
        let serves = |channel| {
            let source = layout.as_ref().and_then(|layout| layout.channel(channel));
            source.is_some_and(|source| source.name == name)
        };
        let mut found = matches(&name);
        found.retain(|(channel, _)| serves(*channel));
        let named = |(channel, kind): &(Variable, Match)| match kind {
            Match::Same => channel.name().to_string(),
            Match::Proxy(difference) => format!("{channel} ({difference})"),
            Match::Level(hpa) => format!("{channel} (at {hpa} hPa)"),
            Match::Lowest => format!("{channel} (at the lowest model level)"),
            Match::HourlyTotal => format!("{channel} (a sum of an hour)"),
        };
        let convert = |units: &String| {
            let (channel, kind) = found.first()?;
            let target = channel.entry().unit;
            if *kind == Match::HourlyTotal {
                return Some(format!("`{units}` an hour → {target}"));
            }
            Some(match conversion(target, units) {
                Some(same) if same == Conversion::IDENTITY => format!("in {target}"),
                Some(Conversion { factor, offset }) => format!("× {factor} + {offset} → {target}"),
                None => format!("`{units}` cannot be converted to {target}"),
            })
        };
        let mut channels: Vec<String> = found.iter().map(named).collect();
        let others = layout.iter().flat_map(|layout| layout.other_uses(&name));
        channels.extend(others.map(String::from));
        VariableInfo {
            conversion: units.as_ref().and_then(convert),
            channels,
            dimensions: nc::dimensions(&variable),
            name,
            units,
        }
    };
    let mut all: Vec<VariableInfo> = file.variables().map(info).collect();
    // Variables in groups (DeepCAM HDF5) are listed but not readable.
    for group in file.groups().into_iter().flatten() {
        let prefix = group.name();
        all.extend(group.variables().map(|variable| VariableInfo {
            name: format!("{prefix}/{}", variable.name()),
            units: nc::text(&variable, "units"),
            dimensions: nc::dimensions(&variable),
            channels: Vec::new(),
            conversion: None,
        }));
    }
    Ok(all)
}

fn dialect(path: &Path, variables: &[&VariableInfo]) -> &'static str {
    let has = |name: &str| variables.iter().any(|v| v.name == name);
    let file = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    let has_any = |names: &[&str]| names.iter().any(|name| has(name));
    if has("LABELS") && has("TMQ") {
        "ClimateNet"
    } else if has_any(&["LABELS", "ar_binary_tag", "binary_tag", "object_id"]) {
        "masks"
    } else if has("climate/data") {
        "DeepCAM HDF5"
    } else if has_any(&["PRMSL", "PWAT", "PRATE", "prmslmsl", "PRMSL_meansealevel"]) {
        "GFS"
    } else if has_any(&["XLAT", "XLONG"]) {
        "WRF"
    } else if has("hyam") || has("date") && has("datesec") || file.contains(".cam") {
        "CAM history"
    } else if has_any(&["tcwv", "msl"]) || has("u10") && has("v10") {
        "ERA5"
    } else if has_any(&["TQV", "SLP", "QV2M"]) {
        "MERRA-2"
    } else if has_any(&["prw", "psl", "ta", "hus", "tas", "pr"]) {
        "CMIP"
    } else if has_any(&["TMQ", "PSL", "PRECT"]) {
        "CAM names"
    } else {
        "unknown"
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = if self.files == 1 {
            "1 file".to_string()
        } else {
            format!("{} files", self.files)
        };
        writeln!(f, "{}: {files}, dialect: {}", self.input, self.dialect)?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, value: &Option<String>| match value {
            Some(value) => writeln!(f, "  {name:<9} {value}"),
            None => Ok(()),
        };
        line(f, "grid", &self.grid)?;
        line(f, "calendar", &self.calendar)?;
        if let Some((first, last, count)) = &self.times {
            let step = self
                .step_hours
                .map(|hours| format!(", every {hours} h"))
                .unwrap_or_default();
            writeln!(f, "  times     {count}: {first} to {last}{step}")?;
        }
        if let Some((tracks, points)) = self.tracks {
            writeln!(f, "  tracks    {tracks}, of {points} points")?;
        }
        if !self.channels.is_empty() {
            writeln!(
                f,
                "  channels  {} of 16: {}",
                self.channels.len(),
                self.channels.join(" ")
            )?;
        }
        if !self.missing.is_empty() {
            writeln!(f, "  missing   {}", self.missing.join(", "))?;
        }
        if !self.label_lacks.is_empty() {
            let methods = self.label_lacks.iter();
            let (able, others): (Vec<_>, Vec<_>) =
                methods.partition(|(_, lacking)| lacking.is_empty());
            let able: Vec<&str> = able.into_iter().map(|(name, _)| name.as_str()).collect();
            let able = match able.is_empty() {
                true => "by no method".to_string(),
                false => format!("by {}", able.join(", ")),
            };
            let others = others.into_iter();
            let others =
                others.map(|(name, lacking)| format!("; {name} lacks {}", lacking.join(" ")));
            writeln!(f, "  label     {able}{}", others.collect::<String>())?;
        }
        for make in &self.makes {
            match self.makes.len() {
                1 => writeln!(f, "  variables")?,
                _ => writeln!(f, "  variables of {}", make.name())?,
            }
            (make.variables.iter()).try_for_each(|variable| writeln!(f, "    {variable}"))?;
        }
        self.problems
            .iter()
            .try_for_each(|problem| writeln!(f, "  note: {problem}"))
    }
}

impl Make {
    /// The first file, and the number of others.
    fn name(&self) -> String {
        let name = self.file.file_name().unwrap_or(self.file.as_os_str());
        let name = name.to_string_lossy();
        match self.files {
            1 => name.into_owned(),
            2 => format!("{name} and another file"),
            files => format!("{name} and {} more", files - 1),
        }
    }
}

impl fmt::Display for VariableInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dimensions = self.dimensions.iter();
        let shape: Vec<String> = dimensions.map(|(name, n)| format!("{name} {n}")).collect();
        let (units, shape) = (self.units.as_deref().unwrap_or("-"), shape.join(", "));
        write!(f, "{:<16} {units:<12} ({shape})", self.name)?;
        match (&self.channels[..], &self.conversion) {
            ([], _) => Ok(()),
            (channels, None) => write!(f, " → {}", channels.join(", ")),
            (channels, Some(conversion)) => write!(f, " → {} ({conversion})", channels.join(", ")),
        }
    }
}
