//! The search space: varied keys and the values of trials.

use super::Values;
use rand::Rng;
use squall_data::random::stream;
use std::collections::HashSet;
use std::str::FromStr;

/// A recipe key with its possible values.
#[derive(Debug, Clone, PartialEq)]
pub struct Dimension {
    /// The key, as `--set` takes it.
    pub key: String,
    choice: Choice,
}

#[derive(Debug, Clone, PartialEq)]
enum Choice {
    /// One of these texts, verbatim.
    Any(Vec<String>),
    /// A number in this range.
    Between {
        low: f64,
        high: f64,
        /// Whether values are spread evenly in their logarithm.
        log: bool,
        /// Whether only whole numbers are drawn.
        whole: bool,
    },
}

impl FromStr for Dimension {
    type Err = String;

    /// Parses `KEY=LOW..HIGH` or `KEY=A,B,C`. A positive range whose ends differ by a factor of ten or more is spread
    /// evenly in its logarithm; a range between two integers yields integers.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected KEY=LOW..HIGH or KEY=A,B,C, such as schedule.rate=1e-4..1e-2";
        let Some((key, values)) = text.split_once('=') else {
            return Err(format!("{expected}; found `{text}`"));
        };
        let (key, values) = (key.trim(), values.trim());
        if key.is_empty() || values.is_empty() {
            return Err(format!("{expected}; found `{text}`"));
        }
        let parts = listed(values);
        let choice = match values.split_once("..") {
            // In a list `..` is part of a name: `../a.safetensors,../b.safetensors`.
            Some((low, high)) if parts.len() < 2 => between(low.trim(), high.trim())
                .ok_or_else(|| format!("{expected}, LOW below HIGH; found `{text}`"))?,
            _ => Choice::Any(parts),
        };
        if let Choice::Any(values) = &choice
            && (values.len() < 2 || values.iter().any(String::is_empty))
        {
            return Err(format!(
                "{expected}; `{text}` leaves nothing to choose from"
            ));
        }
        Ok(Self {
            key: key.to_string(),
            choice,
        })
    }
}

fn between(low: &str, high: &str) -> Option<Choice> {
    let whole = low.parse::<i64>().is_ok() && high.parse::<i64>().is_ok();
    let (low, high): (f64, f64) = (low.parse().ok()?, high.parse().ok()?);
    let log = low > 0.0 && high / low >= 10.0;
    (low.is_finite() && high.is_finite() && low < high).then_some(Choice::Between {
        low,
        high,
        log,
        whole,
    })
}

/// Splits a text at commas, except inside brackets or quotes.
fn listed(text: &str) -> Vec<String> {
    let (mut depth, mut quoted) = (0_i32, false);
    let mut parts = vec![String::new()];
    for letter in text.chars() {
        match letter {
            '"' | '\'' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            _ => {}
        }
        match (letter, parts.last_mut()) {
            (',', _) if depth == 0 && !quoted => parts.push(String::new()),
            (_, Some(part)) => part.push(letter),
            (_, None) => {}
        }
    }
    parts.iter().map(|part| part.trim().to_string()).collect()
}

impl Dimension {
    /// The value at a position from 0 (lowest or first) to 1 (highest or last), formatted for a recipe.
    fn at(&self, place: f64) -> String {
        match &self.choice {
            Choice::Any(values) => {
                let index = (place * values.len() as f64) as usize;
                values[index.min(values.len() - 1)].clone()
            }
            Choice::Between {
                low,
                high,
                log,
                whole,
            } => {
                // Extends the range by half a unit on either side, so that after rounding both ends are as likely as
                // the integers between.
                let room = if *whole { 0.5 } else { 0.0 };
                let (from, to) = (low - room, high + room);
                let value = match log {
                    true => (from.ln() + place * (to / from).ln()).exp(),
                    false => from + place * (to - from),
                };
                match whole {
                    true => format!("{}", value.round().clamp(*low, *high) as i64),
                    false => written(value, (*low, *high)),
                }
            }
        }
    }

    /// How many values a list has; `None` for a range.
    fn count(&self) -> Option<usize> {
        match &self.choice {
            Choice::Any(values) => Some(values.len()),
            Choice::Between { .. } => None,
        }
    }
}

/// Formats a value for a recipe, rounded to three digits of the range's width, or of the value if that is smaller: more
/// digits would make no difference to a search.
fn written(value: f64, (low, high): (f64, f64)) -> String {
    let width = (high - low).log10().floor();
    let own = value.abs().max(f64::MIN_POSITIVE).log10().floor();
    let digits = 2 + (own - width).max(0.0) as usize;
    let short = format!("{value:.digits$e}").parse().unwrap_or(value);
    // With a decimal point: recipes distinguish `1.0` from `1`.
    format!("{:?}", f64::clamp(short, low, high))
}

