// SPDX-License-Identifier: Apache-2.0
//! Words that ranks change together: signals, which their owner waits for, and atomics.
use crate::error::{check, Code, Error, Failed, Result};
use crate::flight::Flight;
use crate::op::Side;
use crate::region::Region;
use crate::request::Request;
use crate::time::{nanoseconds, op_nanoseconds};
use crate::{Op, Word};
use nixlrun_sys as sys;
use std::os::raw::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How a word is compared with a value.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// It is equal.
    Eq,
    /// It is another.
    Ne,
    /// It is less.
    Lt,
    /// It is less, or equal.
    Le,
    /// It is greater.
    Gt,
    /// It is greater, or equal.
    Ge,
}

impl Compare {
    pub(crate) fn raw(self) -> sys::nixl_compare {
        match self {
            Compare::Eq => sys::NIXL_COMPARE_EQ,
            Compare::Ne => sys::NIXL_COMPARE_NE,
            Compare::Lt => sys::NIXL_COMPARE_LT,
            Compare::Le => sys::NIXL_COMPARE_LE,
            Compare::Gt => sys::NIXL_COMPARE_GT,
            Compare::Ge => sys::NIXL_COMPARE_GE,
        }
    }
}

/// What happens to a signal.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It grows by this.
    Add(u64),
    /// It becomes this.
    Set(u64),
}

impl Change {
    pub(crate) fn parts(self) -> (sys::nixl_signal_op, u64) {
        match self {
            Change::Add(value) => (sys::NIXL_SIGNAL_ADD, value),
            Change::Set(value) => (sys::NIXL_SIGNAL_SET, value),
        }
    }
}

/// A 64-bit word of a region, which ranks change and its owner waits for; made by
/// [`Region::signal`].
#[derive(Clone, Debug)]
pub struct Signal {
    region: Region,
    offset: u64,
}

