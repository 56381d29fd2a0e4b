// SPDX-License-Identifier: Apache-2.0
//! Memory of the caller's as a region, which owns it until it is closed.
use crate::buffer::target;
use crate::context::Context;
use crate::error::{Failed, Result};
use crate::memory::Memory;
use crate::region::{close, Region};
use crate::BufferMut;
use nixlrun_sys as sys;
use std::any::Any;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

impl Context {
    /// Publish memory of the caller's under a name, for ranks to change as they like; it is given
    /// back by [`Registered::close`].
    pub fn register<'a, B>(
        &self,
        name: impl Into<Option<&'a str>>,
        buffer: B,
        memory: &Memory,
    ) -> Result<Registered<B>, Failed<B>>
    where
        B: BufferMut + Send + 'static,
    {
        self.register_held(name, buffer, memory, |buffer| vec![extent(buffer)])
    }

    /// Publish many pieces of memory as one region, whose offsets go through them in order; see
    /// nixl_region_register_extents(3). An operation lies within one of them.
    pub fn register_all<'a, B>(
        &self,
        name: impl Into<Option<&'a str>>,
        buffers: Vec<B>,
        memory: &Memory,
    ) -> Result<Registered<Vec<B>>, Failed<Vec<B>>>
    where
        B: BufferMut + Send + 'static,
    {
        self.register_held(name, buffers, memory, |all| all.iter_mut().map(extent).collect())
    }

    fn register_held<'a, H: Send + 'static>(
        &self,
        name: impl Into<Option<&'a str>>,
        value: H,
        memory: &Memory,
        extents: impl FnOnce(&mut H) -> Vec<sys::nixl_extent>,
    ) -> Result<Registered<H>, Failed<H>> {
        let held = Arc::new(Held(UnsafeCell::new(value)));
        // SAFETY: nobody else has it yet; the region owns it until it is closed.
        let made = unsafe {
            let extents = extents(&mut *held.0.get());
            self.register_raw(name, &extents, memory)
        };

        match made.and_then(|pointer| self.adopt(pointer, Some(held.clone()))) {
            Ok(region) => Ok(Registered { region, _buffer: PhantomData }),
            Err(error) => Err(Failed { error, value: Held::value(held) }),
        }
    }
}

/// Memory that a region owns, which peers change.
struct Held<H>(UnsafeCell<H>);

pub(crate) type AnyHeld = Arc<dyn Any + Send + Sync>;

// SAFETY: nobody touches the value until the region is closed.
unsafe impl<H: Send> Sync for Held<H> {}

impl<H> Held<H> {
    fn value(held: Arc<Held<H>>) -> H {
        match Arc::try_unwrap(held) {
            Ok(held) => held.0.into_inner(),
            Err(_) => unreachable!("the region that held it, too, is gone"),
        }
    }
}

fn extent<B: BufferMut>(buffer: &mut B) -> sys::nixl_extent {
    sys::nixl_extent { addr: target(buffer), nbytes: buffer.nbytes() }
}

/// A region of memory that the caller has given; it is a [`Region`].
pub struct Registered<B> {
    region: Region,
    _buffer: PhantomData<B>,
}

impl<B: Send + 'static> Registered<B> {
    /// Close it, and get the memory back when no peer uses it any more; see [`Region::close`].
    pub fn close(self, timeout: Option<Duration>) -> Result<B, Failed<Registered<B>>> {
        let memory = close(self.region, timeout).map_err(|failed| Failed {
            error: failed.error,
            value: Registered { region: failed.value, _buffer: PhantomData },
        })?;

        match memory.map(|memory| memory.downcast::<Held<B>>()) {
            Some(Ok(held)) => Ok(Held::value(held)),
            _ => unreachable!("the region holds what was registered"),
        }
    }
}

impl<B> std::ops::Deref for Registered<B> {
    type Target = Region;

    fn deref(&self) -> &Region {
        &self.region
    }
}
