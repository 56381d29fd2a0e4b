// SPDX-License-Identifier: Apache-2.0
//! Regions: named memory of a rank, which others reach by the name.
//!
//! Invariant. The memory of a region is never borrowed as plain values, since other ranks change
//! it at any time: it is read and written by copies of the library, as atomics, or by pointers.
use crate::buffer::{source, target};
use crate::context::Context;
use crate::error::{check, text_in, Code, Error, Failed, Result};
use crate::flight::{Flight, Keep};
use crate::job::c_text;
use crate::op::Side;
use crate::rank::{routes, Route};
use crate::request::Request;
use crate::signal::Signal;
use crate::time::nanoseconds;
use crate::{Buffer, BufferMut, Op, Plain};
use nixlrun_sys as sys;
use std::any::Any;
use std::cell::UnsafeCell;
use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::raw::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicU8};
use std::sync::Arc;
use std::time::Duration;

/// Kinds of memory.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// No memory of this rank.
    None,
    /// Host memory.
    Host,
    /// Memory of an NVIDIA GPU, by CUDA.
    Cuda,
    /// Memory of a GPU, by Vulkan.
    Vulkan,
    /// GPU memory if there is any, else host memory; of memory that is registered: what it is.
    Auto,
    /// A file or a block device: see [`Context::open_file`].
    File,
    /// Objects of an S3 store, or files of a directory: see [`Context::open_object`].
    Object,
}

/// How memory is made; `Memory::new()` is host memory of any kind.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    kind: u32,
    flags: u32,
    numa_node: i32,
    device: Option<String>,
    access: u32,
}

impl Memory {
    /// Host memory, whose pages appear when they are touched.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Memory of this kind; [`Kind::File`] and [`Kind::Object`] are refused when it is made.
    pub fn kind(mut self, kind: Kind) -> Memory {
        self.kind = match kind {
            Kind::None | Kind::Host => sys::NIXL_MEM_HOST,
            Kind::Cuda => sys::NIXL_MEM_CUDA,
            Kind::Vulkan => sys::NIXL_MEM_VULKAN,
            Kind::Auto => sys::NIXL_MEM_AUTO,
            Kind::File => sys::NIXL_MEM_FILE,
            Kind::Object => sys::NIXL_MEM_OBJECT,
        };
        self
    }

    /// GPU memory: of the "nearest" GPU, one by number, or one by UUID.
    pub fn device(mut self, device: &str) -> Memory {
        self.device = Some(device.into());
        self
    }

    /// Host memory of this NUMA node.
    pub fn numa_node(mut self, node: i32) -> Memory {
        self.numa_node = node;
        self.flag(sys::NIXL_MEM_NUMA)
    }

    /// Huge pages, if there are any.
    pub fn huge(self) -> Memory {
        self.flag(sys::NIXL_MEM_HUGE)
    }

    /// Page-locked, and known to the GPU.
    pub fn pinned(self) -> Memory {
        self.flag(sys::NIXL_MEM_PINNED)
    }

    /// All pages are touched at once.
    pub fn populate(self) -> Memory {
        self.flag(sys::NIXL_MEM_POPULATE)
    }

    /// Peers change nothing: no puts, signals or atomics.
    pub fn no_put(mut self) -> Memory {
        self.access |= sys::NIXL_ACCESS_NO_PUT;
        self
    }

    /// Peers read nothing: no gets or atomics.
    pub fn no_get(mut self) -> Memory {
        self.access |= sys::NIXL_ACCESS_NO_GET;
        self
    }

    fn flag(mut self, flag: sys::nixl_mem_flag) -> Memory {
        self.flags |= flag;
        self
    }

    /// Call the library with it as params.
    fn with_params<R>(
        &self,
        context: &Context,
        call: impl FnOnce(&sys::nixl_mem_params) -> R,
    ) -> Result<R> {
        let device = self.device.as_deref().map(c_text).transpose()?;
        let params = sys::nixl_mem_params {
            kind: self.kind as i32,
            flags: self.flags,
            numa_node: self.numa_node,
            device: device.as_ref().map_or(ptr::null(), |device| device.as_ptr()),
            context: context.pointer(),
            access: self.access,
            ..sys::zeroed()
        };

        Ok(call(&params))
    }
}

