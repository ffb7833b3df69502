//! Counts missing values in the fields that a command reads, and reports them once at the end.

use crate::plan::counted;
use squall_data::{DataError, Snapshot, Variable, wire};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Numbers of missing values and of all values, per variable.
#[derive(Debug, Default)]
pub struct Missing(Mutex<Counts>);

/// Missing values and all values of each variable.
type Counts = BTreeMap<Variable, (u64, u64)>;

impl Missing {
    /// Adds the counts of a time.
    pub fn note(&self, snapshot: &Snapshot) {
        let (rows, columns) = snapshot.grid.shape();
        let all = (rows * columns) as u64;
        let missing = snapshot.missing_values();
        let counted = missing.map(|(variable, missing)| (variable, missing as u64, all));
        self.add(counted.collect());
    }

    /// Adds the counts of another rank.
    ///
    /// # Errors
    /// [`DataError`] if the bytes do not come from [`Self::to_bytes`].
    pub fn add_bytes(&self, bytes: &[u8]) -> Result<(), DataError> {
        let counts: Vec<(Variable, u64, u64)> = wire::from_bytes(bytes)?;
        self.add(counts);
        Ok(())
    }

    /// Serialises the counts for another rank.
    ///
    /// # Errors
    /// [`DataError`] if serialisation fails.
    pub fn to_bytes(&self) -> Result<Vec<u8>, DataError> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = all
            .iter()
            .map(|(v, (missing, values))| (*v, *missing, *values));
        wire::to_bytes(&counts.collect::<Vec<_>>())
    }

    fn add(&self, counts: Vec<(Variable, u64, u64)>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (variable, missing, values) in counts {
            let sum = all.entry(variable).or_default();
            *sum = (sum.0 + missing, sum.1 + values);
        }
    }

    /// Warns about missing values, if any, and their consequences.
    pub fn say(&self, what_follows: &str) {
        if let Some(sentence) = self.sentence() {
            tracing::warn!("{sentence} of the fields are missing: {what_follows}");
        }
    }

    /// `0.30 % of TMQ and 2.0 % of PSL`; `None` if nothing is missing.
    fn sentence(&self) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let some = all.iter().filter(|(_, (missing, _))| *missing > 0);
        let parts: Vec<String> = some
            .map(|(variable, (missing, values))| {
                let percent = 100.0 * *missing as f64 / *values as f64;
                let digits = match percent {
                    p if p >= 10.0 => 0,
                    p if p >= 1.0 => 1,
                    p if p >= 0.005 => 2,
                    _ => return format!("{} of {}", counted(*missing, "value"), variable.name()),
                };
                format!("{percent:.digits$} % of {}", variable.name())
            })
            .collect();
        match &parts[..] {
            [] => None,
            [only] => Some(only.clone()),
            [first @ .., last] => Some(format!("{} and {last}", first.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array3;
    use squall_data::{Calendar, LatLonGrid, Time};
    use std::sync::Arc;

    #[test]
    fn what_is_missing_is_counted_by_variable() {
        let grid = Arc::new(LatLonGrid::global(10, 20).expect("a grid"));
        let time = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).expect("a time");
        let variables = vec![Variable::Tmq, Variable::Psl, Variable::Prect];
        let mut fields = Array3::from_elem((3, 10, 20), 1.0f32);
        let snapshot = |fields: &Array3<f32>| Snapshot {
            time,
            grid: grid.clone(),
            variables: variables.clone(),
            fields: fields.clone(),
            source: ("fields".into(), 0),
        };
        let missing = Missing::default();
        missing.note(&snapshot(&fields));
        assert_eq!(missing.sentence(), None);
        fields[[1, 3, 3]] = f32::INFINITY;
        for (j, mut row) in fields
            .outer_iter_mut()
            .next()
            .expect("a plane")
            .outer_iter_mut()
            .enumerate()
        {
            row.fill(if j < 5 { f32::NAN } else { 1.0 });
        }
        missing.note(&snapshot(&fields));
        let said = missing.sentence().expect("something is missing");
        assert_eq!(said, "25 % of TMQ and 0.25 % of PSL");
        // Another rank, which saw a whole time.
        let other = Missing::default();
        fields.fill(1.0);
        other.note(&snapshot(&fields));
        missing
            .add_bytes(&other.to_bytes().expect("bytes"))
            .expect("counts");
        let said = missing.sentence().expect("something is missing");
        assert_eq!(said, "17 % of TMQ and 0.17 % of PSL");
    }
}
