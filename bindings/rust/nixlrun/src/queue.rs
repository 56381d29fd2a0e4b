// SPDX-License-Identifier: Apache-2.0
//! Queues: what ended, was notified or was lost, by a descriptor to sleep on.
//!
//! A queue needs no runtime and has no thread: [`Queue::dispatch`] takes what is there and wakes
//! the futures that wait for it, and whoever runs the program's loop calls it when the descriptor
//! is readable.
//!
//! Locks. `held` is held while entries are taken, `table` for a moment; `table` may be locked
//! while `held` is, not the other way. No waker is called with `table` held.
use crate::context::Context;
use crate::error::{check, Code, Error, Result};
use crate::flight::{Ends, Flight, Outcome};
use crate::inbox::Inbox;
use crate::note::{Event, Note};
use crate::panics::Panics;
use crate::time::nanoseconds;
use nixlrun_sys as sys;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::os::raw::c_int;
use std::os::unix::io::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::task::{Context as Task, Poll};
use std::time::Duration;

const BATCH: usize = 64;

/// What has been started and not yet reported, by its user_data.
#[derive(Default)]
struct Table {
    next_id: u64,
    started: HashMap<u64, Arc<dyn Ends>>,
}

pub(crate) struct Inner {
    pointer: *mut sys::nixl_cq,
    fd: RawFd,
    held: Mutex<Vec<Event>>, /* taken before all notifications that they follow */
    table: Mutex<Table>,
    pub inbox: Option<Arc<Inbox>>,
    pub context: Context,
}

// SAFETY: any thread may make the calls; `held` is locked by those that are made one at a time.
unsafe impl Send for Inner {}
unsafe impl Sync for Inner {}

