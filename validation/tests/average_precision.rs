//! Average precision of boxes against hand-made cases and properties.

use approx::assert_relative_eq;
use proptest::prelude::*;
use squall_data::{BoxClass, Calendar, GeoBox, Time};
use squall_validation::average_precision::{
    BoxScores, BoxesAt, DetectionScorer, ListsAll, score_boxes,
};
use squall_validation::bootstrap::Bootstrap;
use squall_validation::error::Result;

const TC: BoxClass = BoxClass::TropicalCyclone;

fn time(step: i64) -> Time {
    let start = Time::new(Calendar::NoLeap, 1984, 2, 27, 0, 0, 0).unwrap();
    start.add_seconds(step * 10_800)
}

fn geo(class: BoxClass, west_deg: f64, width_deg: f64, confidence: Option<f32>) -> GeoBox {
    GeoBox {
        class,
        west_deg: west_deg.rem_euclid(360.0),
        south_deg: 10.0,
        east_deg: (west_deg + width_deg).rem_euclid(360.0),
        north_deg: 20.0,
        confidence,
    }
}

fn quick() -> Bootstrap {
    Bootstrap {
        draws: 0,
        ..Bootstrap::default()
    }
}

/// Scores tables of unknown origin.
fn scored(truth: &[BoxesAt], predicted: &[BoxesAt]) -> Result<BoxScores> {
    score_boxes(truth, predicted, ListsAll::default(), &quick())
}

/// Four true cyclones at two times; five predicted ones whose order by confidence is right, wrong, right, right, wrong.
fn hand_made() -> Vec<(Time, Vec<GeoBox>, Vec<GeoBox>)> {
    let truth = |west| geo(TC, west, 10.0, None);
    let found = |west, confidence| geo(TC, west, 10.0, Some(confidence));
    vec![
        (
            time(0),
            // The first lies across 0°E.
            vec![truth(355.0), truth(40.0)],
            // Half of a box in common: overlap 1/3. The 0.8 repeats a true box that is taken.
            vec![found(355.0, 0.9), found(356.0, 0.8), found(45.0, 0.7)],
        ),
        (
            time(1),
            vec![truth(100.0), truth(200.0)],
            vec![found(101.0, 0.6), found(300.0, 0.5)],
        ),
    ]
}

