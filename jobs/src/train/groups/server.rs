//! A server: receives gradients, updates its part of the parameters, and returns it.

use super::LOOK;
use super::earlier_parts::EarlierParts;
use super::last_message::LastMessage;
use super::link::json;
use super::mail::Mail;
use super::message::{Orders, Reply, Request, command, kind, raw};
use super::part::Part;
use super::staleness::StalenessSummary;
use super::standing::{ServerStanding, Standing, Views};
use super::turns::Turns;
use crate::comm::{Arrival, CommError, Payload};
use crate::error::Result;
use crate::recipe::Order;
use crate::train::Run;
use bytemuck::Zeroable;
use squall_model::ModelFile;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

/// Name of the fact with a server's counters.
pub(super) const COUNTED: &str = "server";

/// Name of a server's part in error messages.
pub(super) const PART: &str = "a server's part";

/// A parameter server.
pub(super) struct Server<'a> {
    pub run: Run<'a>,
    pub part: Part,
    /// The ranges of parameters that each server holds.
    pub slices: Vec<Vec<Range<usize>>>,
    pub turns: Turns,
    /// In round-robin order: what each group read last.
    views: Option<Views>,
    /// In round-robin order: the state of the groups when the run was interrupted.
    pub standing: Option<Standing>,
    /// In round-robin order, except on the first server: earlier states of its part, which the first server may
    /// request.
    earlier_parts: EarlierParts,
    /// Steps of the run after which the first server will request a state, besides those of regular checkpoints.
    cuts: BTreeSet<u64>,
    /// Steps of the run before this server started.
    done_before: u64,
    /// Updates since this server started.
    version: u64,
    /// Steps of each group since then, including skipped ones.
    pub steps_of: Vec<u64>,
    pub staleness: StalenessSummary,
    /// Batch statistics of the last update, on the first server.
    pub statistics: Vec<f32>,
    pub last_message: LastMessage,
    pub mail: Mail,
}

/// What a server received.
#[derive(Debug)]
pub(super) enum ServerEvent {
    /// A gradient, which has been applied; the group waits for the answer.
    Update {
        group: usize,
        request: Request,
        staleness: u64,
    },
    /// A step without a finite gradient.
    Skip { group: usize, request: Request },
    /// A group has left the run, as it does at the end.
    Left { group: usize, request: Request },
    /// Scores follow.
    Scores { group: usize, request: Request },
    /// A group is lost: it does not answer any more.
    Lost(usize),
    /// A command of the first server follows.
    Command,
    /// No message for a moment.
    Nothing,
}

impl<'a> Server<'a> {
    pub fn new(
        mut run: Run<'a>,
        mail: Mail,
        mut part: Part,
        slices: Vec<Vec<Range<usize>>>,
    ) -> Result<Self> {
        let order = run.recipe.distributed.order;
        let (in_turns, own) = (order == Order::RoundRobin, mail.between.rank());
        let layout = mail.layout;
        let count = run.learner.network.parameters().count();
        let standing = run.standing.take();
        let standing = standing.filter(|found| in_turns && found.fits(layout, count));
        let views = match &standing {
            Some(standing) => Some(Views::of_standing(standing, own, &slices[own])),
            None if in_turns => {
                let values = part.take_values()?;
                let views = Views::of_start(layout.groups, &values);
                part.give_back(values);
                Some(views)
            }
            None => None,
        };
        let counted = standing.as_ref().map(|standing| &standing.servers[own]);
        let counted = counted.cloned().unwrap_or_default();
        let next = standing.as_ref().map_or(0, |standing| standing.next);
        let buffers = run.learner.network.parameters().buffers();
        Ok(Self {
            turns: Turns::new(order, layout.groups, next),
            statistics: vec![0.0; buffers.iter().map(|b| b.values.len()).sum()],
            done_before: run.learner.progress.step,
            run,
            part,
            slices,
            views,
            standing,
            earlier_parts: EarlierParts::default(),
            cuts: BTreeSet::new(),
            version: counted.version,
            steps_of: vec![0; layout.groups],
            staleness: counted.staleness,
            last_message: LastMessage::at(Instant::now()),
            mail,
        })
    }

    fn is_first(&self) -> bool {
        self.mail.between.rank() == 0
    }