/// A completion queue: it reports the operations that are started by its calls, which are futures,
/// and, if it was opened so, the notifications and events of its context.
///
/// Any executor will do. One of these drives the queue, so that its futures wake:
///
/// - [`block_on`](crate::block_on) runs one future, and sleeps on the descriptor: no runtime.
/// - [`drive`](Queue::drive) is a future that drives it, for runtimes that can wait for a
///   descriptor: tokio's `AsyncFd`, async-io's `Async`. No thread is added.
/// - [`Driver`](crate::Driver) is a thread that sleeps on the descriptor, for all others.
///
/// Clones are the same queue. It is closed with the last of them and of its futures.
#[derive(Clone)]
pub struct Queue(pub(crate) Arc<Inner>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Queue {
    pub(crate) fn open(context: &Context, has_notes: bool) -> Result<Queue> {
        let mut pointer = ptr::null_mut();
        let params = sys::nixl_cq_params {
            context: context.pointer(),
            flags: if has_notes { sys::NIXL_CQ_NOTES | sys::NIXL_CQ_EVENTS } else { 0 },
            entry_nbytes: std::mem::size_of::<sys::nixl_cq_entry>() as u32,
            ..sys::zeroed()
        };

        // SAFETY: params of the library's shape, and a pointer to be written.
        check(unsafe { sys::nixl_cq_open(&params, &mut pointer) }, "nixl_cq_open")?;
        let mut inner = Inner {
            pointer,
            fd: -1,
            held: Mutex::default(),
            table: Mutex::default(),
            inbox: has_notes.then(|| context.membership().inbox()),
            context: context.clone(),
        };

        // SAFETY: an open queue.
        inner.fd = unsafe { sys::nixl_cq_fd(pointer) };
        if inner.fd < 0 {
            return Err(Error::last(inner.fd));
        }
        Ok(Queue(Arc::new(inner)))
    }

    /// Start an operation that the queue reports; the number is what cancels it.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        flight: &Arc<Flight<T>>,
        op: &mut sys::nixl_op,
        call: impl FnOnce(*mut T, &sys::nixl_op) -> c_int,
    ) -> u64 {
        // SAFETY: it has not been started.
        let value = unsafe { flight.value() };
        let id = {
            let mut table = lock(&self.0.table);

            table.next_id += 1;
            let id = table.next_id;
            table.started.insert(id, flight.clone());
            id
        };

        op.cq = self.0.pointer;
        op.user_data = id;
        if !flight.started(call(value, op)) {
            lock(&self.0.table).started.remove(&id);
        }
        id
    }

    /// Stop an operation: it is reported soon, as canceled or as what it had become.
    pub(crate) fn cancel(&self, id: u64) {
        // SAFETY: an open queue; any number may be given.
        unsafe { sys::nixl_cq_cancel(self.0.pointer, id) };
    }

    /// Take all that is there, and wake the futures that wait for it; never waits. Returns how many
    /// things there were. A waker that panics does so when all that was taken at once is delivered.
    /// While another thread takes them, or is in [`wait`](Queue::wait), this returns 0: that one
    /// wakes the futures.
    ///
    /// [`Code::Limit`]: [`MAX_UNMATCHED`](crate::MAX_UNMATCHED) notifications wait for somebody to
    /// receive them. Nothing is lost: once some were received, it goes on.
    pub fn dispatch(&self) -> Result<usize> {
        Ok(self.try_take()?.map_or(0, |taken| taken.n))
    }

    /// As [`dispatch`](Queue::dispatch), and wait for the first thing: for programs without a loop.
    /// 0: nothing in time. `None`: without limit.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<usize> {
        self.take_all(&mut lock(&self.0.held), nanoseconds(timeout)).map(|taken| taken.n)
    }

    /// Say that the caller is about to sleep on the descriptor. True: sleep until it is readable;
    /// false: [`dispatch`](Queue::dispatch) first.
    pub fn arm(&self) -> Result<bool> {
        // SAFETY: an open queue.
        match unsafe { sys::nixl_cq_arm(self.0.pointer) } {
            sys::NIXL_INPROGRESS => Ok(false),
            status => check(status, "nixl_cq_arm").map(|()| true),
        }
    }

    /// Drive the queue for as long as this future runs: spawn it as a task. `readable` waits until
    /// the descriptor is readable. It ends with the failure of that or of the library.
    ///
    /// With tokio:
    ///
    /// ```ignore
    /// let fd = AsyncFd::with_interest(queue.clone(), Interest::READABLE)?;
    /// tokio::spawn(async move {
    ///     let fd = &fd;
    ///     fd.get_ref()
    ///         .drive(|| async move {
    ///             fd.readable().await?.clear_ready();
    ///             Ok(())
    ///         })
    ///         .await
    /// });
    /// ```
    pub async fn drive<F, W>(&self, mut readable: F) -> std::io::Error
    where
        F: FnMut() -> W,
        W: std::future::Future<Output = std::io::Result<()>>,
    {
        loop {
            let next = self.dispatch_unless_held().and_then(|has| self.next(has));
            let waited = match next {
                Ok(Next::Sleep) => readable().await,
                Ok(Next::Dispatch) => Ok(()),
                Ok(Next::Leave) => {
                    Turn::default().await;
                    Ok(())
                }
                Err(error) => Err(error.into()),
            };

            if let Err(error) = waited {
                return error;
            }
        }
    }

    /// Dispatch, unless another thread does; whether all that was there has been taken.
    pub(crate) fn try_dispatch(&self) -> bool {
        self.try_take().map_or(false, |taken| taken.map_or(false, |taken| taken.is_all))
    }

    /// Dispatch, unless another thread does: false.
    pub(crate) fn dispatch_unless_held(&self) -> Result<bool> {
        self.try_take().map(|taken| taken.is_some())
    }

    /// What whoever drives the queue does behind that.
    pub(crate) fn next(&self, has_dispatched: bool) -> Result<Next> {
        self.arm().map(|is_empty| match (is_empty, has_dispatched) {
            (true, _) => Next::Sleep,
            (false, true) => Next::Dispatch,
            (false, false) => Next::Leave,
        })
    }

    pub(crate) fn pointer(&self) -> *mut sys::nixl_cq {
        self.0.pointer
    }

    /// None: another thread takes what there is.
    fn try_take(&self) -> Result<Option<Taken>> {
        match self.0.held.try_lock() {
            Ok(mut held) => self.take_all(&mut held, 0).map(Some),
            Err(TryLockError::Poisoned(held)) => self.take_all(&mut held.into_inner(), 0).map(Some),
            Err(TryLockError::WouldBlock) => Ok(None),
        }
    }

    /// What a rank had sent before it died is delivered before its end.
    fn take_all(&self, held: &mut Vec<Event>, timeout: i64) -> Result<Taken> {
        let taken = self.take_entries(timeout, held)?;

        if let (Some(inbox), true) = (&self.0.inbox, taken.is_all) {
            let mut panics = Panics::default();
            held.drain(..).for_each(|event| panics.after(|| inbox.event(event)));
            panics.resume();
        }
        Ok(taken)
    }

    fn take_entries(&self, mut timeout: i64, events: &mut Vec<Event>) -> Result<Taken> {
        // SAFETY: entries are numbers and pointers.
        let mut entries: [sys::nixl_cq_entry; BATCH] = unsafe { std::mem::zeroed() };
        let mut total = 0;

        loop {
            if self.0.inbox.as_ref().map_or(false, |inbox| inbox.is_full()) {
                return if total > 0 { Ok(Taken { n: total, is_all: false }) } else { Err(full()) };
            }
            let mut n = 0;
            // SAFETY: an open queue, and as many entries as is said.
            let status = unsafe {
                sys::nixl_cq_wait(self.0.pointer, entries.as_mut_ptr(), BATCH, timeout, &mut n)
            };

            match status {
                sys::NIXL_OK => {}
                sys::NIXL_INPROGRESS | sys::NIXL_E_TIMEOUT => {
                    return Ok(Taken { n: total, is_all: true });
                }
                status => return Err(Error::last(status)),
            }
            /* They are taken, so that a waker that panics must not keep any from its future. */
            let mut panics = Panics::default();
            for entry in &entries[..n] {
                panics.after(|| self.report(entry, events));
            }
            panics.resume();
            total += n;
            timeout = 0;
        }
    }

    fn report(&self, entry: &sys::nixl_cq_entry, events: &mut Vec<Event>) {
        match entry.kind as sys::nixl_cq_kind {
            sys::NIXL_CQ_NOTE => self.report_note(entry),
            sys::NIXL_CQ_EVENT => {
                let name = String::from_utf8_lossy(bytes_of(entry)).into_owned();
                let (kind, incarnation) = (entry.value as i32, entry.user_data as u32);
                events.push(Event::made(kind, entry.rank, incarnation, name));
            }
            _ => self.report_end(entry),
        }
    }

    fn report_end(&self, entry: &sys::nixl_cq_entry) {
        let flight = lock(&self.0.table).started.remove(&entry.user_data);

        if let Some(flight) = flight {
            flight.ended(Outcome {
                error: (entry.status != sys::NIXL_OK)
                    .then(|| Error::plain(entry.status, entry.rank, "")),
                seen: entry.value,
            });
        }
    }

    fn report_note(&self, entry: &sys::nixl_cq_entry) {
        if let Some(inbox) = &self.0.inbox {
            inbox.note(Note {
                rank: entry.rank,
                tag: entry.value,
                message: bytes_of(entry).to_vec(),
                is_stale: entry.status == sys::NIXL_E_STALE,
            });
        }
    }

    /// How many operations are in progress.
    pub fn pending(&self) -> usize {
        lock(&self.0.table).started.len()
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Context {
        &self.0.context
    }
}