#[test]
fn a_table_worked_by_hand() {
    let mut scorer = DetectionScorer::new();
    for (time, truth, predicted) in hand_made() {
        scorer.add(time, &truth, &predicted).unwrap();
    }
    let score = scorer.score(&quick()).unwrap();
    let class = &score.classes[1];
    assert_eq!(
        (class.truths, class.predictions, class.at_10.hits),
        (4, 5, 3)
    );
    let steps = 1.0 + 2.0 / 3.0 + 0.75;
    assert_relative_eq!(class.at_10.average_precision.unwrap(), steps / 4.0);
    assert_relative_eq!(class.at_10.average_precision_of_found.unwrap(), steps / 3.0);
    let coco = (26.0 + 50.0 * 0.75) / 101.0;
    assert_relative_eq!(class.at_10.average_precision_coco.unwrap(), coco);
    // At 0.5 the box of 0.7 (overlap 1/3) is wrong: right, wrong, wrong, right (9/11 in common), wrong.
    assert_eq!(class.at_50.hits, 2);
    assert_relative_eq!(class.at_50.average_precision.unwrap(), (1.0 + 0.5) / 4.0);
    // Up to 0.8 that holds; from 0.85 on only the first box is right.
    let (two, one) = ((26.0 + 25.0 * 0.5) / 101.0, 26.0 / 101.0);
    assert_relative_eq!(class.coco.unwrap(), (7.0 * two + 3.0 * one) / 10.0);
    // The other classes have no truth: the mean is this class alone, and says so.
    assert_eq!(score.mean.at_10, class.at_10.average_precision);
    assert_eq!(score.classes_without_truth.len(), 3);
    assert_eq!(score.classes[3].at_10.average_precision, None);
    let text = score.to_string();
    for part in [
        "tropical_cyclone",
        "0.6042",
        "left out of the mean",
        "atmospheric_river",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn the_nearest_free_true_box_is_taken_once() {
    // The surer box overlaps both true ones, the second more; the other box overlaps only the second.
    let truth = [geo(TC, 0.0, 10.0, None), geo(TC, 4.0, 10.0, None)];
    let predicted = [geo(TC, 3.0, 10.0, Some(0.9)), geo(TC, 8.0, 10.0, Some(0.8))];
    let mut scorer = DetectionScorer::new();
    scorer.add(time(0), &truth, &predicted).unwrap();
    let class = scorer.score(&quick()).unwrap().classes[1];
    // The 0.8 box shares 2 of 18 degrees (0.111) with the first, which is enough at 0.1 and not at 0.5.
    assert_eq!((class.at_10.hits, class.at_50.hits), (2, 1));
}

#[test]
fn perfect_is_one_nothing_is_zero_and_another_class_is_wrong() {
    let truth: Vec<GeoBox> = (0..9)
        .map(|k| geo(BoxClass::ALL[k % 4], 20.0 * k as f64, 12.0, None))
        .collect();
    let sure: Vec<GeoBox> = truth
        .iter()
        .enumerate()
        .map(|(k, b)| GeoBox {
            confidence: Some(0.1 + k as f32 / 20.0),
            ..*b
        })
        .collect();
    let score = |predicted: &[GeoBox]| {
        let mut scorer = DetectionScorer::new();
        scorer.add(time(0), &truth, predicted).unwrap();
        scorer.score(&quick()).unwrap()
    };
    let perfect = score(&sure).mean;
    for value in [perfect.at_10, perfect.at_50, perfect.coco] {
        assert_relative_eq!(value.unwrap(), 1.0, max_relative = 1e-12);
    }
    assert_eq!(score(&[]).mean.coco, Some(0.0));
    let other: Vec<GeoBox> = sure
        .iter()
        .map(|b| GeoBox {
            class: BoxClass::ALL[(usize::from(b.class.code()) + 1) % 4],
            ..*b
        })
        .collect();
    assert_eq!(score(&other).mean.at_10, Some(0.0));
    assert!(DetectionScorer::new().score(&quick()).is_none());
}

#[test]
fn unknown_confidence_and_calendars_are_errors() {
    let mut scorer = DetectionScorer::new();
    let nan = geo(TC, 0.0, 10.0, Some(f32::NAN));
    assert!(scorer.add(time(0), &[], &[nan]).is_err());
    scorer.add(time(0), &[], &[]).unwrap();
    let other = Time::new(Calendar::Day360, 1984, 2, 30, 0, 0, 0).unwrap();
    let message = scorer.add(other, &[], &[]).unwrap_err().to_string();
    assert!(
        message.contains("noleap") && message.contains("360_day"),
        "{message}"
    );
}

#[test]
fn times_that_one_side_lacks_are_named_and_counted() {
    let boxes = |steps: &[i64], confidence: Option<f32>| -> Vec<BoxesAt> {
        let at = |&step: &i64| (time(step), vec![geo(TC, 50.0, 10.0, confidence)]);
        steps.iter().map(at).collect()
    };
    // The prediction covers steps 2 to 9; the truth steps 0 to 8.
    let truth = boxes(&[0, 1, 2, 4, 5, 8], None);
    let predicted = boxes(&[2, 3, 4, 8, 9], Some(0.5));
    let scores = scored(&truth, &predicted).unwrap();
    let times = &scores.coverage;
    assert_eq!(times.both, 3);
    assert_eq!(
        (times.only_in_truth.count, times.only_in_prediction.count),
        (1, 1)
    );
    assert_eq!(times.left_out.count, 3);
    assert_eq!(times.only_in_truth.first, [time(5).to_string()]);
    // Four true boxes in the common span, of which three are found, and one false box.
    let class = scores.score.classes[1];
    assert_eq!(
        (class.truths, class.predictions, class.at_50.hits),
        (4, 4, 3)
    );
    let text = scores.to_string();
    assert!(
        text.contains(&time(3).to_string()) && text.contains("(left out): 3"),
        "{text}"
    );
    let json = serde_json::to_value(&scores).unwrap();
    assert_eq!(json["coverage"]["left_out"]["count"], 3);
    assert_eq!(json["times"], 5);

    // A prediction that lists a time without boxes was not asked about times it does not list.
    let mut listed = predicted.clone();
    listed.push((time(6), Vec::new()));
    let scores = scored(&truth, &listed).unwrap();
    assert_eq!(
        (
            scores.coverage.only_in_truth.count,
            scores.coverage.left_out.count
        ),
        (0, 4)
    );
    assert_eq!(
        scores.coverage.only_in_prediction.first,
        [time(3).to_string()]
    );
    // At step 6 neither has a box.
    assert_eq!(scores.coverage.both, 4);

    assert!(scored(&boxes(&[0, 1], None), &boxes(&[5], Some(0.5))).is_err());
    assert!(scored(&[], &[]).is_err());
}

/// Boxes of several times, crowded enough to hit and miss.
fn some_times() -> impl Strategy<Value = Vec<(Vec<GeoBox>, Vec<GeoBox>)>> {
    let one = (0usize..4, 0u32..72, 1u32..8, 0u32..20);
    let boxes = proptest::collection::vec(one, 0..8);
    proptest::collection::vec((boxes.clone(), boxes), 1..8).prop_map(|times| {
        let list = |boxes: Vec<(usize, u32, u32, u32)>, sure: bool| {
            boxes
                .into_iter()
                .map(|(class, west, width, confidence)| {
                    let confidence = (!sure).then(|| confidence as f32 / 20.0);
                    geo(
                        BoxClass::ALL[class],
                        f64::from(west) * 5.0,
                        f64::from(width) * 4.0,
                        confidence,
                    )
                })
                .collect()
        };
        times
            .into_iter()
            .map(|(truth, predicted)| (list(truth, true), list(predicted, false)))
            .collect()
    })
}

proptest! {
    #[test]
    fn order_and_the_seam_change_nothing(times in some_times(), turn in 0u32..72) {
        let mut whole = DetectionScorer::new();
        for (k, (truth, predicted)) in times.iter().enumerate() {
            whole.add(time(k as i64), truth, predicted).unwrap();
        }
        let mut backwards = DetectionScorer::new();
        for (k, (truth, predicted)) in times.iter().enumerate().rev() {
            let turned = |boxes: &[GeoBox]| -> Vec<GeoBox> {
                let by = f64::from(turn) * 5.0;
                let mut boxes: Vec<GeoBox> = boxes
                    .iter()
                    .map(|b| geo(b.class, b.west_deg + by, b.width_deg(), b.confidence))
                    .collect();
                boxes.reverse();
                boxes
            };
            // Turning may change which of two equally good boxes is taken, so without a turn everything is equal bit
            // for bit.
            let (truth, predicted) = if turn == 0 {
                (truth.iter().rev().copied().collect(), predicted.iter().rev().copied().collect())
            } else {
                (turned(truth), turned(predicted))
            };
            backwards.add(time(k as i64), &truth, &predicted).unwrap();
        }
        let (one, other) = (whole.score(&quick()).unwrap(), backwards.score(&quick()).unwrap());
        for (a, b) in one.classes.iter().zip(&other.classes) {
            prop_assert_eq!((a.truths, a.predictions), (b.truths, b.predictions));
            if turn == 0 {
                prop_assert_eq!(a, b);
            }
        }
        for class in &one.classes {
            for ap in [class.at_10, class.at_50] {
                for value in [ap.average_precision, ap.average_precision_coco, ap.average_precision_of_found].into_iter().flatten() {
                    prop_assert!((0.0..=1.0 + 1e-12).contains(&value));
                }
                // What costs misses nothing is never less.
                prop_assert!(ap.average_precision <= ap.average_precision_of_found);
            }
        }
    }
}

#[test]
fn intervals_hold_the_value_and_shrink_with_data() {
    let score = |days: i64| {
        let mut scorer = DetectionScorer::new();
        for step in 0..days * 8 {
            let day = step / 8;
            let truth = geo(TC, 50.0, 10.0, None);
            // Found on two days of three; the confidence says little.
            let west = if day % 3 == 0 { 90.0 } else { 51.0 };
            let found = geo(TC, west, 10.0, Some(0.3 + (day * 7 % 10) as f32 / 20.0));
            scorer.add(time(step), &[truth], &[found]).unwrap();
        }
        let bootstrap = Bootstrap {
            draws: 200,
            ..Bootstrap::default()
        };
        scorer.score(&bootstrap).unwrap()
    };
    let (short, long) = (score(40), score(400));
    let width = |score: &squall_validation::average_precision::DetectionScore| {
        let class = score.classes[1];
        let (interval, value) = (
            class.at_50.interval.unwrap(),
            class.at_50.average_precision.unwrap(),
        );
        assert!(interval.low <= value && value <= interval.high, "{class:?}");
        assert!(class.coco_interval.is_some() && score.mean.at_10_interval.is_some());
        interval.high - interval.low
    };
    let (short_width, long_width) = (width(&short), width(&long));
    assert!(long_width < 0.6 * short_width, "{short_width} {long_width}");
    assert_eq!(score(4).classes[1].at_50.interval, None);
}

#[test]
fn each_average_precision_has_its_own_interval() {
    // At every time the surer box has 9/11 in common with a true one, the other a third: all draws say the same.
    let mut scorer = DetectionScorer::new();
    for day in 0..10 {
        let truth = [50.0, 150.0].map(|west| geo(TC, west, 10.0, None));
        let found = [(51.0, 0.9), (155.0, 0.5)];
        let found = found.map(|(west, confidence)| geo(TC, west, 10.0, Some(confidence)));
        scorer.add(time(8 * day), &truth, &found).unwrap();
    }
    let bootstrap = Bootstrap {
        draws: 50,
        block_days: 1.0,
        ..Bootstrap::default()
    };
    let score = scorer.score(&bootstrap).unwrap();
    let (class, mean) = (score.classes[1], score.mean);
    // Both right at 0.1; at 0.5 and up to 0.8 half of the recall with a precision of 1: 51 of 101 levels.
    let expected = [1.0, 0.5, 0.7 * 51.0 / 101.0];
    assert_relative_eq!(class.coco.unwrap(), expected[2], max_relative = 1e-12);
    for intervals in [
        [
            class.at_10.interval,
            class.at_50.interval,
            class.coco_interval,
        ],
        [mean.at_10_interval, mean.at_50_interval, mean.coco_interval],
    ] {
        for (interval, expected) in intervals.into_iter().zip(expected) {
            let interval = interval.unwrap();
            assert_relative_eq!(interval.low, expected, max_relative = 1e-12);
            assert_relative_eq!(interval.high, expected, max_relative = 1e-12);
        }
    }
}
