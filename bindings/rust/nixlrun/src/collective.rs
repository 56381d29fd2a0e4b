// SPDX-License-Identifier: Apache-2.0
//! Collectives with a source and a destination, in four forms: a call that waits, one that is
//! started, one that is prepared, and a future. A [`Plan`] checks the sizes and makes the call for all of them.
use crate::aio::Completion;
use crate::buffer::{source, target};
use crate::error::{Error, Failed, Result};
use crate::prepared::Prepared;
use crate::queue::Queue;
use crate::request::Request;
use crate::team::{raw_member, Team};
use crate::{Buffer, BufferMut, Element, Plain};
use nixlrun_sys as sys;
use std::mem::size_of;
use std::os::raw::{c_int, c_void};
use std::ptr;

/// How a reduction combines two values.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// Bitwise and; integers only.
    And,
    /// Bitwise or; integers only.
    Or,
    /// Bitwise exclusive or; integers only.
    Xor,
}

impl ReduceOp {
    fn raw(self) -> i32 {
        let op = match self {
            ReduceOp::Sum => sys::NIXL_REDUCE_SUM,
            ReduceOp::Prod => sys::NIXL_REDUCE_PROD,
            ReduceOp::Min => sys::NIXL_REDUCE_MIN,
            ReduceOp::Max => sys::NIXL_REDUCE_MAX,
            ReduceOp::And => sys::NIXL_REDUCE_AND,
            ReduceOp::Or => sys::NIXL_REDUCE_OR,
            ReduceOp::Xor => sys::NIXL_REDUCE_XOR,
        };

        op as i32
    }
}

