//! Messages between two ranks, in pieces, both directions at once.

use super::super::wait::Patience;
use super::{Group, SUCCESS, c, count};
use crate::comm::{CommError, Payload, Result, doing};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

/// Messages are sent in pieces of so many bytes: below 64 kB Open MPI sends over TCP without first asking the receiver
/// whether it is ready.
///
/// That question and its answer would wait behind the data that a socket holds already, so that two ranks that exchange
/// large messages would take turns: 12 ranks on two hosts at 100 Mbit/s needed 2.33 s with pieces of 256 kB for what
/// takes 1.49 s.
const PIECE_BYTES: usize = 60 * 1024;

/// How many pieces of one message are under way at once.
const PIECES_AT_ONCE: usize = 128;

/// How long nothing must arrive before a rank that has left is given up: what it sent before it left still arrives,
/// piece after piece, with pauses no longer than this.
const LAST_PIECES: Duration = Duration::from_millis(500);

/// The highest tag that every MPI library allows: 15 bits.
const HIGHEST_TAG: usize = 32_767;

/// How many pieces a message of this length has.
fn pieces(bytes: usize) -> usize {
    bytes.div_ceil(PIECE_BYTES).max(1)
}

/// The tag of every piece of a message of this length: how many pieces it has. A receiver that expects another length
/// notices this at the first piece.
fn tag_of(bytes: usize) -> c_int {
    // Fits: the highest tag has 15 bits.
    pieces(bytes).min(HIGHEST_TAG) as c_int
}

impl Group {
    /// Sends one message and receives another at the same time; either may be absent.
    ///
    /// # Errors
    /// [`CommError::Size`] if a message of another length arrives: it is lost, and later messages may reach the wrong
    /// receive. [`CommError::Library`].
    pub fn exchange(
        &self,
        sent: Option<(usize, &[u8])>,
        received: Option<(usize, &mut [u8])>,
    ) -> Result<()> {
        self.exchange_while(sent, received, None).map(|_| ())
    }

    /// Receives one message from a rank while it is `there`; returns whether the whole message came.
    ///
    /// # Errors
    /// As [`Group::exchange`].
    pub fn receive_while(
        &self,
        from: usize,
        bytes: &mut [u8],
        there: &dyn Fn() -> bool,
    ) -> Result<bool> {
        self.exchange_while(None, Some((from, bytes)), Some(there))
    }

    /// Sends one message to a rank while it is `there`; returns the payload if all of it was sent.
    ///
    /// # Errors
    /// [`CommError::Library`].
    pub fn send_while(
        &self,
        to: usize,
        payload: Payload,
        there: &dyn Fn() -> bool,
    ) -> Result<Option<Payload>> {
        if self.exchange_while(Some((to, payload.bytes())), None, Some(there))? {
            return Ok(Some(payload));
        }
        // Never freed, because the library may read a piece that is not received for as long as the process runs.
        std::mem::forget(payload);
        Ok(None)
    }

    /// As `exchange`, but abandoned when the other rank is not `there` any more; returns whether everything was
    /// exchanged. If not, the library may go on reading what was to be sent, so that callers must never free it.
    fn exchange_while(
        &self,
        sent: Option<(usize, &[u8])>,
        received: Option<(usize, &mut [u8])>,
        there: Option<&dyn Fn() -> bool>,
    ) -> Result<bool> {
        let pieces_of = |length: Option<usize>| length.map_or(0, pieces);
        let rounds = pieces_of(sent.map(|(_, bytes)| bytes.len()))
            .max(pieces_of(received.as_ref().map(|(_, bytes)| bytes.len())))
            .div_ceil(PIECES_AT_ONCE);
        let (from, expected) = received
            .as_ref()
            .map_or((0, 0), |(from, bytes)| (*from, bytes.len()));
        let mut flight = Flight::new(self, from, expected);
        flight.peers = (sent.map(|(to, _)| to), received.is_some().then_some(from));
        let mut incoming = received.map(|(_, bytes)| bytes);
        let mut outgoing = sent;
        let mut all_rounds = || {
            for _ in 0..rounds {
                if let Some(bytes) = incoming.take() {
                    let (now, later) =
                        bytes.split_at_mut(bytes.len().min(PIECE_BYTES * PIECES_AT_ONCE));
                    flight.receive(now)?;
                    incoming = (!later.is_empty()).then_some(later);
                }
                if let Some((to, bytes)) = outgoing.take() {
                    let (now, later) =
                        bytes.split_at(bytes.len().min(PIECE_BYTES * PIECES_AT_ONCE));
                    flight.send(to, now, tag_of(sent.map_or(0, |(_, all)| all.len())))?;
                    outgoing = (!later.is_empty()).then_some((to, later));
                }
                if !flight.land(there)? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let result = all_rounds();
        if let (Err(error), 1..) = (&result, flight.active) {
            // Dropping `flight` ends the process, so that no caller could report the reason.
            tracing::error!("the job ends, as a message is still under way: {error}");
        }
        result
    }
}

/// Pieces under way. If any is left when this is dropped, the process ends: the library would go on using memory that
/// may be freed.
struct Flight<'a> {
    group: &'a Group,
    /// The rank that we send to and the rank that we receive from, for messages to the user.
    peers: (Option<usize>, Option<usize>),
    from: usize,
    /// Bytes of the whole message that we receive.
    expected: usize,
    /// How many of them have arrived.
    arrived: usize,
    requests: Vec<c::MPI_Request>,
    /// For each request the bytes of the piece that it receives; `None` if it sends.
    receiving: Vec<Option<usize>>,
    active: usize,
}

impl<'a> Flight<'a> {
    fn new(group: &'a Group, from: usize, expected: usize) -> Self {
        Self {
            group,
            peers: (None, None),
            from,
            expected,
            arrived: 0,
            requests: Vec::new(),
            receiving: Vec::new(),
            active: 0,
        }
    }

