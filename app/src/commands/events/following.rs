//! The first rank's work: follows the events that all ranks found, in order of time, and writes the tables.

use super::source::Source;
use super::together::{self, Found, Rounds};
use super::{Events, EventsSummary, Fields, Objects, summary};
use crate::code;
use crate::interrupt;
use crate::plan::counted;
use crate::progress::Progress;
use crate::saving::Saving;
use squall_climate::detect::TransportSource;
use squall_climate::map::LandMask;
use squall_climate::stream::{EventStream, RunFolder};
use squall_climate::track::formats::{Format, Setting, export, write_object_ids};
use squall_data::{Class, DataError, wire};
use squall_jobs::comm::Communicator;
use std::path::PathBuf;

/// The progress of a run: its state and its output.
pub struct Following<'a> {
    arguments: &'a Events,
    objects: &'a Objects,
    folder: RunFolder,
    stream: EventStream,
    /// The first time that was not done before.
    start: usize,
}

impl<'a> Following<'a> {
    /// Opens the run with this fingerprint, as an interrupted one left it, or else as `new`.
    ///
    /// # Errors
    /// As [`RunFolder::open`].
    pub fn open(
        arguments: &'a Events,
        objects: &'a Objects,
        fingerprint: &str,
        new: EventStream,
    ) -> anyhow::Result<Self> {
        // A state with times skipped by --skip-bad is only usable with that option: otherwise these times are errors.
        let usable = |stream: &EventStream, start: usize| {
            let counts = stream.counts();
            arguments.skip_bad || counts.times == start && counts.unread_fields == 0
        };
        let (folder, stream, start) = RunFolder::open(&arguments.out, fingerprint, new, usable)?;
        if start > 0 {
            tracing::info!(
                "{} done before: going on from there",
                counted(start, "time")
            );
        }
        code::work_on(&arguments.out, start > 0);
        Ok(Self {
            arguments,
            objects,
            folder,
            stream,
            start,
        })
    }

    /// Reads this rank's times, receives those of the other ranks, and writes the events of all times.
    ///
    /// # Errors
    /// Errors of reading, writing and communication; the state is saved if a signal ends the run.
    pub fn follow(
        &mut self,
        comm: &mut dyn Communicator,
        fields: Option<Fields>,
        land: &LandMask,
    ) -> anyhow::Result<()> {
        let (objects, times) = (self.objects, self.objects.times());
        let mut source = Source::new(self.arguments, objects, fields, land, self.start)?;
        let mut progress = Progress::new("events", times.len());
        progress.start(times.len(), self.start);
        let mut saving = Saving::every(self.arguments.save_every);
        let rounds = Rounds::begin(comm, objects, self.start)?;
        for round in rounds.all() {
            for mut read in source.read(rounds.block(round, 0))? {
                let found = std::mem::take(&mut read.found);
                let known = read.known(land);
                self.stream.leave_out(read.small_cyclones);
                let decided = self.stream.add(&read.moment(times, &known), found)?;
                self.folder.write(&decided)?;
            }
            self.stream.leave_out_times(source.take_without_mask());
            for rank in 1..rounds.ranks() {
                let (seen, without_mask): Found =
                    wire::from_bytes(&together::receive(comm, rank)?)?;
                for (seen, small_cyclones) in seen {
                    self.stream.leave_out(small_cyclones);
                    let decided = self.stream.take(seen)?;
                    self.folder.write(&decided)?;
                }
                self.stream.leave_out_times(without_mask);
            }
            let next = rounds.end(round);
            let interrupted = interrupt::check();
            if interrupted.is_err() || saving.is_due() {
                saving.save(|| self.folder.save(&self.stream, next))?;
            }
            interrupted?;
            progress.set(next, String::new());
        }
        progress.finish();
        if let Some(missing) = source.missing() {
            for rank in 1..rounds.ranks() {
                missing.add_bytes(&together::receive(comm, rank)?)?;
            }
            missing.say("events are described without these cells");
        }
        Ok(())
    }

    /// Completes the tables and writes the results derived from them. `wind` says where wind is measured, `ranked_by`
    /// what rivers are ranked by; `rules` are the numbers by which events and tracks are selected. Skipped files are
    /// not counted.
    ///
    /// # Errors
    /// [`DataError::NoInput`] if no time could be read; those of writing.
    pub fn conclude(
        mut self,
        (wind, ranked_by): (Option<&str>, Option<TransportSource>),
        rules: Vec<(String, String)>,
        formats: &[Format],
    ) -> anyhow::Result<EventsSummary> {
        let (arguments, objects, times) = (self.arguments, self.objects, self.objects.times());
        let unread_times = times.len() - self.stream.counts().times;
        let without_mask = self.stream.times_without_mask();
        let times_without_mask = without_mask.len();
        if let Some(sentence) = summary::without_mask(without_mask) {
            tracing::warn!("{sentence}");
        }
        if unread_times == times.len() {
            return Err(DataError::no_input(
                &arguments.masks,
                format!("none of {unread_times} masks can be used"),
            )
            .into());
        }
        // From here on a failure or a kill costs only the derived results, not the run.
        if let Err(error) = self.folder.save(&self.stream, times.len()) {
            // Then it costs what followed the last state; if the disk is full, that is reported below.
            tracing::debug!("no last state: {error}");
        }
        let stream = self.stream.of_classes(&objects.classes());
        let finished = self.folder.conclude(stream)?;
        let missing = finished.statistics.occurrence().missing_share();
        if let Some(sentence) = summary::with_missing(missing) {
            tracing::warn!("{sentence}");
        }
        let has_rivers = objects.classes().contains(&Class::AtmosphericRiver);
        let ranked_by = ranked_by.filter(|_| has_rivers);
        let transport = ranked_by.map(|by| format!("{}: {}", by.name(), by.describe()));
        let statistics = (finished.statistics.of_wind(wind))
            .of_transport(transport)
            .of_rules(rules)
            .made_by(code::version());
        statistics.write_netcdf(
            arguments.out.join("statistics.nc"),
            objects.grid(),
            objects.calendar(),
        )?;
        let setting = Setting {
            grid: objects.grid(),
            times,
            calendar: objects.calendar(),
            source: objects.source(),
        };
        let mut files = export(&arguments.out, formats, &setting)?;
        files.extend(object_ids(arguments, objects, unread_times)?);
        self.folder.close()?;
        code::finish(&arguments.out);
        Ok(EventsSummary {
            counts: finished.counts,
            resumed_after: self.start,
            files,
            unread_times,
            times_without_mask,
            missing_share: missing,
            // Those of boxes have no ranks.
            transport: ranked_by
                .filter(|_| matches!(objects, Objects::Masks(_)))
                .map(TransportSource::name),
            looked_for: match objects {
                Objects::Boxes { said: None, .. } => Vec::new(),
                _ => objects.classes(),
            },
            ..EventsSummary::default()
        })
    }
}

/// Writes the track of every cell, if requested and no time is missing.
fn object_ids(
    arguments: &Events,
    objects: &Objects,
    unread_times: usize,
) -> anyhow::Result<Option<PathBuf>> {
    let (true, Objects::Masks(masks)) = (arguments.object_id, objects) else {
        return Ok(None);
    };
    if unread_times > 0 {
        tracing::warn!(
            "object_id.nc is not written: it has every time, and {unread_times} cannot be used"
        );
        return Ok(None);
    }
    let options = arguments.options(objects);
    Ok(Some(write_object_ids(&arguments.out, masks, &options)?))
}