/// What is known of a rank's memory under a name; see [`Region::query`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RegionInfo {
    /// Its size.
    pub nbytes: u64,
    /// Its kind.
    pub kind: Kind,
    /// Memory of its owner's own; else the library has allocated it.
    pub is_registered: bool,
    /// It is on huge pages.
    pub is_huge: bool,
    /// It is page-locked.
    pub is_pinned: bool,
    /// It is bound to a NUMA node.
    pub is_bound: bool,
    /// Peers may not change it.
    pub no_put: bool,
    /// Peers may not read it.
    pub no_get: bool,
    /// The transport that reaches it.
    pub transport: String,
    /// How bytes move: memcpy, process_vm, bounce, message, rma or device.
    pub method: String,
    /// Why a flag is missing, or a method is not the best one; or "".
    pub note: String,
    /// The GPU, or "".
    pub device: String,
    /// Expected: a small put with a notification, one way, in ns; 0: not known.
    pub latency_ns: u64,
    /// Expected: MB/s of a large put; 0: not known.
    pub bandwidth_mbps: u64,
    /// Where an extent begins, if it was asked about one.
    pub offset: u64,
    /// Of how many pieces of memory it is.
    pub nextents: u32,
}

impl RegionInfo {
    fn of(info: &sys::nixl_region_info) -> RegionInfo {
        RegionInfo {
            nbytes: info.nbytes,
            kind: kind_of(info.kind),
            is_registered: info.is_registered != 0,
            is_huge: info.flags & sys::NIXL_MEM_HUGE != 0,
            is_pinned: info.flags & sys::NIXL_MEM_PINNED != 0,
            is_bound: info.flags & sys::NIXL_MEM_NUMA != 0,
            no_put: info.access & sys::NIXL_ACCESS_NO_PUT != 0,
            no_get: info.access & sys::NIXL_ACCESS_NO_GET != 0,
            transport: text_in(&info.transport),
            method: text_in(&info.method),
            note: text_in(&info.note),
            device: text_in(&info.device),
            latency_ns: info.latency_ns,
            bandwidth_mbps: info.bandwidth_mbps,
            offset: info.offset,
            nextents: info.nextents,
        }
    }
}

fn kind_of(kind: i32) -> Kind {
    match kind as sys::nixl_mem_kind {
        sys::NIXL_MEM_HOST => Kind::Host,
        sys::NIXL_MEM_CUDA => Kind::Cuda,
        sys::NIXL_MEM_VULKAN => Kind::Vulkan,
        sys::NIXL_MEM_FILE => Kind::File,
        sys::NIXL_MEM_OBJECT => Kind::Object,
        _ => Kind::None,
    }
}

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
    unsafe fn register_raw<'a>(
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

/// Memory that a region owns, which peers change.
struct Held<H>(UnsafeCell<H>);

type AnyHeld = Arc<dyn Any + Send + Sync>;

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

fn rank() -> i32 {
    // SAFETY: reads a number.
    unsafe { sys::nixl_rank() }
}

pub(crate) fn name_pointer(name: &Option<CString>) -> *const std::os::raw::c_char {
    name.as_ref().map_or(ptr::null(), |name| name.as_ptr())
}

impl Region {
    pub(crate) fn pointer(&self) -> *mut sys::nixl_region {
        self.0.pointer
    }

