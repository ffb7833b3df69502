//! Scores of a page's sources against each other, with explanations.

use super::masks::Masks;
use crate::commands::score::{BoxScores, Scores};
use crate::plan::counted;
use squall_climate::report::{self, SourceKind};
use squall_data::Class;
use squall_validation::average_precision::ClassDetection;
use squall_validation::bootstrap::Interval;
use squall_validation::event_scores::EventScore;

/// Scores the sources against each other; also returns notes about classes that are not scored.
pub(super) fn scores(masks: &[Masks]) -> anyhow::Result<(Vec<report::Score>, Vec<String>)> {
    let mut sources: Vec<&Masks> = masks.iter().collect();
    sources.sort_by_key(|one| one.kind);
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for judge in &sources {
        for judged in sources.iter().filter(|one| judges(judge.kind, one.kind)) {
            let group = format!("{} against {}", judged.label, judge.label);
            let scores = judged.score_against(judge)?;
            notes.extend((scores.left_out.iter()).map(|one| {
                format!(
                    "{group}: {} are not scored, because one side does not look for them.",
                    words(one.class)
                )
            }));
            if scores.missing_share > 0.0 {
                notes.push(format!(
                    "{group}: {:.3} % of the cells are missing on one side and not scored.",
                    100.0 * scores.missing_share
                ));
            }
            if scores.times_without_mask > 0 {
                notes.push(format!(
                    "{group}: {} at which a side has only missing values, not scored.",
                    counted(scores.times_without_mask, "time")
                ));
            }
            all.extend(lines(&group, &scores, judged.kind));
        }
    }
    Ok((all, notes))
}

/// Whether one source judges another: the truth judges all, the heuristic all but the truth, each other source the
/// network.
fn judges(judge: SourceKind, judged: SourceKind) -> bool {
    match judge {
        SourceKind::Truth => judged != SourceKind::Truth,
        SourceKind::Heuristic => {
            matches!(judged, SourceKind::Other(_) | SourceKind::Network)
        }
        SourceKind::Other(_) => judged == SourceKind::Network,
        SourceKind::Network => false,
    }
}

