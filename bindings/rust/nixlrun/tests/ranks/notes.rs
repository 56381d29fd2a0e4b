// SPDX-License-Identifier: Apache-2.0
//! Notifications, events, contexts, channels and what is known of ranks.
use crate::awaits::is_pending;
use crate::{other, ranks, run_survivors};
use nixlrun::{block_on, Code, Event, RankScope, State, StatsOp, MAX_UNMATCHED};
use std::time::Duration;

const SOON: Option<Duration> = Some(Duration::from_secs(20));

ranks!(notes_match_by_rank_and_tag, 2, |job| {
    let peer = other(job);

    assert_eq!(job.try_recv(None, None)?, None);
    job.team_world(SOON)?.barrier()?;
    for tag in [1u64, 2, 0x12] {
        job.notify(peer, tag, &tag.to_le_bytes())?;
    }
    assert_eq!(job.recv(None, Some(2), SOON)?.tag, 2);
    assert_eq!(job.recv_masked(Some(peer), 0x10, 0xf0, SOON)?.tag, 0x12);
    let last = job.recv(Some(peer), None, SOON)?;
    assert_eq!((last.tag, last.message), (1, 1u64.to_le_bytes().to_vec()));
    let late = job.recv(None, Some(3), Some(Duration::from_millis(20))).expect_err("none");
    assert!(late.is_timeout());
    assert!(job.recv(None, Some(3), Some(Duration::ZERO)).expect_err("none").is_timeout());
    let long = job.notify(peer, 1, &[0; nixlrun::NOTE_MAX + 1]).expect_err("too long");
    assert_eq!(long.code(), Code::InvalidArg);
    job.team_world(SOON)?.barrier()?;
});

ranks!(contexts_have_their_own, 2, |job| {
    let peer = other(job);
    let part = job.context("part", Some(Duration::from_secs(9)))?;

    part.notify(peer, 1, b"part")?;
    job.notify(peer, 1, b"job")?;
    assert_eq!(job.recv(None, Some(1), SOON)?.message, b"job");
    assert_eq!(part.recv(None, Some(1), SOON)?.message, b"part");
    let twice = job.context("part", None).err().expect("it is open");
    assert_eq!(twice.code(), Code::NameInUse);
    let kv = part.region("kv", 64)?;
    drop(part);
    let own = job.region("kv", 128)?;
    assert_eq!((kv.query(peer, SOON)?.nbytes, own.query(peer, SOON)?.nbytes), (64, 128));
    job.team_world(SOON)?.barrier()?;
});

ranks!(ranks_are_known, 2, |job| {
    let me = job.peer(job.rank()).info()?;
    let peer = job.peer(other(job));
    let info = peer.info()?;

    assert_eq!((me.scope, info.scope), (RankScope::Itself, RankScope::Local));
    assert_eq!((info.rank, info.job, info.state), (other(job), me.job, State::Alive));
    assert_eq!(info.host, me.host);
    assert_eq!(peer.state()?, State::Alive);
    assert!(peer.routes()?.iter().any(|route| route.is_chosen && route.transport == "shm"));
    job.notify(other(job), 5, b"abc")?;
    let sent = job.stats_sum(Some(other(job)), Some(StatsOp::Notify), None)?;
    assert_eq!((sent.nops, sent.nbytes, sent.rank), (1, 3, Some(other(job))));
    assert!(job.stats()?.iter().any(|row| row.op == Some(StatsOp::Notify) && row.nops == 1));
    job.recv(Some(other(job)), Some(5), SOON)?;
    assert!(job.peer(99).info().is_err() && job.peer(-1).state().is_err());
    assert_eq!(job.local(), (job.rank(), 2));
    assert_eq!((job.program(), job.ranks().len()), (0, 2));
    job.team_world(SOON)?.barrier()?;
});

ranks!(channels_carry_items_in_order, 3, |job| {
    if job.rank() == 0 {
        let mut from_any = job.consumer("work", None, 64, 4)?;
        let mut next = [0u32; 3];

        for _ in 0..2000 {
            let item = from_any.recv(SOON)?;
            let rank = item.rank() as usize;
            let number = item[..4].try_into().map(u32::from_le_bytes).expect("four bytes");

            assert_eq!(number, next[rank]);
            next[rank] += 1;
        }
        assert!(from_any.recv(Some(Duration::ZERO)).err().expect("none").is_timeout());
        from_any.close(SOON)?;
        job.team_world(SOON)?.barrier()?;
        return Ok(());
    }
    let mut work = job.producer("work", 0, 64, 4)?;
    for number in 0..1000u32 {
        if number % 2 == 0 {
            work.send(&number.to_le_bytes(), SOON)?;
        } else {
            let mut slot = work.acquire(SOON)?;
            slot[..4].copy_from_slice(&number.to_le_bytes());
            slot.publish(4)?;
        }
    }
    assert_eq!(work.send(&[0; 65], SOON).expect_err("too long").code(), Code::InvalidArg);
    job.team_world(SOON)?.barrier()?;
});

