//! The link of a group to the servers: sends gradients and receives parameters.

use super::LOOK;
use super::ending::Ending;
use super::heartbeats::Heartbeats;
use super::message::{Orders, Reply, Request, kind, raw};
use super::plan;
use crate::comm::collectives::tree;
use crate::comm::{Arrival, CommError, Communicator, doing};
use crate::error::{JobError, Result};
use crate::train::evaluate::Scores;
use crate::train::step::StepResult;
use bytemuck::Zeroable;
use squall_model::optim::{OptimizerConfig, Update};
use squall_model::{Gradients, ModelError, Parameters};
use std::fmt;
use std::ops::Range;

/// A group rank's connection to the servers; only its leader communicates with them.
///
/// It waits for the servers as long as they send heartbeats: meanwhile they serve other groups, and drop a group that
/// does not answer.
pub(in crate::train) struct Link {
    /// Communicator of this group's ranks, if there are several.
    pub(super) group: Option<Box<dyn Communicator>>,
    /// Communicator of the servers, which come first, and the leaders; only on leaders.
    pub(super) servers: Option<Box<dyn Communicator>>,
    /// The ranges of parameters that each server holds.
    pub(super) slices: Vec<Vec<Range<usize>>>,
    /// The recipe's optimiser, which determines gradient clipping.
    pub(super) optimiser: OptimizerConfig,
    pub(super) exchange: State,
    /// Last field, as in `Mail`: ranks must free shared resources in the same order.
    pub(super) heartbeats: Heartbeats,
}

/// The state after the last exchange.
#[derive(Debug)]
pub(super) struct State {
    /// Version of each server's parameters that was read last.
    versions: Vec<u64>,
    /// All parameters.
    values: Vec<f32>,
    /// Running statistics of the servers, if a validation must use them.
    buffers: Vec<f32>,
    orders: Orders,
    /// Whether this rank was asked to stop.
    stop: bool,
    /// Buffer for the part of a gradient sent to one server.
    slice: Vec<f32>,
}

impl State {
    pub fn new(parameters: &Parameters, servers: usize) -> Self {
        let buffers = parameters.buffers().iter().map(|b| b.values.len()).sum();
        Self {
            versions: vec![0; servers],
            values: vec![0.0; parameters.count()],
            buffers: vec![0.0; buffers],
            orders: Orders::steps([]),
            stop: false,
            slice: Vec::new(),
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link to {} servers", self.slices.len())
    }
}

/// A step's gradient, averaged over the group, with its context.
pub(in crate::train) struct Contribution<'a> {
    /// The step.
    pub step: u64,
    /// The gradients of all parameters.
    pub gradients: &'a Gradients,
    /// How the optimiser must use them.
    pub update: Update<'a>,
    /// The step's loss.
    pub loss: f64,
    /// Batch statistics, averaged over the group.
    pub statistics: &'a [f32],
}

impl Link {
    /// Replaces the parameters by the servers' after an update with this gradient. The inner result is the gradient
    /// norm before clipping, or the error that names a non-finite value, in which case nothing was sent. All ranks of
    /// the group call it.
    ///
    /// # Errors
    /// [`JobError::Comm`].
    pub fn update(
        &mut self,
        parameters: &mut Parameters,
        given: Contribution<'_>,
    ) -> Result<std::result::Result<f64, ModelError>> {
        let _patient = doing::patiently();
        let unscaled = given.update.gradient_scale;
        let norm = given.gradients.norm() * f64::from(unscaled);
        if !norm.is_finite() {
            return Ok(Err(given.gradients.not_finite(parameters, given.step + 1)));
        }
        if let Some(servers) = &mut self.servers {
            let state = &mut self.exchange;
            let request = Request {
                loss: given.loss,
                norm,
                rate: given.update.rate,
                scale: self.optimiser.clipped(unscaled, norm),
                stop: u64::from(state.stop),
                ..Request::of(kind::UPDATE, given.step)
            };
            for (server, ranges) in self.slices.iter().enumerate() {
                let version = state.versions[server];
                servers.send(server, raw(&Request { version, ..request }))?;
                state.slice.clear();
                plan::gather(ranges, &given.gradients.as_slice(), &mut state.slice);
                servers.send(server, bytemuck::cast_slice(&state.slice))?;
                if server == 0 {
                    servers.send(0, bytemuck::cast_slice(given.statistics))?;
                }
            }
            let mut waiting: Vec<usize> = (0..self.slices.len()).collect();
            while !waiting.is_empty() {
                let server = arrived(&mut **servers, &waiting)?;
                waiting.retain(|&other| other != server);
                let ranges = &self.slices[server];
                let reply = reply(&mut **servers, server)?;
                state.versions[server] = reply.version;
                state.slice.resize(plan::count(ranges), 0.0);
                servers.receive(server, bytemuck::cast_slice_mut(&mut state.slice))?;
                plan::scatter(ranges, &state.slice, &mut state.values);
                if server == 0 {
                    state.orders = reply.orders;
                    if reply.orders.validates() {
                        servers.receive(0, bytemuck::cast_slice_mut(&mut state.buffers))?;
                    }
                }
            }
        }
        self.share_orders()?;
        self.share_values(parameters, self.exchange.orders.validates())?;
        Ok(Ok(norm))
    }

