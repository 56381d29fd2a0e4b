// SPDX-License-Identifier: Apache-2.0
//! Teams: ordered sets of ranks that run collectives. What these do is in `collective.rs`.
use crate::aio::Completion;
use crate::context::Context;
use crate::error::{check, Code, Error, Failed, Result};
use crate::flight::{Flight, Keep};
use crate::prepared::Prepared;
use crate::queue::Queue;
use crate::request::Request;
use crate::time::{nanoseconds, op_nanoseconds};
use crate::{buffer, Buffer, BufferMut};
use nixlrun_sys as sys;
use std::fmt;
use std::os::raw::c_int;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

struct Inner {
    pointer: *mut sys::nixl_team,
    in_call: Mutex<()>, /* the library takes one collective of a team at a time */
    context: Context,
}

// SAFETY: the library's calls may be made by any thread.
unsafe impl Send for Inner {}
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: its last handle; operations hold it.
        unsafe { sys::nixl_team_free(self.pointer) };
    }
}

/// An ordered set of ranks that runs collectives; made by [`Context::team_world`] and the like.
///
/// All members make the same calls in the same order, and each of them one at a time: while a
/// thread is in a collective, another gets [`Code::InUse`], and the team is as before. A member that
/// dies ends the collectives of the team with [`Code::PeerLost`] on all others, and
/// [`shrink`](Team::shrink) makes a team of the survivors. What fails otherwise breaks the team.
///
/// Collectives that wait have the time of [`with_timeout`](Team::with_timeout), else
/// NIXLRUN_OP_TIMEOUT. Clones are the same team, each with a time of its own.
#[derive(Clone)]
pub struct Team {
    inner: Arc<Inner>,
    timeout_ns: i64,
}

/// What making a team has written.
struct Made(*mut sys::nixl_team);

// SAFETY: a handle of the library.
unsafe impl Send for Made {}

impl Context {
    fn made(&self, status: c_int, pointer: *mut sys::nixl_team, operation: &str) -> Result<Team> {
        check(status, operation)?;
        Ok(Team::of(pointer, self))
    }

    /// The team of all ranks of the job, all of which call it. `None`: wait for them without limit.
    /// After [`Code::Timeout`](crate::Code::Timeout), the next call goes on from there.
    pub fn team_world(&self, timeout: Option<Duration>) -> Result<Team> {
        let mut pointer = ptr::null_mut();
        let op = self.op(op_nanoseconds(timeout));

        // SAFETY: a pointer to be written.
        let status = unsafe { sys::nixl_team_world_x(&op, &mut pointer, ptr::null_mut()) };
        self.made(status, pointer, "nixl_team_world")
    }

    /// The team of the ranks that share this one's memory; all ranks of the job call it.
    pub fn team_node(&self, timeout: Option<Duration>) -> Result<Team> {
        let mut pointer = ptr::null_mut();
        let op = self.op(op_nanoseconds(timeout));

        // SAFETY: as above.
        let status = unsafe { sys::nixl_team_node_x(&op, &mut pointer, ptr::null_mut()) };
        self.made(status, pointer, "nixl_team_node")
    }

    /// The team of these ranks, in this order; they call it, all with the same list.
    pub fn team(&self, ranks: &[i32], timeout: Option<Duration>) -> Result<Team> {
        let mut pointer = ptr::null_mut();
        let op = self.op(op_nanoseconds(timeout));

        // SAFETY: as above, and an array.
        let status = unsafe {
            let none = ptr::null_mut();
            sys::nixl_team_create_x(ranks.as_ptr(), ranks.len(), &op, &mut pointer, none)
        };
        self.made(status, pointer, "nixl_team_create")
    }

