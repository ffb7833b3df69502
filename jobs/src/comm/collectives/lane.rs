//! A lane: the connection of a collective to its peers, with its wire format, reusable buffers and byte counter.

use super::part;
use super::values::{self, Half};
use crate::comm::{Communicator, Result, Wire};
use std::ops::Range;

/// Maximum length of a message of values to be added: while one is in flight, the previous one is added.
pub const PIECE_BYTES: usize = 4 << 20;

/// Maximum length of a message of finished values: byte counts must stay far below 2^31 for MPI.
const COPY_BYTES: usize = 64 << 20;

/// The peers of an exchange, and the ranges sent and received.
///
/// The two ranges do not overlap.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    pub to: usize,
    pub send: Range<usize>,
    pub from: usize,
    pub receive: Range<usize>,
}

/// Sends and receives values for the algorithms of this folder.
#[derive(Debug)]
pub struct Lane {
    wire: Wire,
    piece_bytes: usize,
    bytes_sent: u64,
    buffers: Buffers,
    finished: Vec<u16>,
    helper: Option<rayon::ThreadPool>,
}

/// Message buffers in pairs: while one is in flight, the other is added or rounded.
#[derive(Debug, Default)]
struct Buffers {
    floats: [Vec<f32>; 2],
    sent: [Vec<u16>; 2],
    received: [Vec<u16>; 2],
}

impl Lane {
    /// Creates a lane with pieces of [`PIECE_BYTES`].
    #[must_use]
    pub fn new(wire: Wire) -> Self {
        Self {
            wire,
            piece_bytes: PIECE_BYTES,
            bytes_sent: 0,
            buffers: Buffers::default(),
            finished: Vec::new(),
            helper: None,
        }
    }

    /// Sets the length of pieces, which must be the same on all ranks. A piece has at least one value.
    #[must_use]
    pub fn pieces_of(mut self, bytes: usize) -> Self {
        self.piece_bytes = bytes.max(4);
        self
    }

    /// The number format on the wire.
    #[must_use]
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Bytes of values sent so far.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    /// Sends one range of values, receives another and adds it.
    ///
    /// `longest` is the longest range that any rank sends in this step: it determines the number of pieces on all
    /// ranks.
    pub(super) fn exchange_add(
        &mut self,
        comm: &mut dyn Communicator,
        all: &mut [f32],
        exchange: &Exchange,
        longest: usize,
    ) -> Result<()> {
        let pieces = (longest * self.wire.bytes())
            .div_ceil(self.piece_bytes)
            .max(1);
        if pieces > 1 && self.helper.is_none() {
            self.helper = start_helper();
        }
        let (send, receive) = disjoint(all, &exchange.send, &exchange.receive);
        self.bytes_sent += (send.len() * self.wire.bytes()) as u64;
        let mut work = Pieces {
            half: Half::from_wire(self.wire),
            exchange,
            pieces,
            buffers: &mut self.buffers,
        };
        work.run(comm, send, receive, self.helper.as_ref())
    }

    /// Sends finished values and stores received ones, until `steps` is exhausted.
    ///
    /// With a half-precision wire format, the rank that owns a value rounds it once, here: `owned`.
    pub(super) fn gather(
        &mut self,
        comm: &mut dyn Communicator,
        all: &mut [f32],
        owned: Range<usize>,
        steps: impl Iterator<Item = Exchange>,
    ) -> Result<()> {
        let Some(half) = Half::from_wire(self.wire) else {
            for step in steps {
                self.bytes_sent += exchange_copy(comm, all, &step)?;
            }
            return Ok(());
        };
        let mut bits = std::mem::take(&mut self.finished);
        bits.resize(all.len(), 0);
        values::encode(half, &all[owned.clone()], &mut bits[owned]);
        for step in steps {
            self.bytes_sent += exchange_copy(comm, &mut bits, &step)?;
        }
        values::decode(half, &bits, all);
        self.finished = bits;
        Ok(())
    }

    /// Sends values without receiving any.
    pub(super) fn send(
        &mut self,
        comm: &mut dyn Communicator,
        to: usize,
        all: &[f32],
    ) -> Result<()> {
        for piece in all.chunks(self.values_of_a_piece()) {
            self.bytes_sent += (piece.len() * self.wire.bytes()) as u64;
            let Some(half) = Half::from_wire(self.wire) else {
                comm.send(to, bytemuck::cast_slice(piece))?;
                continue;
            };
            let bits = &mut self.buffers.sent[0];
            bits.resize(piece.len(), 0);
            values::encode(half, piece, bits);
            comm.send(to, bytemuck::cast_slice(bits))?;
        }
        Ok(())
    }

    /// Receives what [`Lane::send`] sends, and adds or stores it.
    pub(super) fn receive(
        &mut self,
        comm: &mut dyn Communicator,
        from: usize,
        all: &mut [f32],
        add: bool,
    ) -> Result<()> {
        for piece in all.chunks_mut(self.values_of_a_piece()) {
            let Some(half) = Half::from_wire(self.wire) else {
                let floats = &mut self.buffers.floats[0];
                floats.resize(piece.len(), 0.0);
                comm.receive(from, bytemuck::cast_slice_mut(floats))?;
                match add {
                    true => values::add(piece, floats),
                    false => piece.copy_from_slice(floats),
                }
                continue;
            };
            let bits = &mut self.buffers.received[0];
            bits.resize(piece.len(), 0);
            comm.receive(from, bytemuck::cast_slice_mut(bits))?;
            match add {
                true => values::decode_add(half, bits, piece),
                false => values::decode(half, bits, piece),
            }
        }
        Ok(())
    }

