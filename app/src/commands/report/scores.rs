//! Scores of the sources of a page against each other, with what they mean.

use super::inputs::Masks;
use crate::commands::score::Scores;
use squall_climate::report::{self, SourceKind};
use squall_data::Class;
use squall_validation::event_scores::EventScore;

/// Every pair of sources, the truth or the heuristic judging.
pub(super) fn scores(masks: &[Masks]) -> anyhow::Result<Vec<report::Score>> {
    let of = |kind: SourceKind| masks.iter().find(|one| one.kind == kind);
    let pairs = [
        (SourceKind::Network, SourceKind::Heuristic),
        (SourceKind::Heuristic, SourceKind::Truth),
        (SourceKind::Network, SourceKind::Truth),
    ];
    let mut all = Vec::new();
    for (judged, judge) in pairs {
        let (Some(judged), Some(judge)) = (of(judged), of(judge)) else {
            continue;
        };
        let group = format!("{} against {}", judged.kind.name(), judge.kind.name());
        all.extend(lines(&group, &judged.score_against(judge)?));
    }
    Ok(all)
}

fn lines(group: &str, scores: &Scores) -> Vec<report::Score> {
    let share = |name: String, value: Option<f64>, meaning: &str| {
        report::Score::fraction(group, name, value.unwrap_or(f64::NAN), meaning)
    };
    let pixels = &scores.pixels;
    let mut lines = vec![
        share(
            "mean IoU".into(),
            Some(pixels.mean_iou),
            "overlap divided by union, over all pixels, mean over the classes",
        ),
        share(
            "mean IoU by area".into(),
            Some(pixels.area_weighted_mean_iou),
            "the same with pixels weighted by their area",
        ),
        share(
            "mean IoU per time".into(),
            Some(pixels.sample_mean_iou),
            "MLPerf HPC's rule: each time alone, an absent class counting 1; the benchmark's target is 0.82",
        ),
    ];
    for class in pixels
        .classes
        .iter()
        .filter(|score| score.class != Class::Background)
    {
        lines.push(share(
            format!("IoU, {}", words(class.class)),
            class.iou,
            "over the pixels of this class",
        ));
    }
    for event in &scores.events.classes {
        let name = words(event.class);
        let (pod, far) = (with_interval(event, true), with_interval(event, false));
        lines.push(share(
            format!("POD, {name}"),
            event.pod,
            &format!("share of the judge's objects that were found{pod}"),
        ));
        lines.push(share(
            format!("FAR, {name}"),
            event.far,
            &format!("share of the objects that the judge does not have{far}"),
        ));
        if let Some(km) = event.mean_distance_km {
            lines.push(report::Score::number(
                group,
                format!("distance, {name}"),
                km,
                "km",
                "mean, between centres of the same object",
            ));
        }
    }
    lines
}

fn with_interval(score: &EventScore, pod: bool) -> String {
    let interval = if pod {
        &score.pod_interval
    } else {
        &score.far_interval
    };
    interval.as_ref().map_or(String::new(), |i| {
        format!(" (95 % interval {:.2} to {:.2})", i.low, i.high)
    })
}

fn words(class: Class) -> &'static str {
    match class {
        Class::Background => "background",
        Class::TropicalCyclone => "tropical cyclones",
        Class::AtmosphericRiver => "atmospheric rivers",
        Class::ExtratropicalCyclone => "extratropical cyclones",
        Class::TropicalDepression => "tropical depressions",
    }
}