/// Which collective. Counts are items of each member's part.
enum Kind<'a> {
    Gather(usize),
    Scatter(usize),
    Allgather,
    Alltoall,
    Gatherv(usize, &'a [usize]),
    Scatterv(usize, &'a [usize]),
    Allgatherv(&'a [usize]),
    Alltoallv(&'a [usize], &'a [usize]),
    Reduce(usize),
    Allreduce,
    ReduceScatter,
    Scan { is_exclusive: bool },
}

/// How values are combined, of a reduction.
#[derive(Copy, Clone)]
struct Combine {
    kind: sys::nixl_type,
    op: i32,
    function: sys::nixl_combine_fn,
    argument: *mut c_void,
    element_nbytes: usize,
}

impl Combine {
    fn none() -> Combine {
        Combine { kind: 0, op: 0, function: None, argument: ptr::null_mut(), element_nbytes: 0 }
    }

    fn of<T: Element>(op: ReduceOp) -> Combine {
        Combine { kind: T::TYPE, op: op.raw(), ..Combine::none() }
    }
}

type Started<S, D> = Result<Request<(S, D)>, Failed<(S, D)>>;

struct Plan<'a> {
    kind: Kind<'a>,
    combine: Combine,
    item: usize,
}

/// Parts of different sizes, one behind the other, in bytes.
struct Parts {
    nbytes: Vec<usize>,
    offsets: Vec<usize>,
    total: usize,
}

impl Parts {
    fn of(counts: &[usize], item: usize, size: usize, name: &str) -> Result<Parts> {
        if counts.len() != size {
            let text = format!("{name} has {} counts; the team has {size} members", counts.len());
            return Err(Error::invalid("collective", text));
        }
        let mut parts = Parts { nbytes: Vec::new(), offsets: Vec::new(), total: 0 };

        for count in counts {
            let nbytes = count.saturating_mul(item);

            parts.nbytes.push(nbytes);
            parts.offsets.push(parts.total);
            parts.total = parts.total.saturating_add(nbytes);
        }
        Ok(parts)
    }
}

fn must_have(name: &str, nbytes: usize, wanted: usize) -> Result<()> {
    if nbytes == wanted {
        return Ok(());
    }
    let text = format!("{name} has {nbytes} bytes; this call needs {wanted}");
    Err(Error::invalid("collective", text))
}

impl Plan<'_> {
    fn operation(&self) -> &'static str {
        match self.kind {
            Kind::Gather(_) => "nixl_gather",
            Kind::Scatter(_) => "nixl_scatter",
            Kind::Allgather => "nixl_allgather",
            Kind::Alltoall => "nixl_alltoall",
            Kind::Gatherv(..) => "nixl_gatherv",
            Kind::Scatterv(..) => "nixl_scatterv",
            Kind::Allgatherv(_) => "nixl_allgatherv",
            Kind::Alltoallv(..) => "nixl_alltoallv",
            Kind::Reduce(_) => "nixl_reduce",
            Kind::Allreduce => "nixl_allreduce",
            Kind::ReduceScatter => "nixl_reduce_scatter",
            Kind::Scan { .. } => "nixl_scan",
        }
    }

    /// The member that has the whole, of those collectives that have one.
    fn root(&self) -> Option<usize> {
        match self.kind {
            Kind::Gather(root)
            | Kind::Scatter(root)
            | Kind::Gatherv(root, _)
            | Kind::Scatterv(root, _)
            | Kind::Reduce(root) => Some(root),
            _ => None,
        }
    }

    /// Whether the root is a member and the sizes fit; what they are on the other members is not
    /// known here.
    fn check(&self, team: &Team, src: usize, dst: usize) -> Result<()> {
        let (rank, size) = (team.rank(), team.try_size()?);
        let parts = |counts, name| Parts::of(counts, self.item, size, name);

        if let Some(root) = self.root() {
            team.member(self.operation(), root)?;
        }

        match self.kind {
            Kind::Gather(root) if rank != root => Ok(()),
            Kind::Gather(_) | Kind::Allgather => must_have("dst", dst, src.saturating_mul(size)),
            Kind::Scatter(root) if rank != root => Ok(()),
            Kind::Scatter(_) | Kind::ReduceScatter => {
                must_have("src", src, dst.saturating_mul(size))
            }
            Kind::Alltoall if src % size != 0 => {
                let text = format!("src has {src} bytes, no multiple of the {size} members");
                Err(Error::invalid("nixl_alltoall", text))
            }
            Kind::Reduce(root) if rank != root => Ok(()),
            Kind::Alltoall | Kind::Reduce(_) | Kind::Allreduce | Kind::Scan { .. } => {
                must_have("dst", dst, src)
            }
            Kind::Gatherv(root, counts) if rank == root => {
                must_have("dst", dst, parts(counts, "counts")?.total)
            }
            Kind::Scatterv(root, counts) if rank == root => {
                must_have("src", src, parts(counts, "counts")?.total)
            }
            Kind::Gatherv(..) | Kind::Scatterv(..) => Ok(()),
            Kind::Allgatherv(counts) => {
                let parts = parts(counts, "counts")?;
                must_have("src", src, parts.nbytes[rank])?;
                must_have("dst", dst, parts.total)
            }
            Kind::Alltoallv(sent, received) => {
                must_have("src", src, parts(sent, "src_counts")?.total)?;
                must_have("dst", dst, parts(received, "dst_counts")?.total)
            }
        }
    }

    /// # Safety
    /// The sizes were checked, and the memory stays until the end.
    unsafe fn call(
        &self,
        team: &Team,
        src: (*const c_void, usize),
        dst: (*mut c_void, usize),
        op: &sys::nixl_op,
        req_p: *mut *mut sys::nixl_req,
    ) -> c_int {
        let handle = team.pointer();

        // SAFETY: of the caller; a team that is there.
        unsafe {
            match self.kind {
                Kind::Gather(root) => {
                    sys::nixl_gather_x(handle, raw_member(root), src.0, dst.0, src.1, op, req_p)
                }
                Kind::Scatter(root) => {
                    sys::nixl_scatter_x(handle, raw_member(root), src.0, dst.0, dst.1, op, req_p)
                }
                Kind::Allgather => sys::nixl_allgather_x(handle, src.0, dst.0, src.1, op, req_p),
                Kind::Alltoall => {
                    let nbytes = src.1 / team.size().max(1);
                    sys::nixl_alltoall_x(handle, src.0, dst.0, nbytes, op, req_p)
                }
                Kind::Gatherv(..)
                | Kind::Scatterv(..)
                | Kind::Allgatherv(_)
                | Kind::Alltoallv(..) => self.call_vector(team, src, dst, op, req_p),
                _ => self.call_reduce(team, src, dst, op, req_p),
            }
        }
    }

    /// # Safety
    /// As `call`.
    unsafe fn call_vector(
        &self,
        team: &Team,
        src: (*const c_void, usize),
        dst: (*mut c_void, usize),
        op: &sys::nixl_op,
        req_p: *mut *mut sys::nixl_req,
    ) -> c_int {
        let (handle, size) = (team.pointer(), team.size());
        let none = Parts { nbytes: Vec::new(), offsets: Vec::new(), total: 0 };
        let parts = |counts| Parts::of(counts, self.item, size, "");
        let (sent, received) = match self.kind {
            Kind::Gatherv(root, counts) if team.rank() == root => (Ok(none), parts(counts)),
            Kind::Scatterv(root, counts) if team.rank() == root => (parts(counts), Ok(none)),
            Kind::Allgatherv(counts) => (Ok(none), parts(counts)),
            Kind::Alltoallv(sent, received) => (parts(sent), parts(received)),
            _ => (Ok(none), parts(&[])),
        };
        let empty = || Parts { nbytes: Vec::new(), offsets: Vec::new(), total: 0 };
        let (sent, received) =
            (sent.unwrap_or_else(|_| empty()), received.unwrap_or_else(|_| empty()));
        let of = |sizes: &Vec<usize>| if sizes.is_empty() { ptr::null() } else { sizes.as_ptr() };
        let args = sys::nixl_vector_args {
            src: src.0,
            dst: dst.0,
            nbytes: if matches!(self.kind, Kind::Scatterv(..)) { dst.1 } else { src.1 },
            src_nbytes: of(&sent.nbytes),
            src_offsets: of(&sent.offsets),
            dst_nbytes: of(&received.nbytes),
            dst_offsets: of(&received.offsets),
            ..sys::zeroed()
        };

        // SAFETY: of the caller; the arrays are read within the call.
        unsafe {
            match self.kind {
                Kind::Gatherv(root, _) => {
                    sys::nixl_gatherv_x(handle, raw_member(root), &args, op, req_p)
                }
                Kind::Scatterv(root, _) => {
                    sys::nixl_scatterv_x(handle, raw_member(root), &args, op, req_p)
                }
                Kind::Allgatherv(_) => sys::nixl_allgatherv_x(handle, &args, op, req_p),
                _ => sys::nixl_alltoallv_x(handle, &args, op, req_p),
            }
        }
    }

    /// # Safety
    /// As `call`.
    unsafe fn call_reduce(
        &self,
        team: &Team,
        src: (*const c_void, usize),
        dst: (*mut c_void, usize),
        op: &sys::nixl_op,
        req_p: *mut *mut sys::nixl_req,
    ) -> c_int {
        let handle = team.pointer();
        let nbytes = if matches!(self.kind, Kind::ReduceScatter) { dst.1 } else { src.1 };
        let args = sys::nixl_reduce_args {
            src: src.0,
            dst: dst.0,
            count: nbytes / self.item.max(1),
            type_: self.combine.kind as i32,
            op: self.combine.op,
            combine: self.combine.function,
            combine_arg: self.combine.argument,
            element_nbytes: self.combine.element_nbytes,
            is_exclusive: matches!(self.kind, Kind::Scan { is_exclusive: true }).into(),
            ..sys::zeroed()
        };

        // SAFETY: of the caller; the args are read within the call.
        unsafe {
            match self.kind {
                Kind::Reduce(root) => {
                    sys::nixl_reduce_x(handle, raw_member(root), &args, op, req_p)
                }
                Kind::Allreduce => sys::nixl_allreduce_x(handle, &args, op, req_p),
                Kind::ReduceScatter => sys::nixl_reduce_scatter_x(handle, &args, op, req_p),
                _ => sys::nixl_scan_x(handle, &args, op, req_p),
            }
        }
    }

    fn run<S, D>(&self, team: &Team, src: &S, dst: &mut D) -> Result<()>
    where
        S: Buffer + ?Sized,
        D: BufferMut + ?Sized,
    {
        let (from, to) = ((source(src), src.nbytes()), (target(dst), dst.nbytes()));

        self.check(team, from.1, to.1)?;
        // SAFETY: the sizes were checked, and the memory is borrowed for the call.
        team.run(self.operation(), |op, req_p| unsafe { self.call(team, from, to, op, req_p) })
    }

    fn start<S, D>(&self, team: &Team, src: S, dst: D) -> Started<S, D>
    where
        S: Buffer + Send + 'static,
        D: BufferMut + Send + 'static,
    {
        if let Err(error) = self.check(team, src.nbytes(), dst.nbytes()) {
            return Err(Failed { error, value: (src, dst) });
        }
        team.start(self.operation(), (src, dst), |both, op, req_p| {
            // SAFETY: the sizes were checked, and the flight holds both until the end.
            unsafe {
                let (src, dst) = &mut *both;
                let (from, to) = ((source(src), src.nbytes()), (target(dst), dst.nbytes()));
                self.call(team, from, to, op, req_p)
            }
        })
    }

    fn prepare<S, D>(&self, team: &Team, src: S, dst: D) -> Result<Prepared<S, D>>
    where
        S: Buffer + Send + 'static,
        D: BufferMut + Send + 'static,
    {
        self.check(team, src.nbytes(), dst.nbytes())?;
        Prepared::new(team, self.operation(), Box::new((src, dst)), |both, op| {
            let (from, to) = ((source(&both.0), both.0.nbytes()), both.1.nbytes());
            let to = (target(&mut both.1), to);

            // SAFETY: the sizes were checked, and the box holds both until it is freed.
            unsafe { self.call(team, from, to, op, ptr::null_mut()) }
        })
    }

    fn queue<S, D>(&self, queue: &Queue, team: &Team, src: S, dst: D) -> Completion<(S, D)>
    where
        S: Buffer + Send + 'static,
        D: BufferMut + Send + 'static,
    {
        let checked = self.check(team, src.nbytes(), dst.nbytes());

        queue.collective(team, self.operation(), (src, dst), checked, |both, op| {
            // SAFETY: as above.
            unsafe {
                let (src, dst) = &mut *both;
                let (from, to) = ((source(src), src.nbytes()), (target(dst), dst.nbytes()));
                self.call(team, from, to, op, ptr::null_mut())
            }
        })
    }
}