    /// Informs the servers that a step contributes nothing; the parameters stay. All ranks of the group call it.
    pub(super) fn skip(
        &mut self,
        parameters: &mut Parameters,
        step: u64,
        result: &StepResult,
    ) -> Result<()> {
        let _patient = doing::patiently();
        if let Some(servers) = &mut self.servers {
            let request = Request {
                loss: result.loss,
                norm: f64::NAN,
                rate: result.learning_rate,
                stop: u64::from(self.exchange.stop),
                ..Request::of(kind::SKIP, step)
            };
            for server in 0..self.slices.len() {
                servers.send(server, raw(&request))?;
            }
            arrived(&mut **servers, &[0])?;
            let reply = reply(&mut **servers, 0)?;
            self.exchange.orders = reply.orders;
            if reply.orders.validates() {
                servers.receive(0, bytemuck::cast_slice_mut(&mut self.exchange.buffers))?;
            }
        }
        self.share_orders()?;
        // The ranks of this group have seen the batch of the step.
        match self.exchange.orders.validates() {
            true => self.share_buffers(parameters),
            false => Ok(()),
        }
    }

    /// Waits for the first steps. All ranks of the group call it.
    pub(super) fn begin(&mut self, parameters: &Parameters) -> Result<()> {
        let _patient = doing::patiently();
        if let Some(servers) = &mut self.servers {
            arrived(&mut **servers, &[0])?;
            self.exchange.orders = reply(&mut **servers, 0)?.orders;
        }
        let running = parameters.buffers().iter().flat_map(|b| &b.values);
        self.exchange.buffers = running.copied().collect();
        self.share_orders()
    }

    /// Sends the result of a validation to the first server; `None` if it was stopped.
    pub(super) fn send_scores(
        &mut self,
        scores: Option<&Scores>,
        parameters: &Parameters,
    ) -> Result<()> {
        let _patient = doing::patiently();
        let Some(servers) = &mut self.servers else {
            return Ok(());
        };
        let text = scores.map(json).transpose()?;
        let text = text.unwrap_or_default();
        let request = Request {
            bytes: text.len() as u64,
            stop: u64::from(self.exchange.stop),
            ..Request::of(kind::SCORES, 0)
        };
        servers.send(0, raw(&request))?;
        if !text.is_empty() {
            servers.send(0, &text)?;
            let mut values = Vec::with_capacity(parameters.count());
            for parameter in parameters.iter() {
                values.extend(parameter.values()?);
            }
            servers.send(0, bytemuck::cast_slice(&values))?;
            let running: Vec<f32> = (parameters.buffers().iter())
                .flat_map(|b| b.values.iter().copied())
                .collect();
            servers.send(0, bytemuck::cast_slice(&running))?;
        }
        Ok(())
    }