fn lines(group: &str, scores: &Scores, judged: SourceKind) -> Vec<report::Score> {
    let share = |name: String, value: Option<f64>, meaning: &str| {
        report::Score::fraction(group, name, value.unwrap_or(f64::NAN), meaning)
    };
    let pixels = &scores.pixels;
    let seen = pixels.classes.iter().filter(|score| score.iou.is_some());
    let over = mean_over(&seen.map(|score| score.class).collect::<Vec<_>>());
    let of_each = mean_over(&pixels.classes.iter().map(|c| c.class).collect::<Vec<_>>());
    // Rules judged by rules have nothing to do with the benchmark.
    let target = match judged {
        SourceKind::Network => "; the benchmark's target is 0.82",
        _ => "",
    };
    let mut lines = vec![
        share(
            "mean IoU".into(),
            Some(pixels.mean_iou),
            &format!("overlap divided by union, over all pixels, {over}"),
        ),
        share(
            "mean IoU by area".into(),
            Some(pixels.area_weighted_mean_iou),
            "the same with pixels weighted by their area",
        ),
        share(
            "mean IoU per time".into(),
            Some(pixels.sample_mean_iou),
            &format!(
                "MLPerf HPC's rule: each time alone, an absent class counting 1, {of_each}{target}"
            ),
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
    lines.extend(event_lines(group, &scores.events.classes, "objects"));
    lines
}

/// Says which classes a mean is of, and where that is not all that masks may have, that other means are of more.
fn mean_over(classes: &[Class]) -> String {
    let names: Vec<&str> = classes.iter().map(|class| words(*class)).collect();
    let fewer = if classes.len() < Class::ALL.len() {
        " alone, not to be compared with means over other classes"
    } else {
        ""
    };
    format!("mean over {}{fewer}", names.join(", "))
}

/// Box scores: average precision of every class on either side, then hits and false alarms.
pub(super) fn box_lines(group: &str, scores: &BoxScores) -> Vec<report::Score> {
    let score = &scores.boxes.score;
    let mean = &score.mean;
    let over = format!(
        "mean over the classes that the judge has, {}",
        counted(score.times, "time")
    );
    let means = [
        ("0.1", mean.at_10, mean.at_10_interval),
        ("0.5", mean.at_50, mean.at_50_interval),
        ("0.5 to 0.95", mean.coco, mean.coco_interval),
    ];
    let means = means.map(|(level, value, interval)| {
        precision(group, format!("mAP at {level}"), (value, interval), &over)
    });
    let mut lines = Vec::from(means);
    let classes = score.classes.iter();
    let known = classes.filter(|class| class.truths > 0 || class.predictions > 0);
    lines.extend(known.flat_map(|class| class_precisions(group, class)));
    let classes: Vec<EventScore> = (scores.events.classes.iter().copied())
        .filter(|class| class.hits + class.misses + class.false_alarms > 0)
        .collect();
    let sure = format!(
        "{group}, of a confidence of {} or more",
        scores.min_confidence
    );
    lines.extend(event_lines(&sure, &classes, "boxes"));
    lines
}

/// The average precision of a class at each overlap.
fn class_precisions(group: &str, class: &ClassDetection) -> [report::Score; 3] {
    let name = words(class.class.into());
    let of = format!(
        "{} against {}",
        counted(class.predictions, "box"),
        class.truths
    );
    let found = "found where shared over covered area is";
    let (at_10, at_50) = (&class.at_10, &class.at_50);
    [
        (
            "0.1",
            (at_10.average_precision, at_10.interval),
            format!("{of}, {found} 0.1 or more"),
        ),
        (
            "0.5",
            (at_50.average_precision, at_50.interval),
            format!("{of}, {found} 0.5 or more"),
        ),
        (
            "0.5 to 0.95",
            (class.coco, class.coco_interval),
            format!("{of}, mean over 0.5, 0.55 and so on"),
        ),
    ]
    .map(|(level, value, meaning)| {
        precision(group, format!("AP at {level}, {name}"), value, &meaning)
    })
}

/// An average precision with its interval; NaN if undefined.
fn precision(
    group: &str,
    name: String,
    (value, interval): (Option<f64>, Option<Interval>),
    meaning: &str,
) -> report::Score {
    let meaning = format!("{meaning}{}", in_words(interval.as_ref()));
    report::Score::fraction(group, name, value.unwrap_or(f64::NAN), meaning)
}

/// POD, FAR and distance of each class; `what` is scored.
fn event_lines(group: &str, classes: &[EventScore], what: &str) -> Vec<report::Score> {
    let share = |name: String, value: Option<f64>, meaning: &str| {
        report::Score::fraction(group, name, value.unwrap_or(f64::NAN), meaning)
    };
    let mut lines = Vec::new();
    for event in classes {
        let name = words(event.class);
        let pod = in_words(event.pod_interval.as_ref());
        let far = in_words(event.far_interval.as_ref());
        lines.push(share(
            format!("POD, {name}"),
            event.pod,
            &format!(
                "share of the judge's {what} that were found{pod}{}",
                beside_chance(event)
            ),
        ));
        // Without a bar: the longer, the worse.
        lines.push(report::Score {
            fraction: None,
            ..share(
                format!("FAR, {name}"),
                event.far,
                &format!("share of the {what} that the judge does not have{far}"),
            )
        });
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

/// Describes what chance alone would have found, as the end of a sentence; empty if unknown.
fn beside_chance(event: &EventScore) -> String {
    let skill = event.skill.map_or(String::new(), |skill| {
        format!(", which leaves a skill of {skill:.2}")
    });
    event.chance_pod.map_or(String::new(), |chance| {
        format!("; {chance:.2} were found by chance, by predictions moved in time{skill}")
    })
}

/// Formats a confidence interval as the end of a sentence.
fn in_words(interval: Option<&Interval>) -> String {
    interval.map_or(String::new(), |i| {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A method that looks for rivers alone had a mean over two classes beside those of others over three.
    #[test]
    fn means_say_which_classes_they_are_of() {
        assert_eq!(
            mean_over(&Class::ALL),
            "mean over background, tropical cyclones, atmospheric rivers"
        );
        assert_eq!(
            mean_over(&[Class::Background, Class::AtmosphericRiver]),
            "mean over background, atmospheric rivers alone, not to be compared with means over other classes"
        );
    }
}
