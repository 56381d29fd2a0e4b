// SPDX-License-Identifier: Apache-2.0
//! How a job begins and ends, in order and otherwise.
use crate::awaits::is_pending;
use crate::{is_rank, other, ranks, run_survivors, start, text};
use nixlrun::{Blocks, Code, Event, Job, Lend, Op, Result};
use std::process::Command;
use std::time::Duration;

const SOON: Option<Duration> = Some(Duration::from_secs(20));

ranks!(a_job_in_use_is_not_left, 1, |job| {
    let second = Job::join()?;
    let kv = second.region("kv", 64)?;
    let failed = second.leave().expect_err("a region has it");
    assert_eq!(failed.error.code(), Code::InUse);
    kv.put(job.rank(), 0, &[1u8])?;
    drop(kv);
    failed.value.leave()?;
    assert_eq!(job.size(), 1);
});

#[test]
fn a_job_is_joined_again() {
    let name = "ranks::life::a_job_is_joined_again";
    if is_rank(name) {
        for _ in 0..2 {
            let job = Job::join().expect("nixl_init");
            job.region("kv", 64).expect("memory");
            job.leave().expect("nixl_finalize");
        }
        return;
    }
    let output = start(2, name, &[]);
    assert!(output.status.success(), "{}", text(&output));
}