impl Signal {
    pub(crate) fn new(region: Region, offset: u64) -> Signal {
        Signal { region, offset }
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// This rank's word, in host memory.
    pub(crate) fn word(&self) -> Result<&AtomicU64> {
        let index = usize::try_from(self.offset / 8).ok();
        let words = self.region.words();

        match words.zip(index).and_then(|(words, index)| words.get(index)) {
            Some(word) if self.offset % 8 == 0 => Ok(word),
            _ => {
                let text = format!(
                    "offset {} is no aligned word of this rank's host memory, of {} bytes",
                    self.offset,
                    self.region.nbytes()
                );
                Err(Error::made(Code::Range, None, "nixl_signal_wait", text))
            }
        }
    }

    /// Change a rank's word, behind all earlier puts of this process to it.
    pub fn change(&self, rank: i32, change: Change) -> Result<()> {
        self.change_with(rank, change, &Op::new())
    }

    /// As [`change`](Signal::change), on a stream or with a time.
    pub fn change_with(&self, rank: i32, change: Change, op: &Op<'_>) -> Result<()> {
        let (op, _keep) = op.read(self.region.context(), Side::Theirs)?;

        check(self.raw_change(rank, change, &op, ptr::null_mut()), "nixl_signal_x")
    }

    /// Add to a rank's word.
    pub fn add(&self, rank: i32, value: u64) -> Result<()> {
        self.change(rank, Change::Add(value))
    }

    /// Set a rank's word.
    pub fn set(&self, rank: i32, value: u64) -> Result<()> {
        self.change(rank, Change::Set(value))
    }

    /// Start a change; it does not wait for earlier puts, but comes behind them.
    pub fn start_change(&self, rank: i32, change: Change) -> Result<Request<()>, Failed<()>> {
        let op = self.region.context().op(0);
        let flight = Flight::new((), vec![self.region.shared()]);

        Request::start(flight, self.region.context(), "nixl_signal", |_, req_p| {
            self.raw_change(rank, change, &op, req_p)
        })
    }

    pub(crate) fn raw_change(
        &self,
        rank: i32,
        change: Change,
        op: &sys::nixl_op,
        req_p: *mut *mut sys::nixl_req,
    ) -> c_int {
        let (signal_op, value) = change.parts();

        // SAFETY: an open region; the op is read within the call.
        unsafe {
            sys::nixl_signal_x(
                rank,
                self.region.pointer(),
                self.offset,
                signal_op,
                value,
                op,
                req_p,
            )
        }
    }

    /// This rank's word as it is now.
    pub fn value(&self) -> Result<u64> {
        Ok(self.word()?.load(Ordering::Acquire))
    }

    /// Wait until this rank's word compares true, and return what was seen. No `timeout`: without
    /// limit. [`Code::PeerLost`]: a rank has died meanwhile, told once.
    pub fn wait(&self, compare: Compare, value: u64, timeout: Option<Duration>) -> Result<u64> {
        let mut seen = 0;

        // SAFETY: a word of an open region.
        let status = unsafe {
            sys::nixl_signal_wait(
                word_of(self.word()?),
                compare.raw(),
                value,
                nanoseconds(timeout),
                &mut seen,
            )
        };
        check(status, "nixl_signal_wait").map(|()| seen)
    }

    /// As [`wait`](Signal::wait); the loss of this rank, and of no other, ends it.
    pub fn wait_on(
        &self,
        rank: i32,
        compare: Compare,
        value: u64,
        timeout: Option<Duration>,
    ) -> Result<u64> {
        let mut op = self.region.context().op(op_nanoseconds(timeout));
        let mut seen = 0;

        op.flags = sys::NIXL_OP_RANK;
        op.rank = rank;
        // SAFETY: a word of an open region.
        let status = unsafe {
            let word = word_of(self.word()?);
            sys::nixl_signal_wait_x(word, compare.raw(), value, &op, &mut seen)
        };
        check(status, "nixl_signal_wait_x").map(|()| seen)
    }

    /// Wait until this rank's word is at least `value`.
    pub fn at_least(&self, value: u64, timeout: Option<Duration>) -> Result<u64> {
        self.wait(Compare::Ge, value, timeout)
    }

    /// Let a CUDA stream wait for this rank's word, by [`Compare::Eq`] or [`Compare::Ge`]: work
    /// that is queued later begins when it compares true.
    ///
    /// # Safety
    /// The stream is one of this process's, and passes this before the region is closed, before the
    /// job is left, and before it is destroyed.
    pub unsafe fn wait_on_stream(
        &self,
        stream: *mut c_void,
        compare: Compare,
        value: u64,
    ) -> Result<()> {
        let mut op = self.region.context().op(0);
        let word = self.region.as_ptr().wrapping_add(self.offset as usize).cast::<u64>();

        op.flags = sys::NIXL_OP_STREAM;
        op.stream = stream;
        // SAFETY: of the caller; the library checks the address.
        let status =
            unsafe { sys::nixl_signal_wait_x(word, compare.raw(), value, &op, ptr::null_mut()) };
        check(status, "nixl_signal_wait_x")
    }
}

/// Wait until one of several signals of this rank compares true: its index, and what was seen. No
/// `timeout`: without limit.
pub fn signal_wait_any(
    signals: &[Signal],
    compare: Compare,
    value: u64,
    timeout: Option<Duration>,
) -> Result<(usize, u64)> {
    let words =
        signals.iter().map(|signal| signal.word().map(word_of)).collect::<Result<Vec<_>>>()?;
    let (mut index, mut seen) = (0, 0);

    // SAFETY: words of open regions.
    let status = unsafe {
        sys::nixl_signal_wait_any(
            words.as_ptr(),
            words.len(),
            compare.raw(),
            value,
            nanoseconds(timeout),
            &mut index,
            &mut seen,
        )
    };
    check(status, "nixl_signal_wait_any").map(|()| (index, seen))
}

/// What an atomic operation does to a word.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum AtomicOp {
    /// Adds the operand.
    Add,
    /// Bitwise and; integers only.
    And,
    /// Bitwise or; integers only.
    Or,
    /// Bitwise exclusive or; integers only.
    Xor,
    /// Becomes the operand.
    Swap,
    /// Stays as it is.
    Fetch,
}

impl AtomicOp {
    fn raw(self) -> sys::nixl_atomic_op {
        match self {
            AtomicOp::Add => sys::NIXL_ATOMIC_ADD,
            AtomicOp::And => sys::NIXL_ATOMIC_AND,
            AtomicOp::Or => sys::NIXL_ATOMIC_OR,
            AtomicOp::Xor => sys::NIXL_ATOMIC_XOR,
            AtomicOp::Swap => sys::NIXL_ATOMIC_SWAP,
            AtomicOp::Fetch => sys::NIXL_ATOMIC_FETCH,
        }
    }
}

/// A word as the library takes it, which reads it as an atomic, too.
pub(crate) fn word_of(word: &AtomicU64) -> *const u64 {
    (word as *const AtomicU64).cast()
}

fn address<T>(value: &T) -> *const c_void {
    (value as *const T).cast()
}

impl Region {
    /// Change a word of a rank's memory, and return its old value. `offset` is a multiple of the
    /// word's size.
    pub fn atomic<T: Word>(&self, rank: i32, offset: u64, op: AtomicOp, operand: T) -> Result<T> {
        let (form, mut old) = (self.context().op(0), operand);
        let status = self.raw_atomic(rank, offset, op, operand, &form, &mut old, ptr::null_mut());

        check(status, "nixl_atomic").map(|()| old)
    }

    /// Change a word of a rank's memory without its old value: no answer is waited for, and a flush
    /// makes the change visible to all. `AtomicOp::Fetch` is refused.
    pub fn atomic_post<T: Word>(
        &self,
        rank: i32,
        offset: u64,
        op: AtomicOp,
        operand: T,
    ) -> Result<()> {
        let (pointer, value) = (self.pointer(), address(&operand));
        // SAFETY: the region is open, and the operand is read within the call.
        let status =
            unsafe { sys::nixl_atomic_post(rank, pointer, offset, T::TYPE, op.raw(), value) };

        check(status, "nixl_atomic_post")
    }

