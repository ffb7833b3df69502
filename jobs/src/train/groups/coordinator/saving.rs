//! Checkpoints: collects the state of all servers and writes it.

use super::Coordinator;
use super::validating::Validating;
use crate::error::Result;
use crate::train::Team;
use crate::train::groups::link::parsed;
use crate::train::groups::message::command;
use crate::train::groups::server::{COUNTED, PART};
use crate::train::groups::staleness::StalenessSummary;
use crate::train::groups::standing::{ServerStanding, Standing, Views};
use squall_model::ModelFile;
use std::path::Path;
use std::time::Instant;

impl Coordinator<'_, '_> {
    /// Collects the parts of all servers in this rank's learner, all of them after the same steps.
    pub(in crate::train::groups) fn collect(&mut self) -> Result<()> {
        let server = &mut self.server;
        let counts: Vec<u64> = (server.steps_of.iter().enumerate())
            .map(|(group, &steps)| {
                if server.turns.is_lost(group) {
                    0
                } else {
                    steps
                }
            })
            .collect();
        let path = Path::new(PART);
        let mut file = server.part_file()?;
        let mut counted: Vec<ServerStanding> = vec![parsed(file.fact(path, COUNTED)?.as_bytes())?];
        let count = server.run.learner.network.parameters().count();
        let mut views = match server.turns.in_turns() {
            Some(_) => vec![vec![0.0; count]; server.mail.layout.groups],
            None => Vec::new(),
        };
        Views::scatter(&mut file, &server.slices[0], &mut views);
        let others = 1..server.mail.layout.servers;
        for other in others.clone() {
            (server.mail).send_command(other, command::PART, bytemuck::cast_slice(&counts))?;
        }
        for other in others {
            let mut length = [0; 8];
            let between = &mut server.mail.between;
            between.receive(other, &mut length)?;
            let mut bytes = vec![0; u64::from_le_bytes(length) as usize];
            between.receive(other, &mut bytes)?;
            let mut part = ModelFile::decode(path, &bytes)?;
            counted.push(parsed(part.fact(path, COUNTED)?.as_bytes())?);
            Views::scatter(&mut part, &server.slices[other], &mut views);
            file.tensors.extend(part.tensors);
        }
        self.staleness = StalenessSummary::default();
        counted
            .iter()
            .for_each(|server| self.staleness.add(&server.staleness));
        let running = |v: &Validating| v.running.clone();
        server.run.standing = server.turns.in_turns().map(|next| Standing {
            next,
            held: self.ledger.held(),
            servers: counted,
            validating: self.validating.iter().map(|v| (v.group, v.step)).collect(),
            views,
            running: self.validating.iter().map(running).collect(),
        });
        let learner = &mut server.run.learner;
        for buffer in learner.network.parameters().buffers() {
            let values = (vec![buffer.values.len()], buffer.values.clone());
            file.tensors.insert(buffer.name.clone(), values);
        }
        if let Some(recorder) = &mut server.run.recorder {
            recorder.staleness(learner.progress.step, &self.staleness)?;
        }
        let path = Path::new("the servers' parts");
        let parameters = learner.network.parameters_mut();
        parameters.load(path, &file.tensors)?;
        let (facts, tensors) = (&file.facts, &file.tensors);
        learner.optimizer.load_from(path, facts, tensors)?;
        Ok(())
    }

    /// Writes the last model and the checkpoint now; in round-robin order with several servers, after the next step
    /// that none of them can have passed.
    pub(super) fn save_soon(&mut self) -> Result<()> {
        let layout = self.server.mail.layout;
        if layout.servers == 1 || self.server.turns.in_turns().is_none() {
            return self.save();
        }
        if self.cut.is_none() {
            // Another server is at most one step per group ahead.
            let cut = self.ledger.done() + 2 * layout.groups as u64;
            let mail = &mut self.server.mail;
            for other in 1..layout.servers {
                mail.send_command(other, command::CUT, bytemuck::bytes_of(&cut))?;
            }
            self.cut = Some(cut);
        }
        Ok(())
    }

    /// Writes the last model and the checkpoint.
    pub(super) fn save(&mut self) -> Result<()> {
        self.collect()?;
        self.write()
    }

    /// Writes the last model and the checkpoint from this rank's learner.
    pub(in crate::train::groups) fn write(&mut self) -> Result<()> {
        let run = &mut self.server.run;
        run.pending = self.ledger.pending();
        let due = run.validation_due;
        run.validation_due |= !self.validating.is_empty();
        // Nothing is in flight between ranks here.
        let saved = run.save(&mut Team::solo(), self.progress);
        run.validation_due = due;
        self.saved_at = Instant::now();
        self.cut = None;
        saved
    }
}
