// SPDX-License-Identifier: Apache-2.0
//! Operations in flight: what they use is owned here until they have ended, whatever becomes of
//! the handle that the user has.
//!
//! Invariant. From the start until the outcome is known, only the library touches `held`; from then
//! on, only the one handle (a request or a completion), or whoever drops the last pointer.
use crate::error::{Error, Failed};
use nixlrun_sys as sys;
use std::any::Any;
use std::cell::UnsafeCell;
use std::os::raw::c_int;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

/// Handles that must stay open until an operation has ended.
pub(crate) type Keep = Vec<Arc<dyn Any + Send + Sync>>;

/// How an operation has ended.
#[derive(Default)]
pub(crate) struct Outcome {
    pub error: Option<Error>,
    /// What a wait for a signal has seen.
    pub seen: u64,
}

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

/// One operation: the caller's buffers or results, and how it has ended.
pub(crate) struct Flight<T> {
    state: Mutex<State>,
    held: UnsafeCell<Option<T>>,
    keep: UnsafeCell<Keep>,
}

// SAFETY: see the invariant; the state has its lock.
unsafe impl<T: Send> Send for Flight<T> {}
unsafe impl<T: Send> Sync for Flight<T> {}

impl<T> Flight<T> {
    pub fn new(value: T, keep: Keep) -> Arc<Flight<T>> {
        Arc::new(Flight {
            state: Mutex::default(),
            held: UnsafeCell::new(Some(value)),
            keep: UnsafeCell::new(keep),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// What it holds, for the start, which takes addresses of it.
    ///
    /// # Safety
    /// It has not been started.
    pub unsafe fn value(&self) -> *mut T {
        // SAFETY: of the caller: nobody else has it yet.
        match unsafe { &mut *self.held.get() } {
            Some(value) => value,
            None => unreachable!("a start takes what it was given"),
        }
    }

    pub fn has_ended(&self) -> bool {
        self.state().outcome.is_some()
    }

    /// Note how it has ended, and wake who awaits it.
    pub fn end(&self, outcome: Outcome) {
        let mut state = self.state();
        let waker = state.waker.take();

        state.outcome = Some(outcome);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What the start has found: true if it goes on.
    pub fn started(&self, status: c_int) -> bool {
        if status == sys::NIXL_INPROGRESS {
            return true;
        }
        self.end(Outcome { error: (status != sys::NIXL_OK).then(|| Error::last(status)), seen: 0 });
        false
    }

    /// Whether it has ended; if not, `waker` is woken when it has.
    pub fn poll(&self, waker: &Waker) -> bool {
        let mut state = self.state();

        if state.outcome.is_some() {
            return true;
        }
        let old = match &mut state.waker {
            Some(known) if known.will_wake(waker) => None,
            known => known.replace(waker.clone()),
        };

        drop(state);
        drop(old); // without the lock: what a waker owns may be a future of this library
        false
    }

    /// The outcome with what it held: once, by the only handle, after it has ended.
    pub fn take(&self) -> (Result<T, Failed<T>>, u64) {
        let outcome = self.state().outcome.take();
        // SAFETY: it has ended, and the handle that calls is the only one.
        let value = unsafe {
            (*self.keep.get()).clear();
            (*self.held.get()).take()
        };

        match (outcome, value) {
            (Some(Outcome { error: None, seen }), Some(value)) => (Ok(value), seen),
            (Some(Outcome { error: Some(error), seen }), Some(value)) => {
                (Err(Failed { error, value }), seen)
            }
            _ => unreachable!("the outcome of an operation is taken once, when it has ended"),
        }
    }
}

/// What a queue knows of an operation.
pub(crate) trait Ends: Send + Sync {
    fn ended(&self, outcome: Outcome);
}

impl<T: Send> Ends for Flight<T> {
    fn ended(&self, outcome: Outcome) {
        self.end(outcome);
    }
}
