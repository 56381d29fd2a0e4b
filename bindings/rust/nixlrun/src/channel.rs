// SPDX-License-Identifier: Apache-2.0
//! Channels: one-way queues of slots in the consumer's host memory.
use crate::context::Context;
use crate::error::{check, Error, Failed, Result};
use crate::job::c_text;
use crate::time::nanoseconds;
use nixlrun_sys as sys;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::os::raw::c_void;
use std::ptr;
use std::time::Duration;

/// How long a channel that is dropped waits for copies that are in flight.
const CLOSE_NS: i64 = 60_000_000_000;

/// An end: one thread at a time uses it.
struct End {
    pointer: *mut sys::nixl_channel,
    slot_nbytes: usize,
    _context: Context,
}

// SAFETY: any thread may make the calls, one at a time: they borrow the end mutably.
unsafe impl Send for End {}

impl End {
    fn open(
        context: &Context,
        name: &str,
        peer: i32,
        role: sys::nixl_channel_role,
        slot_nbytes: usize,
        nslots: usize,
    ) -> Result<End> {
        let name = c_text(name)?;
        let mut pointer = ptr::null_mut();

        // SAFETY: a text, and a pointer to be written; no params are host memory.
        let status = unsafe {
            let params = ptr::null();
            sys::nixl_channel_open(
                name.as_ptr(),
                peer,
                role,
                slot_nbytes,
                nslots,
                params,
                &mut pointer,
            )
        };
        check(status, "nixl_channel_open")?;
        Ok(End { pointer, slot_nbytes, _context: context.clone() })
    }

    fn close(&mut self, timeout: i64) -> Result<()> {
        // SAFETY: an open end, whose slots nobody has.
        check(unsafe { sys::nixl_channel_close(self.pointer, timeout) }, "nixl_channel_close")?;
        self.pointer = ptr::null_mut();
        Ok(())
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.pointer.is_null() {
            let _ = self.close(CLOSE_NS);
        }
    }
}

/// The end of a channel that fills slots. It is closed when it is dropped; what was published
/// is received all the same.
pub struct Producer {
    end: End,
}

/// The end of a channel that receives items.
pub struct Consumer {
    end: End,
}

impl Context {
    /// Open the producer's end of a channel to a rank; waits until the consumer's is open.
    pub fn producer(
        &self,
        name: &str,
        consumer: i32,
        slot_nbytes: usize,
        nslots: usize,
    ) -> Result<Producer> {
        let role = sys::NIXL_CHANNEL_PRODUCER;

        End::open(self, name, consumer, role, slot_nbytes, nslots).map(|end| Producer { end })
    }

    /// Open the consumer's end of a channel from a rank, or from any number of them (`None`), each
    /// with `nslots` slots of its own.
    pub fn consumer(
        &self,
        name: &str,
        producer: Option<i32>,
        slot_nbytes: usize,
        nslots: usize,
    ) -> Result<Consumer> {
        let role = sys::NIXL_CHANNEL_CONSUMER;
        let peer = producer.unwrap_or(sys::NIXL_ANY_RANK);

        End::open(self, name, peer, role, slot_nbytes, nslots).map(|end| Consumer { end })
    }
}

impl Producer {
    /// The memory of the next item, in the consumer's slot itself if that can be mapped. No
    /// `timeout`: wait without limit until a slot is free.
    pub fn acquire(&mut self, timeout: Option<Duration>) -> Result<Slot<'_>> {
        let mut slot = ptr::null_mut();

        // SAFETY: an open end, and a pointer to be written.
        let status =
            unsafe { sys::nixl_channel_acquire(self.end.pointer, nanoseconds(timeout), &mut slot) };
        check(status, "nixl_channel_acquire")?;
        Ok(Slot { producer: self, data: slot.cast() })
    }

    /// Send an item: a copy of these bytes.
    pub fn send(&mut self, item: &[u8], timeout: Option<Duration>) -> Result<()> {
        let room = self.end.slot_nbytes;

        if item.len() > room {
            let text = format!("an item of {} bytes does not fit slots of {room}", item.len());
            return Err(Error::invalid("nixl_channel_publish", text));
        }
        let mut slot = self.acquire(timeout)?;
        slot[..item.len()].copy_from_slice(item);
        slot.publish(item.len())
    }

    /// Close it; see [`Consumer::close`].
    pub fn close(mut self, timeout: Option<Duration>) -> Result<(), Failed<Producer>> {
        let closed = self.end.close(nanoseconds(timeout));

        closed.map_err(|error| Failed { error, value: self })
    }
}

/// A slot to be filled: all of its bytes. One that is dropped is the next one again.
pub struct Slot<'a> {
    producer: &'a mut Producer,
    data: *mut u8,
}

impl Slot<'_> {
    /// Hand it over: the consumer sees its first `nbytes` bytes.
    pub fn publish(self, nbytes: usize) -> Result<()> {
        // SAFETY: an open end that has acquired a slot.
        let status = unsafe { sys::nixl_channel_publish(self.producer.end.pointer, nbytes) };
        check(status, "nixl_channel_publish")
    }
}

impl Deref for Slot<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the slot is the producer's until it is published.
        unsafe { std::slice::from_raw_parts(self.data, self.producer.end.slot_nbytes) }
    }
}

impl DerefMut for Slot<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.producer.end.slot_nbytes) }
    }
}

impl Consumer {
    /// The next item, in place: its bytes. No `timeout`: wait without limit.
    ///
    /// [`Code::Stale`](crate::Code::Stale): there is none, and the producer has closed its end.
    /// [`Code::PeerLost`](crate::Code::PeerLost): it has died.
    pub fn recv(&mut self, timeout: Option<Duration>) -> Result<Item<'_>> {
        let mut slot = ptr::null_mut();
        let (mut nbytes, mut rank) = (0, -1);

        // SAFETY: an open end, and what is to be written.
        let status = unsafe {
            let time = nanoseconds(timeout);
            sys::nixl_channel_recv(self.end.pointer, time, &mut slot, &mut nbytes, &mut rank)
        };
        check(status, "nixl_channel_recv")?;
        Ok(Item { channel: self.end.pointer, slot, nbytes, rank, _consumer: PhantomData })
    }

    /// Close it, and wait up to a time for copies that are in flight; `None`: without limit.
    pub fn close(mut self, timeout: Option<Duration>) -> Result<(), Failed<Consumer>> {
        let closed = self.end.close(nanoseconds(timeout));

        closed.map_err(|error| Failed { error, value: self })
    }
}

/// An item that was received. Its slot goes back to the producer when it is dropped.
pub struct Item<'a> {
    channel: *mut sys::nixl_channel,
    slot: *mut c_void,
    nbytes: usize,
    rank: i32,
    _consumer: PhantomData<&'a mut Consumer>,
}

impl Item<'_> {
    /// The rank that has published it.
    pub fn rank(&self) -> i32 {
        self.rank
    }
}

impl Deref for Item<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the slot is the consumer's until it is released.
        unsafe { std::slice::from_raw_parts(self.slot.cast(), self.nbytes) }
    }
}

impl Drop for Item<'_> {
    fn drop(&mut self) {
        // SAFETY: an open end, and a slot that it has received.
        let _ = unsafe { sys::nixl_channel_release(self.channel, self.slot) };
    }
}