    /// Waits briefly for the next event.
    pub fn next(&mut self) -> Result<ServerEvent> {
        let groups = self.turns.listened();
        let leaders = groups.iter().map(|&g| self.mail.leader_between(g));
        let mut from: Vec<usize> = leaders.collect();
        if !self.is_first() {
            // The first server comes first, so that busy groups cannot starve its messages.
            from.insert(0, 0);
        }
        // Messages that a group sent before it was lost still count. In round-robin order a silent group is only
        // skipped, because it may come back.
        let in_turns = self.run.recipe.distributed.order == Order::RoundRobin;
        let gone = |group: &&usize| match in_turns {
            true => self
                .mail
                .heartbeats
                .is_gone(self.mail.layout.leader(**group)),
            false => self.mail.is_silent(**group),
        };
        if let Some(&group) = groups.iter().find(gone) {
            let leader = self.mail.leader_between(group);
            let said = self.mail.between.wait_any(&[leader], Duration::ZERO)?;
            if said == Arrival::Nothing {
                return Ok(self.loses(group));
            }
        }
        match self.wait(&from)? {
            Arrival::Nothing => Ok(ServerEvent::Nothing),
            Arrival::Message(0) => Ok(ServerEvent::Command),
            Arrival::Gone(0) => Err(CommError::Gone {
                rank: self.mail.between.rank(),
                peer: 0,
                doing: "a wait for groups".into(),
            }
            .into()),
            Arrival::Gone(leader) => Ok(self.loses(leader - self.mail.layout.servers)),
            Arrival::Message(leader) => {
                self.last_message = LastMessage::at(Instant::now());
                self.hear(leader - self.mail.layout.servers)
            }
        }
    }

    /// Waits briefly for a message of one of these ranks of [`Mail::between`].
    pub fn wait(&mut self, from: &[usize]) -> Result<Arrival> {
        let arrival = self.mail.between.wait_any(from, LOOK)?;
        self.last_message.look(Instant::now());
        Ok(arrival)
    }

    /// Returns the event that a group is lost; the others continue without it.
    pub fn loses(&mut self, group: usize) -> ServerEvent {
        if self.is_first() {
            tracing::warn!("group {group} is lost: the others go on without it");
        }
        self.turns.loses(group);
        self.mail.heartbeats.dismiss(self.mail.layout.leader(group));
        ServerEvent::Lost(group)
    }

    /// Whether a group that has sent nothing for long still sends heartbeats, so that waiting continues.
    pub fn is_slow_but_alive(&self, group: usize) -> bool {
        self.mail.heartbeats.are_sent() && self.mail.waits_for(group, self.last_message.since())
    }

    /// After a long silence: stops waiting for the group whose turn it is, unless it is alive; returns whether it did.
    pub fn gives_up(&mut self) -> bool {
        let last = self.turns.listened().pop();
        if last.is_some_and(|group| self.is_slow_but_alive(group)) {
            return false;
        }
        let late = self.turns.gives_up();
        if let Some(group) = late {
            tracing::warn!(
                "group {group} has not come to its turn in {:?}: the others go on",
                self.mail.limit
            );
            self.last_message = LastMessage::at(Instant::now());
        }
        late.is_some()
    }

    /// Receives a message of a group, and applies its gradient.
    fn hear(&mut self, group: usize) -> Result<ServerEvent> {
        let mut request = Request::zeroed();
        let bytes = bytemuck::bytes_of_mut(&mut request);
        if !self.mail.take(group, bytes)? {
            return Ok(self.loses(group));
        }
        if request.kind == kind::SCORES {
            return Ok(ServerEvent::Scores { group, request });
        }
        if request.kind == kind::LEAVE {
            self.turns.leaves(group);
            return Ok(ServerEvent::Left { group, request });
        }
        if request.kind == kind::UPDATE && !self.take_gradient(group)? {
            return Ok(self.loses(group));
        }
        if self.turns.served(group) {
            tracing::warn!("group {group} is back");
        }
        self.steps_of[group] += 1;
        if request.kind != kind::UPDATE {
            return Ok(ServerEvent::Skip { group, request });
        }
        let staleness = self.version.saturating_sub(request.version);
        self.part.learn(request.rate, request.scale)?;
        self.version += 1;
        self.staleness.count(staleness);
        Ok(ServerEvent::Update {
            group,
            request,
            staleness,
        })
    }

    /// Receives a gradient and, on the first server, batch statistics; returns false if the group is gone.
    fn take_gradient(&mut self, group: usize) -> Result<bool> {
        let gradient = bytemuck::cast_slice_mut(self.part.gradient_mut());
        let came = self.mail.take(group, gradient)?;
        if !came || !self.is_first() {
            return Ok(came);
        }
        let statistics = bytemuck::cast_slice_mut(&mut self.statistics);
        self.mail.take(group, statistics)
    }

