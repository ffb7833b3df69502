//! Places in buckets, the norm in any pieces, what is missing or not finite.

use super::*;
use crate::parameters::Kind;

/// A second time the first would be counted for another parameter of the bucket, which would then be sent
/// incomplete.
#[test]
#[should_panic(expected = "0..3 is given out a second time")]
fn a_place_is_given_out_once() {
    let mut parameters = Parameters::new(1);
    for name in ["a", "b"] {
        parameters.vector(name.into(), Kind::Bias, 3, 0.0).unwrap();
    }
    let mut gradients = Gradients::new(&parameters);
    let bucket = 0..6;
    gradients.give(vec![bucket], Box::new(|_, _| ()));
    for _ in 0..2 {
        // A new pass starts over.
        gradients.clear();
        gradients.shared_sink(0..3);
        gradients.sink(0..3);
    }
    gradients.sink(0..3);
}

/// If several passes accumulate gradients, the last one gives the buckets away, with the sums of all.
#[test]
fn buckets_leave_with_the_last_of_several_passes() {
    let mut parameters = Parameters::new(1);
    for (name, length) in [("a", 3), ("b", 2)] {
        parameters
            .vector(name.into(), Kind::Bias, length, 0.0)
            .unwrap();
    }
    let (tell, told) = std::sync::mpsc::channel();
    let mut gradients = Gradients::new(&parameters);
    let buckets = Gradients::buckets(&parameters, 1);
    let taker = move |bucket: usize, values: Vec<f32>| tell.send((bucket, values)).unwrap();
    gradients.give(buckets.clone(), Box::new(taker));
    for round in 0..2 {
        gradients.clear();
        for (pass, more) in [true, true, false].into_iter().enumerate() {
            gradients.more_follows(more);
            for (at, range) in [3..5, 0..3].into_iter().enumerate() {
                let place = gradients.sink(range).host().unwrap();
                place.iter_mut().for_each(|g| *g += (1 + at) as f32);
            }
            gradients.complete();
            let left: Vec<(usize, Vec<f32>)> = told.try_iter().collect();
            let expected = match more {
                true => Vec::new(),
                false => vec![(0, vec![3.0; 2]), (1, vec![6.0; 3])],
            };
            assert_eq!(left, expected, "pass {pass} of round {round}");
            for (bucket, values) in left {
                gradients.put(&buckets[bucket], values).unwrap();
            }
        }
    }
}

#[test]
fn the_norm_has_the_same_bits_in_any_pieces() {
    let mut parameters = Parameters::new(1);
    for (name, length) in [("a", 20_001), ("b", 77), ("c", 30_003)] {
        parameters
            .vector(name.into(), Kind::Bias, length, 0.0)
            .unwrap();
    }
    let count = parameters.count();
    let values: Vec<f32> = (0..count).map(|i| (i as f32).sin() * 1e3).collect();
    let mut whole = Gradients::new(&parameters);
    whole.as_mut_slice().copy_from_slice(&values);
    let buckets = Gradients::buckets(&parameters, 1);
    assert_eq!(buckets.len(), 3);
    let mut pieces = Gradients::new(&parameters);
    pieces.give(buckets.clone(), Box::new(|_, _| ()));
    pieces.clear();
    pieces.complete();
    for bucket in &buckets {
        let part = values[bucket.clone()].to_vec();
        pieces.put(bucket, part).unwrap();
    }
    assert_eq!(pieces.slices().iter().count(), 3);
    assert_eq!(pieces.norm().to_bits(), whole.norm().to_bits());
}

#[test]
fn what_is_missing_or_no_number_is_named() {
    let mut parameters = Parameters::new(1);
    for (name, length) in [("a", 3), ("b", 2), ("c", 4)] {
        parameters
            .vector(name.into(), Kind::Bias, length, 0.0)
            .unwrap();
    }
    let mut gradients = Gradients::new(&parameters);
    gradients.as_mut_slice()[1] = 1.0;
    gradients.as_mut_slice()[8] = -2.0;
    let names: Vec<&str> = (gradients.all_zero(&parameters).iter())
        .map(|p| p.name.as_str())
        .collect();
    assert_eq!(names, ["b"]);
    assert_eq!(gradients.norm(), 5f64.sqrt());
    assert!(gradients.first_not_finite(&parameters).is_none());
    gradients.as_mut_slice()[4] = f32::INFINITY;
    gradients.as_mut_slice()[6] = f32::NAN;
    let (parameter, index, value) = gradients.first_not_finite(&parameters).unwrap();
    assert_eq!((parameter.name.as_str(), index), ("b", 1));
    assert!(value.is_infinite() && !gradients.norm().is_finite());
}