ranks!(a_closed_channel_is_stale, 2, |job| {
    if job.rank() == 0 {
        job.producer("one", 1, 8, 2)?.send(b"last", SOON)?;
    } else {
        let mut consumer = job.consumer("one", Some(0), 8, 2)?;
        assert_eq!(&consumer.recv(SOON)?[..], b"last");
        assert_eq!(consumer.recv(SOON).err().expect("closed").code(), Code::Stale);
    }
    job.team_world(SOON)?.barrier()?;
});

ranks!(attaching_by_a_name, 2, |job| {
    let folder = std::env::temp_dir();
    let place = format!("file:{}", folder.display());
    let name = format!("rust-{}", std::process::id());

    job.publish(&place, &name, "blocks")?;
    let own = job.attach(&place, &name, "blocks", Some(Duration::ZERO)).expect_err("itself");
    assert_eq!(own.code(), Code::InvalidArg);
    let other = job.attach(&place, "rust-nobody", "", Some(Duration::ZERO)).expect_err("none");
    assert!(other.is_timeout() || other.code() == Code::NotFound, "{other}");
    job.unpublish(&place, &name)?;
    assert_eq!(job.unpublish(&place, &name).expect_err("gone").code(), Code::NotFound);
    let bad = job.detach(99, SOON).expect_err("not attached");
    assert_eq!(bad.code(), Code::InvalidArg);
    assert!(job.try_event()?.is_none());
    assert_eq!(Event::LauncherLost.gone(), None);
});

ranks!(a_full_queue_loses_no_note, 1, |job| {
    let (me, queue) = (job.rank(), job.queue_with_notes()?);
    let code = |outcome: nixlrun::Result<usize>| outcome.err().map(|error| error.code());

    for n in 1..=MAX_UNMATCHED as u64 {
        job.notify(me, n, b"")?;
        if n % 32 == 0 {
            assert_eq!(queue.dispatch()?, 32);
        }
    }
    assert_eq!(code(queue.dispatch()), Some(Code::Limit));
    assert_eq!(queue.try_recv(None, Some(1))?.map(|note| note.rank), Some(me));
    /* There is room for one, which comes with others. */
    let mut wanted = queue.recv(None, Some(u64::MAX));
    assert!(is_pending(&mut wanted));
    for tag in 1..=20 {
        job.notify(me, tag << 32, &[tag as u8])?;
    }
    job.notify(me, u64::MAX, b"wanted")?;
    assert_eq!(block_on(&queue, wanted)?.message, b"wanted");
    for _ in 0..3 {
        assert_eq!(code(queue.dispatch()), Some(Code::Limit));
    }
    for tag in 1..=20 {
        let note = queue.try_recv(Some(me), Some(tag << 32))?;
        assert_eq!(note.map(|note| note.message), Some(vec![tag as u8]));
    }
    let rest: Vec<u64> =
        std::iter::from_fn(|| queue.try_recv(None, None).ok()?).map(|note| note.tag).collect();
    assert!(rest.into_iter().eq(2..=MAX_UNMATCHED as u64));
    assert_eq!(queue.dispatch()?, 0);
});

#[test]
fn what_the_dead_have_sent_comes_before_their_end() {
    let name = "ranks::notes::what_the_dead_have_sent_comes_before_their_end";

    run_survivors(2, name, |job| {
        let (team, me) = (job.team_world(SOON)?, job.rank());
        let queue = job.queue_with_notes()?;

        for n in 1..=MAX_UNMATCHED as u64 * u64::from(me == 0) {
            job.notify(me, n, b"")?;
            if n % 32 == 0 {
                queue.dispatch()?;
            }
        }
        team.barrier()?;
        if me == 1 {
            for tag in 1..=200 {
                job.notify(0, tag, b"")?;
            }
            job.peer(1).kill()?;
        }
        while job.peer(1).state()? == State::Alive {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut last = queue.recv(Some(1), Some(200));
        assert!(is_pending(&mut last));
        for tag in 1..200 {
            while queue.try_recv(Some(1), Some(tag))?.is_none() {
                if queue.dispatch().is_err() {
                    queue.try_recv(Some(me), None)?.expect("the queue is full of these");
                }
            }
        }
        while queue.try_recv(Some(me), None)?.is_some() {}
        assert_eq!(block_on(&queue, last)?.tag, 200);
        assert!(block_on(&queue, queue.recv(Some(1), None)).expect_err("dead").is_peer_lost());
        Ok(())
    });
}