    pub(crate) fn context(&self) -> &Context {
        &self.0.context
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

    /// This rank's own host memory, as atomics; `None` if it is not host memory in one piece.
    ///
    /// What a rank has put before a notification or a signal is there when that was received.
    pub fn bytes(&self) -> Option<&[AtomicU8]> {
        if self.0.address.is_null() || !self.0.is_host {
            return None;
        }
        // SAFETY: the memory stays as long as the region, which is borrowed; it is not borrowed
        // otherwise, and AtomicU8 has the layout of u8.
        Some(unsafe {
            std::slice::from_raw_parts(self.0.address.cast::<AtomicU8>(), self.0.nbytes as usize)
        })
    }

    /// The same as 64-bit words; what does not fill one at the end is left out.
    pub fn words(&self) -> Option<&[AtomicU64]> {
        let bytes = self.bytes()?;

        if bytes.as_ptr() as usize % 8 != 0 {
            return None;
        }
        // SAFETY: as of the bytes, and aligned.
        Some(unsafe {
            std::slice::from_raw_parts(bytes.as_ptr().cast::<AtomicU64>(), bytes.len() / 8)
        })
    }

    /// A part of this rank's own memory, of any kind, as a source or destination.
    ///
    /// `range` counts items from the start of the memory.
    pub fn slice<T: Plain>(&self, range: Range<usize>) -> Result<Slice<T>> {
        let item = std::mem::size_of::<T>();
        let end = range.end.checked_mul(item).map(|end| end as u64);
        let is_aligned = self.0.address as usize % std::mem::align_of::<T>() == 0;

        if self.0.address.is_null() || !is_aligned {
            let text = "this rank has no such memory in one piece, aligned to the type".into();
            return Err(Error::invalid("slice", text));
        }
        if range.start > range.end || end.map_or(true, |end| end > self.0.nbytes) {
            let text = format!(
                "items {} to {} of {item} bytes are outside of the region's {} bytes",
                range.start, range.end, self.0.nbytes
            );
            return Err(Error::made(Code::Range, None, "slice", text));
        }
        Ok(Slice { region: self.clone(), range, _item: PhantomData })
    }

    /// Copy from this rank's own memory, of any kind.
    pub fn read<B: BufferMut + ?Sized>(&self, offset: u64, dst: &mut B) -> Result<()> {
        self.get(rank(), offset, dst)
    }

    /// Copy to this rank's own memory, of any kind.
    pub fn write<B: Buffer + ?Sized>(&self, offset: u64, src: &B) -> Result<()> {
        self.put(rank(), offset, src)
    }

    /// The whole of this rank's own memory, copied.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.0.nbytes as usize];

        self.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Copy to a rank's memory, at `offset` bytes from its start. The rank makes no call. Returns
    /// when `src` may be reused; a notification, a signal or a flush makes the data visible there.
    pub fn put<B: Buffer + ?Sized>(&self, rank: i32, offset: u64, src: &B) -> Result<()> {
        // SAFETY: the memory is borrowed for the call, which has ended with it when it returns.
        let status =
            unsafe { sys::nixl_put(rank, self.0.pointer, offset, source(src), src.nbytes()) };
        check(status, "nixl_put")
    }

    /// As [`put`](Region::put), with what follows.
    pub fn put_with<B>(&self, rank: i32, offset: u64, src: &B, op: &Op<'_>) -> Result<()>
    where
        B: Buffer + ?Sized,
    {
        let (op, _keep) = self.put_op(op)?;
        // SAFETY: as of put(); on a stream, as the caller of Op::stream() has promised.
        let status =
            unsafe { self.raw_put(rank, offset, source(src), src.nbytes(), &op, ptr::null_mut()) };
        check(status, "nixl_put_x")
    }

    /// Copy from a rank's memory, at `offset` bytes from its start. Returns when `dst` has it.
    pub fn get<B: BufferMut + ?Sized>(&self, rank: i32, offset: u64, dst: &mut B) -> Result<()> {
        let nbytes = dst.nbytes();
        // SAFETY: the memory is borrowed for the call, which has ended with it when it returns.
        let status = unsafe { sys::nixl_get(rank, self.0.pointer, offset, target(dst), nbytes) };
        check(status, "nixl_get")
    }

    /// As [`get`](Region::get), with what follows.
    pub fn get_with<B>(&self, rank: i32, offset: u64, dst: &mut B, op: &Op<'_>) -> Result<()>
    where
        B: BufferMut + ?Sized,
    {
        let nbytes = dst.nbytes();
        let (op, _keep) = self.get_op(op)?;
        // SAFETY: as of get(); on a stream, as the caller of Op::stream() has promised.
        let status =
            unsafe { self.raw_get(rank, offset, target(dst), nbytes, &op, ptr::null_mut()) };
        check(status, "nixl_get_x")
    }

    /// Start a put of memory that is given away until it has ended. [`scope()`](crate::scope()) starts
    /// those of memory that is borrowed.
    pub fn start_put<B>(
        &self,
        rank: i32,
        offset: u64,
        src: B,
        op: &Op<'_>,
    ) -> Result<Request<B>, Failed<B>>
    where
        B: Buffer + Send + 'static,
    {
        let (op, keep) = match self.put_op(op) {
            Ok(read) => read,
            Err(error) => return Err(Failed { error, value: src }),
        };

        Request::start(Flight::new(src, keep), &self.0.context, "nixl_put", |src, req_p| {
            // SAFETY: the flight holds the memory until the put has ended.
            unsafe { self.raw_put(rank, offset, source(&*src), (*src).nbytes(), &op, req_p) }
        })
    }

    /// Start a get to memory that is given away until it has ended.
    pub fn start_get<B>(
        &self,
        rank: i32,
        offset: u64,
        dst: B,
        op: &Op<'_>,
    ) -> Result<Request<B>, Failed<B>>
    where
        B: BufferMut + Send + 'static,
    {
        let (op, keep) = match self.get_op(op) {
            Ok(read) => read,
            Err(error) => return Err(Failed { error, value: dst }),
        };

        Request::start(Flight::new(dst, keep), &self.0.context, "nixl_get", |dst, req_p| {
            // SAFETY: the flight holds the memory until the get has ended.
            unsafe { self.raw_get(rank, offset, target(&mut *dst), (*dst).nbytes(), &op, req_p) }
        })
    }

    pub(crate) fn put_op(&self, op: &Op<'_>) -> Result<(sys::nixl_op, Keep)> {
        self.op(op, Side::Theirs)
    }

    pub(crate) fn get_op(&self, op: &Op<'_>) -> Result<(sys::nixl_op, Keep)> {
        self.op(op, Side::Own)
    }

    fn op(&self, op: &Op<'_>, side: Side) -> Result<(sys::nixl_op, Keep)> {
        let (op, mut keep) = op.read(&self.0.context, side)?;

        keep.push(self.shared());
        Ok((op, keep))
    }

    /// # Safety
    /// The memory at `src` stays as it is until the put has ended.
    pub(crate) unsafe fn raw_put(
        &self,
        rank: i32,
        offset: u64,
        src: *const c_void,
        nbytes: usize,
        op: &sys::nixl_op,
        req_p: *mut *mut sys::nixl_req,
    ) -> c_int {
        // SAFETY: of the caller; an open region.
        unsafe { sys::nixl_put_x(rank, self.0.pointer, offset, src, nbytes, op, req_p) }
    }

    /// # Safety
    /// The memory at `dst` is nobody else's until the get has ended.
    pub(crate) unsafe fn raw_get(
        &self,
        rank: i32,
        offset: u64,
        dst: *mut c_void,
        nbytes: usize,
        op: &sys::nixl_op,
        req_p: *mut *mut sys::nixl_req,
    ) -> c_int {
        // SAFETY: of the caller; an open region.
        unsafe { sys::nixl_get_x(rank, self.0.pointer, offset, dst, nbytes, op, req_p) }
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

    /// A pointer to a rank's memory, for loads and stores, or for kernels of a GPU.
    ///
    /// [`Code::Unsupported`]: it cannot be mapped: registered host memory, several pieces, another
    /// host.
    pub fn map(&self, rank: i32) -> Result<Mapping> {
        let mut address = ptr::null_mut();

        // SAFETY: an open region, and a pointer to be written.
        let status = unsafe { sys::nixl_region_map(rank, self.0.pointer, &mut address) };
        check(status, "nixl_region_map")?;
        Ok(Mapping { region: self.clone(), rank, address: address.cast() })
    }

    /// Close it, and wait up to a time for peers' copies that are in flight; `None`: without limit.
    ///
    /// [`Code::InUse`]: there are other handles, of which the last one closes it.
    pub fn close(self, timeout: Option<Duration>) -> Result<(), Failed<Region>> {
        close(self, timeout).map(drop)
    }
}

fn close(region: Region, timeout: Option<Duration>) -> Result<Inner, Failed<Region>> {
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
        Ok(()) => Ok(inner),
        Err(error) => Err(Failed { error, value: Region(Arc::new(inner)) }),
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({} bytes at {:p})", self.0.nbytes, self.0.address)
    }
}

/// A region of memory that the caller has given; it is a [`Region`].
pub struct Registered<B> {
    region: Region,
    _buffer: PhantomData<B>,
}

impl<B: Send + 'static> Registered<B> {
    /// Close it, and get the memory back when no peer uses it any more; see [`Region::close`].
    pub fn close(self, timeout: Option<Duration>) -> Result<B, Failed<Registered<B>>> {
        let mut inner = close(self.region, timeout).map_err(|failed| Failed {
            error: failed.error,
            value: Registered { region: failed.value, _buffer: PhantomData },
        })?;

        match inner.memory.take().map(|memory| memory.downcast::<Held<B>>()) {
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

/// A part of this rank's own memory in a region, of any kind: a source or destination of
/// everything. It is not borrowed, as other ranks change it.
#[derive(Clone, Debug)]
pub struct Slice<T> {
    region: Region,
    range: Range<usize>,
    _item: PhantomData<T>,
}

impl<T: Plain> Slice<T> {
    /// The region that it is a part of.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// How many items it has.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

// SAFETY: the region holds the memory, which nobody borrows.
unsafe impl<T: Plain> Buffer for Slice<T> {
    type Item = T;

    fn pointer(&self) -> *const T {
        self.region.0.address.cast::<T>().wrapping_add(self.range.start)
    }

    fn count(&self) -> usize {
        self.range.len()
    }

    fn part(&self) -> Option<(&Region, u64)> {
        Some((&self.region, (self.range.start * std::mem::size_of::<T>()) as u64))
    }
}

// SAFETY: as above.
unsafe impl<T: Plain> BufferMut for Slice<T> {
    fn pointer_mut(&mut self) -> *mut T {
        self.region.0.address.cast::<T>().wrapping_add(self.range.start)
    }
}

/// A pointer to another rank's memory; made by [`Region::map`], and released when it is dropped.
#[derive(Debug)]
pub struct Mapping {
    region: Region,
    rank: i32,
    address: *mut u8,
}

// SAFETY: an address.
unsafe impl Send for Mapping {}
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The first byte of the rank's memory. Others read and write it, too.
    pub fn as_ptr(&self) -> *mut u8 {
        self.address
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped by the same region.
        unsafe { sys::nixl_region_unmap(self.rank, self.region.pointer(), self.address.cast()) };
    }
}
