// SPDX-License-Identifier: Apache-2.0
//! Regions: named memory of a rank, which others reach by the name.
//!
//! Invariant. The memory of a region is never borrowed as plain values, since other ranks change
//! it at any time: it is read and written by copies of the library, as atomics, or by pointers.
use crate::context::Context;
use crate::error::{check, Code, Error, Failed, Result};
use crate::job::c_text;
use crate::memory::{Kind, Memory, RegionInfo};
use crate::rank::{routes, Route};
use crate::registered::AnyHeld;
use crate::signal::Signal;
use crate::time::nanoseconds;
use crate::view::Slice;
use crate::Buffer;
use nixlrun_sys as sys;
use std::any::Any;
use std::ffi::CString;
use std::fmt;
use std::os::raw::c_char;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

struct Inner {
    pointer: *mut sys::nixl_region, /* NULL: closed */
    address: *mut u8,
    nbytes: u64,
    is_host: bool,
    memory: Option<AnyHeld>, /* that was registered */
    context: Context,
}

// SAFETY: the library's calls may be made by any thread, and the memory is never borrowed.
unsafe impl Send for Inner {}
unsafe impl Sync for Inner {}

impl Inner {
    fn query(&self, rank: i32, timeout: i64) -> Result<RegionInfo> {
        let mut info: sys::nixl_region_info = sys::zeroed();

        // SAFETY: an open region, and a struct of the library's shape to be written.
        let status = unsafe { sys::nixl_region_query(rank, self.pointer, timeout, &mut info) };
        check(status, "nixl_region_query")?;
        Ok(RegionInfo::of(&info))
    }

    fn close(&mut self, timeout: i64) -> Result<()> {
        // SAFETY: this is its last handle.
        check(unsafe { sys::nixl_region_close(self.pointer, timeout) }, "nixl_region_close")?;
        self.pointer = ptr::null_mut();
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        const CLOSE_NS: i64 = 60_000_000_000;

        if self.pointer.is_null() {
            return;
        }
        if self.close(CLOSE_NS).is_err() {
            /* A peer still copies: the memory stays, for as long as the process lives. */
            std::mem::forget(self.memory.take());
        }
    }
}

/// Memory under a name: this rank's own, if it has any, and a way to that of all others.
///
/// Clones are the same region. It is closed with the last of them, of its parts, signals, transfers
/// and operations; peers that use it then get [`Code::Stale`].
///
/// Other ranks change the memory at any time. So it is not lent as a slice of numbers:
/// [`read`](Region::read) and [`write`](Region::write) copy, [`bytes`](Region::bytes) and
/// [`words`](Region::words) are atomics, and [`as_ptr`](Region::as_ptr) is for those who know by
/// their protocol that nobody writes.
#[derive(Clone)]
pub struct Region(Arc<Inner>);

impl Context {
    /// Allocate zeroed host memory, and publish it under a name. Without a name (`None`) it is for
    /// this rank alone: memory for its puts, gets and transfers.
    pub fn region<'a>(&self, name: impl Into<Option<&'a str>>, nbytes: usize) -> Result<Region> {
        self.region_of(name, nbytes, &Memory::new())
    }

    /// As [`region`](Context::region), of memory of some kind.
    pub fn region_of<'a>(
        &self,
        name: impl Into<Option<&'a str>>,
        nbytes: usize,
        memory: &Memory,
    ) -> Result<Region> {
        let name = name.into().map(c_text).transpose()?;
        let mut pointer = ptr::null_mut();
        // SAFETY: a text or NULL, params of the library's shape, a pointer to be written.
        let status = memory.with_params(self, |params| unsafe {
            sys::nixl_region_alloc(name_pointer(&name), nbytes, params, &mut pointer)
        })?;

        check(status, "nixl_region_alloc")?;
        self.adopt(pointer, None)
    }

    /// Publish memory at these addresses under a name: of other libraries, or of a GPU.
    ///
    /// # Safety
    /// The memory stays valid until the region is closed, with its last handle; nothing that this
    /// process has borrowed lies in it.
    pub unsafe fn register_at<'a>(
        &self,
        name: impl Into<Option<&'a str>>,
        extents: &[(*mut u8, usize)],
        memory: &Memory,
    ) -> Result<Region> {
        let extents: Vec<sys::nixl_extent> = extents
            .iter()
            .map(|(address, nbytes)| sys::nixl_extent { addr: address.cast(), nbytes: *nbytes })
            .collect();
        // SAFETY: of the caller.
        let pointer = unsafe { self.register_raw(name, &extents, memory)? };

        self.adopt(pointer, None)
    }

    /// # Safety
    /// As `register_at`.
    pub(crate) unsafe fn register_raw<'a>(
        &self,
        name: impl Into<Option<&'a str>>,
        extents: &[sys::nixl_extent],
        memory: &Memory,
    ) -> Result<*mut sys::nixl_region> {
        let text = name.into().map(c_text).transpose()?;
        let mut pointer = ptr::null_mut();
        let name = name_pointer(&text);
        let (first, n) = (extents.as_ptr(), extents.len());
        // SAFETY: of the caller; a text or NULL, an array, params, and a pointer to be written.
        let status = memory.with_params(self, |params| unsafe {
            match extents {
                [one] => {
                    sys::nixl_region_register(name, one.addr, one.nbytes, params, &mut pointer)
                }
                _ => sys::nixl_region_register_extents(name, first, n, params, &mut pointer),
            }
        })?;

        check(status, "nixl_region_register")?;
        Ok(pointer)
    }

    /// A way to other ranks' memory under a name, without any of this rank. It is looked up at its
    /// first use.
    pub fn open(&self, name: &str) -> Result<Region> {
        let name = c_text(name)?;
        let mut pointer = ptr::null_mut();

        // SAFETY: a text, and a pointer to be written.
        let status = unsafe { sys::nixl_region_open_x(name.as_ptr(), &self.op(0), &mut pointer) };
        check(status, "nixl_region_open")?;
        self.adopt(pointer, None)
    }

    pub(crate) fn adopt(
        &self,
        pointer: *mut sys::nixl_region,
        memory: Option<AnyHeld>,
    ) -> Result<Region> {
        // SAFETY: an open region.
        let (address, nbytes) =
            unsafe { (sys::nixl_region_addr(pointer), sys::nixl_region_nbytes(pointer)) };
        let mut inner = Inner {
            pointer,
            address: address.cast(),
            nbytes,
            is_host: false,
            memory,
            context: self.clone(),
        };

        inner.is_host = nbytes > 0 && inner.query(rank(), OWN_NS)?.kind == Kind::Host;
        Ok(Region(Arc::new(inner)))
    }
}

