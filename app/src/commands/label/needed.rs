//! What methods cannot do without, and which of them do with what there is.

use super::warm_core;
use squall_climate::detect::Method;
use squall_data::{Archive, Variable};

/// What a method cannot do without, where stored transport or heights serve instead of other channels.
pub fn needed(
    method: Method,
    by_water: bool,
    has_transport: bool,
    by_heights: bool,
) -> Vec<Variable> {
    use Variable::{Tmq, U850, V850};
    let replaced = |v: &Variable| {
        method != Method::Deepcam
            && !(by_water && method == Method::Percentile && *v == Tmq)
            && (has_transport && [Tmq, U850, V850].contains(v)
                || by_heights && warm_core::SUBSTITUTE.contains(v))
    };
    let all = method.channels().iter().copied();
    all.filter(|v| !replaced(v)).collect()
}

/// What labels all times of fields that lack something for `deepcam`, in words; `None` where nothing does. Each method
/// leaves out times that have nothing for it, as it does when it is asked for.
pub fn instead_of_deepcam(mut archive: Archive) -> Option<&'static str> {
    let mut works = |method: Method| {
        archive.leave_out_times_without(method.channels());
        let has_transport = (0..archive.times().len()).all(|index| archive.has_transport(index));
        let core = warm_core::everywhere(&archive, &[]);
        let by_heights = core.is_some_and(|core| core.levels_hpa().is_some());
        let needed = needed(method, false, has_transport, by_heights);
        (method != Method::Tempest || core.is_some())
            && needed.iter().all(|v| archive.available().contains(v))
    };
    if works(Method::Tempest) {
        Some("`--method tempest` works with these files; rivers also with `bard` or `percentile`")
    } else if works(Method::Bard) {
        Some("`--method bard` or `percentile` finds rivers in these files, and no cyclones")
    } else {
        None
    }
}
