//! The results of `squall label --method`, as text and JSON.

use crate::output;
use crate::plan::counted;
use serde::Serialize;
use squall_climate::detect::{Agreement, AgreementRow, Method};
use squall_climate::label::SeriesSummary;
use squall_data::{BoxClass, Class};
use std::path::PathBuf;

/// The results of each method, and their agreement.
#[derive(Debug, Serialize)]
pub struct MethodsSummary {
    methods: Vec<MethodSummary>,
    agreement: Vec<AgreementRow>,
    /// Number of unusable input files (`--skip-bad`).
    skipped_files: usize,
    /// Number of other times with unreadable data, which have no masks (`--skip-bad`).
    skipped_times: usize,
}

/// The results of one method, and their folder.
#[derive(Debug, Serialize)]
struct MethodSummary {
    method: Method,
    out: PathBuf,
    times: usize,
    cyclones: usize,
    rivers: usize,
    tracks: usize,
    untracked: bool,
    /// Over all times, of a method that looks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    extratropical_cyclones: Option<usize>,
}

/// Whether there are several sets of masks, so that agreement.csv is meaningful.
pub fn is_compared(agreement: &Agreement) -> bool {
    !agreement.rows().is_empty()
}

impl MethodsSummary {
    /// The summary of what each method `found`, in the order of `folders`.
    pub fn new(
        folders: Vec<(Method, PathBuf)>,
        found: &[SeriesSummary],
        agreement: &Agreement,
        (skipped_files, skipped_times): (usize, usize),
    ) -> Self {
        let each = folders.into_iter().zip(found);
        let each = each.map(|((method, out), found)| MethodSummary::of(method, out, found));
        Self {
            methods: each.collect(),
            agreement: agreement.rows().to_vec(),
            skipped_files,
            skipped_times,
        }
    }

    /// Reports what each method found, and prints how far they agree.
    pub fn say(&self, agreement: &Agreement) -> anyhow::Result<()> {
        self.methods.iter().for_each(MethodSummary::say);
        if is_compared(agreement) {
            output::text(agreement)
        } else {
            Ok(())
        }
    }
}

impl MethodSummary {
    fn of(method: Method, out: PathBuf, found: &SeriesSummary) -> Self {
        Self {
            method,
            out,
            times: found.times,
            cyclones: found.cyclones,
            rivers: found.rivers,
            tracks: found.tracks,
            untracked: found.untracked,
            extratropical_cyclones: (method.classes().contains(&Class::ExtratropicalCyclone))
                .then(|| found.boxes[usize::from(BoxClass::ExtratropicalCyclone.code())]),
        }
    }

    fn say(&self) {
        self.say_found();
        if self.untracked {
            tracing::warn!(
                "{}: the series is shorter than a cyclone must last: candidates stand untracked",
                self.method
            );
        }
    }

    fn say_found(&self) {
        if let Some(found) = self.extratropical_cyclones {
            tracing::info!(
                "{}: {}: {} on {}; boxes.csv and objects.csv in {}",
                self.method,
                counted(self.times, "time"),
                counted(found, "extratropical cyclone"),
                counted(self.tracks, "track"),
                self.out.display()
            );
            return;
        }
        let cyclones = if self.method.classes().contains(&Class::TropicalCyclone) {
            let [cyclones, tracks] = [(self.cyclones, "cyclone"), (self.tracks, "track")]
                .map(|(count, word)| counted(count, word));
            format!("{cyclones} on {tracks}, ")
        } else {
            String::new()
        };
        tracing::info!(
            "{}: {}: {cyclones}{}; masks and objects.csv in {}",
            self.method,
            counted(self.times, "time"),
            counted(self.rivers, "river"),
            self.out.display()
        );
        if self.method == Method::Tempest && self.rivers > 0 {
            tracing::info!(
                "{}: cells of one of these rivers touch at edges; `squall events`, and agreement.csv where there is one, also join \
                 them at corners, and may count fewer",
                self.method
            );
        }
    }
}
