// SPDX-License-Identifier: Apache-2.0
//! Futures of queues, by each of the three ways to drive one.
use crate::{other, ranks, run_survivors};
use nixlrun::{block_on, AtomicOp, Change, Code, Compare, Driver, Event, Op, Queue, Result};
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{channel, sync_channel, SyncSender};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

const SOON: Option<Duration> = Some(Duration::from_secs(20));

/// As std::future::poll_fn() of later versions of Rust.
struct PollBy<F>(F);

fn poll_by<T, F: FnMut(&mut Context<'_>) -> Poll<T> + Unpin>(poll: F) -> PollBy<F> {
    PollBy(poll)
}

impl<T, F: FnMut(&mut Context<'_>) -> Poll<T> + Unpin> Future for PollBy<F> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<T> {
        (self.0)(task)
    }
}

/// Await two futures at once, as the crates of futures do.
async fn both<A, B>(a: A, b: B) -> (A::Output, B::Output)
where
    A: Future + Unpin,
    B: Future + Unpin,
    A::Output: Unpin,
    B::Output: Unpin,
{
    let (mut a, mut b) = (a, b);
    let (mut first, mut second) = (None, None);

    poll_by(move |task| {
        if first.is_none() {
            if let Poll::Ready(value) = Pin::new(&mut a).poll(task) {
                first = Some(value);
            }
        }
        if second.is_none() {
            if let Poll::Ready(value) = Pin::new(&mut b).poll(task) {
                second = Some(value);
            }
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (first, second) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

ranks!(operations_are_awaited, 2, |job| {
    let n = 2 << 20;
    let kv = job.region("kv", n)?;
    let queue = job.queue_with_notes()?;
    let peer = other(job);

    block_on(&queue, async {
        let put = queue.put(&kv, peer, 0, vec![5u8; n], &Op::new().note(1, b"there"));
        let (put, note) = both(put, queue.recv(Some(peer), Some(1))).await;
        assert_eq!((put?.len(), note?.message), (n, b"there".to_vec()));
        let get = queue.get(&kv, peer, 8, vec![0u8; n - 8], &Op::new());
        assert_eq!(get.await?, vec![5; n - 8]);
        let old = queue.atomic(&kv, peer, 0, AtomicOp::Swap, 9u64).await?;
        assert_eq!(old, 0x0505_0505_0505_0505);
        assert_eq!(queue.compare_swap(&kv, peer, 0, 9u64, 10).await?, 9);
        queue.flush(None).await?;
        let failed = queue.get(&kv, peer, n as u64, vec![7u8; 4], &Op::new()).await;
        let failed = failed.expect_err("outside");
        assert_eq!((failed.error.code(), failed.value), (Code::Range, vec![7; 4]));
        Ok(())
    })?;
    job.team_world(SOON)?.barrier()?;
    assert_eq!(queue.pending(), 0);
});

ranks!(signals_are_awaited, 2, |job| {
    let kv = job.region("kv", 64)?;
    let ready = kv.signal(8);
    let queue = job.queue()?;
    let peer = other(job);

    block_on(&queue, async {
        if job.rank() == 0 {
            assert_eq!(queue.at_least(&ready, 2).await?, 2);
            queue.change(&ready, peer, Change::Set(40)).await?;
        } else {
            queue.change(&ready, peer, Change::Add(1)).await?;
            queue.change(&ready, peer, Change::Add(1)).await?;
            let seen = queue.wait_signal(&ready, Compare::Eq, 40, Some(peer)).await?;
            assert_eq!(seen, 40);
        }
        let bad = queue.at_least(&kv.signal(3), 1).await.expect_err("not aligned");
        assert_eq!(bad.code(), Code::Range);
        Ok(())
    })?;
    job.team_world(SOON)?.barrier()?;
});

ranks!(a_thread_in_wait_keeps_no_future_from_running, 1, |job| {
    const LONG: Duration = Duration::from_millis(200); /* in which the thread comes to wait */
    let queue = job.queue_with_notes()?;
    let waiting = queue.clone();
    let waiter = std::thread::spawn(move || waiting.wait(SOON));
    let begin = Instant::now();
    let busy = poll_by(|task| {
        task.waker().wake_by_ref();
        if begin.elapsed() < LONG {
            Poll::Pending
        } else {
            Poll::Ready(Ok(()))
        }
    });

    block_on(&queue, busy)?;
    Driver::new(&queue)?.stop()?;
    job.notify(0, 7, b"")?;
    assert_eq!(waiter.join().expect("no panic")?, 1);
    let waiting = queue.clone();
    let waiter = std::thread::spawn(move || waiting.wait(SOON));
    block_on(&queue, async {
        job.notify(0, 8, b"")?;
        queue.recv(Some(0), Some(8)).await?;
        queue.recv(Some(0), Some(7)).await
    })?;
    job.notify(0, 9, b"")?;
    waiter.join().expect("no panic")?;
});

ranks!(a_dropped_future_is_canceled, 2, |job| {
    let n = 8 << 20;
    let kv = job.region("kv", n)?;
    let queue = job.queue_with_notes()?;
    let peer = other(job);

    for _ in 0..20 {
        drop(queue.get(&kv, peer, 0, vec![0u8; n], &Op::new()));
        drop(queue.at_least(&kv.signal(0), 1));
    }
    while queue.pending() > 0 {
        queue.wait(SOON)?;
    }
    job.team_world(SOON)?.barrier()?;
    /* A receiver that is dropped gives its notification to the next one. */
    queue.notify(peer, 1, b"first")?;
    queue.notify(peer, 2, b"second")?;
    let mut dropped = queue.recv(None, Some(1));
    assert!(is_pending(&mut dropped));
    let second = block_on(&queue, queue.recv(None, Some(2)))?;
    assert_eq!(second.message, b"second");
    drop(dropped);
    assert_eq!(block_on(&queue, queue.recv(None, None))?.message, b"first");
    assert!(queue.try_recv(None, None)?.is_none());
    job.team_world(SOON)?.barrier()?;
});

/// Poll a future once, which nothing wakes.
pub fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    let noop = Waker::from(Arc::new(Nothing));

    Pin::new(future).poll(&mut Context::from_waker(&noop)).is_pending()
}

struct Nothing;

impl Wake for Nothing {
    fn wake(self: Arc<Self>) {}
}

ranks!(a_queue_without_notes_says_so, 1, |job| {
    let queue = job.queue()?;
    let failed = block_on(&queue, queue.recv(None, None)).expect_err("no notes");
    assert_eq!(failed.code(), Code::Unsupported);
    let failed = block_on(&queue, queue.event()).expect_err("no events");
    assert_eq!(failed.code(), Code::Unsupported);
});

/// An executor as small as any: wakers send a token to the thread.
struct Token(SyncSender<()>);

impl Wake for Token {
    fn wake(self: Arc<Self>) {
        let _ = self.0.try_send(());
    }
}

pub fn run_elsewhere<F: Future>(future: F) -> F::Output {
    let (sender, receiver) = sync_channel(1);
    let waker = Waker::from(Arc::new(Token(sender)));
    let mut task = Context::from_waker(&waker);
    let mut future = Box::pin(future);

    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut task) {
            return output;
        }
        receiver.recv().expect("the waker is there");
    }
}

async fn ping_pong(queue: &Queue, peer: i32, rank: i32) -> Result<()> {
    for round in 0..200u64 {
        if rank == 0 {
            queue.notify(peer, round, b"ping")?;
        }
        let note = queue.recv(Some(peer), Some(round)).await?;
        if rank == 1 {
            queue.notify(peer, round, &note.message)?;
        }
    }
    Ok(())
}

ranks!(a_thread_drives_any_executor, 2, |job| {
    let queue = job.queue_with_notes()?;
    let driver = Driver::new(&queue)?;

    run_elsewhere(ping_pong(&queue, other(job), job.rank()))?;
    driver.stop()?;
    job.team_world(SOON)?.barrier()?;
});

ranks!(block_on_takes_wakers_of_other_threads, 2, |job| {
    let queue = job.queue_with_notes()?;
    let (sender, receiver) = channel::<Waker>();
    let waking = std::thread::spawn(move || {
        for waker in receiver {
            waker.wake();
        }
    });
    let mut wakes = 0;

    block_on(&queue, ping_pong(&queue, other(job), job.rank()))?;
    block_on(
        &queue,
        poll_by(move |task| {
            wakes += 1;
            if wakes > 100 {
                return Poll::Ready(Ok(()));
            }
            sender.send(task.waker().clone()).expect("the thread is there");
            Poll::Pending
        }),
    )?;
    waking.join().expect("the thread ends");
    job.team_world(SOON)?.barrier()?;
});

ranks!(a_descriptor_drives_it_too, 2, |job| {
    use std::os::unix::io::AsRawFd;

    let queue = job.queue_with_notes()?;
    let second = queue.clone();
    assert!(queue.as_raw_fd() >= 0);
    /* What a runtime would do with the descriptor, another thread does here. */
    let (stop, stopped) = channel::<()>();
    let readable = std::sync::Mutex::new(0);
    let thread = std::thread::spawn(move || {
        let drive = second.drive(|| {
            std::thread::sleep(Duration::from_micros(50));
            *readable.lock().expect("no panic") += 1;
            let ended = stopped.try_recv().is_ok();
            async move {
                if ended {
                    return Err(std::io::Error::new(std::io::ErrorKind::Other, "enough"));
                }
                Ok(())
            }
        });

        run_elsewhere(drive).to_string()
    });

    run_elsewhere(ping_pong(&queue, other(job), job.rank()))?;
    stop.send(()).expect("the thread is there");
    assert_eq!(thread.join().expect("no panic"), "enough");
    job.team_world(SOON)?.barrier()?;
});

#[test]
fn a_death_ends_what_waits_for_it() {
    let name = "ranks::awaits::a_death_ends_what_waits_for_it";

    run_survivors(3, name, |job| {
        let queue = job.queue_with_notes()?;
        let kv = job.region("kv", 64)?;
        let team = job.team_world(SOON)?;

        team.barrier()?;
        if job.rank() == 2 {
            job.peer(2).kill()?;
        }
        block_on(&queue, async {
            let lost = queue.recv(Some(2), None).await.expect_err("it has died");
            assert_eq!((lost.code(), lost.rank()), (Code::PeerLost, Some(2)));
            assert_eq!(queue.event().await?, Event::PeerLost { rank: 2 });
            let word = kv.signal(0);
            let lost = queue.wait_signal(&word, Compare::Eq, 9, Some(2)).await;
            assert_eq!(lost.expect_err("it has died").code(), Code::PeerLost);
            let failed = queue.get(&kv, 2, 0, vec![1u8; 8], &Op::new()).await;
            assert_eq!(failed.expect_err("it has died").error.code(), Code::PeerLost);
            let again = queue.recv(Some(2), None).await.expect_err("it has died");
            assert!(again.is_peer_lost());
            Ok(())
        })?;
        drop(queue);
        let late = job.queue_with_notes()?;
        let lost = block_on(&late, late.recv(Some(2), None)).expect_err("it has died");
        assert!(lost.is_peer_lost());
        assert!(team.barrier().expect_err("it has died").is_peer_lost());
        assert_eq!(team.shrink(SOON)?.size(), 2);
        Ok(())
    });
}

/// A waker that panics, as an executor that is shut down may have.
struct Broken;

impl Wake for Broken {
    fn wake(self: Arc<Self>) {
        panic!("a waker of the test");
    }
}

ranks!(a_waker_that_panics_keeps_nothing_from_others, 1, |job| {
    let queue = job.queue_with_notes()?;
    let (woken, seen) = channel();
    let broken = Waker::from(Arc::new(Broken));
    let sound = Waker::from(Arc::new(Told(std::sync::Mutex::new(woken))));
    let mut first = queue.recv(None, Some(1));
    let mut second = queue.recv(None, Some(2));

    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&broken)).is_pending());
    assert!(Pin::new(&mut second).poll(&mut Context::from_waker(&sound)).is_pending());
    for tag in [1, 2, 3] {
        job.notify(0, tag, b"")?;
    }
    let dispatch = std::panic::AssertUnwindSafe(|| queue.dispatch());
    assert!(std::panic::catch_unwind(dispatch).is_err());
    assert!(seen.try_recv().is_ok());
    assert!(Pin::new(&mut second).poll(&mut Context::from_waker(&sound)).is_ready());
    assert!(queue.try_recv(None, Some(3))?.is_some());
});

/// A waker that tells that it was woken.
struct Told(std::sync::Mutex<std::sync::mpsc::Sender<()>>);

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().map(|sender| sender.send(()));
    }
}
