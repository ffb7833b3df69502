//! A communicator of a single rank, for a program that was started without others.

use super::{Arrival, CommError, Communicator, Result, Window};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// The only rank. Messages to itself arrive in the order in which they were sent.
#[derive(Debug, Default)]
pub struct Solo {
    messages: VecDeque<Vec<u8>>,
}

impl Solo {
    /// A rank alone.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// Rejects any rank but 0.
fn only_itself(peer: usize) -> Result<()> {
    if peer == 0 {
        return Ok(());
    }
    Err(CommError::Layout(format!(
        "rank 0 is alone: there is no rank {peer}"
    )))
}

impl Communicator for Solo {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn send_receive(
        &mut self,
        to: usize,
        sent: &[u8],
        from: usize,
        received: &mut [u8],
    ) -> Result<()> {
        self.send(to, sent)?;
        self.receive(from, received)
    }

    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<()> {
        only_itself(to)?;
        self.messages.push_back(bytes.to_vec());
        Ok(())
    }

    fn receive(&mut self, from: usize, bytes: &mut [u8]) -> Result<()> {
        only_itself(from)?;
        let message = self.messages.pop_front().ok_or_else(|| {
            CommError::Layout("rank 0 is alone and has sent itself nothing to receive".into())
        })?;
        if message.len() != bytes.len() {
            return Err(CommError::Size {
                rank: 0,
                what: "bytes of a message from rank 0".into(),
                expected: bytes.len(),
                got: message.len(),
            });
        }
        bytes.copy_from_slice(&message);
        Ok(())
    }

    fn wait_any(&mut self, from: &[usize], _at_most: Duration) -> Result<Arrival> {
        from.iter().try_for_each(|&peer| only_itself(peer))?;
        let arrived = !from.is_empty() && !self.messages.is_empty();
        Ok(if arrived {
            Arrival::Message(0)
        } else {
            Arrival::Nothing
        })
    }

    fn barrier(&mut self) -> Result<()> {
        Ok(())
    }

    fn split(&mut self, colour: Option<u32>, _key: usize) -> Result<Option<Box<dyn Communicator>>> {
        Ok(colour.map(|_| Box::new(Self::new()) as Box<dyn Communicator>))
    }

    fn split_by_node(&mut self) -> Result<Box<dyn Communicator>> {
        Ok(Box::new(Self::new()))
    }

    fn window(&mut self, floats: usize) -> Result<Option<Box<dyn Window>>> {
        Ok(Some(Box::new(Alone(vec![0.0; floats]))))
    }

    fn retire(&self) -> ! {
        self.abort(0)
    }

    fn abort(&self, code: i32) -> ! {
        std::process::exit(code)
    }

    fn describe(&self) -> String {
        "solo: one rank".into()
    }
}

/// A window with one segment.
struct Alone(Vec<f32>);

impl Window for Alone {
    fn write(&mut self, at: usize, values: &[f32]) {
        self.0[at..at + values.len()].copy_from_slice(values);
    }

    fn sum(&self, _range: Range<usize>, _values: &mut [f32]) {}

    fn read(&self, _rank: usize, range: Range<usize>, into: &mut [f32]) {
        into.copy_from_slice(&self.0[range]);
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}