    /// A team of processes that came later: ranks that were readmitted, attached processes of other
    /// jobs. All members call it and name all of them, each by its own numbers, in the same order.
    /// A call that fails leaves nothing behind, and can be repeated at once.
    pub fn reform(&self, ranks: &[i32], timeout: Option<Duration>) -> Result<Team> {
        let mut pointer = ptr::null_mut();
        let op = self.op(op_nanoseconds(timeout));

        // SAFETY: a pointer to be written, and an array.
        let status = unsafe {
            let none = ptr::null_mut();
            sys::nixl_team_reform_x(ranks.as_ptr(), ranks.len(), &op, &mut pointer, none)
        };
        self.made(status, pointer, "nixl_team_reform")
    }

    /// The team of the ranks `first`, `first + stride` and so on, `count` of them.
    pub fn team_strided(
        &self,
        first: i32,
        stride: i32,
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<Team> {
        let mut pointer = ptr::null_mut();
        let op = self.op(op_nanoseconds(timeout));

        // SAFETY: as above.
        let status = unsafe {
            sys::nixl_team_strided_x(first, stride, count, &op, &mut pointer, ptr::null_mut())
        };
        self.made(status, pointer, "nixl_team_strided")
    }
}

impl Team {
    fn of(pointer: *mut sys::nixl_team, context: &Context) -> Team {
        let inner =
            Arc::new(Inner { pointer, in_call: Mutex::default(), context: context.clone() });

        Team { inner, timeout_ns: 0 }
    }

    pub(crate) fn pointer(&self) -> *mut sys::nixl_team {
        self.inner.pointer
    }

    /// The same team, whose collectives that wait have this time; `None`: no limit.
    pub fn with_timeout(&self, timeout: Option<Duration>) -> Team {
        Team { inner: self.inner.clone(), timeout_ns: op_nanoseconds(timeout) }
    }

    /// The number of members; 0 in a forked child.
    pub fn size(&self) -> usize {
        self.try_size().unwrap_or(0)
    }

    /// This rank's number in the team; 0 in a forked child.
    pub fn rank(&self) -> usize {
        // SAFETY: a team that is there.
        usize::try_from(unsafe { sys::nixl_team_rank(self.pointer()) }).unwrap_or(0)
    }

    /// The number of members, which the library does not tell a forked child.
    pub(crate) fn try_size(&self) -> Result<usize> {
        // SAFETY: a team that is there.
        let size = unsafe { sys::nixl_team_size(self.pointer()) };

        usize::try_from(size).map_err(|_| Error::last(size))
    }

    /// A member as the library takes it; a number that is none's is refused before it is shortened.
    pub(crate) fn member(&self, operation: &str, member: usize) -> Result<c_int> {
        let size = self.try_size()?;

        if member < size {
            return Ok(raw_member(member));
        }
        let text = format!("member {member} is none of the {size} of the team");
        Err(Error::invalid(operation, text))
    }

    /// The number in another team (`None`: in the job) of a member of this one; `None`: it is not
    /// in it.
    pub fn translate(&self, member: usize, to: Option<&Team>) -> Result<Option<i32>> {
        let to = to.map_or(ptr::null_mut(), Team::pointer);
        let member = self.member("nixl_team_translate", member)?;

        // SAFETY: teams that are there, or the job.
        match unsafe { sys::nixl_team_translate(self.pointer(), member, to) } {
            sys::NIXL_E_NOT_FOUND => Ok(None),
            status if status < 0 => Err(Error::last(status)),
            rank => Ok(Some(rank)),
        }
    }

    /// Divide the team: members of one color, 0 or more, are in one new team, ordered by `key`;
    /// without a color in none.
    pub fn split(
        &self,
        color: Option<i32>,
        key: i32,
        timeout: Option<Duration>,
    ) -> Result<Option<Team>> {
        let mut pointer = ptr::null_mut();
        let color = color.unwrap_or(sys::NIXL_NO_COLOR);

        // SAFETY: a team that is there, and a pointer to be written.
        let status = unsafe {
            let time = nanoseconds(timeout);
            sys::nixl_team_split(self.pointer(), color, key, time, &mut pointer)
        };
        check(status, "nixl_team_split")?;
        Ok((!pointer.is_null()).then(|| Team::of(pointer, &self.inner.context)))
    }

