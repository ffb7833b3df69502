//! By which fields warm cores are told: those that most times have.

use squall_climate::detect::WarmCore;
use squall_data::{Archive, DataError, Variable};

/// Attribute of masks and boxes that says it ([`squall_data::mask_file`] knows it by this name, too).
pub const WARM_CORE: &str = "warm_core";

/// What tells a warm core where there are no heights that would.
pub const SUBSTITUTE: [Variable; 4] = [
    Variable::T200,
    Variable::T500,
    Variable::Z200,
    Variable::Z1000,
];

/// What tells the warm cores of a series: what most times have, of equally many the nearest to what is published. One
/// series is measured in one way: of files of which some have heights the cyclones of some had been found by other
/// limits.
pub fn of(archive: &Archive) -> WarmCore {
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
