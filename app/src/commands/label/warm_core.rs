//! Selects the fields by which warm cores are detected: those that most times have.

use squall_climate::detect::WarmCore;
use squall_data::{Archive, DataError, Variable};

/// Mask attribute that records it ([`squall_data::mask_file`] uses this name, too).
pub const WARM_CORE: &str = "warm_core";

/// The fields that detect a warm core without suitable heights.
pub const SUBSTITUTE: [Variable; 4] = [
    Variable::T200,
    Variable::T500,
    Variable::Z200,
    Variable::Z1000,
];

/// How the warm cores of a series are detected: by the fields that most times have; in a tie, by those closest to the
/// published ones. A series must be measured in one way; otherwise, in files with and without heights, cyclones would
/// be found by different limits.
pub fn most_frequent(archive: &Archive) -> WarmCore {
    let has = |core: WarmCore, index: usize| match core.levels_hpa() {
        Some(_) => check(archive, index, core).is_ok(),
        None => SUBSTITUTE.iter().all(|v| archive.offers(index, *v)),
    };
    let counts = WarmCore::ALL.map(|core| {
        let times = 0..archive.times().len();
        (core, times.filter(|index| has(core, *index)).count())
    });
    let most = counts.iter().map(|(_, count)| *count).max();
    let mut there = counts.into_iter().filter(|(_, count)| *count > 0);
    let found = there.find(|(_, count)| Some(*count) == most);
    found.map_or(WarmCore::Substitute, |(core, _)| core)
}

/// What tells the warm cores of all times that have these channels, the nearest to what is published first; `None` where
/// nothing does at all of them. Who does without looks for them at all times or at none.
pub fn everywhere(archive: &Archive, needed: &[Variable]) -> Option<WarmCore> {
    let offers = |index: usize, all: &[Variable]| all.iter().all(|v| archive.offers(index, *v));
    let has = |core: WarmCore, index: usize| match core.levels_hpa() {
        Some(_) => check(archive, index, core).is_ok(),
        None => offers(index, &SUBSTITUTE),
    };
    let mut whole = (0..archive.times().len()).filter(|index| offers(*index, needed));
    WarmCore::ALL
        .into_iter()
        .find(|core| whole.clone().all(|index| has(*core, index)))
        .filter(|_| whole.next().is_some())
}

/// Refuses a time of which no file has one of the heights by which warm cores are told.
pub fn check(archive: &Archive, index: usize, core: WarmCore) -> Result<(), DataError> {
    let has = |hpa: &u16| archive.has_level(index, "Z", f64::from(*hpa));
    let mut levels = core.levels_hpa().into_iter().flatten();
    let Some(lacking) = levels.find(|hpa| !has(hpa)) else {
        return Ok(());
    };
    let found = archive.level_fields(index).into_iter();
    Err(DataError::MissingVariable {
        path: archive.source_of(index).0.into(),
        variable: format!("Z at {lacking} hPa"),
        found: found.map(String::from).collect(),
    })
}
