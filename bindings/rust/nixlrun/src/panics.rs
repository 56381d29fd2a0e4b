// SPDX-License-Identifier: Apache-2.0
//! Wakers are code of the user's, and may panic. What has been taken from the library is delivered
//! first, and the panic goes on then.
use std::any::Any;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::task::Waker;

/// The first panic of several calls; the others are dropped.
#[derive(Default)]
pub(crate) struct Panics(Option<Box<dyn Any + Send>>);

impl Panics {
    /// Make a call, whatever those before have done.
    pub fn after(&mut self, call: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
            self.0.get_or_insert(panic);
        }
    }

    /// Go on with the panic, if there was one.
    pub fn resume(self) {
        if let Some(panic) = self.0 {
            resume_unwind(panic);
        }
    }
}

/// Wake all of them.
pub(crate) fn wake_all(wakers: Vec<Waker>) {
    let mut panics = Panics::default();

    wakers.into_iter().for_each(|waker| panics.after(|| waker.wake()));
    panics.resume();
}
