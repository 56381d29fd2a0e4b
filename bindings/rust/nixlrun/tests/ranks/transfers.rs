// SPDX-License-Identifier: Apache-2.0
//! Prepared transfers, and paired operations.
use crate::{other, ranks};
use nixlrun::{block_on, Blocks, Code, GrantState, Lend, Memory, Op, PairUse, Result, Side};
use std::time::{Duration, Instant};

const SOON: Option<Duration> = Some(Duration::from_secs(20));

ranks!(blocks_move_by_number, 2, |job| {
    let kv = job.region("kv", 64 * 1024)?;
    let own = job.region(None, 4096)?;
    let peer = other(job);
    let blocks = |index: &[u64]| vec![Blocks::indexed(&kv, 0, 1024, index.to_vec())];

    own.write(0, &[1u8; 1024])?;
    own.write(1024, &[2u8; 1024])?;
    let to = job.prepare_put(peer, vec![Blocks::piece(&own, 0, 2048)], blocks(&[9, 3]))?;
    to.run(&Op::new().note(1, b""))?;
    job.recv(Some(peer), Some(1), SOON)?;
    let bytes = kv.to_vec()?;
    assert_eq!((bytes[9 * 1024], bytes[3 * 1024 + 1023], bytes[0]), (1, 2, 0));
    job.team_world(SOON)?.barrier()?;

    to.set_index(Side::Remote, 0, vec![5, 6])?;
    to.start(&Op::new().note(2, b""))?.wait()?;
    job.recv(Some(peer), Some(2), SOON)?;
    let from =
        job.prepare_get(peer, vec![Blocks::strided(&own, 0, 512, 1024, 4)], blocks(&[6, 5]))?;
    from.run(&Op::new())?;
    let back = own.to_vec()?;
    assert_eq!((back[0], back[1024], back[2048], back[3072], back[3584]), (2, 2, 1, 1, 0));
    let info = to.info()?;
    assert_eq!((info.nbytes, info.nblocks, info.nstarts), (2048, 2, 2));

    assert_eq!(to.set_index(Side::Local, 7, vec![]).expect_err("none").code(), Code::InvalidArg);
    to.set_index(Side::Remote, 0, vec![5, 64])?;
    assert_eq!(to.run(&Op::new()).expect_err("outside").code(), Code::Range);
    let uneven = job.prepare_put(peer, vec![Blocks::piece(&own, 0, 7)], blocks(&[1]));
    assert_eq!(uneven.err().expect("other sizes").code(), Code::InvalidArg);
    job.team_world(SOON)?.barrier()?;
});

ranks!(blocks_of_all_extents, 2, |job| {
    let peer = other(job);
    let layers: Vec<Vec<u8>> = (0..6).map(|layer| vec![layer; 1000]).collect();
    let kv = job.register_all("kv", layers, &Memory::new())?;
    let own = job.region(None, 600)?;
    let theirs = vec![Blocks::indexed(&kv, 0, 100, vec![4]).extents(0, None)];

    job.prepare_get(peer, vec![Blocks::piece(&own, 0, 600)], theirs)?.run(&Op::new())?;
    let expected: Vec<u8> = (0..6).flat_map(|layer| vec![layer; 100]).collect();
    assert_eq!(own.to_vec()?, expected);
    job.team_world(SOON)?.barrier()?;
});

ranks!(blocks_are_lent, 2, |job| {
    let kv = job.region("kv", 4096)?;

    if job.rank() == 0 {
        kv.write(0, &[7u8; 4096])?;
        let pages = Blocks::indexed(&kv, 0, 512, vec![1, 3]);
        let (token, lent) = job.grant(&pages, &Lend::new().uses(2))?;
        let lifetime = Duration::from_secs(30);
        let write = Lend::new().for_writing().lifetime(lifetime);
        let (second, revoked) = job.grant(&Blocks::piece(&kv, 0, 512), &write)?;

        job.notify(1, 1, format!("{token} {second}").as_bytes())?;
        lent.wait()?;
        job.recv(Some(1), Some(2), SOON)?;
        assert_eq!(kv.to_vec()?[..512], [9; 512]);
        job.grant_revoke(&second, SOON)?;
        let ended = revoked.wait().expect_err("revoked");
        assert_eq!(ended.error.code(), Code::Canceled);
        assert_eq!(job.grant_query(&second)?.state, GrantState::Revoked);
        job.notify(1, 3, b"")?;
    } else {
        let note = job.recv(Some(0), Some(1), SOON)?;
        let text = String::from_utf8(note.message).expect("tokens are text");
        let (token, second) = text.split_once(' ').expect("two tokens");
        let own = job.region(None, 1024)?;
        let theirs = vec![Blocks::indexed(&kv, 0, 512, vec![3, 1])];
        let pages = job.prepare_get(0, vec![Blocks::piece(&own, 0, 1024)], theirs)?;
        let info = job.grant_query(token)?;

        assert_eq!((info.rank, info.state, info.uses_left), (0, GrantState::Open, Some(2)));
        assert_eq!((info.may_read, info.may_write, info.nbytes), (true, false, 1024));
        let other = kv.get_with(0, 0, &mut [0u8; 8], &Op::new().grant(token));
        assert_eq!(other.expect_err("not lent").code(), Code::Access);
        pages.run(&Op::new().grant(token))?;
        assert_eq!(own.to_vec()?, [7; 1024]);
        kv.get_with(0, 512, &mut [0u8; 8], &Op::new().grant(token))?;
        let third = kv.get_with(0, 512, &mut [0u8; 8], &Op::new().grant(token));
        assert_eq!(third.expect_err("used").code(), Code::Stale);
        job.grant_renew(second, None)?;
        kv.put_with(0, 0, &[9u8; 512], &Op::new().grant(second).note(2, b""))?;
        job.recv(Some(0), Some(3), SOON)?;
        let late = kv.put_with(0, 0, &[9u8; 512], &Op::new().grant(second));
        assert_eq!(late.expect_err("revoked").code(), Code::Stale);
    }
    job.team_world(SOON)?.barrier()?;
});

