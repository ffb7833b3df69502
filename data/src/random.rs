//! Named random streams: the same seed, purpose and indices always give the same numbers.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Returns the random stream of a purpose (for instance `"shuffle"`) and its indices (for instance epoch and rank).
///
/// Streams with different purposes or indices are independent: drawing from one does not affect another.
pub fn stream(seed: u64, purpose: &str, indices: &[u64]) -> ChaCha8Rng {
    let mut name = purpose.as_bytes().to_vec();
    name.push(0);
    indices
        .iter()
        .for_each(|index| name.extend_from_slice(&index.to_le_bytes()));
    let low = xxh3_128_with_seed(&name, seed).to_le_bytes();
    let high = xxh3_128_with_seed(&low, seed ^ 0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let mut key = [0; 32];
    key[..16].copy_from_slice(&low);
    key[16..].copy_from_slice(&high);
    ChaCha8Rng::from_seed(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn streams_depend_on_every_part_of_their_name() {
        let draw = |seed, purpose, indices: &[u64]| stream(seed, purpose, indices).random::<u64>();
        let base = draw(1, "shuffle", &[0, 1]);
        assert_eq!(base, draw(1, "shuffle", &[0, 1]));
        for other in [
            draw(2, "shuffle", &[0, 1]),
            draw(1, "dropout", &[0, 1]),
            draw(1, "shuffle", &[1, 0]),
            draw(1, "shuffle", &[0, 2]),
            draw(1, "shuffle", &[0]),
        ] {
            assert_ne!(base, other);
        }
    }
}
