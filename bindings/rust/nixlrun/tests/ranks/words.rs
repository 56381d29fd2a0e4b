// SPDX-License-Identifier: Apache-2.0
//! Signals and atomics.
use crate::{other, ranks};
use nixlrun::{signal_wait_any, AtomicOp, Change, Code, Compare, Op};
use std::time::Duration;

const SOON: Option<Duration> = Some(Duration::from_secs(20));

ranks!(signals_are_raised_behind_the_data, 2, |job| {
    let kv = job.region("kv", 4096)?;
    let peer = other(job);
    let ready = kv.signal(0);
    let op = Op::new().signal(&ready, Change::Add(3));

    kv.put_with(peer, 64, &[7u8; 100], &op)?;
    assert_eq!(ready.at_least(3, SOON)?, 3);
    assert_eq!(kv.to_vec()?[64..164], [7; 100]);
    job.team_world(SOON)?.barrier()?;
    ready.set(peer, 10)?;
    assert_eq!(ready.wait(Compare::Eq, 10, SOON)?, 10);
    job.team_world(SOON)?.barrier()?;
    ready.start_change(peer, Change::Add(1))?.wait()?;
    assert_eq!(ready.wait_on(peer, Compare::Gt, 10, SOON)?, 11);
    assert_eq!(ready.value()?, 11);
    let late = ready.at_least(99, Some(Duration::from_millis(10))).expect_err("less");
    assert!(late.is_timeout());
    let both = [kv.signal(8), kv.signal(16)];
    both[1].add(peer, 5)?;
    assert_eq!(signal_wait_any(&both, Compare::Ge, 5, SOON)?, (1, 5));

    let read = kv.signal(24);
    let mut bytes = [0u8; 8];
    kv.get_with(peer, 64, &mut bytes, &Op::new().signal(&read, Change::Set(2)))?;
    assert_eq!(read.value()?, 2);
    assert_eq!(kv.signal(4).value().expect_err("not aligned").code(), Code::Range);
    assert_eq!(kv.signal(4096).value().expect_err("outside").code(), Code::Range);
    job.team_world(SOON)?.barrier()?;
});

ranks!(atomics_return_old_values, 4, |job| {
    let kv = job.region("kv", 64)?;
    let first = kv.atomic(0, 0, AtomicOp::Add, 1i64)?;

    assert!((0..4).contains(&first));
    job.team_world(SOON)?.barrier()?;
    assert_eq!(kv.atomic(0, 0, AtomicOp::Fetch, 0i64)?, 4);
    kv.atomic_post(0, 8, AtomicOp::Add, 0.5f32)?;
    job.flush(Some(0), None)?;
    job.team_world(SOON)?.barrier()?;
    assert_eq!(kv.start_atomic(0, 8, AtomicOp::Fetch, 0f32)?.wait()?, 2.0);
    let won = kv.compare_swap(0, 16, 0u32, job.rank() as u32 + 1)? == 0;
    let winners = kv.atomic(0, 20, AtomicOp::Add, u32::from(won))?;
    assert!(winners <= 1);
    job.team_world(SOON)?.barrier()?;
    assert_eq!(kv.atomic(0, 20, AtomicOp::Fetch, 0u32)?, 1);
    let seen = kv.start_compare_swap(0, 20, 1u32, 1)?.wait()?;
    assert_eq!(seen, 1);
    job.team_world(SOON)?.barrier()?;
    let odd = kv.atomic(0, 2, AtomicOp::Add, 1u32).expect_err("not aligned");
    assert_eq!(odd.code(), Code::InvalidArg);
    if job.rank() == 0 {
        assert_eq!(kv.word_wait(0, Compare::Eq, 4i64, SOON)?, 4);
        assert_eq!(kv.words_wait(16, 4, 2, Compare::Eq, 1u32, SOON)?.1, 1);
        let outside = kv.words_wait(16, 4, 13, Compare::Eq, 9u32, SOON).expect_err("outside");
        assert_eq!(outside.code(), Code::Range);
    }
    job.team_world(SOON)?.barrier()?;
});
