//! The scale of atmospheric rivers at a point.

/// Minimum vapour transport for a river to count at a point, kg m-1 s-1.
pub const RIVER_SCALE_MIN_IVT_KG_M_S: f64 = 250.0;

/// The duration is a sum of steps, which may fall slightly short of whole hours: 144 steps of 20 minutes are 47.99996
/// hours in f32.
const ROUNDING_HOURS: f64 = 1e-3;

/// Rank of an atmospheric river at a point, 1 (weak, mostly beneficial) to 5 (exceptional, mostly hazardous), from the
/// highest vapour transport and the time for which it was at least 250 kg m-1 s-1. 0 if a weak river passed within a
/// day; `None` if the transport stayed below 250.
///
/// The transport gives 1 from 250, 2 from 500, 3 from 750, 4 from 1000, 5 from 1250 kg m-1 s-1. A duration of less than
/// 24 h subtracts one, 48 h or more add one.
///
/// # Source
/// Ralph et al. 2019, "A Scale to Characterize the Strength and Impacts of Atmospheric Rivers", BAMS 100(2), figure 4.
///
/// # Example
/// ```
/// use squall_climate::statistics::river_scale;
/// assert_eq!(river_scale(800.0, 30.0), Some(3));
/// assert_eq!(river_scale(800.0, 50.0), Some(4));
/// assert_eq!(river_scale(300.0, 12.0), Some(0));
/// ```
pub fn river_scale(max_ivt_kg_m_s: f64, hours: f64) -> Option<u8> {
    let steps = [RIVER_SCALE_MIN_IVT_KG_M_S, 500.0, 750.0, 1000.0, 1250.0];
    let rank = steps.iter().filter(|&&step| max_ivt_kg_m_s >= step).count() as u8;
    if rank == 0 {
        return None;
    }
    Some(match hours + ROUNDING_HOURS {
        h if h < 24.0 => rank - 1,
        h if h >= 48.0 => (rank + 1).min(5),
        _ => rank,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_belong_to_the_higher_rank() {
        // Sums as in the stream: 47.99996 and 23.99998 hours.
        let stay = |steps: usize, hours: f32| f64::from((0..steps).map(|_| hours).sum::<f32>());
        for (ivt, hours, expected) in [
            (249.9, 100.0, None),
            (250.0, 24.0, Some(1)),
            (499.9, 23.9, Some(0)),
            (500.0, 47.9, Some(2)),
            (500.0, 48.0, Some(3)),
            (500.0, stay(144, 1.0 / 3.0), Some(3)),
            (250.0, stay(144, 1.0 / 6.0), Some(1)),
            (250.0, stay(143, 1.0 / 6.0), Some(0)),
            (1250.0, 23.0, Some(4)),
            (1250.0, 24.0, Some(5)),
            (2000.0, 90.0, Some(5)),
            (f64::NAN, 90.0, None),
        ] {
            assert_eq!(river_scale(ivt, hours), expected, "{ivt} {hours}");
        }
    }
}