    /// A team of the living members, all of which call it; the team may be broken.
    pub fn shrink(&self, timeout: Option<Duration>) -> Result<Team> {
        let mut pointer = ptr::null_mut();

        // SAFETY: as above.
        let status =
            unsafe { sys::nixl_team_shrink(self.pointer(), nanoseconds(timeout), &mut pointer) };
        self.inner.context.made(status, pointer, "nixl_team_shrink")
    }

    /// Until it is dropped, no other thread is in a collective of the team; never waits for one.
    pub(crate) fn alone(&self, operation: &str) -> Result<MutexGuard<'_, ()>> {
        match self.inner.in_call.try_lock() {
            Ok(alone) => Ok(alone),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                let text =
                    "another collective of the team is being called, by this thread or another one";
                Err(Error::made(Code::InUse, None, operation, text.into()))
            }
        }
    }

    /// A struct nixl_op of a collective that is waited for.
    pub(crate) fn op(&self) -> sys::nixl_op {
        self.inner.context.op(self.timeout_ns)
    }

    /// A struct nixl_op of a collective, and what it keeps.
    pub(crate) fn form(&self) -> (sys::nixl_op, Keep) {
        (self.inner.context.op(0), vec![self.inner.clone()])
    }

    /// Make a collective, and wait for its end.
    pub(crate) fn run(
        &self,
        operation: &str,
        call: impl FnOnce(&sys::nixl_op, *mut *mut sys::nixl_req) -> c_int,
    ) -> Result<()> {
        let _alone = self.alone(operation)?;

        check(call(&self.op(), ptr::null_mut()), operation)
    }

    /// Start a collective on what is given away until its end.
    pub(crate) fn start<T>(
        &self,
        operation: &'static str,
        value: T,
        call: impl FnOnce(*mut T, &sys::nixl_op, *mut *mut sys::nixl_req) -> c_int,
    ) -> Result<Request<T>, Failed<T>> {
        let (op, keep) = self.form();
        let _alone = match self.alone(operation) {
            Ok(alone) => alone,
            Err(error) => return Err(Failed { error, value }),
        };

        Request::start(Flight::new(value, keep), &self.inner.context, operation, |value, req_p| {
            call(value, &op, req_p)
        })
    }

    /// Wait until all members have called it.
    pub fn barrier(&self) -> Result<()> {
        // SAFETY: a team that is there.
        self.run("nixl_barrier", |op, req_p| unsafe {
            sys::nixl_barrier_x(self.pointer(), op, req_p)
        })
    }

    /// As [`barrier`](Team::barrier), started.
    pub fn start_barrier(&self) -> Result<Request<()>> {
        // SAFETY: a team that is there.
        let started = self.start("nixl_barrier", (), |_, op, req_p| unsafe {
            sys::nixl_barrier_x(self.pointer(), op, req_p)
        });
        started.map_err(|failed| failed.error)
    }

    /// Copy the buffer of member `root` to those of all others.
    pub fn broadcast<B: BufferMut + ?Sized>(&self, root: usize, buffer: &mut B) -> Result<()> {
        let root = self.member("nixl_broadcast", root)?;

        // SAFETY: a team that is there; the buffer is borrowed for the call.
        self.run("nixl_broadcast", |op, req_p| unsafe {
            self.raw_broadcast(root, buffer, op, req_p)
        })
    }

    /// As [`broadcast`](Team::broadcast), started.
    pub fn start_broadcast<B>(&self, root: usize, buffer: B) -> Result<Request<B>, Failed<B>>
    where
        B: BufferMut + Send + 'static,
    {
        let root = match self.member("nixl_broadcast", root) {
            Ok(root) => root,
            Err(error) => return Err(Failed { error, value: buffer }),
        };

        self.start("nixl_broadcast", buffer, |buffer, op, req_p| {
            // SAFETY: a team that is there; the flight holds the buffer until the end.
            unsafe { self.raw_broadcast(root, &mut *buffer, op, req_p) }
        })
    }

    /// As [`broadcast`](Team::broadcast), prepared: it has no source, but a destination.
    pub fn prepare_broadcast<B>(&self, root: usize, buffer: B) -> Result<Prepared<[B::Item; 0], B>>
    where
        B: BufferMut + Send + 'static,
    {
        let root = self.member("nixl_broadcast", root)?;

        Prepared::new(self, "nixl_broadcast", Box::new(([], buffer)), |both, op| {
            // SAFETY: a team that is there; the box holds the buffer until the collective is freed.
            unsafe { self.raw_broadcast(root, &mut both.1, op, ptr::null_mut()) }
        })
    }

    /// # Safety
    /// The buffer stays until the end.
    unsafe fn raw_broadcast<B: BufferMut + ?Sized>(
        &self,
        root: c_int,
        buffer: &mut B,
        op: &sys::nixl_op,
        req_p: *mut *mut sys::nixl_req,
    ) -> c_int {
        let nbytes = buffer.nbytes();
        let bytes = buffer::target(buffer);

        // SAFETY: of the caller.
        unsafe { sys::nixl_broadcast_x(self.pointer(), root, bytes, nbytes, op, req_p) }
    }

    /// Exchange blocks with strides among all members: block k that member i has for member j goes
    /// to block k of member i there. Bytes between the blocks are not touched.
    pub fn alltoall_strided<S, D>(&self, src: &S, dst: &mut D, shape: &Strided) -> Result<()>
    where
        S: Buffer + ?Sized,
        D: BufferMut + ?Sized,
    {
        let size = self.try_size()?;

        shape.check(size, src.nbytes(), shape.src_stride, "src")?;
        shape.check(size, dst.nbytes(), shape.dst_stride, "dst")?;
        let args = sys::nixl_strided_args {
            src: buffer::source(src),
            dst: buffer::target(dst),
            block_nbytes: shape.block_nbytes,
            nblocks: shape.nblocks,
            src_stride: shape.src_stride,
            dst_stride: shape.dst_stride,
            ..sys::zeroed()
        };

        // SAFETY: a team that is there; the buffers are borrowed for the call, and large enough.
        self.run("nixl_alltoall_strided", |op, req_p| unsafe {
            sys::nixl_alltoall_strided_x(self.pointer(), &args, op, req_p)
        })
    }
}

