// SPDX-License-Identifier: Apache-2.0
//! Contexts: what a component of a program has of its own.
use crate::error::{check, check_found, failure, Result};
use crate::job::{c_text, Membership};
use crate::note::{Event, Note};
use crate::queue::Queue;
use crate::time::{given_nanoseconds, nanoseconds, op_nanoseconds};
use nixlrun_sys as sys;
use std::mem::MaybeUninit;
use std::os::raw::c_int;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

struct Inner {
    pointer: *mut sys::nixl_context, /* NULL: the default one */
    membership: Arc<Membership>,
}

// SAFETY: the library's calls may be made by any thread.
unsafe impl Send for Inner {}
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.pointer.is_null() {
            // SAFETY: its last handle; queues hold one, so none is open.
            unsafe { sys::nixl_context_close(self.pointer) };
        }
    }
}

/// A component of a program: its notifications, events, names, teams and queues.
///
/// [`Job`](crate::Job) is the default one; [`Job::context`](crate::Job::context) opens others. It
/// is closed with its last handle: regions, teams and queues have one.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

impl Context {
    pub(crate) fn default_of(membership: Arc<Membership>) -> Context {
        Context(Arc::new(Inner { pointer: ptr::null_mut(), membership }))
    }

    pub(crate) fn named(
        membership: &Arc<Membership>,
        name: &str,
        timeout: Option<Duration>,
    ) -> Result<Context> {
        let name = c_text(name)?;
        let params =
            sys::nixl_context_params { timeout_ns: given_nanoseconds(timeout), ..sys::zeroed() };
        let mut pointer = ptr::null_mut();

        // SAFETY: a text, params of the library's shape, and a pointer to be written.
        let status = unsafe { sys::nixl_context_open(name.as_ptr(), &params, &mut pointer) };
        check(status, "nixl_context_open")?;
        Ok(Context(Arc::new(Inner { pointer, membership: membership.clone() })))
    }

    pub(crate) fn membership(&self) -> &Arc<Membership> {
        &self.0.membership
    }

    /// The membership, if there is no other handle; else the context again.
    pub(crate) fn into_membership(self) -> std::result::Result<Arc<Membership>, Context> {
        if Arc::strong_count(&self.0) != 1 || Arc::strong_count(&self.0.membership) != 1 {
            return Err(self);
        }
        Ok(self.0.membership.clone())
    }

    pub(crate) fn pointer(&self) -> *mut sys::nixl_context {
        self.0.pointer
    }

    /// A struct nixl_op in this context.
    pub(crate) fn op(&self, timeout_ns: i64) -> sys::nixl_op {
        sys::nixl_op { context: self.0.pointer, timeout_ns, ..sys::zeroed() }
    }

    /// Send a rank a tag and up to 4096 bytes, behind all earlier puts of this process to it. Waits
    /// for room if the rank has many to receive, up to NIXLRUN_OP_TIMEOUT.
    pub fn notify(&self, rank: i32, tag: u64, message: &[u8]) -> Result<()> {
        self.notify_op(rank, tag, message, &self.op(0))
    }

    /// As [`notify`](Context::notify), and wait for room up to a time.
    pub fn notify_within(
        &self,
        rank: i32,
        tag: u64,
        message: &[u8],
        timeout: Option<Duration>,
    ) -> Result<()> {
        self.notify_op(rank, tag, message, &self.op(op_nanoseconds(timeout)))
    }

    fn notify_op(&self, rank: i32, tag: u64, message: &[u8], op: &sys::nixl_op) -> Result<()> {
        let bytes = crate::buffer::source(message);

        // SAFETY: the message is read within the call.
        let status =
            unsafe { sys::nixl_notify_x(rank, tag, bytes, message.len(), op, ptr::null_mut()) };
        check(status, "nixl_notify")
    }

    /// Receive the oldest notification of a rank (`None`: any) with a tag (`None`: any). Others
    /// stay for other calls. No `timeout`: wait without limit.
    ///
    /// [`Code::PeerLost`](crate::Code::PeerLost): the rank has died or left, and all that it had
    /// sent was received; with any rank, once for each that has.
    pub fn recv(
        &self,
        rank: Option<i32>,
        tag: Option<u64>,
        timeout: Option<Duration>,
    ) -> Result<Note> {
        let (tag, mask) = tag.map_or((0, 0), |tag| (tag, u64::MAX));

        self.recv_masked(rank, tag, mask, timeout)
    }

