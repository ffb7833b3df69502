//! A profile of a step: time by operation and shape, measured inside the operations.
//!
//! Off until [`start`] is called; until then each operation costs one lookup. Nested operations count towards the
//! outermost. On a GPU the time is measured by events recorded in the stream before and after an operation's kernels.

#[cfg(feature = "cuda")]
use crate::ops::cuda::Mark;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// One operation at one shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The operation and the algorithm that ran it.
    pub operation: String,
    /// The number of calls.
    pub calls: usize,
    /// Total time of all calls.
    pub time: Duration,
}

/// Stands in for the GPU's [`Mark`] in builds without GPU support.
#[cfg(not(feature = "cuda"))]
#[derive(Debug)]
enum Mark {}

#[cfg(not(feature = "cuda"))]
impl Mark {
    fn here() -> Option<Self> {
        None
    }

    fn until(&self, _: &Self) -> Option<Duration> {
        match *self {}
    }
}

/// Measurements so far.
#[derive(Debug, Default)]
struct Table {
    entries: HashMap<String, (usize, Duration)>,
    /// GPU operations, which may still be running.
    marked: Vec<(String, Mark, Mark)>,
}

impl Table {
    fn add(&mut self, name: String, time: Duration) {
        let (calls, total) = self.entries.entry(name).or_default();
        *calls += 1;
        *total += time;
    }
}

thread_local! {
    static TABLE: RefCell<Option<Table>> = const { RefCell::new(None) };
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Starts measuring the operations of this thread.
pub fn start() {
    TABLE.set(Some(Table::default()));
}

/// Stops measuring and returns the entries, longest total time first.
pub fn finish() -> Vec<Entry> {
    let mut table = TABLE.take().unwrap_or_default();
    for (name, from, to) in std::mem::take(&mut table.marked) {
        table.add(name, from.until(&to).unwrap_or_default());
    }
    let entry = |(operation, (calls, time))| Entry {
        operation,
        calls,
        time,
    };
    let mut entries: Vec<Entry> = table.entries.into_iter().map(entry).collect();
    entries.sort_by(|a, b| {
        b.time
            .cmp(&a.time)
            .then_with(|| a.operation.cmp(&b.operation))
    });
    entries
}

/// Measures the time until it is dropped.
#[derive(Debug)]
pub(crate) struct Span {
    running: Option<(String, Instant, Option<Mark>)>,
}

/// Measures an operation until the result is dropped. `name` is evaluated only while measuring.
pub(crate) fn span(name: impl FnOnce() -> String) -> Span {
    let on = TABLE.with_borrow(Option::is_some);
    let outermost = DEPTH.replace(DEPTH.get() + 1) == 0;
    Span {
        running: (on && outermost).then(|| (name(), Instant::now(), Mark::here())),
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        let Some((name, started, mark)) = self.running.take() else {
            return;
        };
        let time = started.elapsed();
        TABLE.with_borrow_mut(|table| {
            let Some(table) = table else { return };
            match mark.zip(Mark::here()) {
                Some((from, to)) => table.marked.push((name, from, to)),
                None => table.add(name, time),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outermost_operations_are_counted_once() {
        drop(span(|| unreachable!("nobody measures")));
        start();
        for _ in 0..3 {
            let _outer = span(|| "outer".into());
            let _inner = span(|| unreachable!("inside another"));
        }
        let entries = finish();
        assert_eq!(entries.len(), 1);
        assert_eq!(
            (entries[0].operation.as_str(), entries[0].calls),
            ("outer", 3)
        );
        assert!(finish().is_empty());
    }
}