    /// Leaves the run: sends the times of the group's ranks and their missing value counts, and waits for the end of
    /// the run. Returns how it ended, and whether to validate the network, whose parameters are then the final ones.
    /// All ranks of the group call it.
    pub(super) fn leave(
        &mut self,
        spent: &[u8],
        missing_values: u64,
        parameters: &mut Parameters,
    ) -> Result<(Ending, bool)> {
        let _patient = doing::patiently();
        let mut text = Vec::new();
        if let Some(servers) = &mut self.servers {
            let request = Request {
                bytes: spent.len() as u64,
                stop: u64::from(self.exchange.stop),
                ..Request::of(kind::LEAVE, missing_values)
            };
            for server in 0..self.slices.len() {
                servers.send(server, raw(&request))?;
                if server == 0 {
                    servers.send(0, spent)?;
                }
            }
            // No limit: the slowest group may take arbitrarily long.
            arrived(&mut **servers, &[0])?;
            let reply = reply(&mut **servers, 0)?;
            text.resize(reply.bytes as usize, 0);
            servers.receive(0, &mut text)?;
            self.exchange.orders = reply.orders;
            if reply.orders.validates() {
                servers.receive(0, bytemuck::cast_slice_mut(&mut self.exchange.values))?;
                servers.receive(0, bytemuck::cast_slice_mut(&mut self.exchange.buffers))?;
            }
        }
        self.share_orders()?;
        if let Some(group) = &mut self.group {
            text = tree::broadcast_any(&mut **group, text, 0)?;
        }
        let validate = self.exchange.orders.validates();
        if validate {
            self.share_values(parameters, true)?;
        }
        Ok((parsed(&text)?, validate))
    }

    /// Sets the versions of each server's parameters that this group has.
    pub(super) fn has_seen(&mut self, versions: Vec<u64>) {
        self.exchange.versions = versions;
    }

    /// What the group must do after the last exchange.
    pub(super) fn orders(&self) -> Orders {
        self.exchange.orders
    }

    /// Records that this rank was asked to stop; the leader informs the servers.
    pub(super) fn note_stop(&mut self, stop: bool) {
        self.exchange.stop |= stop;
    }

    fn share_orders(&mut self) -> Result<()> {
        if let Some(group) = &mut self.group {
            let orders = bytemuck::bytes_of_mut(&mut self.exchange.orders);
            tree::broadcast(&mut **group, orders, 0)?;
        }
        Ok(())
    }

    /// Copies the parameters that the leader has received into the network of every rank.
    fn share_values(&mut self, parameters: &mut Parameters, buffers: bool) -> Result<()> {
        let state = &mut self.exchange;
        if let Some(group) = &mut self.group {
            tree::broadcast_values(&mut **group, &mut state.values, 0)?;
        }
        parameters.update_all(|values| values.copy_from_slice(&state.values))?;
        match buffers {
            true => self.share_buffers(parameters),
            false => Ok(()),
        }
    }

    /// Copies the running statistics that the leader has received into the network of every rank.
    fn share_buffers(&mut self, parameters: &mut Parameters) -> Result<()> {
        let buffers = &mut self.exchange.buffers;
        if let Some(group) = &mut self.group {
            tree::broadcast_values(&mut **group, buffers, 0)?;
        }
        parameters.set_buffers(buffers)?;
        Ok(())
    }
}

/// Waits for a message of one of these servers.
fn arrived(servers: &mut dyn Communicator, from: &[usize]) -> Result<usize> {
    loop {
        match servers.wait_any(from, LOOK)? {
            Arrival::Message(server) => return Ok(server),
            Arrival::Gone(peer) => {
                return Err(CommError::Gone {
                    rank: servers.rank(),
                    peer,
                    doing: "a wait for the parameter servers".into(),
                }
                .into());
            }
            Arrival::Nothing => {}
        }
    }
}

fn reply(servers: &mut dyn Communicator, from: usize) -> Result<Reply> {
    let mut reply = Reply::zeroed();
    servers.receive(from, bytemuck::bytes_of_mut(&mut reply))?;
    Ok(reply)
}

/// Serialises a value of ours to JSON.
pub(super) fn json(value: &impl serde::Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(damaged)
}

/// Parses a value of ours from JSON.
pub(super) fn parsed<T: serde::de::DeserializeOwned>(text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(damaged)
}

fn damaged(error: serde_json::Error) -> JobError {
    JobError::damaged("a message between ranks", error)
}
