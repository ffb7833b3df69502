//! Messages between groups and servers.
//!
//! A leader sends a [`Request`] to every server, in the order of servers, and accepts their [`Reply`]s as they arrive;
//! a server answers one request before it receives the next. This cannot deadlock, however small the library's buffers
//! are: a rank that sends to a server waits only for servers that come after it.

use bytemuck::{Pod, Zeroable};

/// The kind of a leader's request.
pub(super) mod kind {
    /// Followed by a gradient of the server's part and, to the first server, batch statistics.
    pub const UPDATE: u64 = 1;
    /// A step without a finite gradient.
    pub const SKIP: u64 = 2;
    /// The group leaves the run. To the first server, followed by the times of the group's ranks. `step` is the number
    /// of missing values that they met.
    pub const LEAVE: u64 = 3;
    /// To the first server: followed by the requested scores as JSON and, if there are scores, all parameters and
    /// running statistics.
    pub const SCORES: u64 = 4;
}

/// Commands of the first server to another one.
pub(super) mod command {
    /// Send your part once you have done these numbers of steps of each group; in round-robin order, the part as it was
    /// then.
    pub const PART: u64 = 1;
    /// The run is over.
    pub const END: u64 = 2;
    /// In round-robin order: keep your part after this number of steps of the run, for a later request.
    pub const CUT: u64 = 3;
}

/// No step.
const NONE: u64 = u64::MAX;

/// Header of a leader's message.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Request {
    pub kind: u64,
    /// The step that it belongs to.
    pub step: u64,
    /// Version of the parameters read from this server.
    pub version: u64,
    pub loss: f64,
    pub norm: f64,
    pub rate: f32,
    /// Factor to apply to the gradient, including clipping.
    pub scale: f32,
    /// Whether the group was asked to stop.
    pub stop: u64,
    /// Length of the data that follow, if the receiver cannot know it.
    pub bytes: u64,
}

impl Request {
    pub fn of(kind: u64, step: u64) -> Self {
        Self {
            kind,
            step,
            ..Self::zeroed()
        }
    }
}

/// What a group must do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Orders {
    steps: [u64; 2],
    validate: u64,
    stop: u64,
}

impl Orders {
    /// Do these steps, at most two, after those already assigned.
    pub fn steps(steps: impl IntoIterator<Item = u64>) -> Self {
        let mut orders = Self {
            steps: [NONE; 2],
            validate: 0,
            stop: 0,
        };
        let places = orders.steps.iter_mut().zip(steps);
        places.for_each(|(place, step)| *place = step);
        orders
    }

    /// The same orders, preceded by a validation.
    pub fn validating(self, validate: bool) -> Self {
        Self {
            validate: u64::from(validate),
            ..self
        }
    }

    /// The same orders or, with `stop`, the order to stop.
    pub fn stopping(self, stop: bool) -> Self {
        Self {
            stop: u64::from(stop),
            ..self
        }
    }

    pub fn new_steps(&self) -> impl Iterator<Item = u64> {
        self.steps.into_iter().filter(|&step| step != NONE)
    }

    pub fn validates(&self) -> bool {
        self.validate != 0
    }

    pub fn stops(&self) -> bool {
        self.stop != 0
    }
}

/// Header of a server's message.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Reply {
    /// Version of its parameters.
    pub version: u64,
    pub orders: Orders,
    /// Length of the data that follow, if the receiver cannot know it.
    pub bytes: u64,
}

/// The bytes of a value.
pub(super) fn raw<T: Pod>(value: &T) -> &[u8] {
    bytemuck::bytes_of(value)
}