macro_rules! collectives {
    ($(
        $(#[$text:meta])*
        $name:ident $start:ident $prepare:ident ($($arg:ident: $type:ty),*) $bound:ident $kind:expr, $combine:expr;
    )*) => {
        impl Team {
            $(
                $(#[$text])*
                pub fn $name<S, D>(&self, $($arg: $type,)* src: &S, dst: &mut D) -> Result<()>
                where
                    S: Buffer + ?Sized,
                    S::Item: $bound,
                    D: BufferMut<Item = S::Item> + ?Sized,
                {
                    plan::<S::Item>($kind, $combine(&[] as &[S::Item; 0])).run(self, src, dst)
                }

                #[doc = concat!("As [`", stringify!($name), "`](Team::", stringify!($name),
                    "), started.")]
                pub fn $start<S, D>(
                    &self,
                    $($arg: $type,)*
                    src: S,
                    dst: D,
                ) -> Result<Request<(S, D)>, Failed<(S, D)>>
                where
                    S: Buffer + Send + 'static,
                    S::Item: $bound,
                    D: BufferMut<Item = S::Item> + Send + 'static,
                {
                    plan::<S::Item>($kind, $combine(&[] as &[S::Item; 0])).start(self, src, dst)
                }

                #[doc = concat!("As [`", stringify!($name), "`](Team::", stringify!($name),
                    "), prepared.")]
                pub fn $prepare<S, D>(
                    &self,
                    $($arg: $type,)*
                    src: S,
                    dst: D,
                ) -> Result<Prepared<S, D>>
                where
                    S: Buffer + Send + 'static,
                    S::Item: $bound,
                    D: BufferMut<Item = S::Item> + Send + 'static,
                {
                    plan::<S::Item>($kind, $combine(&[] as &[S::Item; 0])).prepare(self, src, dst)
                }
            )*
        }

        impl Queue {
            $(
                #[doc = concat!("As [`Team::", stringify!($name), "`], to be awaited.")]
                pub fn $name<S, D>(
                    &self,
                    team: &Team,
                    $($arg: $type,)*
                    src: S,
                    dst: D,
                ) -> Completion<(S, D)>
                where
                    S: Buffer + Send + 'static,
                    S::Item: $bound,
                    D: BufferMut<Item = S::Item> + Send + 'static,
                {
                    plan::<S::Item>($kind, $combine(&[] as &[S::Item; 0]))
                        .queue(self, team, src, dst)
                }
            )*
        }
    };
}