/// A number of a member as the library takes it; one that does not fit is nobody's.
pub(crate) fn raw_member(member: usize) -> c_int {
    c_int::try_from(member).unwrap_or(-1)
}

/// The blocks of [`Team::alltoall_strided`]; sizes and strides in bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Strided {
    /// Of a block, the same on all members.
    pub block_nbytes: usize,
    /// Blocks for each member, the same on all.
    pub nblocks: usize,
    /// From one block to the next in the source.
    pub src_stride: usize,
    /// The same in the destination; at least the size of a block.
    pub dst_stride: usize,
}

impl Strided {
    fn check(&self, size: usize, nbytes: usize, stride: usize, name: &str) -> Result<()> {
        let nblocks = self.nblocks.checked_mul(size);
        let end = match nblocks {
            Some(0) => Some(0),
            Some(nblocks) => (nblocks - 1)
                .checked_mul(stride)
                .and_then(|last| last.checked_add(self.block_nbytes)),
            None => None,
        };

        match end {
            Some(end) if end <= nbytes => Ok(()),
            _ => Err(Error::invalid(
                "nixl_alltoall_strided",
                format!("{name} has {nbytes} bytes, too few for {self:?} and {size} members"),
            )),
        }
    }
}

impl Queue {
    /// Start a collective whose arguments were checked.
    pub(crate) fn collective<T: Send + 'static>(
        &self,
        team: &Team,
        operation: &str,
        value: T,
        checked: Result<()>,
        call: impl FnOnce(*mut T, &sys::nixl_op) -> c_int,
    ) -> Completion<T> {
        let (_alone, form) = match checked.and_then(|()| team.alone(operation)) {
            Ok(alone) => (Some(alone), Ok(team.form())),
            Err(error) => (None, Err(error)),
        };

        Completion::start(self, value, form, call)
    }

    /// Await until all members have called it.
    pub fn barrier(&self, team: &Team) -> Completion<()> {
        // SAFETY: a team that is there.
        self.collective(team, "nixl_barrier", (), Ok(()), |_, op| unsafe {
            sys::nixl_barrier_x(team.pointer(), op, ptr::null_mut())
        })
    }

    /// Copy the buffer of member `root` to those of all others.
    pub fn broadcast<B>(&self, team: &Team, root: usize, buffer: B) -> Completion<B>
    where
        B: BufferMut + Send + 'static,
    {
        let checked = team.member("nixl_broadcast", root).map(drop);
        let root = raw_member(root);

        self.collective(team, "nixl_broadcast", buffer, checked, |buffer, op| {
            // SAFETY: a team that is there; the flight holds the buffer until the end.
            unsafe { team.raw_broadcast(root, &mut *buffer, op, ptr::null_mut()) }
        })
    }

    /// Make the team of all ranks of the job; they all do.
    pub async fn team_world(&self) -> Result<Team> {
        // SAFETY: the flight holds the pointer to be written.
        self.team_of(|made, op| unsafe { sys::nixl_team_world_x(op, made, ptr::null_mut()) }).await
    }

    /// Make the team of these ranks, in this order; they all do.
    pub async fn team(&self, ranks: &[i32]) -> Result<Team> {
        // SAFETY: the flight holds the pointer to be written; the ranks are read within the call.
        self.team_of(|made, op| unsafe {
            let none = ptr::null_mut();
            sys::nixl_team_create_x(ranks.as_ptr(), ranks.len(), op, made, none)
        })
        .await
    }

    /// Make a team of processes that came later; see [`Context::reform`].
    pub async fn reform(&self, ranks: &[i32]) -> Result<Team> {
        // SAFETY: the flight holds the pointer to be written; the ranks are read within the call.
        self.team_of(|made, op| unsafe {
            let none = ptr::null_mut();
            sys::nixl_team_reform_x(ranks.as_ptr(), ranks.len(), op, made, none)
        })
        .await
    }

    /// Divide a team; see [`Team::split`].
    pub async fn split(&self, team: &Team, color: Option<i32>, key: i32) -> Result<Option<Team>> {
        let color = color.unwrap_or(sys::NIXL_NO_COLOR);
        let made = self.start_team(team.form(), |made, op| {
            let none = ptr::null_mut();
            // SAFETY: a team that is there; the flight holds the pointer to be written.
            unsafe { sys::nixl_team_split_x(team.pointer(), color, key, op, made, none) }
        });
        let pointer = made.await?.0;

        Ok((!pointer.is_null()).then(|| Team::of(pointer, &team.inner.context)))
    }

    async fn team_of(
        &self,
        call: impl FnOnce(*mut *mut sys::nixl_team, &sys::nixl_op) -> c_int,
    ) -> Result<Team> {
        let made = self.start_team((self.context().op(0), Keep::new()), call);

        Ok(Team::of(made.await?.0, self.context()))
    }

    fn start_team(
        &self,
        form: (sys::nixl_op, Keep),
        call: impl FnOnce(*mut *mut sys::nixl_team, &sys::nixl_op) -> c_int,
    ) -> Completion<Made> {
        Completion::start(self, Made(ptr::null_mut()), Ok(form), |made, op| {
            // SAFETY: a flight that is being started.
            call(unsafe { ptr::addr_of_mut!((*made).0) }, op)
        })
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Team({} of {})", self.rank(), self.size())
    }
}
