// SPDX-License-Identifier: Apache-2.0
//! Prepared collectives: one call with its buffers, started any number of times.
//!
//! Invariant. The buffers lie in a box, so that they stay where they are when the handle moves, and
//! are not given out by reference: a caller who replaced a `Vec` would leave the library the memory
//! of the old one.
use crate::aio::Completion;
use crate::error::{check, Error, Failed, Result};
use crate::queue::Queue;
use crate::request::Request;
use crate::team::Team;
use crate::{Buffer, BufferMut};
use nixlrun_sys as sys;
use std::os::raw::c_int;
use std::ptr;

/// A collective whose checks and mappings are made once; made by
/// [`Team::prepare_allreduce`] and its kin, which all members call in the same order.
///
/// It owns its buffers, which [`write_src`](Prepared::write_src) and
/// [`read_dst`](Prepared::read_dst) write and read; parts of regions ([`Slice`](crate::Slice)) are
/// also written and read through the region.
///
/// ```no_run
/// # fn f(team: &nixlrun::Team) -> nixlrun::Result<()> {
/// use nixlrun::ReduceOp;
///
/// let mut sum = team.prepare_allreduce(ReduceOp::Sum, vec![0.0; 8], vec![0.0; 8])?;
/// let mut total = [0.0; 8];
/// for step in 0..100 {
///     sum.write_src(&[step as f64; 8])?;
///     sum.run()?;
///     sum.read_dst(&mut total)?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct Prepared<S, D> {
    pointer: *mut sys::nixl_coll,
    buffers: Option<Box<(S, D)>>,
    team: Team,
}

// SAFETY: the library's calls may be made by any thread, and starts need the handle alone.
unsafe impl<S: Send, D: Send> Send for Prepared<S, D> {}

impl<S, D> Drop for Prepared<S, D> {
    fn drop(&mut self) {
        // SAFETY: its only handle, before its team's.
        if unsafe { sys::nixl_coll_free(self.pointer) } == sys::NIXL_E_IN_USE {
            std::mem::forget(self.buffers.take()); // a canceled start may still use them
        }
    }
}

impl<S: Buffer, D: BufferMut> Prepared<S, D> {
    /// `call` prepares the collective, of the buffers where they then are.
    pub(crate) fn new(
        team: &Team,
        operation: &str,
        mut buffers: Box<(S, D)>,
        call: impl FnOnce(&mut (S, D), &sys::nixl_op) -> c_int,
    ) -> Result<Prepared<S, D>> {
        let mut pointer = ptr::null_mut();
        let mut op = team.op();
        let _alone = team.alone(operation)?;

        op.flags |= sys::NIXL_OP_PREPARE;
        op.coll_p = &mut pointer;
        check(call(&mut buffers, &op), operation)?;
        Ok(Prepared { pointer, buffers: Some(buffers), team: team.clone() })
    }

    fn both(&self) -> &(S, D) {
        self.buffers.as_deref().expect("they stay until the drop")
    }

    fn both_mut(&mut self) -> &mut (S, D) {
        self.buffers.as_deref_mut().expect("they stay until the drop")
    }

    /// Start it, and wait for its end, as the call with which it was prepared.
    pub fn run(&mut self) -> Result<()> {
        let op = self.team.op();
        let _alone = self.team.alone("nixl_coll_start_x")?;

        // SAFETY: a collective that is there, whose buffers are its own.
        check(
            unsafe { sys::nixl_coll_start_x(self.pointer, &op, ptr::null_mut()) },
            "nixl_coll_start",
        )
    }

    /// Copy these items to the source.
    pub fn write_src(&mut self, items: &[S::Item]) -> Result<()>
    where
        S: BufferMut,
    {
        let src = &mut self.both_mut().0;

        same_count("the source", src.count(), items.len())?;
        if let Some((region, offset)) = src.part() {
            return region.write(offset, items);
        }
        // SAFETY: as many items; no start is in flight, which would have the handle.
        unsafe { ptr::copy(items.as_ptr(), src.pointer_mut(), items.len()) };
        Ok(())
    }

    /// Copy the items of the destination.
    pub fn read_dst(&self, items: &mut [D::Item]) -> Result<()> {
        let dst = &self.both().1;

        same_count("the destination", dst.count(), items.len())?;
        if let Some((region, offset)) = dst.part() {
            return region.read(offset, items);
        }
        // SAFETY: as above.
        unsafe { ptr::copy(dst.pointer(), items.as_mut_ptr(), items.len()) };
        Ok(())
    }

    /// Free it, and give the buffers back.
    pub fn into_buffers(mut self) -> (S, D) {
        *self.buffers.take().expect("they stay until the drop")
    }
}

impl<S: Buffer + Send + 'static, D: BufferMut + Send + 'static> Prepared<S, D> {
    /// Start it; the request gives it back.
    pub fn start(self) -> Result<Request<Self>, Failed<Self>> {
        let (team, pointer) = (self.team.clone(), self.pointer);

        // SAFETY: a collective that is there; the flight holds it until the end.
        team.start("nixl_coll_start", self, |_, op, req_p| unsafe {
            sys::nixl_coll_start_x(pointer, op, req_p)
        })
    }
}

fn same_count(name: &str, has: usize, given: usize) -> Result<()> {
    if has == given {
        return Ok(());
    }
    let text = format!("{name} has {has} items; {given} were given");
    Err(Error::invalid("prepared collective", text))
}

impl Queue {
    /// Start a prepared collective, and await its end, which gives it back.
    pub fn prepared<S, D>(&self, prepared: Prepared<S, D>) -> Completion<Prepared<S, D>>
    where
        S: Buffer + Send + 'static,
        D: BufferMut + Send + 'static,
    {
        let (team, pointer) = (prepared.team.clone(), prepared.pointer);

        // SAFETY: as above.
        self.collective(&team, "nixl_coll_start_x", prepared, Ok(()), |_, op| unsafe {
            sys::nixl_coll_start_x(pointer, op, ptr::null_mut())
        })
    }
}
