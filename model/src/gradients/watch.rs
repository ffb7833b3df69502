//! Tracks which buckets of gradients are complete, and delivers them.

use super::host::Host;
#[cfg(feature = "cuda")]
use super::on_gpu;
use super::{Borrower, Taker};
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

/// The progress of a backward pass in completing buckets.
pub(super) struct Watch {
    pub(super) buckets: Vec<Range<usize>>,
    /// For each bucket, the number of values not yet written.
    missing: Vec<usize>,
    /// The ranges handed out last. They count as written when other ranges are handed out, or at the end of the pass.
    writing: Vec<Range<usize>>,
    /// The starts of the ranges that were handed out for the last time in this pass.
    given: HashSet<usize>,
    /// The next bucket to announce. Buckets are announced in order, regardless of which is complete first.
    pub(super) next: usize,
    pub(super) delivery: Delivery,
}

/// How a complete bucket is delivered: moved out, or lent in place.
pub(super) enum Delivery {
    Given(Taker),
    /// Values are multiplied by the factor first.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    Lent(Borrower, f32),
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (next, all) = (self.next, self.buckets.len());
        write!(f, "Watch({next} of {all} buckets announced)")
    }
}

impl Watch {
    pub(super) fn new(buckets: Vec<Range<usize>>, delivery: Delivery) -> Self {
        let mut watch = Self {
            buckets,
            missing: Vec::new(),
            writing: Vec::new(),
            given: HashSet::new(),
            next: 0,
            delivery,
        };
        watch.start();
        watch
    }

    /// Starts a backward pass: no values of any bucket are written yet.
    pub(super) fn start(&mut self) {
        self.missing = self.buckets.iter().map(Range::len).collect();
        self.writing.clear();
        self.given.clear();
        self.next = 0;
    }

    /// Records that a range is handed out for the last time.
    ///
    /// # Panics
    /// If this happened before in this pass: its bucket might have been announced, and all-reduced, before it was
    /// complete.
    pub(super) fn give(&mut self, range: &Range<usize>) {
        assert!(
            self.given.insert(range.start),
            "the gradient at {range:?} is given out a second time in one backward pass; a kernel that is shared is `shared_sink` \
             until the last time"
        );
        self.writing.push(range.clone());
    }

    /// Marks the ranges handed out last as written.
    pub(super) fn settle(&mut self, values: &mut Values<'_>) {
        for range in self.writing.drain(..) {
            let holds = |bucket: &Range<usize>| bucket.contains(&range.start);
            if let Some(bucket) = self.buckets.iter().position(holds) {
                self.missing[bucket] -= range.len();
            }
        }
        while self.missing.get(self.next) == Some(&0) {
            self.announce(values);
        }
    }

    pub(super) fn announce(&mut self, values: &mut Values<'_>) {
        let bucket = self.buckets[self.next].clone();
        match (&mut self.delivery, values) {
            #[cfg(feature = "cuda")]
            (Delivery::Lent(borrower, factor), Values::Gpu(buffer)) => {
                borrower(self.next, buffer.lend(bucket, *factor));
            }
            (Delivery::Lent(..), Values::Host(_)) => {}
            (Delivery::Given(taker), values) => taker(self.next, values.take(&bucket)),
        }
        self.next += 1;
    }
}

/// The source from which a complete bucket is taken or lent.
pub(super) enum Values<'a> {
    Host(&'a mut Host),
    #[cfg(feature = "cuda")]
    Gpu(&'a on_gpu::Buffer),
}

impl Values<'_> {
    pub(super) fn take(&mut self, range: &Range<usize>) -> Vec<f32> {
        match self {
            Self::Host(host) => host.take(range),
            #[cfg(feature = "cuda")]
            Self::Gpu(buffer) => buffer.part(range.clone()),
        }
    }
}
