//! Helpers for unit tests of operations.

/// `count` pseudo-random values in [-1, 1), reproducible from the seed.
pub fn draw(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// ‖a − b‖ / ‖b‖.
pub fn distance(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let square = |v: &mut dyn Iterator<Item = f32>| v.map(|v| f64::from(v).powi(2)).sum::<f64>();
    let difference = square(&mut a.iter().zip(b).map(|(a, b)| a - b));
    (difference / square(&mut b.iter().copied()).max(1e-20)).sqrt()
}
