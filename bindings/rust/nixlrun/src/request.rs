// SPDX-License-Identifier: Apache-2.0
//! Requests: operations that were started, and are waited for by their handle.
use crate::context::Context;
use crate::error::{Error, Failed, Result};
use crate::flight::{Flight, Outcome as Ended};
use crate::time::nanoseconds;
use nixlrun_sys as sys;
use std::fmt;
use std::os::raw::c_int;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

/// How long a request that is dropped is waited for at a time.
const CANCEL_NS: i64 = 60_000_000_000;

/// What a canceled request had done.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// No byte was moved.
    Untouched,
    /// Some bytes were moved.
    Partial,
    /// It was complete.
    Done,
}

/// An operation that was started, and has the buffers that it uses: [`wait`](Request::wait) gives
/// them back.
///
/// One that is dropped is canceled: copies that have begun are waited for, as the memory is in use
/// until then. That of a collective breaks its team.
#[must_use = "an operation whose request is dropped is canceled"]
pub struct Request<T> {
    flight: Arc<Flight<T>>,
    pointer: *mut sys::nixl_req,
    operation: &'static str,
    is_borrowing: bool,
    _context: Context,
}

// SAFETY: any thread may make the calls, one at a time; the others borrow mutably.
unsafe impl<T: Send> Send for Request<T> {}
unsafe impl<T: Send> Sync for Request<T> {}

impl<T> Request<T> {
    /// Start an operation. `call` gets what the flight holds, and where the request goes.
    pub(crate) fn start(
        flight: Arc<Flight<T>>,
        context: &Context,
        operation: &'static str,
        call: impl FnOnce(*mut T, *mut *mut sys::nixl_req) -> c_int,
    ) -> Result<Request<T>, Failed<T>> {
        let mut pointer = ptr::null_mut();
        // SAFETY: it has not been started.
        let status = call(unsafe { flight.value() }, &mut pointer);

        if !flight.started(status) && status != sys::NIXL_OK {
            return match flight.take().0 {
                Err(failed) => Err(failed),
                Ok(_) => unreachable!("a failure has an error"),
            };
        }
        Ok(Request { flight, pointer, operation, is_borrowing: false, _context: context.clone() })
    }

    /// It uses memory that is borrowed: a drop must not return before it has ended.
    pub(crate) fn borrowing(mut self) -> Request<T> {
        self.is_borrowing = true;
        self
    }

    /// Whether it has ended; never waits.
    pub fn is_done(&mut self) -> bool {
        if self.pointer.is_null() {
            return true;
        }
        // SAFETY: the request is this handle's.
        let status = unsafe { sys::nixl_req_test(&mut self.pointer) };
        self.observe(status)
    }

    /// Wait up to a time, and say whether it has ended.
    pub fn wait_for(&mut self, timeout: Duration) -> bool {
        self.wait_ns(nanoseconds(Some(timeout)))
    }

    /// Wait until it has ended, and get back what it had: the buffer, now filled by a get, the old
    /// value of a word. Without limit, but for the operation's own
    /// [`timeout`](crate::Op::timeout); the death of the other rank ends it.
    pub fn wait(mut self) -> Result<T, Failed<T>> {
        while !self.wait_ns(nanoseconds(None)) {}
        self.flight.take().0
    }

    /// Stop it: when the call returns well, no byte moves any more. `None`: without limit.
    pub fn cancel(mut self, timeout: Option<Duration>) -> Result<(Outcome, T), Failed<Request<T>>> {
        let (status, outcome) = self.cancel_ns(nanoseconds(timeout));

        if !self.pointer.is_null() {
            let error = match status {
                sys::NIXL_INPROGRESS => Error::plain(sys::NIXL_E_TIMEOUT, -1, "nixl_req_cancel"),
                status => Error::last(status),
            };
            return Err(Failed { error, value: self });
        }
        match self.flight.take().0 {
            Ok(value) => Ok((outcome, value)),
            Err(failed) => Ok((outcome, failed.value)),
        }
    }