/// What whoever drives a queue does after a dispatch.
pub(crate) enum Next {
    /// Nothing is there: sleep on the descriptor.
    Sleep,
    Dispatch,
    /// Another thread is taking what is there: leave it a moment.
    Leave,
}

/// Gives the other tasks of an executor a turn.
#[derive(Default)]
struct Turn {
    is_over: bool,
}

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.is_over, true) {
            return Poll::Ready(());
        }
        task.waker().wake_by_ref();
        Poll::Pending
    }
}

/// How much was taken.
struct Taken {
    n: usize,
    is_all: bool,
}

fn full() -> Error {
    let text = "the queue keeps as many notifications as it may that nobody receives";

    Error::made(Code::Limit, None, "nixl_cq_wait", text.into())
}

fn bytes_of(entry: &sys::nixl_cq_entry) -> &[u8] {
    if entry.data.is_null() {
        return &[];
    }
    // SAFETY: the library's, until the next call for the queue.
    unsafe { std::slice::from_raw_parts(entry.data.cast(), entry.nbytes as usize) }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let table = self.table.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());

        /* Futures hold the queue, so that only those are there which were dropped and canceled. */
        settle(self.pointer, table);
        // SAFETY: an open queue, and its last handle.
        unsafe { sys::nixl_cq_close(self.pointer) };
        for (_, flight) in table.started.drain() {
            std::mem::forget(flight);
        }
    }
}

/// Take the ends of what was canceled, so that no memory is in use any more.
fn settle(pointer: *mut sys::nixl_cq, table: &mut Table) {
    const SETTLE_NS: i64 = 60_000_000_000;
    // SAFETY: entries are numbers and pointers.
    let mut entries: [sys::nixl_cq_entry; BATCH] = unsafe { std::mem::zeroed() };

    while !table.started.is_empty() {
        let mut n = 0;
        // SAFETY: an open queue, and as many entries as is said.
        let status =
            unsafe { sys::nixl_cq_wait(pointer, entries.as_mut_ptr(), BATCH, SETTLE_NS, &mut n) };

        if status != sys::NIXL_OK {
            return;
        }
        for entry in &entries[..n] {
            table.started.remove(&entry.user_data);
        }
    }
}

impl AsRawFd for Queue {
    fn as_raw_fd(&self) -> RawFd {
        self.0.fd
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the queue.
        unsafe { BorrowedFd::borrow_raw(self.0.fd) }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({} in progress)", self.pending())
    }
}