    /// Answers a group, with the parameters if it has sent a gradient; returns false if the group is gone.
    pub fn answer(&mut self, group: usize, orders: Orders, values: bool) -> Result<bool> {
        let reply = Reply {
            version: self.version,
            orders,
            bytes: 0,
        };
        let mut there = self.mail.say(group, raw(&reply))?;
        if there && values {
            let values = self.part.take_values()?;
            if let Some(views) = &mut self.views {
                views.read(group, self.version, &values);
            }
            let sent = self.mail.send(group, Payload::Values(values))?;
            there = sent.is_some();
            if let Some(Payload::Values(values)) = sent {
                self.part.give_back(values);
            }
        }
        if there && orders.validates() {
            let running = self.running_statistics();
            there = self.mail.send(group, Payload::Values(running))?.is_some();
        }
        if !there {
            self.loses(group);
        }
        Ok(there)
    }

    /// Running statistics of the first server's network, blended with those of the groups.
    pub fn running_statistics(&self) -> Vec<f32> {
        let buffers = self.run.learner.network.parameters().buffers().iter();
        buffers.flat_map(|b| b.values.iter().copied()).collect()
    }

    /// This server's part of the parameters and the optimiser's state, as a file.
    pub fn part_file(&self) -> Result<ModelFile> {
        let mut file = ModelFile::default();
        self.part.save_into(&mut file)?;
        let mut counted = ServerStanding {
            version: self.version,
            views: Vec::new(),
            staleness: self.staleness.clone(),
        };
        if let Some(views) = &self.views {
            views.save_into(&mut file);
            counted.views = views.versions();
        }
        let counted = String::from_utf8_lossy(&json(&counted)?).into_owned();
        file.facts.insert(COUNTED.into(), counted);
        Ok(file)
    }

    /// Stores the current state if the first server, which may be some steps behind, will request it.
    fn keep(&mut self) -> Result<()> {
        let done = self.done();
        let usual = done.is_multiple_of(self.run.checkpoint_every);
        if self.turns.in_turns().is_some() && (self.cuts.remove(&done) || usual) {
            let bytes = self.part_file()?.encode(Path::new(PART))?;
            self.earlier_parts.keep(&self.steps_of, bytes);
        }
        Ok(())
    }

    /// Steps of the run that this server has seen done.
    fn done(&self) -> u64 {
        self.done_before + self.steps_of.iter().sum::<u64>()
    }

    /// Serves groups and the first server until the latter ends the run; returns the message that ended it. Not called
    /// on the first server.
    pub fn serve(mut self) -> Result<Vec<u8>> {
        let mut wanted: Option<Vec<u64>> = None;
        loop {
            match self.next()? {
                ServerEvent::Update { group, .. } => {
                    self.answer(group, Orders::steps([]), true)?;
                    self.keep()?;
                }
                ServerEvent::Skip { .. } => self.keep()?,
                ServerEvent::Command => {
                    let (command, bytes) = self.mail.receive_command()?;
                    match command {
                        command::END => {
                            self.mail.heartbeats.end();
                            return Ok(bytes);
                        }
                        command::CUT => {
                            let cut: Vec<u64> = bytemuck::pod_collect_to_vec(&bytes);
                            self.cuts.extend(cut);
                        }
                        _ => wanted = Some(bytemuck::pod_collect_to_vec(&bytes)),
                    }
                }
                // A group that is late because of the first server is waited for.
                ServerEvent::Nothing if self.last_message.elapsed() > self.mail.limit => {
                    self.gives_up();
                }
                _ => {}
            }
            if let Some(counts) = &wanted
                && self.has_done(counts)
            {
                let bytes = match self.earlier_parts.take(counts) {
                    Some(bytes) => bytes,
                    None => self.part_file()?.encode(Path::new(PART))?,
                };
                wanted = None;
                let between = &mut self.mail.between;
                between.send(0, &(bytes.len() as u64).to_le_bytes())?;
                between.send(0, &bytes)?;
            }
        }
    }

    /// Whether these numbers of steps of each group are done; steps in progress of a lost group will not arrive.
    fn has_done(&self, counts: &[u64]) -> bool {
        let mut all = self.steps_of.iter().zip(counts).enumerate();
        all.all(|(group, (mine, wanted))| mine >= wanted || self.turns.is_lost(group))
    }
}