/// The dimensions of a search.
#[derive(Debug, Clone)]
pub struct Space {
    dimensions: Vec<Dimension>,
    seed: u64,
}

/// The bases of Halton's sequence, one per dimension. Further dimensions are drawn independently.
const PRIMES: [u64; 10] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29];

/// Why varying a key would not affect trials; `None` if it would.
fn without_effect(key: &str) -> Option<&'static str> {
    match key {
        // `Search::plan_of` sets them equally for all trials.
        "training.validate_every_steps"
        | "training.max_seconds"
        | "training.target_score"
        | "training.patience" => {
            Some("all trials are validated and halted after the same parts of their steps")
        }
        "distributed.global_batch" | "distributed.gradient_lag" | "distributed.rate_scaling" => {
            None
        }
        key if key.starts_with("distributed.") => {
            Some("every trial is trained by one rank, which does not read it")
        }
        _ => None,
    }
}

impl Space {
    /// The space of these dimensions; `seed` shifts the evenly spread values.
    ///
    /// # Errors
    /// What is wrong, if there are no dimensions, or a key is given twice or has no effect.
    pub fn new(dimensions: Vec<Dimension>, seed: u64) -> Result<Self, String> {
        let mut keys = HashSet::new();
        if let Some(twice) = dimensions.iter().find(|d| !keys.insert(d.key.as_str())) {
            return Err(format!("`{}` is varied twice", twice.key));
        }
        let unread = |d: &Dimension| Some((d.key.clone(), without_effect(&d.key)?));
        if let Some((key, reason)) = dimensions.iter().find_map(unread) {
            return Err(format!("`{key}` cannot be varied: {reason}"));
        }
        match dimensions.is_empty() {
            true => Err("nothing is varied".into()),
            false => Ok(Self { dimensions, seed }),
        }
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.dimensions
            .iter()
            .map(|dimension| dimension.key.as_str())
    }

    /// Candidate values for a search of `count` trials, from which [`distinct`](super::distinct) takes that many. The
    /// first changes nothing. The others are spread more evenly than random ones (shifted Halton sequence); if all
    /// dimensions are lists with fewer combinations than trials, each combination appears once.
    pub fn candidates(&self, count: usize) -> impl Iterator<Item = Values> {
        let others: Box<dyn Iterator<Item = Values> + '_> =
            match self.combinations(count.saturating_sub(1)) {
                Some(all) => Box::new(all.into_iter()),
                None => Box::new(self.spread(count)),
            };
        std::iter::once(Values::new()).chain(others)
    }

    /// Evenly spread values, more than `count` trials need.
    fn spread(&self, count: usize) -> impl Iterator<Item = Values> {
        let mut draws = stream(self.seed, "tune shift", &[]);
        let shifts: Vec<f64> = self.dimensions.iter().map(|_| draws.random()).collect();
        let mut seen = HashSet::new();
        // Values of lists and integer ranges repeat, and repeats are skipped; the limit is for spaces with fewer values
        // than requested.
        (1..20 * count as u64)
            .map(move |index| self.values(index, &shifts))
            .filter(move |values| seen.insert(values.clone()))
    }

    fn values(&self, index: u64, shifts: &[f64]) -> Values {
        let places = self
            .dimensions
            .iter()
            .zip(shifts)
            .enumerate()
            .map(|(d, (_, shift))| match PRIMES.get(d) {
                Some(base) => (radical_inverse(index, *base) + shift).fract(),
                None => stream(self.seed, "tune", &[d as u64, index]).random(),
            });
        let pairs = self.dimensions.iter().zip(places);
        pairs
            .map(|(d, place): (_, f64)| (d.key.clone(), d.at(place)))
            .collect()
    }

    /// Every combination of values, if all dimensions are lists and there are at most `most`.
    fn combinations(&self, most: usize) -> Option<Vec<Values>> {
        let counts: Option<Vec<usize>> = self.dimensions.iter().map(Dimension::count).collect();
        let counts = counts?;
        let all = counts
            .iter()
            .try_fold(1_usize, |all, count| all.checked_mul(*count))?;
        if all > most {
            return None;
        }
        let of = |number: usize| {
            let mut left = number;
            let pick = |(dimension, count): (&Dimension, &usize)| {
                let index = left % count;
                left /= count;
                let place = (index as f64 + 0.5) / *count as f64;
                (dimension.key.clone(), dimension.at(place))
            };
            self.dimensions.iter().zip(&counts).map(pick).collect()
        };
        Some((0..all).map(of).collect())
    }
}

