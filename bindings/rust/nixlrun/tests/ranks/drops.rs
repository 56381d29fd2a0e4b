// SPDX-License-Identifier: Apache-2.0
//! What goes without being closed, events that wake tasks, and wakers that panic.
use crate::awaits::run_elsewhere;
use crate::{other, ranks};
use nixlrun::{block_on, Buffer, BufferMut, Code, Driver, Event, Memory, Op, Queue, Result};
use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

const SOON: Option<Duration> = Some(Duration::from_secs(20));

/// Memory that tells when it is freed.
struct Told {
    bytes: Box<[u8]>,
    is_freed: Arc<AtomicBool>,
}

impl Told {
    fn new() -> (Told, Arc<AtomicBool>) {
        let is_freed = Arc::new(AtomicBool::new(false));

        (Told { bytes: vec![0; 4096].into(), is_freed: is_freed.clone() }, is_freed)
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.is_freed.store(true, Ordering::Release);
    }
}

// SAFETY: the memory is that of the box, which stays where it is.
unsafe impl Buffer for Told {
    type Item = u8;
    fn pointer(&self) -> *const u8 {
        self.bytes.as_ptr()
    }
    fn count(&self) -> usize {
        self.bytes.len()
    }
}

// SAFETY: as above, and nobody else has the box.
unsafe impl BufferMut for Told {
    fn pointer_mut(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }
}

ranks!(the_last_handle_closes_the_region_and_frees_its_memory, 2, |job| {
    let peer = other(job);
    let team = job.team_world(SOON)?;
    let (memory, is_freed) = Told::new();
    let mine = job.register("mine", memory, &Memory::new()).map_err(|failed| failed.error)?;
    let region = (*mine).clone();

    team.barrier()?;
    let theirs = job.open("mine")?;
    theirs.put(peer, 0, &[1u8; 8])?;
    job.flush(Some(peer), SOON)?;
    team.barrier()?;
    drop(mine);
    assert!(!is_freed.load(Ordering::Acquire));
    region.put(peer, 8, &[2u8; 8])?;
    team.barrier()?;
    assert_eq!(region.to_vec()?[..16], [[1u8; 8], [2u8; 8]].concat());
    team.barrier()?;
    let request = region.start_get(job.rank(), 0, vec![0u8; 16], &Op::new())?;
    drop(region);
    assert_eq!(request.wait()?.len(), 16);
    assert!(is_freed.load(Ordering::Acquire));
    team.barrier()?;
    assert_eq!(theirs.put(peer, 0, &[3u8]).expect_err("closed").code(), Code::Stale);
    team.barrier()?;
});

extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(code: i32) -> !;
}

ranks!(memory_is_not_freed_if_its_region_cannot_be_closed, 1, |job| {
    let (memory, is_freed) = Told::new();
    let mine = job.register("mine", memory, &Memory::new()).map_err(|failed| failed.error)?;
    // SAFETY: the child calls what is refused there, and ends.
    let child = unsafe { fork() };

    if child == 0 {
        drop(mine);
        let code = i32::from(is_freed.load(Ordering::Acquire));
        // SAFETY: nothing of the parent's is to be ended.
        unsafe { _exit(code) };
    }
    let mut status = -1;
    // SAFETY: a child of this process, and a number to be written.
    assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    drop(mine);
    assert!(is_freed.load(Ordering::Acquire));
});