/// A region made of a job that has left would lose its memory with one that was joined later.
#[test]
fn no_job_is_joined_beside_one_that_has_left() {
    let name = "ranks::life::no_job_is_joined_beside_one_that_has_left";
    if is_rank(name) {
        let job = Job::join().expect("nixl_init");
        job.team_world(SOON).and_then(|team| team.barrier()).expect("both are there");
        if job.rank() == 0 {
            let failed = job.leave_within(Duration::from_millis(100)).expect_err("it sleeps");
            assert!(failed.error.is_timeout(), "{failed}");
            let none = failed.value.region("kv", 64).expect_err("no job");
            assert_eq!(none.code(), Code::NotInit);
            assert_eq!(Job::join().err().map(|error| error.code()), Some(Code::InUse));
            let failed = failed.value.leave().expect_err("it has left");
            assert_eq!(failed.error.code(), Code::NotInit);
        } else {
            std::thread::sleep(Duration::from_millis(500));
            job.leave().expect("nixl_finalize");
        }
        let job = Job::join().expect("nixl_init");
        job.team_world(SOON).and_then(|team| team.barrier()).expect("both are there");
        job.leave().expect("nixl_finalize");
        return;
    }
    let output = start(2, name, &[]);
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn a_dropped_job_is_left_at_once() {
    let name = "ranks::life::a_dropped_job_is_left_at_once";
    if is_rank(name) {
        let job = Job::join().expect("nixl_init");
        job.team_world(SOON).and_then(|team| team.barrier()).expect("both are there");
        if job.rank() == 1 {
            return; /* as by ? in main */
        }
        let lost = job.recv(Some(1), None, SOON).expect_err("it has left");
        assert!(lost.is_peer_lost(), "{lost}");
        assert_eq!(job.event(SOON).expect("an event"), Event::PeerLeft { rank: 1 });
        job.leave().expect("nixl_finalize");
        return;
    }
    let output = start(2, name, &[]);
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn a_panic_is_a_death() {
    let name = "ranks::life::a_panic_is_a_death";
    if is_rank(name) {
        let job = Job::join().expect("nixl_init");
        let _kv = job.region("kv", 64).expect("memory");
        job.team_world(SOON).and_then(|team| team.barrier()).expect("both are there");
        if job.rank() == 1 {
            panic!("on purpose");
        }
        let lost = job.recv(Some(1), None, SOON).expect_err("it has died");
        assert!(lost.is_peer_lost(), "{lost}");
        std::thread::sleep(Duration::from_secs(30)); /* nixlrun ends it */
        return;
    }
    let output = start(2, name, &[]);
    assert!(!output.status.success());
    assert!(text(&output).contains("on purpose"), "{}", text(&output));
}

#[test]
fn requests_of_a_dead_rank_end() {
    let name = "ranks::life::requests_of_a_dead_rank_end";

    run_survivors(2, name, |job| {
        let n = 64 << 20;
        let kv = job.region("kv", n)?;
        let peer = other(job);
        job.team_world(SOON)?.barrier()?;
        if job.rank() == 1 {
            let mut buffer = vec![0u8; 4096];
            kv.get(peer, 0, &mut buffer)?;
            job.peer(1).kill()?;
        }
        /* A get that is in flight when the rank dies, and one that begins later. */
        let mut last = kv.start_get(peer, 0, vec![0u8; n], &Op::new());
        while let Ok(request) = last {
            match request.wait() {
                Ok(buffer) => last = kv.start_get(peer, 0, buffer, &Op::new()),
                Err(failed) => last = Err(failed),
            }
        }
        let failed = last.expect_err("it has died");
        assert!(failed.error.is_peer_lost(), "{failed:?}");
        assert_eq!(failed.value.len(), n);
        Ok(())
    });
}

#[test]
fn a_rank_that_was_started_again_is_readmitted() {
    let name = "ranks::life::a_rank_that_was_started_again_is_readmitted";
    if is_rank(name) {
        return comes_back().unwrap_or_else(|error| panic!("{error:?}"));
    }
    let output = start(2, name, &["--on-failure", "restart=1"]);
    assert!(output.status.success(), "{}", text(&output));
}

fn comes_back() -> Result<()> {
    let job = Job::join()?;
    let kv = job.region("kv", 64)?;
    let queue = job.queue_with_notes()?;
    let part = job.context("part", None)?;
    let slow = part.queue_with_notes()?;

    if job.rank() == 1 {
        if job.incarnation() == 0 {
            nixlrun::block_on(&queue, queue.recv(Some(0), Some(1)))?;
            job.peer(1).kill()?;
        }
        queue.notify(0, 2, b"")?;
        slow.notify(0, 5, b"part")?;
        nixlrun::block_on(&queue, queue.recv(Some(0), Some(3)))?;
        assert_eq!(kv.to_vec()?[..4], *b"new!");
    } else {
        nixlrun::block_on(&queue, async {
            queue.put(&kv, 1, 0, "old", &Op::new().note(1, b"")).await?;
            let lost = queue.recv(Some(1), None).await.expect_err("it has died");
            assert!(lost.is_peer_lost(), "{lost}");
            assert_eq!(queue.event().await?, Event::PeerLost { rank: 1 });
            let (rank, incarnation, name) = (1, 1, String::new());
            assert_eq!(queue.event().await?, Event::PeerJoined { rank, name, incarnation });
            job.peer(1).readmit(1)?;
            queue.recv(Some(1), Some(2)).await?;
            /* This queue hears of the death only now. */
            let from_part = nixlrun::block_on(&slow, slow.recv(Some(1), Some(5)))?;
            assert_eq!(from_part.message, b"part");
            assert_eq!(slow.try_event()?, Some(Event::PeerLost { rank: 1 }));
            assert!(is_pending(&mut slow.recv(Some(1), Some(5))));
            queue.put(&kv, 1, 0, "new!", &Op::new().note(3, b"")).await?;
            Ok(())
        })?;
        assert_eq!(job.peer(1).readmit(7).expect_err("no such process").code(), Code::PeerLost);
    }
    drop((kv, queue, slow, part));
    job.leave()?;
    Ok(())
}

#[test]
fn a_job_is_ended_by_one() {
    let name = "ranks::life::a_job_is_ended_by_one";
    if is_rank(name) {
        let job = Job::join().expect("nixl_init");
        if job.rank() == 0 {
            nixlrun::end_job(7, Some("seven"));
        }
        let _ = job.recv(None, None, None);
        nixlrun::abort(9, "it should have been ended");
    }
    let output = start(2, name, &[]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output));
    assert!(text(&output).contains("seven"));
}

#[test]
fn without_a_job() {
    let (major, minor, _) = nixlrun::library_version();
    let number = format!("{major}.{minor}.");
    assert!(env!("CARGO_PKG_VERSION").starts_with(&number), "{number}");
}

#[test]
fn processes_attach() {
    let name = "ranks::life::processes_attach";
    let place = std::env::temp_dir().join(format!("nixlrun-rust-{}", std::process::id()));
    if is_rank(name) {
        let place = std::env::var("PLACE").expect("a folder");
        attached(&format!("file:{place}"), std::env::var("SIDE").is_err())
            .unwrap_or_else(|error| panic!("{error:?}"));
        return;
    }
    std::fs::create_dir(&place).expect("a folder");
    std::env::set_var("PLACE", &place);
    let output = start(1, name, &[]);
    std::fs::remove_dir_all(&place).expect("a folder");
    assert!(output.status.success(), "{}", text(&output));
}

/// A process that does not outlive its test.
struct Waited(std::process::Child);

impl Drop for Waited {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The server starts a process of another job, which attaches to it.
fn attached(place: &str, is_server: bool) -> Result<()> {
    let job = Job::join()?;
    let kv = job.region("kv", 4096)?;

    if !is_server {
        let server = job.attach(place, "server", "blocks", SOON)?;
        kv.put_with(server, 8, b"attached", &Op::new().note(1, b""))?;
        let queue = job.queue_with_notes()?;
        nixlrun::block_on(&queue, queue.recv(Some(server), Some(2)))?;
        let mut waiting = queue.recv(Some(server), None);
        assert!(is_pending(&mut waiting));
        job.detach(server, SOON)?;
        let lost = nixlrun::block_on(&queue, waiting).expect_err("detached");
        assert!(lost.is_peer_lost(), "{lost}");
        let bad = nixlrun::block_on(&queue, queue.recv(Some(server + 5), None));
        assert_eq!(bad.expect_err("no such rank").code(), Code::InvalidArg);
        drop(queue);
        drop(kv);
        job.leave()?;
        return Ok(());
    }
    job.publish(place, "server", "blocks")?;
    let published = job.published(place, SOON)?;
    assert!(published.iter().any(|(name, pid, _)| name == "server" && *pid == std::process::id()));
    let mut process = Command::new(std::env::current_exe().expect("this program"));
    process.args(["--exact", "life::processes_attach", "--test-threads=1"]);
    process.env_clear().env("SIDE", "client");
    for name in ["PATH", "LD_LIBRARY_PATH", "PLACE", "RANKS_TEST", "NIXLRUN_MODULE_DIR"] {
        if let Some(value) = std::env::var_os(name) {
            process.env(name, value);
        }
    }
    let mut process = Waited(process.spawn().expect("it starts"));
    let joined = job.event(SOON)?;
    let rank = match &joined {
        Event::PeerJoined { rank, name, .. } if name == "server" => *rank,
        other => panic!("{other:?}"),
    };
    assert!(rank >= job.size());
    job.recv(Some(rank), Some(1), SOON)?;
    assert_eq!(&kv.to_vec()?[8..16], b"attached");
    job.notify(rank, 2, b"")?;
    let left = loop {
        match job.event(SOON)? {
            Event::RegionClosed { .. } => {}
            event => break event,
        }
    };
    assert_eq!(left, Event::PeerLeft { rank });
    let queue = job.queue_with_notes()?;
    let mut waiting = queue.recv(Some(rank), None);
    let lost = nixlrun::block_on(&queue, &mut waiting).expect_err("it has left");
    assert!(lost.is_peer_lost(), "{lost}");
    job.detach(rank, SOON)?;
    let lost = nixlrun::block_on(&queue, queue.recv(Some(rank), None)).expect_err("detached");
    assert!(lost.is_peer_lost(), "{lost}");
    drop((waiting, queue));
    assert!(process.0.wait().expect("it ends").success());
    job.unpublish(place, "server")?;
    drop(kv);
    job.leave()?;
    Ok(())
}

extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn alarm(seconds: u32) -> u32;
    fn _exit(status: i32) -> !;
}

/* A forked child, which only looks: the library tells it nothing. */
ranks!(a_forked_child_is_told_so, 1, |job| {
    let team = job.team_world(SOON)?;
    let kv = job.region("kv", 64)?;
    let (_, lent) = job.grant(&Blocks::piece(&kv, 0, 64), &Lend::new())?;
    let looks = || {
        let code = |outcome: Result<()>| outcome.err().map(|error| error.code());
        let codes = [
            code(team.broadcast(0, &mut [0u8])),
            code(team.gather(0, &[1u8], &mut [0u8])),
            code(team.alltoall(&[1u8], &mut [0u8])),
            code(team.allgatherv(&[1], &[1u8], &mut [0u8])),
            code(team.translate(0, None).map(drop)),
        ];

        (team.size(), team.rank(), job.incarnation()) == (0, 0, 0)
            && codes == [Some(Code::Forked); 5]
    };
    let mut status = -1;

    // SAFETY: the child makes calls that fail, and ends.
    unsafe {
        let child = fork();
        if child == 0 {
            alarm(10);
            let ended = lent.wait().expect_err("it is the parent's");
            _exit(if looks() && ended.error.code() == Code::Forked { 7 } else { 1 });
        }
        assert_eq!(waitpid(child, &mut status, 0), child);
    }
    assert_eq!(status, 7 << 8);
});
