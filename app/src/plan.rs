//! The plan of a long command (what it will read, write and need), logged before it starts.

use std::fmt;

/// Sizes and times of a run, estimated from shapes and measured rates.
#[derive(Debug, Default)]
pub struct Plan {
    /// Description of the work: "label 240 times of 192 x 288".
    pub work: String,
    /// Bytes to be read.
    pub read: u64,
    /// Bytes to be written.
    pub write: u64,
    /// Peak memory in bytes.
    pub memory: u64,
    /// Seconds, if a rate is known.
    pub seconds: Option<f64>,
}

impl Plan {
    /// Logs the plan.
    pub fn announce(&self) {
        tracing::info!("{self}");
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.work)?;
        let sizes = [
            ("reads", self.read),
            ("writes", self.write),
            ("needs memory of", self.memory),
        ];
        let known = sizes
            .iter()
            .filter(|(_, size)| *size > 0)
            .map(|(what, size)| format!("{what} about {}", bytes(*size)));
        let time = self
            .seconds
            .map(|seconds| format!("takes about {}", duration(seconds)));
        write!(f, "{}", known.chain(time).collect::<Vec<_>>().join(", "))
    }
}

/// Formats a count with its noun: 1 track, 12 tracks, 0 boxes.
pub fn counted<N: fmt::Display + PartialEq + From<u8>>(count: N, word: &str) -> String {
    let ending = match word.ends_with('x') {
        _ if count == N::from(1) => "",
        true => "es",
        false => "s",
    };
    format!("{count} {word}{ending}")
}

/// Formats a size: 1.23 GB.
pub fn bytes(size: u64) -> String {
    let size = size as f64;
    match size {
        s if s >= 1e12 => format!("{:.1} TB", s / 1e12),
        s if s >= 1e9 => format!("{:.2} GB", s / 1e9),
        s if s >= 1e6 => format!("{:.0} MB", s / 1e6),
        s => format!("{:.0} kB", s / 1e3),
    }
}

/// Formats a number of operations: 1.31 TF.
pub fn operations(flops: u64) -> String {
    match flops as f64 {
        f if f >= 1e12 => format!("{:.2} TF", f / 1e12),
        f if f >= 1e9 => format!("{:.1} GF", f / 1e9),
        f => format!("{:.1} MF", f / 1e6),
    }
}

/// Formats a duration: 3 min 20 s.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round().max(1.0) as u64;
    match whole {
        s if s < 90 => format!("{s} s"),
        s if s < 5400 => format!("{} min {} s", s / 60, s % 60),
        s => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

/// Peak memory of this process so far, in bytes; 0 if the system does not report it.
pub fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_sizes_rates_and_durations_are_told_in_words() {
        assert_eq!(counted(1usize, "track"), "1 track");
        assert_eq!(counted(0usize, "track"), "0 tracks");
        assert_eq!(counted(12u64, "box"), "12 boxes");
        assert_eq!(bytes(1_234_000_000), "1.23 GB");
        assert_eq!(operations(1_310_000_000_000), "1.31 TF");
        assert_eq!(operations(4_260_000_000), "4.3 GF");
        assert_eq!(operations(700_000), "0.7 MF");
        assert_eq!(duration(200.4), "3 min 20 s");
        let plan = Plan {
            work: "label 2 times".into(),
            read: 5_000_000,
            seconds: Some(3.0),
            ..Plan::default()
        };
        assert_eq!(
            plan.to_string(),
            "label 2 times: reads about 5 MB, takes about 3 s"
        );
    }
}