    /// Replace a word of a rank's memory if it has the bits of `expected`; returns its old value.
    pub fn compare_swap<T: Word>(
        &self,
        rank: i32,
        offset: u64,
        expected: T,
        desired: T,
    ) -> Result<T> {
        let (form, mut old, none) = (self.context().op(0), expected, ptr::null_mut());
        let status =
            self.raw_compare_swap(rank, offset, (expected, desired), &form, &mut old, none);

        check(status, "nixl_atomic_compare_swap").map(|()| old)
    }

    /// Start an atomic operation; its request gives the old value.
    pub fn start_atomic<T: Word>(
        &self,
        rank: i32,
        offset: u64,
        op: AtomicOp,
        operand: T,
    ) -> Result<Request<T>, Failed<T>> {
        let form = self.context().op(0);
        let flight = Flight::new(operand, vec![self.shared()]);

        Request::start(flight, self.context(), "nixl_atomic", |old, req_p| {
            self.raw_atomic(rank, offset, op, operand, &form, old, req_p)
        })
    }

    /// Start a compare and swap; its request gives the old value.
    pub fn start_compare_swap<T: Word>(
        &self,
        rank: i32,
        offset: u64,
        expected: T,
        desired: T,
    ) -> Result<Request<T>, Failed<T>> {
        let form = self.context().op(0);
        let flight = Flight::new(expected, vec![self.shared()]);

        Request::start(flight, self.context(), "nixl_atomic_compare_swap", |old, req_p| {
            self.raw_compare_swap(rank, offset, (expected, desired), &form, old, req_p)
        })
    }

    #[allow(clippy::too_many_arguments)]
    pub(crate) fn raw_atomic<T: Word>(
        &self,
        rank: i32,
        offset: u64,
        op: AtomicOp,
        operand: T,
        form: &sys::nixl_op,
        old: *mut T,
        req_p: *mut *mut sys::nixl_req,
    ) -> c_int {
        // SAFETY: an open region; the operand is read within the call, `old` is in a flight.
        unsafe {
            sys::nixl_atomic_x(
                rank,
                self.pointer(),
                offset,
                T::TYPE,
                op.raw(),
                address(&operand),
                form,
                old.cast(),
                req_p,
            )
        }
    }

    pub(crate) fn raw_compare_swap<T: Word>(
        &self,
        rank: i32,
        offset: u64,
        (expected, desired): (T, T),
        form: &sys::nixl_op,
        old: *mut T,
        req_p: *mut *mut sys::nixl_req,
    ) -> c_int {
        // SAFETY: as above.
        unsafe {
            sys::nixl_atomic_compare_swap_x(
                rank,
                self.pointer(),
                offset,
                T::TYPE,
                address(&expected),
                address(&desired),
                form,
                old.cast(),
                req_p,
            )
        }
    }

    /// Wait until an integer of this rank's own memory compares true, and return what was seen.
    pub fn word_wait<T: Word>(
        &self,
        offset: u64,
        compare: Compare,
        value: T,
        timeout: Option<Duration>,
    ) -> Result<T> {
        let size = std::mem::size_of::<T>();

        self.words_wait(offset, size, 1, compare, value, timeout).map(|(_, seen)| seen)
    }

    /// Wait until one of `count` integers, `stride` bytes apart from `offset` on, compares true:
    /// its index, and what was seen.
    pub fn words_wait<T: Word>(
        &self,
        offset: u64,
        stride: usize,
        count: usize,
        compare: Compare,
        value: T,
        timeout: Option<Duration>,
    ) -> Result<(usize, T)> {
        let first = usize::try_from(offset).unwrap_or(usize::MAX);
        let last = stride.checked_mul(count.saturating_sub(1));
        let end = last
            .and_then(|last| last.checked_add(first))
            .and_then(|last| last.checked_add(std::mem::size_of::<T>()));

        if end.map_or(true, |end| end as u64 > self.nbytes()) || self.as_ptr().is_null() {
            let text = format!(
                "{count} words from offset {offset} on, {stride} bytes apart, are outside of this \
                 rank's {} bytes",
                self.nbytes()
            );
            return Err(Error::made(Code::Range, None, "nixl_word_wait", text));
        }
        let (mut index, mut seen) = (0, value);
        // SAFETY: words of an open region.
        let status = unsafe {
            sys::nixl_word_wait_any(
                self.as_ptr().wrapping_add(first).cast(),
                stride,
                count,
                T::TYPE,
                compare.raw(),
                address(&value),
                nanoseconds(timeout),
                &mut index,
                (&mut seen as *mut T).cast(),
            )
        };
        check(status, "nixl_word_wait_any").map(|()| (index, seen))
    }
}
