// SPDX-License-Identifier: Apache-2.0
//! Prepared transfers: many pieces at once, started repeatedly.
//!
//! Invariant. An index belongs to the transfer, and is replaced only when no start is in flight:
//! the library refuses otherwise. It wants one thread at a time to start a transfer or to set an
//! index, who have `sides` locked for that.
use crate::aio::Completion;
use crate::context::Context;
use crate::error::{check, Code, Error, Failed, Result};
use crate::flight::{Flight, Keep};
use crate::op::Side as SignalOf;
use crate::queue::Queue;
use crate::region::Region;
use crate::request::Request;
use crate::Op;
use nixlrun_sys as sys;
use std::os::raw::c_int;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// Blocks of one size in a region: one entry of a side of a transfer.
///
/// Block i begins at `offset` + n * `stride`, where n is `index[i]`, or i without an index.
///
/// ```no_run
/// # fn f(kv: &nixlrun::Region) {
/// use nixlrun::Blocks;
///
/// let piece = Blocks::piece(kv, 4096, 512);
/// let pages = Blocks::indexed(kv, 0, 65536, vec![7, 3, 12]);
/// let rows = Blocks::strided(kv, 0, 256, 1024, 100);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Blocks {
    region: Region,
    offset: u64,
    block_nbytes: u64,
    stride: u64,
    nblocks: u64,
    index: Option<Vec<u64>>,
    extents: Option<(u32, u32)>,
}

impl Blocks {
    /// One piece.
    pub fn piece(region: &Region, offset: u64, nbytes: u64) -> Blocks {
        Blocks::strided(region, offset, nbytes, nbytes, 1)
    }

    /// `nblocks` blocks, `stride` bytes apart.
    pub fn strided(
        region: &Region,
        offset: u64,
        block_nbytes: u64,
        stride: u64,
        nblocks: u64,
    ) -> Blocks {
        let region = region.clone();

        Blocks { region, offset, block_nbytes, stride, nblocks, index: None, extents: None }
    }

    /// Blocks by number, which lie one behind the other from `offset` on.
    pub fn indexed(region: &Region, offset: u64, block_nbytes: u64, index: Vec<u64>) -> Blocks {
        let nblocks = index.len() as u64;

        Blocks {
            index: Some(index),
            ..Blocks::strided(region, offset, block_nbytes, block_nbytes, nblocks)
        }
    }

    /// Bytes from one number of the index to the next; 1: the index has bytes.
    pub fn stride(mut self, stride: u64) -> Blocks {
        self.stride = stride;
        self
    }

    /// The same blocks of each of `count` extents of the region, from `first` on; `None`: of all.
    pub fn extents(mut self, first: u32, count: Option<u32>) -> Blocks {
        self.extents = Some((first, count.unwrap_or(sys::NIXL_ALL_EXTENTS)));
        self
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    pub(crate) fn raw(&self) -> sys::nixl_blocks {
        let (first_extent, nextents) = self.extents.unwrap_or((0, 0));

        sys::nixl_blocks {
            region: self.region.pointer(),
            offset: self.offset,
            block_nbytes: self.block_nbytes,
            stride: self.stride,
            nblocks: self.nblocks,
            index: self.index.as_ref().map_or(ptr::null(), |index| index.as_ptr()),
            first_extent,
            nextents,
            ..sys::zeroed()
        }
    }
}

/// A side of a transfer.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// This rank's memory.
    Local,
    /// The other rank's.
    Remote,
}

/// What is known of a transfer; see [`Transfer::info`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransferInfo {
    /// Bytes of one start.
    pub nbytes: u64,
    /// Blocks of the side that has more.
    pub nblocks: u64,
    /// Bytes that the library uses for it, without the indices.
    pub memory_nbytes: u64,
    /// What the next start is expected to take, in ns; 0: not known.
    pub estimated_ns: u64,
    /// Complete starts; what follows is about the last one.
    pub nstarts: u64,
    /// Pieces moved, after merging.
    pub npieces: u64,
    /// From the call to the last byte, in ns.
    pub took_ns: u64,
    /// What was expected before it, in ns.
    pub had_estimated_ns: u64,
}

type Sides = [Vec<Blocks>; 2];

struct Inner {
    pointer: *mut sys::nixl_xfer,
    sides: Mutex<Sides>,
    context: Context,
}

// SAFETY: the library's calls may be made by any thread; the indices have their lock.
unsafe impl Send for Inner {}
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: its last handle; those of starts that are in flight hold it, too.
        if unsafe { sys::nixl_xfer_free(self.pointer) } != sys::NIXL_OK {
            let sides = self.sides.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
            std::mem::forget(std::mem::take(sides));
        }
    }
}

/// A prepared transfer between this rank's memory and another's; made by [`Context::prepare_put`]
/// and [`Context::prepare_get`]. Clones are the same one; one start at a time is in flight, also of
/// several threads: the others get [`Code::InUse`].
#[derive(Clone)]
pub struct Transfer(Arc<Inner>);

impl Context {
    /// Prepare a transfer to a rank's memory. The sides may be divided differently, if they have
    /// the same size. Memory of this rank lies in regions; one without a name will do.
    pub fn prepare_put(
        &self,
        rank: i32,
        local: Vec<Blocks>,
        remote: Vec<Blocks>,
    ) -> Result<Transfer> {
        self.prepare(sys::NIXL_XFER_PUT, rank, local, remote)
    }