fn plan<T: Plain>(kind: Kind<'_>, combine: Combine) -> Plan<'_> {
    Plan { kind, combine, item: size_of::<T>() }
}

fn moves<T>(_: &[T; 0]) -> Combine {
    Combine::none()
}

/// By an operation, for the type of the items.
fn by<T: Element>(op: ReduceOp) -> impl FnOnce(&[T; 0]) -> Combine {
    move |_| Combine::of::<T>(op)
}

collectives! {
    /// Copy `src` of member i to the i-th part of `dst` of member `root`; `dst` of others is not
    /// used.
    gather start_gather prepare_gather(root: usize) Plain Kind::Gather(root), moves;
    /// Copy the i-th part of `src` of member `root` to `dst` of member i; `src` of others is not
    /// used.
    scatter start_scatter prepare_scatter(root: usize) Plain Kind::Scatter(root), moves;
    /// Copy `src` of member i to the i-th part of `dst` of all.
    allgather start_allgather prepare_allgather() Plain Kind::Allgather, moves;
    /// Copy the j-th part of `src` of member i to the i-th part of `dst` of member j.
    alltoall start_alltoall prepare_alltoall() Plain Kind::Alltoall, moves;
    /// As [`gather`](Team::gather), with parts of different sizes: `counts` has the items of each,
    /// at the root; others give an empty slice.
    gatherv start_gatherv prepare_gatherv(root: usize, counts: &[usize]) Plain Kind::Gatherv(root, counts), moves;
    /// As [`scatter`](Team::scatter), with parts of different sizes.
    scatterv start_scatterv prepare_scatterv(root: usize, counts: &[usize]) Plain Kind::Scatterv(root, counts),
        moves;
    /// As [`allgather`](Team::allgather), with parts of different sizes: `counts` has the items of
    /// each.
    allgatherv start_allgatherv prepare_allgatherv(counts: &[usize]) Plain Kind::Allgatherv(counts), moves;
    /// As [`alltoall`](Team::alltoall), with parts of different sizes: items to and from each.
    alltoallv start_alltoallv prepare_alltoallv(src_counts: &[usize], dst_counts: &[usize]) Plain
        Kind::Alltoallv(src_counts, dst_counts), moves;
    /// Combine `src` of all members into `dst` of member `root`; `dst` of others is not used.
    reduce start_reduce prepare_reduce(root: usize, op: ReduceOp) Element Kind::Reduce(root), by(op);
    /// Combine `src` of all members into `dst` of each.
    allreduce start_allreduce prepare_allreduce(op: ReduceOp) Element Kind::Allreduce, by(op);
    /// Combine `src` of all members, and give its i-th part to member i.
    reduce_scatter start_reduce_scatter prepare_reduce_scatter(op: ReduceOp) Element Kind::ReduceScatter, by(op);
    /// Combine `src` of members 0 to i into `dst` of member i.
    scan start_scan prepare_scan(op: ReduceOp) Element Kind::Scan { is_exclusive: false }, by(op);
    /// Combine `src` of members 0 to i - 1 into `dst` of member i; that of member 0 is unchanged.
    exclusive_scan start_exclusive_scan prepare_exclusive_scan(op: ReduceOp) Element Kind::Scan { is_exclusive: true },
        by(op);
}

impl Team {
    /// As [`allreduce`](Team::allreduce), in place.
    pub fn allreduce_in_place<B>(&self, op: ReduceOp, buffer: &mut B) -> Result<()>
    where
        B: BufferMut + ?Sized,
        B::Item: Element,
    {
        let plan = plan::<B::Item>(Kind::Allreduce, Combine::of::<B::Item>(op));
        let (bytes, nbytes) = (target(buffer), buffer.nbytes());

        // SAFETY: both are the same memory, which is borrowed for the call.
        self.run("nixl_allreduce", |op, req_p| unsafe {
            plan.call(self, (bytes, nbytes), (bytes, nbytes), op, req_p)
        })
    }

    /// As [`allreduce`](Team::allreduce), by an operation of the caller's, which is associative and
    /// commutative, and does not use this crate. Threads of the library call it; a panic aborts.
    pub fn allreduce_by<S, D, F>(&self, combine: F, src: &S, dst: &mut D) -> Result<()>
    where
        S: Buffer + ?Sized,
        D: BufferMut<Item = S::Item> + ?Sized,
        F: Fn(S::Item, S::Item) -> S::Item + Sync,
    {
        plan::<S::Item>(Kind::Allreduce, by_function(&combine)).run(self, src, dst)
    }

    /// As [`reduce`](Team::reduce), by an operation of the caller's.
    pub fn reduce_by<S, D, F>(&self, root: usize, combine: F, src: &S, dst: &mut D) -> Result<()>
    where
        S: Buffer + ?Sized,
        D: BufferMut<Item = S::Item> + ?Sized,
        F: Fn(S::Item, S::Item) -> S::Item + Sync,
    {
        plan::<S::Item>(Kind::Reduce(root), by_function(&combine)).run(self, src, dst)
    }
}

fn by_function<T: Plain, F: Fn(T, T) -> T + Sync>(combine: &F) -> Combine {
    Combine {
        op: sys::NIXL_REDUCE_USER as i32,
        function: Some(call_function::<T, F>),
        argument: (combine as *const F as *mut F).cast(),
        element_nbytes: size_of::<T>(),
        ..Combine::none()
    }
}

unsafe extern "C" fn call_function<T: Plain, F: Fn(T, T) -> T + Sync>(
    left: *mut c_void,
    right: *const c_void,
    count: usize,
    combine: *mut c_void,
) {
    let (left, right) = (left.cast::<T>(), right.cast::<T>());
    // SAFETY: the function lives until the collective has ended.
    let combine = unsafe { &*combine.cast::<F>() };

    crate::abort_on_panic(|| {
        for i in 0..count {
            // SAFETY: arrays of `count` elements, maybe not aligned.
            unsafe {
                let value = combine(left.add(i).read_unaligned(), right.add(i).read_unaligned());
                left.add(i).write_unaligned(value);
            }
        }
    });
}