    fn wait_ns(&mut self, timeout: i64) -> bool {
        if self.pointer.is_null() {
            return true;
        }
        // SAFETY: the request is this handle's.
        let status = unsafe { sys::nixl_req_wait(&mut self.pointer, timeout) };
        self.observe(status)
    }

    /// The library has freed the request if it has ended. That of a forked child is its parent's,
    /// and no byte of the child moves.
    fn observe(&mut self, status: c_int) -> bool {
        if status == sys::NIXL_E_FORKED {
            self.pointer = ptr::null_mut();
        }
        if !self.pointer.is_null() {
            return false;
        }
        if !self.flight.has_ended() {
            self.flight.started(status);
        }
        true
    }

    fn cancel_ns(&mut self, timeout: i64) -> (c_int, Outcome) {
        let mut outcome = sys::NIXL_OUTCOME_DONE as i32;

        if self.pointer.is_null() {
            return (sys::NIXL_OK, Outcome::Done);
        }
        // SAFETY: the request is this handle's.
        let status = unsafe { sys::nixl_req_cancel(&mut self.pointer, timeout, &mut outcome) };
        let outcome = match outcome as sys::nixl_outcome {
            sys::NIXL_OUTCOME_UNTOUCHED => Outcome::Untouched,
            sys::NIXL_OUTCOME_PARTIAL => Outcome::Partial,
            _ => Outcome::Done,
        };

        if self.pointer.is_null() {
            self.flight.end(Ended {
                error: (outcome != Outcome::Done)
                    .then(|| Error::plain(sys::NIXL_E_CANCELED, -1, self.operation)),
                seen: 0,
            });
        }
        (status, outcome)
    }

    /// Cancel it, and return only when its memory is not in use.
    pub(crate) fn settle(&mut self) {
        while !self.pointer.is_null() {
            let (status, _) = self.cancel_ns(CANCEL_NS);

            if self.pointer.is_null() {
                return;
            }
            /* A copy of a forked child, or one that does not end: what it owns stays. */
            if !self.is_borrowing || status != sys::NIXL_E_TIMEOUT {
                std::mem::forget(self.flight.clone());
                return;
            }
        }
    }
}

impl<T> Drop for Request<T> {
    fn drop(&mut self) {
        self.settle();
    }
}

impl<T> fmt::Debug for Request<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.pointer.is_null() { "done" } else { "in progress" };

        write!(f, "Request({}: {state})", self.operation)
    }
}

/// Wait until one of several requests has ended, and say which. `None` as the timeout: without
/// limit; else [`Code::Timeout`](crate::Code::Timeout) if none has in time.
pub fn wait_any<T>(requests: &mut [Request<T>], timeout: Option<Duration>) -> Result<usize> {
    if let Some(index) = requests.iter().position(|request| request.pointer.is_null()) {
        return Ok(index);
    }
    let mut pointers: Vec<_> = requests.iter().map(|request| request.pointer).collect();
    let mut index = usize::MAX;
    // SAFETY: the requests are those of the handles, which nobody else uses meanwhile.
    let status = unsafe {
        sys::nixl_req_wait_any(
            pointers.as_mut_ptr(),
            pointers.len(),
            nanoseconds(timeout),
            &mut index,
        )
    };

    if index == usize::MAX {
        crate::error::check(status, "nixl_req_wait_any")?;
    }
    requests[index].pointer = pointers[index];
    requests[index].observe(status);
    Ok(index)
}

/// End the questions to stores and to owners of grants that a thread asks, by the number that
/// `gettid()` gives it; `None`: those of all threads. Their calls return
/// [`Code::Canceled`](crate::Code::Canceled) soon, unless the answer comes just then. False: nothing
/// is asked now, though the thread may be about to.
pub fn cancel_questions(thread: Option<i32>) -> Result<bool> {
    // SAFETY: it touches nothing of the caller's.
    let status = unsafe { sys::nixl_question_cancel(thread.map_or(0, i64::from)) };

    crate::error::check(status.min(0), "nixl_question_cancel")?;
    Ok(status == 0)
}