ranks!(events_wake_the_tasks_that_await_them, 2, |job| {
    let peer = other(job);
    let team = job.team_world(SOON)?;
    let queue = job.queue_with_notes()?;
    let kv = job.region("kv", 64)?;
    let closing = job.region("closing", 64)?;

    closing.query(peer, SOON)?;
    team.barrier()?;
    if job.rank() == 1 {
        /* When the other one has polled its event. */
        job.recv(Some(peer), Some(1), SOON)?;
        closing.close(SOON).map_err(|failed| failed.error)?;
        job.recv(Some(peer), Some(2), SOON)?;
    } else {
        let mut event = queue.event();
        let driver = Driver::new(&queue)?;

        assert!(crate::awaits::is_pending(&mut event));
        job.notify(peer, 1, b"")?;
        let closed = run_elsewhere(event)?;
        assert_eq!(closed, Event::RegionClosed { rank: peer, name: "closing".into() });
        driver.stop()?;
        job.notify(peer, 2, b"")?;
        assert!(queue.try_event()?.is_none());
    }
    team.barrier()?;
    drop(kv);
});

/// A waker that panics, and tells before that it was called.
struct Broken(Mutex<Sender<()>>);

impl Wake for Broken {
    fn wake(self: Arc<Self>) {
        if let Ok(sender) = self.0.lock() {
            let _ = sender.send(());
        }
        panic!("a waker of the test");
    }
}

ranks!(a_driver_goes_on_after_a_waker_that_panics, 1, |job| {
    let queue = job.queue_with_notes()?;
    let driver = Driver::new(&queue)?;
    let (sender, woken) = channel();
    let broken = Waker::from(Arc::new(Broken(Mutex::new(sender))));
    let mut first = queue.recv(None, Some(1));

    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&broken)).is_pending());
    job.notify(0, 1, b"")?;
    woken.recv_timeout(Duration::from_secs(20)).expect("it is woken");
    let second = queue.recv(None, Some(2));
    let sending = std::thread::spawn({
        let job = job.clone();
        move || job.notify(0, 2, b"later")
    });
    assert_eq!(run_elsewhere(second)?.message, b"later");
    sending.join().expect("no panic")?;
    assert!(catch_unwind(AssertUnwindSafe(|| driver.stop())).is_err());
    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&broken)).is_ready());
});

/// A waker that panics when the last of it goes, which a future does with its lock held.
struct Fragile;

impl Wake for Fragile {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Fragile {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("the end of a waker of the test");
        }
    }
}

/// Have a future hold the last of such a waker, and poll it with another one.
fn poison<F: Future + Unpin>(future: &mut F) {
    let fragile = Waker::from(Arc::new(Fragile));

    assert!(Pin::new(&mut *future).poll(&mut Context::from_waker(&fragile)).is_pending());
    drop(fragile);
    let poll = AssertUnwindSafe(|| crate::awaits::is_pending(future));
    assert!(catch_unwind(poll).is_err());
}

/// Dispatch with a waker that panics, so that the lock of the queue is poisoned.
fn poison_queue(queue: &Queue, notify: impl FnOnce() -> Result<()>) -> Result<()> {
    let (sender, woken) = channel();
    let broken = Waker::from(Arc::new(Broken(Mutex::new(sender))));
    let mut first = queue.recv(None, Some(1));

    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&broken)).is_pending());
    notify()?;
    assert!(catch_unwind(AssertUnwindSafe(|| queue.wait(SOON))).is_err());
    woken.try_recv().expect("it was woken");
    assert_eq!(block_on(queue, first)?.tag, 1);
    Ok(())
}

ranks!(locks_that_a_panic_has_poisoned_do_their_work, 1, |job| {
    let queue = job.queue_with_notes()?;
    let kv = job.region("kv", 64)?;
    let mut note = queue.recv(None, Some(2));
    let mut wait = queue.at_least(&kv.signal(0), 1);

    poison(&mut note);
    poison(&mut wait);
    poison_queue(&queue, || job.notify(0, 1, b""))?;
    job.notify(0, 2, b"note")?;
    kv.put(0, 0, &[7u64])?;
    block_on(&queue, async {
        assert_eq!(note.await?.message, b"note");
        assert_eq!(wait.await?, 7);
        queue.put(&kv, 0, 8, vec![1u8; 8], &Op::new()).await?;
        Ok(())
    })?;
    assert_eq!(queue.pending(), 0);
});
