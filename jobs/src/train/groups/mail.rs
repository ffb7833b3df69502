//! A server's messages: to the other servers, and to group leaders, which may disappear at any time.

use super::LOOK;
use super::heartbeats::Heartbeats;
use super::plan::Layout;
use crate::comm::{Arrival, Communicator, Payload};
use crate::error::Result;
use std::time::{Duration, Instant};

/// Factor on the time limit for a group that is known to be alive.
const LIVING_WAIT: u32 = 10;

/// A server's connections to others.
pub(super) struct Mail {
    /// Communicator of the servers, followed by the leaders of all groups.
    pub between: Box<dyn Communicator>,
    pub layout: Layout,
    /// A group that sends nothing for this long is given up.
    pub limit: Duration,
    /// Heartbeats with the leaders. Last field, as in `Link`: ranks must free shared resources in the same order.
    pub heartbeats: Heartbeats,
}

impl Mail {
    /// The rank of a group's leader in [`Self::between`].
    pub fn leader_between(&self, group: usize) -> usize {
        self.layout.servers + group
    }

    /// Whether a group's leader has been silent for longer than the recipe allows, or has sent its last message.
    pub fn is_silent(&self, group: usize) -> bool {
        self.heartbeats.is_silent(self.layout.leader(group))
    }

    /// Whether to keep waiting for a group that has been working since then. The wait is limited even if the group is
    /// alive, since its process may live while its work hangs.
    pub fn waits_for(&self, group: usize, since: Instant) -> bool {
        !self.is_silent(group) && since.elapsed() <= self.limit.saturating_mul(LIVING_WAIT)
    }

    /// Receives from a group; returns false if it is gone. A message that makes progress within the limit does not
    /// count as gone.
    pub fn take(&mut self, group: usize, bytes: &mut [u8]) -> Result<bool> {
        let (from, leader) = (self.leader_between(group), self.layout.leader(group));
        let (limit, heartbeats) = (self.limit, &self.heartbeats);
        let there = || !heartbeats.is_silent(leader);
        let start = Instant::now();
        loop {
            match self.between.wait_any(&[from], limit.min(LOOK))? {
                Arrival::Message(_) => {
                    return Ok(self.between.receive_while(from, bytes, &there)?);
                }
                Arrival::Gone(_) => return Ok(false),
                Arrival::Nothing if start.elapsed() >= limit || !there() => return Ok(false),
                Arrival::Nothing => {}
            }
        }
    }

    /// Receives a whole message of a group, if it arrives.
    pub fn take_bytes(&mut self, group: usize, bytes: u64) -> Result<Option<Vec<u8>>> {
        let mut found = vec![0; bytes as usize];
        let came = self.take(group, &mut found)?;
        Ok(came.then_some(found))
    }

    /// Sends to a group; returns the payload if the group was reached.
    pub fn send(&mut self, group: usize, payload: Payload) -> Result<Option<Payload>> {
        let (to, leader) = (self.leader_between(group), self.layout.leader(group));
        let there = || !self.heartbeats.is_silent(leader);
        if !there() {
            return Ok(None);
        }
        Ok(self.between.send_while(to, payload, &there)?)
    }

    /// Sends bytes to a group; returns whether it was reached.
    pub fn say(&mut self, group: usize, bytes: &[u8]) -> Result<bool> {
        let sent = self.send(group, Payload::Bytes(bytes.to_vec()))?;
        Ok(sent.is_some())
    }

    /// Sends a command to another server.
    pub fn send_command(&mut self, other: usize, command: u64, bytes: &[u8]) -> Result<()> {
        let head = [command, bytes.len() as u64];
        self.between.send(other, bytemuck::cast_slice(&head))?;
        self.between.send(other, bytes)?;
        Ok(())
    }

    /// Receives a command of the first server.
    pub fn receive_command(&mut self) -> Result<(u64, Vec<u8>)> {
        let mut head = [0u64; 2];
        (self.between).receive(0, bytemuck::cast_slice_mut(&mut head))?;
        let mut bytes = vec![0; head[1] as usize];
        self.between.receive(0, &mut bytes)?;
        Ok((head[0], bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::Solo;

    /// Its process may show signs of life and still hang.
    #[test]
    fn a_group_is_not_waited_for_for_ever() {
        let mail = |limit| Mail {
            between: Box::new(Solo::new()),
            layout: Layout::of(3, 2, 1).unwrap(),
            limit,
            heartbeats: Heartbeats::default(),
        };
        let long_ago = Instant::now().checked_sub(Duration::from_secs(20)).unwrap();
        assert!(!mail(Duration::from_secs(1)).waits_for(0, long_ago));
        assert!(mail(Duration::from_secs(3)).waits_for(0, long_ago));
        assert!(mail(Duration::MAX).waits_for(1, long_ago));
    }
}
