//! One thread's handle to a group of ranks.

use super::group::{Group, Made, Notes};
use super::meeting::{Lateness, Meeting};
use super::window::{Segments, ThreadWindow};
use crate::comm::error::check_peer;
use crate::comm::{Arrival, CommError, Communicator, Result, Window, lock};
use std::sync::Arc;
use std::time::Duration;

/// A rank that is a thread. When it is dropped, its peers' operations fail with [`CommError::Gone`].
pub struct Threads {
    group: Arc<Group>,
    rank: usize,
    lateness: Lateness,
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.group.meeting.leave(self.rank);
    }
}

impl Threads {
    pub(super) fn new(group: Arc<Group>, rank: usize) -> Self {
        let member = group.meeting.members()[rank];
        let lateness = group.meeting.world().lateness(member);
        Self {
            group,
            rank,
            lateness,
        }
    }

    /// This rank's number at the start, also in a group made by splitting.
    #[must_use]
    pub fn member(&self) -> usize {
        self.group.meeting.members()[self.rank]
    }

    /// Runs an operation, after a delay if requested; after an error this rank takes no further part.
    fn operate<T>(
        &mut self,
        doing: &str,
        operation: impl FnOnce(&Group, usize) -> Result<T>,
    ) -> Result<T> {
        let world = Arc::clone(self.group.meeting.world());
        self.lateness.pass();
        let member = self.member();
        let result = world
            .meet_fault(member, doing)
            .and_then(|()| operation(&self.group, self.rank));
        if result.is_err() {
            world.give_up(member);
        }
        result
    }

    fn existing(&self, peer: usize) -> Result<()> {
        check_peer(self.rank, peer, self.size())
    }

    /// Exchanges notes: returns all ranks' notes once all have posted theirs.
    fn notes(&mut self, mine: Notes, doing: &str) -> Result<Vec<Notes>> {
        self.operate(doing, |group, rank| {
            lock(&group.board)[rank] = mine;
            group.meeting.wait(rank, doing)?;
            let all = lock(&group.board).clone();
            // Nobody may post the next note before all have read these.
            group.meeting.wait(rank, doing)?;
            lock(&group.board)[rank] = Notes::default();
            Ok(all)
        })
    }

    /// An object made by the rank `maker` of the group, shared with all.
    fn shared(&mut self, maker: usize, make: impl FnOnce() -> Made, doing: &str) -> Result<Made> {
        let made = (maker == self.rank).then(make);
        let notes = Notes {
            made,
            ..Notes::default()
        };
        let mut notes = self.notes(notes, doing)?;
        notes[maker].made.take().ok_or_else(|| CommError::Library {
            rank: self.member(),
            call: "split",
            reason: format!("rank {maker} left nothing for the others"),
        })
    }
}

impl Communicator for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.group.meeting.members().len()
    }

    fn send_receive(
        &mut self,
        to: usize,
        sent: &[u8],
        from: usize,
        received: &mut [u8],
    ) -> Result<()> {
        self.existing(to)?;
        self.existing(from)?;
        let members = self.group.meeting.members();
        let doing = format!(
            "a message to rank {} and one from rank {}",
            members[to], members[from]
        );
        self.operate(&doing, |group, rank| {
            group.post(rank, to, sent, &doing)?;
            group.take(rank, from, received, &doing)
        })
    }

    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<()> {
        self.existing(to)?;
        let doing = format!("a message to rank {}", self.group.meeting.members()[to]);
        self.operate(&doing, |group, rank| group.post(rank, to, bytes, &doing))
    }

    fn receive(&mut self, from: usize, bytes: &mut [u8]) -> Result<()> {
        self.existing(from)?;
        let doing = format!("a message from rank {}", self.group.meeting.members()[from]);
        self.operate(&doing, |group, rank| group.take(rank, from, bytes, &doing))
    }

    fn wait_any(&mut self, from: &[usize], at_most: Duration) -> Result<Arrival> {
        from.iter().try_for_each(|&peer| self.existing(peer))?;
        self.operate("a message from any of several ranks", |group, rank| {
            Ok(group.arrival(rank, from, at_most))
        })
    }

    fn offer(&mut self, to: usize, bytes: &[u8]) -> Result<bool> {
        self.existing(to)?;
        let doing = "a message to a rank that may be gone";
        self.operate(doing, |group, rank| {
            match group.post(rank, to, bytes, doing) {
                Err(CommError::Gone { .. }) => Ok(false),
                posted => posted.map(|()| true),
            }
        })
    }

    fn barrier(&mut self) -> Result<()> {
        self.operate("a barrier", |group, rank| {
            group.meeting.wait(rank, "a barrier")
        })
    }

    fn split(&mut self, colour: Option<u32>, key: usize) -> Result<Option<Box<dyn Communicator>>> {
        let doing = "a split into groups";
        let notes = Notes {
            colour,
            number: key,
            made: None,
        };
        let all = self.notes(notes, doing)?;
        let mut chosen: Vec<usize> = (0..all.len())
            .filter(|&rank| colour.is_some() && all[rank].colour == colour)
            .collect();
        chosen.sort_by_key(|&rank| (all[rank].number, rank));
        // Ranks without a colour join in the exchange and discard the result.
        let maker = chosen.first().copied().unwrap_or(self.rank);
        let group = Arc::clone(&self.group);
        let members = chosen
            .iter()
            .map(|&rank| group.meeting.members()[rank])
            .collect();
        let world = Arc::clone(group.meeting.world());
        let make = || Made::Group(Arc::new(Group::new(world, members)));
        let Made::Group(made) = self.shared(maker, make, doing)? else {
            return Ok(None);
        };
        let rank = chosen.iter().position(|&rank| rank == self.rank);
        Ok(rank.map(|rank| Box::new(Self::new(made, rank)) as Box<dyn Communicator>))
    }

    fn split_by_node(&mut self) -> Result<Box<dyn Communicator>> {
        let node = self.group.meeting.world().node_of(self.member());
        let colour = u32::try_from(node)
            .map_err(|_| CommError::Layout(format!("node {node} has too high a number")))?;
        let group = self.split(Some(colour), self.rank)?;
        group.ok_or_else(|| CommError::Layout(format!("node {node} has no ranks")))
    }

    fn window(&mut self, floats: usize) -> Result<Option<Box<dyn Window>>> {
        let group = Arc::clone(&self.group);
        let (world, members) = (group.meeting.world(), group.meeting.members());
        let node = world.node_of(members[0]);
        if members.iter().any(|&rank| world.node_of(rank) != node) {
            return Ok(None);
        }
        let doing = "a shared window";
        let notes = Notes {
            number: floats,
            ..Notes::default()
        };
        let lengths = self.notes(notes, doing)?;
        let make = || {
            let meeting = Meeting::new(Arc::clone(world), members.to_vec());
            let lengths = lengths.iter().map(|notes| notes.number);
            Made::Window(Arc::new(Segments::new(meeting, lengths)))
        };
        let Made::Window(made) = self.shared(0, make, doing)? else {
            return Ok(None);
        };
        Ok(Some(Box::new(ThreadWindow::new(made, self.rank))))
    }

    fn retire(&self) -> ! {
        // The process is shared with the other ranks.
        loop {
            std::thread::park();
        }
    }

    fn abort(&self, code: i32) -> ! {
        std::process::exit(code)
    }

    fn describe(&self) -> String {
        let world = self.group.meeting.world();
        format!(
            "threads: rank {} of {}, {} nodes",
            self.rank,
            self.size(),
            world.nodes()
        )
    }
}