    /// As [`recv`](Context::recv), with tags compared in the bits that are set in `mask`.
    pub fn recv_masked(
        &self,
        rank: Option<i32>,
        tag: u64,
        mask: u64,
        timeout: Option<Duration>,
    ) -> Result<Note> {
        self.recv_op(rank, tag, mask, op_nanoseconds(timeout))
            .map_err(|status| failure(status, "nixl_notify_recv"))
    }

    /// A notification that is here already.
    pub fn try_recv(&self, rank: Option<i32>, tag: Option<u64>) -> Result<Option<Note>> {
        let (tag, mask) = tag.map_or((0, 0), |tag| (tag, u64::MAX));

        match self.recv_op(rank, tag, mask, sys::NIXL_AT_ONCE.into()) {
            Ok(note) => Ok(Some(note)),
            Err(status) => check_found(status).map(|_| None),
        }
    }

    /// The notification, or the status of the call.
    fn recv_op(&self, rank: Option<i32>, tag: u64, mask: u64, time: i64) -> Result<Note, c_int> {
        let mut note = MaybeUninit::<sys::nixl_note>::uninit();
        let rank = rank.unwrap_or(sys::NIXL_ANY_RANK);

        // SAFETY: of the payload, as many bytes are read as were written.
        unsafe {
            ptr::addr_of_mut!((*note.as_mut_ptr()).struct_nbytes)
                .write(std::mem::size_of::<sys::nixl_note>());
            let status =
                sys::nixl_notify_recv_x(rank, tag, mask, &self.op(time), note.as_mut_ptr());

            match status {
                sys::NIXL_OK => Ok(Note::read(note.as_ptr(), false)),
                sys::NIXL_E_STALE => Ok(Note::read(note.as_ptr(), true)),
                status => Err(status),
            }
        }
    }

    /// Take the oldest event: a rank that is lost or has left, a region that was closed, a process
    /// that has attached. Each goes to one call only. No `timeout`: wait without limit.
    pub fn event(&self, timeout: Option<Duration>) -> Result<Event> {
        let mut event: sys::nixl_event = sys::zeroed();
        let op = self.op(op_nanoseconds(timeout));

        // SAFETY: a struct of the library's shape to be written.
        check(unsafe { sys::nixl_event_recv_x(&op, &mut event) }, "nixl_event_recv")?;
        Ok(Event::of(&event))
    }

    /// An event that is here already.
    pub fn try_event(&self) -> Result<Option<Event>> {
        let mut event: sys::nixl_event = sys::zeroed();
        let op = self.op(sys::NIXL_AT_ONCE.into());

        // SAFETY: as above.
        let found = check_found(unsafe { sys::nixl_event_recv_x(&op, &mut event) })?;
        Ok(found.map(|()| Event::of(&event)))
    }

    /// Wait until all earlier puts to a rank, or to all (`None`), are visible there. No `timeout`:
    /// without limit.
    pub fn flush(&self, rank: Option<i32>, timeout: Option<Duration>) -> Result<()> {
        let rank = rank.unwrap_or(sys::NIXL_ALL_RANKS);

        // SAFETY: numbers only.
        check(unsafe { sys::nixl_flush(rank, nanoseconds(timeout)) }, "nixl_flush")
    }

    /// As [`flush`](Context::flush), and wait until all earlier gets, whose requests are still
    /// there, have filled their memory.
    pub fn flush_with_gets(&self, rank: Option<i32>, timeout: Option<Duration>) -> Result<()> {
        let rank = rank.unwrap_or(sys::NIXL_ALL_RANKS);
        let op = sys::nixl_op { flags: sys::NIXL_OP_GETS, ..self.op(op_nanoseconds(timeout)) };

        // SAFETY: no region is all of them.
        let status = unsafe { sys::nixl_flush_x(rank, ptr::null_mut(), &op, ptr::null_mut()) };
        check(status, "nixl_flush_x")
    }

    /// Later puts to a rank, or to each (`None`), land after earlier ones; gets read after them.
    pub fn fence(&self, rank: Option<i32>) -> Result<()> {
        let rank = rank.unwrap_or(sys::NIXL_ALL_RANKS);

        // SAFETY: numbers only.
        check(unsafe { sys::nixl_fence(rank) }, "nixl_fence")
    }

    /// Open a queue, which reports the end of operations: for `await`.
    pub fn queue(&self) -> Result<Queue> {
        Queue::open(self, false)
    }

    /// Open a queue that also takes the notifications and events of this context:
    /// [`Queue::recv`] and [`Queue::event`] await them.
    pub fn queue_with_notes(&self) -> Result<Queue> {
        Queue::open(self, true)
    }
}
