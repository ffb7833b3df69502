//! Computes a network in strips of latitude to save memory.

use crate::error::{JobError, Result};
use std::num::NonZeroUsize;

/// The number of strips of latitude in which a network's full-resolution part is computed: more strips need less
/// memory.
///
/// Masks do not depend on it (except where two classes are equally probable up to the last bits, in layers of few
/// channels that oneDNN computes), so a run may be continued with another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strips {
    /// This many.
    Count(NonZeroUsize),
    /// As few as fit into this many bytes; without a limit, into free memory.
    Auto(Option<u64>),
}

impl Default for Strips {
    fn default() -> Self {
        Self::Count(NonZeroUsize::MIN)
    }
}

impl Strips {
    /// The number of strips for fields of this many rows. `needed` gives the bytes for a number of strips, `free` the
    /// free bytes.
    ///
    /// Free memory fluctuates, so exceeding it is only a warning, unless the user gave a limit.
    ///
    /// # Errors
    /// [`JobError::Strips`] if no number fits into the given limit; the error of `needed` for one strip.
    pub(super) fn choose(
        self,
        rows: usize,
        needed: impl Fn(NonZeroUsize) -> Result<u64>,
        free: Option<u64>,
    ) -> Result<NonZeroUsize> {
        let limit = match self {
            Self::Count(strips) => return Ok(strips),
            Self::Auto(limit) => limit,
        };
        let mut least = (NonZeroUsize::MIN, needed(NonZeroUsize::MIN)?);
        let Some(available) = limit.or(free) else {
            return Ok(least.0);
        };
        for strips in (1..=rows).filter_map(NonZeroUsize::new) {
            // Networks that do not support strips return an error from two strips on.
            let Ok(bytes) = needed(strips) else { break };
            if bytes <= available {
                return Ok(strips);
            }
            if bytes < least.1 {
                least = (strips, bytes);
            }
        }
        let error = JobError::Strips {
            needed: least.1,
            available,
            batch: None,
        };
        if limit.is_some() {
            return Err(error);
        }
        tracing::warn!("{error}");
        Ok(least.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_model::{ModelError, Network};

    /// 100 bytes in all strips together, and 10 beside them.
    fn needed(strips: NonZeroUsize) -> Result<u64> {
        Ok(10 + 100 / strips.get() as u64)
    }

    fn whole_only(strips: NonZeroUsize) -> Result<u64> {
        match strips.get() {
            1 => Ok(110),
            strips => Err(JobError::Model(ModelError::Strips {
                network: "tiramisu".into(),
                strips,
            })),
        }
    }

    #[test]
    fn as_few_as_fit() {
        let auto = |limit, free| Strips::Auto(limit).choose(16, needed, free).unwrap().get();
        assert_eq!(auto(Some(110), None), 1);
        assert_eq!(auto(Some(109), None), 2);
        assert_eq!(auto(Some(30), Some(1000)), 5);
        assert_eq!(auto(None, Some(60)), 2);
        assert_eq!(auto(None, None), 1);
        let count = Strips::Count(NonZeroUsize::new(7).unwrap());
        assert_eq!(count.choose(16, needed, Some(0)).unwrap().get(), 7);
    }

    #[test]
    fn what_does_not_fit_is_refused_only_where_a_limit_was_given() {
        match Strips::Auto(Some(12)).choose(16, needed, None) {
            Err(JobError::Strips {
                needed, available, ..
            }) => {
                assert_eq!((needed, available), (16, 12))
            }
            other => panic!("{other:?}"),
        }
        let free = Strips::Auto(None).choose(16, needed, Some(12)).unwrap();
        assert_eq!(free.get(), 15, "the first of those that need least");
        let whole = Strips::Auto(None).choose(16, whole_only, Some(12)).unwrap();
        assert_eq!(whole.get(), 1);
        assert!(
            Strips::Auto(Some(109))
                .choose(16, whole_only, None)
                .is_err()
        );
    }

    /// 48 rows were announced in 1000 strips.
    #[test]
    fn there_are_no_more_strips_than_groups_of_four_rows() {
        for (rows, asked, due) in [
            (48, 1000, 12),
            (48, 12, 12),
            (768, 3, 3),
            (16, 7, 4),
            (9, 1, 1),
        ] {
            let asked = NonZeroUsize::new(asked).unwrap();
            assert_eq!(
                Network::strips_of(rows, asked).get(),
                due,
                "{rows} rows, {asked} strips"
            );
        }
    }
}