    /// Prepare a transfer from a rank's memory.
    pub fn prepare_get(
        &self,
        rank: i32,
        local: Vec<Blocks>,
        remote: Vec<Blocks>,
    ) -> Result<Transfer> {
        self.prepare(sys::NIXL_XFER_GET, rank, local, remote)
    }

    fn prepare(
        &self,
        op: sys::nixl_xfer_op,
        rank: i32,
        local: Vec<Blocks>,
        remote: Vec<Blocks>,
    ) -> Result<Transfer> {
        let raw = |side: &[Blocks]| side.iter().map(Blocks::raw).collect::<Vec<_>>();
        let (here, there) = (raw(&local), raw(&remote));
        let mut pointer = ptr::null_mut();

        // SAFETY: entries of open regions; the transfer owns their indices.
        let status = unsafe {
            sys::nixl_xfer_create(
                op,
                rank,
                here.as_ptr(),
                here.len(),
                there.as_ptr(),
                there.len(),
                &mut pointer,
            )
        };
        check(status, "nixl_xfer_create")?;
        let sides = Mutex::new([local, remote]);
        Ok(Transfer(Arc::new(Inner { pointer, sides, context: self.clone() })))
    }
}

impl Transfer {
    /// Start it, and wait for its end.
    pub fn run(&self, op: &Op<'_>) -> Result<()> {
        let (op, _keep) = self.op(op)?;
        let _alone = self.alone("nixl_xfer_start_x")?;

        check(self.raw_start(&op, ptr::null_mut()), "nixl_xfer_start_x")
    }

    /// Start it. [`Code::InUse`]: the last start is in flight.
    pub fn start(&self, op: &Op<'_>) -> Result<Request<()>> {
        let (op, keep) = self.op(op)?;
        let _alone = self.alone("nixl_xfer_start_x")?;
        let start = |_, req_p| self.raw_start(&op, req_p);

        Request::start(Flight::new((), keep), &self.0.context, "nixl_xfer_start", start)
            .map_err(|failed: Failed<()>| failed.error)
    }

    /// Until it is dropped, no other thread starts it or sets an index; never waits for one.
    fn alone(&self, operation: &str) -> Result<MutexGuard<'_, Sides>> {
        match self.0.sides.try_lock() {
            Ok(sides) => Ok(sides),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                let text = "another thread starts the transfer or sets an index of it";
                Err(Error::made(Code::InUse, None, operation, text.into()))
            }
        }
    }

    fn op(&self, op: &Op<'_>) -> Result<(sys::nixl_op, Keep)> {
        let (op, mut keep) = op.read(&self.0.context, SignalOf::Theirs)?;

        keep.push(self.0.clone());
        Ok((op, keep))
    }

    fn raw_start(&self, op: &sys::nixl_op, req_p: *mut *mut sys::nixl_req) -> c_int {
        // SAFETY: a transfer that is there; its indices stay until the start has ended.
        unsafe { sys::nixl_xfer_start_x(self.0.pointer, op, req_p) }
    }

    /// Give an entry, by its place in its side, other blocks for the next starts. If the sizes of
    /// the sides change, set both before the next start.
    pub fn set_index(&self, side: Side, entry: usize, index: Vec<u64>) -> Result<()> {
        let mut sides = self.alone("nixl_xfer_set_index")?;
        let (place, raw) = match side {
            Side::Local => (0, sys::NIXL_XFER_LOCAL),
            Side::Remote => (1, sys::NIXL_XFER_REMOTE),
        };
        let count = sides[place].len();
        let blocks = sides[place].get_mut(entry).ok_or_else(|| {
            let text = format!("entry {entry} is none of the {count} of that side");
            Error::invalid("nixl_xfer_set_index", text)
        })?;
        let nblocks = index.len() as u64;

        // SAFETY: the old index is dropped only if the library has taken the new one.
        let status = unsafe {
            sys::nixl_xfer_set_index(self.0.pointer, raw, entry, nblocks, index.as_ptr())
        };
        check(status, "nixl_xfer_set_index")?;
        blocks.index = Some(index);
        blocks.nblocks = nblocks;
        Ok(())
    }

    /// Its size, and how long its starts take and have taken.
    pub fn info(&self) -> Result<TransferInfo> {
        let mut info: sys::nixl_xfer_info = sys::zeroed();

        // SAFETY: a transfer that is there, and a struct of the library's shape to be written.
        check(unsafe { sys::nixl_xfer_query(self.0.pointer, &mut info) }, "nixl_xfer_query")?;
        Ok(TransferInfo {
            nbytes: info.nbytes,
            nblocks: info.nblocks,
            memory_nbytes: info.memory_nbytes,
            estimated_ns: info.estimated_ns,
            nstarts: info.nstarts,
            npieces: info.npieces,
            took_ns: info.took_ns,
            had_estimated_ns: info.had_estimated_ns,
        })
    }
}

impl Queue {
    /// Start a prepared transfer, and await its end.
    pub fn transfer(&self, transfer: &Transfer, op: &Op<'_>) -> Completion<()> {
        let (_alone, form) = match transfer.alone("nixl_xfer_start_x") {
            Ok(alone) => (Some(alone), transfer.op(op)),
            Err(error) => (None, Err(error)),
        };

        Completion::start(self, (), form, |_, op| transfer.raw_start(op, ptr::null_mut()))
    }
}