    /// Posts receives of the next pieces into this buffer.
    fn receive(&mut self, bytes: &mut [u8]) -> Result<()> {
        let rank = self.group.rank;
        let from = count(self.from, rank, "rank to receive from")?;
        // An empty message is one empty piece, which `chunks_mut` would not give.
        let empty = bytes.is_empty().then(<&mut [u8]>::default);
        for piece in bytes.chunks_mut(PIECE_BYTES).chain(empty) {
            let length = count(piece.len(), rank, "bytes of a piece")?;
            let mut request = MaybeUninit::uninit();
            let code = {
                let _turn = self.group.library.turn();
                // SAFETY: the buffer holds `length` bytes and is borrowed by our caller until `land` has seen this
                // request end, or the process ends (`drop`); handle and statics are valid.
                unsafe {
                    c::MPI_Irecv(
                        piece.as_mut_ptr().cast::<c_void>(),
                        length,
                        c::RSMPI_UINT8_T,
                        from,
                        c::RSMPI_ANY_TAG,
                        self.group.comm,
                        request.as_mut_ptr(),
                    )
                }
            };
            self.group.check("MPI_Irecv", code)?;
            // SAFETY: the call succeeded and has written the request.
            self.add(unsafe { request.assume_init() }, Some(piece.len()));
        }
        Ok(())
    }

    /// Posts sends of the next pieces.
    fn send(&mut self, to: usize, bytes: &[u8], tag: c_int) -> Result<()> {
        let rank = self.group.rank;
        let to = count(to, rank, "rank to send to")?;
        let empty = bytes.is_empty().then(<&[u8]>::default);
        for piece in bytes.chunks(PIECE_BYTES).chain(empty) {
            let length = count(piece.len(), rank, "bytes of a piece")?;
            let mut request = MaybeUninit::uninit();
            let code = {
                let _turn = self.group.library.turn();
                // SAFETY: as in `receive`; the library only reads.
                unsafe {
                    c::MPI_Isend(
                        piece.as_ptr().cast::<c_void>(),
                        length,
                        c::RSMPI_UINT8_T,
                        to,
                        tag,
                        self.group.comm,
                        request.as_mut_ptr(),
                    )
                }
            };
            self.group.check("MPI_Isend", code)?;
            // SAFETY: the call succeeded and has written the request.
            self.add(unsafe { request.assume_init() }, None);
        }
        Ok(())
    }

    fn add(&mut self, request: c::MPI_Request, receiving: Option<usize>) {
        self.requests.push(request);
        self.receiving.push(receiving);
        self.active += 1;
    }