/// An element of van der Corput's sequence: the digits of `index` in this base, mirrored at the radix point.
fn radical_inverse(mut index: u64, base: u64) -> f64 {
    let (mut value, mut part) = (0.0, 1.0);
    while index > 0 {
        part /= base as f64;
        value += part * (index % base) as f64;
        index /= base;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(texts: &[&str], seed: u64) -> Space {
        let dimensions = texts.iter().map(|text| text.parse().unwrap()).collect();
        Space::new(dimensions, seed).unwrap()
    }

    fn trials(space: &Space, count: usize) -> Vec<Values> {
        space.candidates(count).take(count).collect()
    }

    #[test]
    fn ranges_and_lists_are_read() {
        let of = |text: &str| text.parse::<Dimension>().unwrap();
        assert_eq!(of("schedule.rate=1e-4..1e-2").at(0.5), "0.001");
        assert_eq!(of("optimiser.weight_decay = 0..0.5").at(0.5), "0.25");
        assert_eq!(of("training.batch=1..4").at(0.99), "4");
        assert_eq!(of("training.batch=1..4").at(0.0), "1");
        assert_eq!(of("a=1.0..3.0").at(0.5), "2.0");
        // Not rounded out of a narrow range, nor to one value.
        assert_eq!(of("a=0.99..0.9999").at(0.999), "0.99989");
        assert_eq!(of("a=0.99..0.9999").at(1.0), "0.9999");
        assert_eq!(of("a=-1..1").at(0.4), "0");
        assert_eq!(of("network.blocks=[1, 1],[2, 2]").at(0.9), "[2, 2]");
        let files = of("training.start_from=../a.safetensors,../b.safetensors");
        assert_eq!(files.at(0.9), "../b.safetensors");
        assert_eq!(
            of("loss.weighting=\"none\",\"inverse\"").at(0.1),
            "\"none\""
        );
        for wrong in [
            "rate", "=1..2", "a=", "a=2..1", "a=1..x", "a=1", "a=1,,2", "a=nan..2",
        ] {
            let error = wrong.parse::<Dimension>().unwrap_err();
            assert!(error.contains("expected KEY=LOW..HIGH"), "{wrong}: {error}");
        }
        let twice = vec![of("a=1,2"), of("a=3,4")];
        assert!(
            Space::new(twice, 1)
                .unwrap_err()
                .contains("`a` is varied twice")
        );
        // Trials would be identical, and the leaderboard would still rank them.
        for (ignored, key) in [
            ("training.patience=2,5", "training.patience"),
            ("distributed.wire=f32,bf16", "distributed.wire"),
        ] {
            let error = Space::new(vec![of("a=1,2"), of(ignored)], 1).unwrap_err();
            let expected = format!("`{key}` cannot be varied");
            assert!(error.contains(&expected), "{error}");
        }
        // Keys that training by a single rank reads too.
        let read = [
            "gradient_lag=0,1",
            "global_batch=4,8",
            "rate_scaling=none,sqrt",
        ];
        let read = read.map(|key| of(&format!("distributed.{key}")));
        assert!(Space::new(read.into(), 1).is_ok());
    }

    #[test]
    fn trials_are_spread_evenly_and_the_first_is_the_recipe() {
        let space = space(&["r=1e-4..1e-2", "d=0.0..1.0"], 3);
        let trials = trials(&space, 33);
        assert!(trials[0].is_empty());
        // A quarter of 32 in each quarter of each dimension, give or take one or two.
        for (dimension, ends) in [
            (0, [1e-4, 3.16e-4, 1e-3, 3.16e-3, 1e-2]),
            (1, [0.0, 0.25, 0.5, 0.75, 1.0]),
        ] {
            for quarter in 0..4 {
                let inside = trials[1..].iter().filter(|values| {
                    let value: f64 = values[dimension].1.parse().unwrap();
                    (ends[quarter]..ends[quarter + 1]).contains(&value)
                });
                let count = inside.count();
                assert!((6..=10).contains(&count), "{dimension} {quarter}: {count}");
            }
        }
        assert_eq!(trials, self::trials(&space, 33));
        let other = self::space(&["r=1e-4..1e-2", "d=0.0..1.0"], 4);
        assert_ne!(trials, self::trials(&other, 33));
    }

    #[test]
    fn few_combinations_come_once_each() {
        let space = space(&["a=1,2,3", "b=x,y"], 1);
        let all = trials(&space, 10);
        assert_eq!(all.len(), 7);
        let distinct: HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), 7);
        assert_eq!([0, 1].map(|count| trials(&space, count).len()), [0, 1]);
        // More than are wanted: some of them, none twice.
        let some = trials(&space, 5);
        assert_eq!(some.iter().collect::<HashSet<_>>().len(), 5);
    }
}