    fn values_of_a_piece(&self) -> usize {
        (self.piece_bytes / self.wire.bytes()).max(1)
    }
}

/// A thread that adds while the lane's own thread waits for messages. Without one the work is sequential.
fn start_helper() -> Option<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .thread_name(|_| "squall-add".into())
        .build()
        .inspect_err(|error| {
            tracing::warn!(%error, "no thread for additions: they wait for messages");
        })
        .ok()
}

/// Two disjoint ranges of a slice, one to read and one to write.
fn disjoint<'a, T>(
    all: &'a mut [T],
    read: &Range<usize>,
    write: &Range<usize>,
) -> (&'a [T], &'a mut [T]) {
    if read.end <= write.start {
        let (low, high) = all.split_at_mut(write.start);
        (&low[read.clone()], &mut high[..write.len()])
    } else {
        let (low, high) = all.split_at_mut(read.start);
        (&high[..read.len()], &mut low[write.clone()])
    }
}

/// Sends a range and receives another directly into place; returns the bytes sent.
fn exchange_copy<T: bytemuck::Pod>(
    comm: &mut dyn Communicator,
    all: &mut [T],
    exchange: &Exchange,
) -> Result<u64> {
    let (send, receive) = disjoint(all, &exchange.send, &exchange.receive);
    let send: &[u8] = bytemuck::cast_slice(send);
    let receive: &mut [u8] = bytemuck::cast_slice_mut(receive);
    let mut sent = send.chunks(COPY_BYTES);
    let mut received = receive.chunks_mut(COPY_BYTES);
    loop {
        match (sent.next(), received.next()) {
            (Some(out), Some(into)) => comm.send_receive(exchange.to, out, exchange.from, into)?,
            (Some(out), None) => comm.send(exchange.to, out)?,
            (None, Some(into)) => comm.receive(exchange.from, into)?,
            (None, None) => return Ok(send.len() as u64),
        }
    }
}

/// One exchange cut into pieces.
struct Pieces<'a> {
    half: Option<Half>,
    exchange: &'a Exchange,
    pieces: usize,
    buffers: &'a mut Buffers,
}

impl Pieces<'_> {
    /// Sends and receives piece by piece; while one is in flight, the next is rounded and the previous one is added.
    fn run(
        &mut self,
        comm: &mut dyn Communicator,
        send: &[f32],
        receive: &mut [f32],
        helper: Option<&rayon::ThreadPool>,
    ) -> Result<()> {
        let (half, pieces) = (self.half, self.pieces);
        let outgoing = |piece: usize| match piece < pieces {
            true => &send[part(send.len(), pieces, piece)],
            false => &[],
        };
        let mut waiting: &mut [f32] = &mut [];
        let mut rest = receive;
        let length = rest.len();
        encode_into(half, outgoing(0), &mut self.buffers.sent[0]);
        for piece in 0..pieces {
            let (now, later) = rest.split_at_mut(part(length, pieces, piece).len());
            rest = later;
            let (floats, before) = swapped(piece, &mut self.buffers.floats);
            let (bits, next_bits) = swapped(piece, &mut self.buffers.sent);
            let (bits_in, bits_before) = swapped(piece, &mut self.buffers.received);
            let mut beside = || {
                add_arrived(half, before, bits_before, waiting);
                encode_into(half, outgoing(piece + 1), next_bits);
            };
            let Exchange { to, from, .. } = *self.exchange;
            let mut message = || match half {
                None => {
                    floats.resize(now.len(), 0.0);
                    let into = bytemuck::cast_slice_mut(floats);
                    comm.send_receive(to, bytemuck::cast_slice(outgoing(piece)), from, into)
                }
                Some(_) => {
                    bits_in.resize(now.len(), 0);
                    let into = bytemuck::cast_slice_mut(bits_in);
                    comm.send_receive(to, bytemuck::cast_slice(bits), from, into)
                }
            };
            match helper {
                Some(helper) => helper.in_place_scope(|scope| {
                    scope.spawn(|_| beside());
                    message()
                })?,
                None => {
                    beside();
                    message()?;
                }
            }
            waiting = now;
        }
        let last = (pieces - 1) % 2;
        let Buffers {
            floats, received, ..
        } = &*self.buffers;
        add_arrived(half, &floats[last], &received[last], waiting);
        Ok(())
    }
}

/// The buffer of this piece, then that of its neighbours.
fn swapped<T>(piece: usize, [even, odd]: &mut [T; 2]) -> (&mut T, &mut T) {
    if piece.is_multiple_of(2) {
        (even, odd)
    } else {
        (odd, even)
    }
}

fn encode_into(half: Option<Half>, values: &[f32], bits: &mut Vec<u16>) {
    if let Some(half) = half {
        bits.resize(values.len(), 0);
        values::encode(half, values, bits);
    }
}

fn add_arrived(half: Option<Half>, floats: &[f32], bits: &[u16], totals: &mut [f32]) {
    match half {
        None => values::add(totals, &floats[..totals.len()]),
        Some(half) => values::decode_add(half, &bits[..totals.len()], totals),
    }
}
