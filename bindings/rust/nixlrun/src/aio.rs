// SPDX-License-Identifier: Apache-2.0
//! The calls of a queue: operations as futures.
//!
//! Each starts its operation at once, so that several can be in flight, and gives its failure when
//! it is awaited. Buffers are given away until then, since a future may be forgotten while the
//! library still writes.
use crate::error::{Failed, Result};
use crate::flight::{Flight, Keep};
use crate::queue::Queue;
use crate::region::Region;
use crate::signal::{word_of, AtomicOp, Change, Compare, Signal};
use crate::{buffer, Buffer, BufferMut, Op, Word};
use nixlrun_sys as sys;
use std::fmt;
use std::future::Future;
use std::os::raw::c_int;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

/// An operation that is awaited: it gives back the buffers that it has used.
///
/// One that is dropped is canceled, without waiting: the queue holds its buffers until no byte
/// moves any more. That of a collective breaks its team.
#[must_use = "an operation whose future is dropped is canceled"]
pub struct Completion<T: Send + 'static> {
    queue: Queue,
    flight: Arc<Flight<T>>,
    id: u64,
    is_taken: bool,
}

impl<T: Send + 'static> Completion<T> {
    /// Start an operation that the queue reports.
    pub(crate) fn start(
        queue: &Queue,
        value: T,
        form: Result<(sys::nixl_op, Keep)>,
        call: impl FnOnce(*mut T, &sys::nixl_op) -> c_int,
    ) -> Completion<T> {
        let (flight, id) = match form {
            Ok((mut op, keep)) => {
                let flight = Flight::new(value, keep);
                let id = queue.start(&flight, &mut op, call);

                (flight, id)
            }
            Err(error) => {
                let flight = Flight::new(value, Keep::new());

                flight.end(crate::flight::Outcome { error: Some(error), seen: 0 });
                (flight, 0)
            }
        };

        Completion { queue: queue.clone(), flight, id, is_taken: false }
    }

    /// Whether it has ended; never waits, and does not dispatch.
    pub fn is_done(&self) -> bool {
        self.is_taken || self.flight.has_ended()
    }

    fn poll_seen(&mut self, task: &mut Task<'_>) -> Poll<(Result<T, Failed<T>>, u64)> {
        if !self.flight.poll(task.waker()) {
            return Poll::Pending;
        }
        self.is_taken = true;
        Poll::Ready(self.flight.take())
    }
}

impl<T: Send + 'static> Future for Completion<T> {
    type Output = Result<T, Failed<T>>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        self.poll_seen(task).map(|(outcome, _)| outcome)
    }
}

impl<T: Send + 'static> Drop for Completion<T> {
    fn drop(&mut self) {
        if !self.is_taken && !self.flight.has_ended() {
            self.queue.cancel(self.id);
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Completion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Completion({})", if self.is_done() { "done" } else { "in progress" })
    }
}

/// A wait for a signal; made by [`Queue::wait_signal`]. It gives the value that was seen.
#[must_use = "a wait does nothing unless it is awaited"]
pub struct SignalWait {
    completion: Completion<()>,
}

impl Future for SignalWait {
    type Output = Result<u64>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Result<u64>> {
        self.completion.poll_seen(task).map(|(outcome, seen)| match outcome {
            Ok(()) => Ok(seen),
            Err(failed) => Err(failed.error),
        })
    }
}

impl Queue {
    /// Copy `src` to a rank's memory; see [`Region::put`].
    pub fn put<B>(
        &self,
        region: &Region,
        rank: i32,
        offset: u64,
        src: B,
        op: &Op<'_>,
    ) -> Completion<B>
    where
        B: Buffer + Send + 'static,
    {
        Completion::start(self, src, region.put_op(op), |src, op| {
            // SAFETY: the flight holds the memory until the put has ended.
            unsafe {
                let (bytes, nbytes) = (buffer::source(&*src), (*src).nbytes());
                region.raw_put(rank, offset, bytes, nbytes, op, ptr::null_mut())
            }
        })
    }

