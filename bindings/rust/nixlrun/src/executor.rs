// SPDX-License-Identifier: Apache-2.0
//! What drives a queue where no runtime does: one future in this thread, or a thread of its own.
//! Both sleep in poll() on the descriptor of the queue and on one that wakes them.
use crate::error::{Code, Error, Result};
use crate::panics::Panics;
use crate::queue::{Next, Queue};
use std::future::Future;
use std::io::{self, Read, Write};
use std::os::raw::{c_int, c_short, c_ulong};
use std::os::unix::io::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context as Task, Poll, Wake, Waker};
use std::thread::{self, JoinHandle};

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    revents: c_short,
}

const POLLIN: c_short = 1;

extern "C" {
    fn poll(fds: *mut PollFd, nfds: c_ulong, timeout: c_int) -> c_int;
}

/// How long another thread that takes from the queue is left alone.
const LEAVE_MS: c_int = 1;

/// Sleep until one of them can be read, or for some milliseconds; -1: without limit.
fn sleep_on<const N: usize>(fds: [RawFd; N], timeout_ms: c_int) -> io::Result<()> {
    let mut polled = fds.map(|fd| PollFd { fd, events: POLLIN, revents: 0 });

    // SAFETY: an array of N.
    if unsafe { poll(polled.as_mut_ptr(), N as c_ulong, timeout_ms) } < 0 {
        let why = io::Error::last_os_error();
        if why.kind() != io::ErrorKind::Interrupted {
            return Err(why);
        }
    }
    Ok(())
}

/// Ends a sleep from any thread.
struct Bell {
    is_rung: AtomicBool,
    sender: UnixStream,
    receiver: UnixStream,
}

impl Bell {
    fn new() -> io::Result<Arc<Bell>> {
        let (sender, receiver) = UnixStream::pair()?;

        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        Ok(Arc::new(Bell { is_rung: AtomicBool::new(false), sender, receiver }))
    }

    fn ring(&self) {
        if !self.is_rung.swap(true, Ordering::AcqRel) {
            /* A full stream is rung, too. */
            let _ = (&self.sender).write(&[0]);
        }
    }

    /// Sleep until it is rung, or something happens in the queue.
    fn sleep(&self, queue: &Queue, next: Next) -> Result<()> {
        let receiver = self.receiver.as_raw_fd();

        match next {
            Next::Sleep => sleep_on([queue.as_raw_fd(), receiver], -1),
            Next::Leave => sleep_on([receiver], LEAVE_MS),
            Next::Dispatch => Ok(()),
        }
        .map_err(system)
    }

    /// Whether it was rung since the last call.
    fn answer(&self) -> bool {
        let mut bytes = [0; 16];

        let _ = (&self.receiver).read(&mut bytes);
        self.is_rung.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

fn system(why: io::Error) -> Error {
    Error::made(Code::Limit, None, "nixl_cq_fd", format!("cannot wait for the queue: {why}"))
}

/// Run one future in this thread to its end, and drive the queue meanwhile; the thread sleeps on
/// the queue's descriptor. Wakers may be called by any thread, so that futures of other kinds work,
/// too.
///
/// ```no_run
/// # fn f(job: &nixlrun::Job, kv: &nixlrun::Region) -> nixlrun::Result<()> {
/// let queue = job.queue()?;
/// let block = nixlrun::block_on(&queue, async {
///     let block = queue.get(kv, 1, 0, vec![0u8; 4096], &nixlrun::Op::new()).await?;
///     Ok(block)
/// })?;
/// println!("{} bytes", block.len());
/// # Ok(()) }
/// ```
///
/// A failure of the queue drops the future, and is returned like one of its own.
pub fn block_on<T>(queue: &Queue, future: impl Future<Output = Result<T>>) -> Result<T> {
    let bell = Bell::new().map_err(system)?;
    let waker = Waker::from(bell.clone());
    let mut task = Task::from_waker(&waker);
    let mut future = Box::pin(future);

    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut task) {
            return output;
        }
        loop {
            let has_dispatched = queue.dispatch_unless_held()?;

            if bell.answer() {
                break;
            }
            bell.sleep(queue, queue.next(has_dispatched)?)?;
        }
    }
}

/// A thread that drives a queue, for executors that cannot wait for a descriptor. It ends when this
/// is dropped.
#[must_use = "the thread ends when this is dropped"]
pub struct Driver {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Driver {
    /// Start the thread.
    pub fn new(queue: &Queue) -> Result<Driver> {
        let bell = Bell::new().map_err(system)?;
        let (inside, queue) = (bell.clone(), queue.clone());
        let thread = thread::Builder::new()
            .name("nixlrun-queue".into())
            .spawn(move || drive(&queue, &inside))
            .map_err(system)?;

        Ok(Driver { bell, thread: Some(thread) })
    }

    /// End the thread, and say what had ended it before, if anything has. A waker that panics does
    /// not end it: that panic goes on here.
    pub fn stop(mut self) -> Result<()> {
        match self.join() {
            Some(Err(panic)) => resume_unwind(panic),
            Some(Ok(outcome)) => outcome,
            None => Ok(()),
        }
    }

    fn join(&mut self) -> Option<thread::Result<Result<()>>> {
        self.bell.ring();
        self.thread.take().map(JoinHandle::join)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

fn drive(queue: &Queue, bell: &Bell) -> Result<()> {
    let mut panics = Panics::default();

    while !bell.answer() {
        let mut dispatched = Ok(true);

        panics.after(|| dispatched = queue.dispatch_unless_held());
        bell.sleep(queue, queue.next(dispatched?)?)?;
    }
    panics.resume();
    Ok(())
}