ranks!(tokens_are_for_one_use, 2, |job| {
    let kv = job.region("kv", 4096)?;

    if job.rank() == 0 {
        kv.write(100, &[8u8; 50])?;
        let (token, read) = kv.expose(100..150, PairUse::Read, None, SOON)?;
        let (second, filled) = kv.expose(0..10, PairUse::Write, Some(1), None)?;
        let (third, declined) = kv.expose(0..10, PairUse::Read, Some(1), None)?;
        let (_, taken_back) = kv.expose(0..10, PairUse::Read, Some(1), None)?;

        job.notify(1, 1, [token, second, third].join(" ").as_bytes())?;
        read.wait()?;
        filled.wait()?;
        assert_eq!(kv.to_vec()?[..10], [4; 10]);
        let canceled = declined.wait().expect_err("declined");
        assert_eq!(canceled.error.code(), Code::Canceled);
        taken_back.cancel(SOON)?;
    } else {
        let note = job.recv(Some(0), Some(1), SOON)?;
        let text = String::from_utf8(note.message).expect("tokens are text");
        let tokens: Vec<&str> = text.split(' ').collect();
        let info = job.pair_query(tokens[0])?;

        assert_eq!((info.rank, info.usage, info.nbytes), (0, PairUse::Read, 50));
        assert_eq!(job.pair_read(tokens[0], vec![0u8; 50])?.wait()?, vec![8; 50]);
        let again = job.pair_read(tokens[0], vec![0u8; 50]).expect_err("used");
        assert_eq!((again.error.code(), again.value.len()), (Code::Stale, 50));
        job.pair_write(tokens[1], vec![4u8; 10])?.wait()?;
        job.pair_decline(tokens[2])?;
        assert_eq!(job.pair_query("nonsense").expect_err("bad").code(), Code::InvalidArg);
    }
    job.team_world(SOON)?.barrier()?;
});

ranks!(no_time_is_not_all_time, 2, |job| {
    let kv = job.region("kv", 4096)?;
    let hasty = job.context("hasty", Some(Duration::ZERO))?;
    let lend = Lend::new().lifetime(Duration::ZERO);
    let (token, mut lent) = job.grant(&Blocks::piece(&kv, 0, 64), &lend)?;

    assert!(lent.wait_for(Duration::from_secs(5)));
    assert_eq!(lent.wait().expect_err("its time is over").error.code(), Code::Expired);
    let late = kv.get_with(job.rank(), 0, &mut [0u8; 8], &Op::new().grant(&token));
    assert_eq!(late.expect_err("its time is over").code(), Code::Stale);
    let (team, world) = (hasty.team_world(SOON)?, job.team_world(SOON)?);
    if job.rank() == 0 {
        assert!(team.barrier().expect_err("the other is elsewhere").is_timeout());
    }
    world.barrier()?;
});

/* An index that was replaced is freed: no start of another thread may read it any more. */
ranks!(one_thread_at_a_time_uses_a_transfer, 1, |job| {
    let n = 2000;
    let (kv, own) = (job.region("kv", 8 * n)?, job.region(None, 8 * n)?);
    let index: Vec<u64> = (0..n as u64).rev().collect();
    let local = vec![Blocks::indexed(&own, 0, 8, index.clone())];
    let remote = vec![Blocks::piece(&kv, 0, 8 * n as u64)];
    let transfer = job.prepare_put(job.rank(), local, remote)?;
    let queue = job.queue()?;
    let until = Instant::now() + Duration::from_secs(2);
    let is_good = |outcome: Result<()>| match outcome {
        Ok(()) => true,
        Err(error) if error.code() == Code::InUse => false,
        Err(error) => panic!("{error:?}"),
    };

    std::thread::scope(|scope| {
        let setting = scope.spawn(|| {
            while Instant::now() < until {
                is_good(transfer.set_index(Side::Local, 0, index.clone()));
                drop(vec![u64::MAX; n]); /* where the old one was, maybe */
            }
        });
        let mut n_good = 0;

        while Instant::now() < until {
            n_good += usize::from(is_good(transfer.run(&Op::new())));
            let started = transfer.start(&Op::new()).and_then(|request| Ok(request.wait()?));
            n_good += usize::from(is_good(started));
            let awaited = block_on(&queue, async {
                queue.transfer(&transfer, &Op::new()).await?;
                Ok(())
            });
            n_good += usize::from(is_good(awaited));
        }
        setting.join().expect("no failure");
        assert!(n_good > 0);
    });
});