    /// Waits until no piece is under way; returns whether all were exchanged, which they are unless the other rank is
    /// not `there` any more.
    fn land(&mut self, there: Option<&dyn Fn() -> bool>) -> Result<bool> {
        let posted = count(self.requests.len(), self.group.rank, "pieces under way")?;
        let mut indices = vec![0; self.requests.len()];
        // SAFETY: a status is a struct of integers, for which zeros are values.
        let blank: c::MPI_Status = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut statuses = vec![blank; self.requests.len()];
        let mut first_error = None;
        let (group, peers) = (self.group, self.peers);
        let patience = Patience::new(&group.library, move || {
            let named = |way: &str, peer: Option<usize>| {
                peer.map(|peer| format!(", {way} rank {}", group.in_world(peer)))
            };
            let to = named("sending to", peers.0).unwrap_or_default();
            let from = named("receiving from", peers.1).unwrap_or_default();
            format!("a message exchange{to}{from}")
        });
        // No time limit: a rank that is not known to be gone may be slow.
        let mut patient = there.map(|_| doing::patiently());
        let mut gone = false;
        while self.active > 0 {
            let mut ended = 0;
            let code = {
                let _turn = self.group.library.turn();
                // SAFETY: three arrays of `posted` elements; ended requests are null, which the call skips.
                unsafe {
                    c::MPI_Testsome(
                        posted,
                        self.requests.as_mut_ptr(),
                        &mut ended,
                        indices.as_mut_ptr(),
                        statuses.as_mut_ptr(),
                    )
                }
            };
            let in_status =
                code != SUCCESS && self.group.class_of(code) == c::MPI_ERR_IN_STATUS as c_int;
            if !in_status {
                self.group.check("MPI_Testsome", code)?;
            }
            let ended = usize::try_from(ended).unwrap_or(0).min(self.active);
            for (index, status) in indices[..ended].iter().zip(&statuses) {
                self.active -= 1;
                if gone {
                    continue;
                }
                let code = if in_status { status.MPI_ERROR } else { SUCCESS };
                let receiving = usize::try_from(*index)
                    .ok()
                    .and_then(|index| self.receiving.get(index).copied().flatten());
                let result = self.ended(receiving, status, code);
                if first_error.is_none()
                    && let Err(error) = result
                {
                    // A message of another length may have fewer pieces than are waited for.
                    self.cancel_receives();
                    first_error = Some(error);
                }
            }
            if ended > 0 {
                patience.moved();
            } else if !gone && patience.idle() > LAST_PIECES && there.is_some_and(|there| !there())
            {
                (gone, patient) = (true, None);
                patience.moved();
                self.cancel_receives();
                self.free_sends();
            } else {
                patience.pause();
            }
        }
        drop(patient);
        self.requests.clear();
        self.receiving.clear();
        first_error.map_or(Ok(!gone), Err)
    }

    /// Checks a piece that has ended: `receiving` is the length that was expected, `None` if it was sent.
    fn ended(
        &mut self,
        receiving: Option<usize>,
        status: &c::MPI_Status,
        code: c_int,
    ) -> Result<()> {
        let Some(piece) = receiving else {
            return self.group.check("MPI_Isend", code);
        };
        let too_long = code != SUCCESS && self.group.class_of(code) == c::MPI_ERR_TRUNCATE as c_int;
        if !too_long {
            self.group.check("MPI_Irecv", code)?;
        }
        let wrong_size = |what: String, got: usize| CommError::Size {
            rank: self.group.rank,
            what,
            expected: self.expected,
            got,
        };
        if too_long || status.MPI_TAG != tag_of(self.expected) {
            return Err(wrong_size(
                format!(
                    "message from rank {}, length rounded up to {PIECE_BYTES}",
                    self.from
                ),
                usize::try_from(status.MPI_TAG).unwrap_or(0) * PIECE_BYTES,
            ));
        }
        let mut got = 0;
        let code = {
            let _turn = self.group.library.turn();
            // SAFETY: the status is of a receive that ended without error; the count outlives the call.
            unsafe { c::MPI_Get_count(status, c::RSMPI_UINT8_T, &mut got) }
        };
        self.group.check("MPI_Get_count", code)?;
        let got = usize::try_from(got).unwrap_or(0);
        if got != piece {
            // Only the last piece can be short: those before it came whole.
            return Err(wrong_size(
                format!("message from rank {}", self.from),
                self.expected - piece + got,
            ));
        }
        self.arrived += got;
        Ok(())
    }

    /// Gives up the requests of sends that have not ended: the library ends them by itself, if at all.
    fn free_sends(&mut self) {
        let _turn = self.group.library.turn();
        for (request, receiving) in self.requests.iter_mut().zip(&self.receiving) {
            // SAFETY: a request is either active, and a send may be left to the library, or null; what it sends is
            // never freed (`exchange_while`).
            unsafe {
                if receiving.is_none() && *request != c::RSMPI_REQUEST_NULL {
                    c::MPI_Request_free(request);
                    self.active -= 1;
                }
            }
        }
    }

    fn cancel_receives(&mut self) {
        let _turn = self.group.library.turn();
        for (request, receiving) in self.requests.iter_mut().zip(&self.receiving) {
            // SAFETY: a request is either active or null, which is the only one that may not be cancelled; a receive
            // that has matched already ends by itself.
            unsafe {
                if receiving.is_some() && *request != c::RSMPI_REQUEST_NULL {
                    c::MPI_Cancel(request);
                }
            }
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.active > 0 {
            // The library still uses memory that our caller is about to get back.
            super::abort(super::super::library::FAILED_CODE);
        }
    }
}

impl Group {
    /// The error class that the library has for an error code.
    fn class_of(&self, code: c_int) -> c_int {
        let mut class = 0;
        let _turn = self.library.turn();
        // SAFETY: the class outlives the call, which takes any code that the library returned.
        unsafe { c::MPI_Error_class(code, &mut class) };
        class
    }
}
