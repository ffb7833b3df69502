//! What a path given to `squall score` holds.

use anyhow::Context;
use squall_climate::track::readers::format_of;
use squall_data::mask_file::MaskArchive;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// What can be scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Masks on a grid.
    Masks,
    /// Boxes around storms.
    Boxes,
    /// Points of tracks.
    Tracks,
}

impl Kind {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Masks => "masks",
            Self::Boxes => "boxes",
            Self::Tracks => "tracks",
        }
    }
}

/// One thing that a path holds.
#[derive(Debug, Clone)]
pub struct Offer {
    /// What it is.
    pub kind: Kind,
    /// Where it is.
    pub path: PathBuf,
}

/// All that a path holds: a file one thing, a folder of results perhaps several; what is no table counts as masks.
pub fn offers(input: &str) -> anyhow::Result<Vec<Offer>> {
    let path = Path::new(input);
    let offer = |kind, path: &Path| Offer {
        kind,
        path: path.to_path_buf(),
    };
    if path.is_file() {
        return Ok(vec![offer(kind_of(path)?, path)]);
    }
    let mut found = Vec::new();
    if path.is_dir() {
        let table = |name: &str| Some(path.join(name)).filter(|p| p.is_file());
        if let Some(boxes) = table("boxes.csv") {
            found.push(offer(Kind::Boxes, &boxes));
        }
        if let Some(events) = table("events.csv").or_else(|| table("objects.csv")) {
            found.push(offer(Kind::Tracks, &events));
        }
        let entries = std::fs::read_dir(path).with_context(|| format!("reading `{input}`"))?;
        let is_netcdf = |path: &Path| path.extension().is_some_and(|end| end == "nc");
        let masks = entries.filter_map(Result::ok).any(|e| {
            let name = e.file_name();
            is_netcdf(&e.path()) && name != "statistics.nc"
        });
        if !masks && !found.is_empty() {
            return Ok(found);
        }
    }
    found.push(offer(Kind::Masks, path));
    Ok(found)
}

fn kind_of(path: &Path) -> anyhow::Result<Kind> {
    let end = path.extension().unwrap_or_default().to_string_lossy();
    match end.to_ascii_lowercase().as_str() {
        "csv" if has_edges(path)? => return Ok(Kind::Boxes),
        "json" => return Ok(Kind::Boxes),
        // ExtremeWeather's boxes have the name of DeepCAM's masks.
        "h5" | "hdf5" | "he5" if MaskArchive::open(&path.to_string_lossy()).is_err() => {
            return Ok(Kind::Boxes);
        }
        _ => {}
    }
    Ok(match format_of(path)? {
        Some(_) => Kind::Tracks,
        None => Kind::Masks,
    })
}

/// Whether the header names edges of boxes and no centre.
fn has_edges(path: &Path) -> anyhow::Result<bool> {
    let file =
        std::fs::File::open(path).with_context(|| format!("reading `{}`", path.display()))?;
    let mut header = String::new();
    // A binary file is no table.
    if BufReader::new(file).read_line(&mut header).is_err() {
        return Ok(false);
    }
    let has = |wanted: &str| header.split(',').any(|name| name.trim() == wanted);
    Ok(has("west_deg") && has("north_deg") && !has("lon_deg"))
}
