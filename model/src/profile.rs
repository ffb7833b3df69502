//! Where the time of a step goes: seconds by operation and shape, measured inside the operations.
//!
//! Off unless [`start`] was called; then each operation costs one lookup. Operations that call others are counted once, at
//! the outermost.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// One operation at one shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The operation, and by which way it ran.
    pub operation: String,
    /// How often.
    pub calls: usize,
    /// How long in all.
    pub time: Duration,
}

thread_local! {
    static TABLE: RefCell<Option<HashMap<String, (usize, Duration)>>> = const { RefCell::new(None) };
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Begins to measure operations that this thread starts.
pub fn start() {
    TABLE.set(Some(HashMap::new()));
}

/// Ends measuring and gives what was measured, the longest first.
pub fn finish() -> Vec<Entry> {
    let table = TABLE.take().unwrap_or_default();
    let entry = |(operation, (calls, time))| Entry {
        operation,
        calls,
        time,
    };
    let mut entries: Vec<Entry> = table.into_iter().map(entry).collect();
    entries.sort_by(|a, b| {
        b.time
            .cmp(&a.time)
            .then_with(|| a.operation.cmp(&b.operation))
    });
    entries
}

/// Measures until it is dropped.
#[derive(Debug)]
pub(crate) struct Span {
    running: Option<(String, Instant)>,
}

/// Measures an operation until the result is dropped; `name` is asked only if someone measures.
pub(crate) fn span(name: impl FnOnce() -> String) -> Span {
    let on = TABLE.with_borrow(Option::is_some);
    let outermost = DEPTH.replace(DEPTH.get() + 1) == 0;
    Span {
        running: (on && outermost).then(|| (name(), Instant::now())),
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        let Some((name, started)) = self.running.take() else {
            return;
        };
        let time = started.elapsed();
        TABLE.with_borrow_mut(|table| {
            if let Some(table) = table {
                let (calls, total) = table.entry(name).or_default();
                *calls += 1;
                *total += time;
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