    /// Copy from a rank's memory to `dst`; see [`Region::get`].
    pub fn get<B>(
        &self,
        region: &Region,
        rank: i32,
        offset: u64,
        dst: B,
        op: &Op<'_>,
    ) -> Completion<B>
    where
        B: BufferMut + Send + 'static,
    {
        Completion::start(self, dst, region.get_op(op), |dst, op| {
            // SAFETY: the flight holds the memory until the get has ended.
            unsafe {
                let (bytes, nbytes) = (buffer::target(&mut *dst), (*dst).nbytes());
                region.raw_get(rank, offset, bytes, nbytes, op, ptr::null_mut())
            }
        })
    }

    /// Change a word of a rank's memory; gives its old value. See [`Region::atomic`].
    pub fn atomic<T: Word>(
        &self,
        region: &Region,
        rank: i32,
        offset: u64,
        op: AtomicOp,
        operand: T,
    ) -> Completion<T> {
        let form = (region.context().op(0), vec![region.shared()]);

        Completion::start(self, operand, Ok(form), |old, form| {
            region.raw_atomic(rank, offset, op, operand, form, old, ptr::null_mut())
        })
    }

    /// Replace a word that has the bits of `expected`; gives its old value.
    pub fn compare_swap<T: Word>(
        &self,
        region: &Region,
        rank: i32,
        offset: u64,
        expected: T,
        desired: T,
    ) -> Completion<T> {
        let form = (region.context().op(0), vec![region.shared()]);

        Completion::start(self, expected, Ok(form), |old, form| {
            let none = ptr::null_mut();
            region.raw_compare_swap(rank, offset, (expected, desired), form, old, none)
        })
    }

    /// Change a signal of a rank, behind all earlier puts of this process to it.
    pub fn change(&self, signal: &Signal, rank: i32, change: Change) -> Completion<()> {
        let form = (signal.region().context().op(0), vec![signal.region().shared()]);

        Completion::start(self, (), Ok(form), |_, form| {
            signal.raw_change(rank, change, form, ptr::null_mut())
        })
    }

    /// Wait until this rank's word compares true. With `rank`, the loss of that rank ends the wait
    /// with [`Code::PeerLost`](crate::Code::PeerLost); without it, none does.
    pub fn wait_signal(
        &self,
        signal: &Signal,
        compare: Compare,
        value: u64,
        rank: Option<i32>,
    ) -> SignalWait {
        let mut op = signal.region().context().op(0);

        if let Some(rank) = rank {
            op.flags |= sys::NIXL_OP_RANK;
            op.rank = rank;
        }
        let form = signal.word().map(|_| (op, vec![signal.region().shared()]));
        let completion = Completion::start(self, (), form, |_, op| {
            let word = signal.word().map_or(ptr::null(), word_of);
            // SAFETY: a word of an open region, which the flight holds.
            unsafe { sys::nixl_signal_wait_x(word, compare.raw(), value, op, ptr::null_mut()) }
        });

        SignalWait { completion }
    }

    /// Wait until this rank's word is at least `value`.
    pub fn at_least(&self, signal: &Signal, value: u64) -> SignalWait {
        self.wait_signal(signal, Compare::Ge, value, None)
    }

    /// Wait until all earlier puts to a rank, or to all (`None`), are visible there.
    pub fn flush(&self, rank: Option<i32>) -> Completion<()> {
        let rank = rank.unwrap_or(sys::NIXL_ALL_RANKS);
        let form = (self.context().op(0), Keep::new());

        Completion::start(self, (), Ok(form), |_, op| {
            // SAFETY: no region is all of them.
            unsafe { sys::nixl_flush_x(rank, ptr::null_mut(), op, ptr::null_mut()) }
        })
    }
}