/// How long what is known of this rank's own memory may take to be told.
const OWN_NS: i64 = 1_000_000_000;

pub(crate) fn rank() -> i32 {
    // SAFETY: reads a number.
    unsafe { sys::nixl_rank() }
}

pub(crate) fn name_pointer(name: &Option<CString>) -> *const c_char {
    name.as_ref().map_or(ptr::null(), |name| name.as_ptr())
}

impl Region {
    pub(crate) fn pointer(&self) -> *mut sys::nixl_region {
        self.0.pointer
    }

    pub(crate) fn context(&self) -> &Context {
        &self.0.context
    }

    /// Whether this rank's own memory is of the host.
    pub(crate) fn is_host(&self) -> bool {
        self.0.is_host
    }

    pub(crate) fn shared(&self) -> Arc<dyn Any + Send + Sync> {
        self.0.clone()
    }

    /// Bytes of this rank's own memory; 0: there is none.
    pub fn nbytes(&self) -> u64 {
        self.0.nbytes
    }

    /// Its first byte; NULL if there is none, or it is of several pieces. The address may be that
    /// of a GPU. Other ranks change the memory at any time.
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.address
    }

    /// The 64-bit word at an offset, a multiple of 8, as a signal.
    pub fn signal(&self, offset: u64) -> Signal {
        Signal::new(self.clone(), offset)
    }

    /// What is known of a rank's memory; waits until the rank has published it. Forgets one that is
    /// stale, so that the region can be used again. No `timeout`: without limit.
    pub fn query(&self, rank: i32, timeout: Option<Duration>) -> Result<RegionInfo> {
        self.0.query(rank, nanoseconds(timeout))
    }

    /// The same of one of its extents.
    pub fn query_extent(
        &self,
        rank: i32,
        extent: usize,
        timeout: Option<Duration>,
    ) -> Result<RegionInfo> {
        let mut info: sys::nixl_region_info = sys::zeroed();
        let time = nanoseconds(timeout);

        // SAFETY: as above.
        let status =
            unsafe { sys::nixl_region_query_extent(rank, self.0.pointer, extent, time, &mut info) };
        check(status, "nixl_region_query_extent")?;
        Ok(RegionInfo::of(&info))
    }

    /// Whether a rank has published its memory at this moment; waits for the rank's answer.
    pub fn is_published(&self, rank: i32, timeout: Option<Duration>) -> Result<bool> {
        // SAFETY: an open region.
        match unsafe { sys::nixl_region_is_published(rank, self.0.pointer, nanoseconds(timeout)) } {
            sys::NIXL_E_NOT_FOUND => Ok(false),
            status => check(status, "nixl_region_is_published").map(|()| true),
        }
    }

    /// How bytes move between host memory of this rank, or this part of its own memory, and a
    /// rank's: all transports, and why they are chosen or not.
    pub fn routes(&self, rank: i32, local: Option<&Slice<u8>>) -> Result<Vec<Route>> {
        let local = local.map_or(ptr::null(), |slice| slice.pointer().cast());

        // SAFETY: an open region, and a struct of the library's shape to be written.
        routes(|index, info| unsafe {
            sys::nixl_route_query_segment(rank, self.0.pointer, local, index, info)
        })
    }

    /// Close it, and wait up to a time for peers' copies that are in flight; `None`: without limit.
    ///
    /// [`Code::InUse`]: there are other handles, of which the last one closes it.
    pub fn close(self, timeout: Option<Duration>) -> Result<(), Failed<Region>> {
        close(self, timeout).map(drop)
    }
}

/// Close the last handle, and return the memory that was registered.
pub(crate) fn close(
    region: Region,
    timeout: Option<Duration>,
) -> Result<Option<AnyHeld>, Failed<Region>> {
    let mut inner = match Arc::try_unwrap(region.0) {
        Ok(inner) => inner,
        Err(shared) => {
            let text = "the region has other handles, which are in use: clones, parts, signals, \
                        transfers or operations";
            let error = Error::made(Code::InUse, None, "nixl_region_close", text.into());
            return Err(Failed { error, value: Region(shared) });
        }
    };

    match inner.close(nanoseconds(timeout)) {
        Ok(()) => Ok(inner.memory.take()),
        Err(error) => Err(Failed { error, value: Region(Arc::new(inner)) }),
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({} bytes at {:p})", self.0.nbytes, self.0.address)
    }
}
