// SPDX-License-Identifier: Apache-2.0
//! Put and get, and copies of this rank's own memory.
use crate::buffer::{source, target};
use crate::error::{check, Failed, Result};
use crate::flight::{Flight, Keep};
use crate::op::Side;
use crate::region::{rank, Region};
use crate::request::Request;
use crate::{Buffer, BufferMut, Op};
use nixlrun_sys as sys;
use std::os::raw::{c_int, c_void};
use std::ptr;

impl Region {
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
        let mut bytes = vec![0; self.nbytes() as usize];

        self.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Copy to a rank's memory, at `offset` bytes from its start. The rank makes no call. Returns
    /// when `src` may be reused; a notification, a signal or a flush makes the data visible there.
    pub fn put<B: Buffer + ?Sized>(&self, rank: i32, offset: u64, src: &B) -> Result<()> {
        // SAFETY: the memory is borrowed for the call, which has ended with it when it returns.
        let status =
            unsafe { sys::nixl_put(rank, self.pointer(), offset, source(src), src.nbytes()) };
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
        let status = unsafe { sys::nixl_get(rank, self.pointer(), offset, target(dst), nbytes) };
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

        Request::start(Flight::new(src, keep), self.context(), "nixl_put", |src, req_p| {
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

        Request::start(Flight::new(dst, keep), self.context(), "nixl_get", |dst, req_p| {
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
        let (op, mut keep) = op.read(self.context(), side)?;

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
        unsafe { sys::nixl_put_x(rank, self.pointer(), offset, src, nbytes, op, req_p) }
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
        unsafe { sys::nixl_get_x(rank, self.pointer(), offset, dst, nbytes, op, req_p) }
    }
}
