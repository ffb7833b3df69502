//! What groups and servers say to each other.
//!
//! A leader sends a [`Request`] to every server, in the order of servers, and takes their [`Reply`]s as they arrive; a
//! server answers one request before it receives the next. So nobody ever waits in a circle, however small the buffers
//! of the library are: a rank that sends to a server waits only for servers that come after it.

use bytemuck::{Pod, Zeroable};

/// What a leader wants.
pub(super) mod kind {
    /// A gradient of the server's part follows and, to the first server, batch statistics.
    pub const UPDATE: u64 = 1;
    /// A step had no finite gradient.
    pub const SKIP: u64 = 2;
    /// The group leaves the run; to the first server the seconds of the group's ranks follow. `step` is the number of
    /// missing values that they met.
    pub const LEAVE: u64 = 3;
    /// To the first server: the scores that it asked for follow as JSON and, if there are scores, all parameters and
    /// running statistics.
    pub const SCORES: u64 = 4;
}

/// Commands of the first server to another one.
pub(super) mod command {
    /// Send your part once you have done these numbers of steps of each group; in turns, as it was just then.
    pub const PART: u64 = 1;
    /// The run is over.
    pub const END: u64 = 2;
    /// In turns: keep your part after this number of steps of the run: you will be asked for it.
    pub const CUT: u64 = 3;
}

/// No step.
const NONE: u64 = u64::MAX;

/// The beginning of what a leader sends.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Request {
    pub kind: u64,
    /// The step that it is of.
    pub step: u64,
    /// Updates that the parameters had seen when they were read from this server.
    pub version: u64,
    pub loss: f64,
    pub norm: f64,
    pub rate: f32,
    /// What the gradient is to be multiplied by, clipping included.
    pub scale: f32,
    /// The group was told to stop.
    pub stop: u64,
    /// Length of the data that follow, where the receiver cannot know it.
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

/// What a group is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Orders {
    steps: [u64; 2],
    validate: u64,
    stop: u64,
}

impl Orders {
    /// These steps, at most two, after those that it has.
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

    /// The same orders, but after a validation.
    pub fn validating(self, validate: bool) -> Self {
        Self {
            validate: u64::from(validate),
            ..self
        }
    }

    /// The same orders or, with `stop`, the order to do nothing any more.
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

/// The beginning of what a server sends.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Reply {
    /// Updates that its parameters have seen.
    pub version: u64,
    pub orders: Orders,
    /// Length of the data that follow, where the receiver cannot know it.
    pub bytes: u64,
}

/// The bytes of a value.
pub(super) fn raw<T: Pod>(value: &T) -> &[u8] {
    bytemuck::bytes_of(value)
}
