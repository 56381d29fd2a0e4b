// SPDX-License-Identifier: Apache-2.0
//! Regions: puts and gets of all kinds of buffers, and who owns them.
use crate::{other, ranks};
use nixlrun::{scope, Code, Kind, Memory, Op, Outcome};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

const SOON: Option<Duration> = Some(Duration::from_secs(20));

fn pattern(nbytes: usize, seed: usize) -> Vec<u8> {
    (0..nbytes).map(|i| (i * 7 + i / 251 + seed * 31) as u8).collect()
}

ranks!(put_and_get, 2, |job| {
    let kv = job.region("kv", 4096)?;
    let peer = other(job);

    kv.put(peer, 0, &pattern(1000, job.rank() as usize))?;
    kv.put(peer, 1000, &[1u32, 2, 3])?;
    kv.put_with(peer, 2000, "text", &Op::new().note(7, b"all"))?;
    let note = job.recv(Some(peer), Some(7), SOON)?;
    assert_eq!((note.rank, &note.message[..], note.is_stale), (peer, &b"all"[..], false));

    let mut bytes = vec![0u8; 1000];
    kv.read(0, &mut bytes)?;
    assert_eq!(bytes, pattern(1000, peer as usize));
    let mut numbers = [0u32; 3];
    kv.get(job.rank(), 1000, &mut numbers)?;
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(&kv.to_vec()?[2000..2004], b"text");
    let bytes = kv.bytes().expect("host memory");
    assert_eq!(bytes[2000].load(Ordering::Relaxed), b't');

    let mut theirs = vec![0u8; 1000];
    kv.get_with(peer, 0, &mut theirs, &Op::new().note(8, b""))?;
    assert_eq!(theirs, pattern(1000, job.rank() as usize));
    job.recv(Some(peer), Some(8), SOON)?;
});

ranks!(failures_have_their_detail, 2, |job| {
    let kv = job.region("kv", 64)?;
    let peer = other(job);
    let range = kv.put(peer, 60, &[0u8; 8]).expect_err("outside");
    assert_eq!((range.code(), range.rank()), (Code::Range, Some(peer)));
    assert_eq!(range.operation(), "nixl_put");
    assert!(range.to_string().contains("64"), "{range}");
    assert_eq!(range.code().status(), -2);

    let taken = job.region("kv", 64).expect_err("taken");
    assert_eq!(taken.code(), Code::NameInUse);
    assert_eq!(job.region("", 64).expect_err("empty").code(), Code::InvalidArg);
    assert_eq!(job.region("a\0b", 64).expect_err("a zero").code(), Code::InvalidArg);
    assert_eq!(kv.put(17, 0, &[0u8]).expect_err("no such rank").code(), Code::InvalidArg);
    let io: std::io::Error = range.into();
    assert_eq!(io.kind(), std::io::ErrorKind::InvalidInput);

    let closed = job.region("closed", 64)?;
    job.team_world(SOON)?.barrier()?;
    assert!(closed.is_published(peer, SOON)?);
    job.team_world(SOON)?.barrier()?;
    closed.close(SOON)?;
    job.team_world(SOON)?.barrier()?;
    let again = job.open("closed")?;
    assert!(!again.is_published(peer, SOON)?);
});

ranks!(a_region_in_use_is_not_closed, 1, |job| {
    let kv = job.region("kv", 64)?;
    let signal = kv.signal(0);
    let failed = kv.close(SOON).expect_err("a signal has it");
    assert_eq!(failed.error.code(), Code::InUse);
    drop(signal);
    failed.value.close(SOON)?;
    job.region("kv", 64)?;
});

ranks!(memory_is_given_and_comes_back, 2, |job| {
    let peer = other(job);
    let mine = job.register("mine", vec![0u64; 512], &Memory::new())?;
    mine.put(peer, 8, &[u64::MAX, job.rank() as u64])?;
    job.team_world(SOON)?.barrier()?;
    assert_eq!(mine.query(peer, SOON)?.nbytes, 4096);
    assert!(mine.query(job.rank(), SOON)?.is_registered);
    job.team_world(SOON)?.barrier()?;
    let back = mine.close(SOON)?;
    assert_eq!((back.len(), back[0], back[1], back[2]), (512, 0, u64::MAX, peer as u64));

    let pieces = vec![vec![0u8; 100], vec![0u8; 50]];
    let all = job.register_all("all", pieces, &Memory::new())?;
    all.put(peer, 100, &[5u8; 50])?;
    assert_eq!(all.put(peer, 90, &[5u8; 50]).expect_err("two extents").code(), Code::Range);
    job.team_world(SOON)?.barrier()?;
    assert_eq!(all.query(peer, SOON)?.nextents, 2);
    assert_eq!(all.query_extent(peer, 1, SOON)?.offset, 100);
    assert!(all.slice::<u8>(0..10).is_err());
    job.team_world(SOON)?.barrier()?;
    assert_eq!(all.close(SOON)?, vec![vec![0u8; 100], vec![5u8; 50]]);

    let taken = job.region("taken", 64)?;
    let failed = job.register("taken", [9u8; 8], &Memory::new()).err().expect("taken");
    assert_eq!((failed.error.code(), failed.value), (Code::NameInUse, [9; 8]));
    drop(taken);
});

ranks!(requests_give_buffers_back, 2, |job| {
    let n = 3 << 20;
    let kv = job.region("kv", n)?;
    let peer = other(job);
    let shared: Arc<[u8]> = pattern(n, job.rank() as usize).into();

    let put = kv.start_put(peer, 0, shared.clone(), &Op::new().note(1, b""))?;
    assert!(Arc::ptr_eq(&put.wait()?, &shared));
    job.recv(Some(peer), Some(1), SOON)?;
    let mut get = kv.start_get(peer, 0, vec![0u8; n], &Op::new())?;
    assert!(get.wait_for(Duration::from_secs(20)) && get.is_done());
    assert_eq!(get.wait()?, &shared[..]);

    let failed = kv.start_put(peer, n as u64, vec![3u8; 8], &Op::new()).expect_err("outside");
    assert_eq!((failed.error.code(), failed.value), (Code::Range, vec![3; 8]));

    let (outcome, back) = kv.start_get(peer, 0, vec![0u8; n], &Op::new())?.cancel(SOON)?;
    assert_eq!(back.len(), n);
    assert!(outcome != Outcome::Done || back == shared[..]);
    drop(kv.start_get(peer, 0, vec![0u8; n], &Op::new())?);

    let mut many = Vec::new();
    for part in 0..8 {
        many.push(kv.start_get(peer, part * 1000, vec![0u8; 300_000], &Op::new())?);
    }
    while !many.is_empty() {
        assert!(!nixlrun::cancel_questions(None)?); // nobody asks anything
        let index = nixlrun::wait_any(&mut many, SOON)?;
        assert_eq!(many.remove(index).wait()?.len(), 300_000);
    }
    job.team_world(SOON)?.barrier()?;
});

ranks!(scopes_wait_for_what_they_borrow, 2, |job| {
    let n = 2 << 20;
    let kv = job.region("kv", n)?;
    let peer = other(job);
    let block = pattern(n, job.rank() as usize);
    let mut there = vec![0u8; n];
    let mut first = [0u8; 4];

    let sum = scope(|s| {
        let put = s.put(&kv, peer, 0, &block, &Op::new().note(1, b""))?;
        assert_eq!(put.wait()?.len(), n);
        job.recv(Some(peer), Some(1), SOON)?;
        std::mem::forget(s.get(&kv, peer, 0, &mut there[..], &Op::new())?);
        let filled = s.get(&kv, peer, 0, &mut first, &Op::new())?.wait()?;
        filled[3] = 0;
        Ok(filled.iter().map(|byte| u32::from(*byte)).sum::<u32>())
    })?;
    assert_eq!(there, block);
    assert_eq!(sum, block[..3].iter().map(|byte| u32::from(*byte)).sum());

    let failed = scope(|s| {
        s.put(&kv, peer, 1, &block, &Op::new())?;
        Ok(())
    });
    assert_eq!(failed.expect_err("outside").code(), Code::Range);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = scope::<(), _>(|s| {
            s.get(&kv, peer, 0, &mut there[..], &Op::new())?;
            panic!("within the scope");
        });
    }));
    assert!(caught.is_err());
    job.team_world(SOON)?.barrier()?;
});

ranks!(slices_are_sources_and_destinations, 2, |job| {
    let kv = job.region("kv", 4096)?;
    let scratch = job.region(None, 4096)?;
    let peer = other(job);
    let mut numbers = scratch.slice::<u32>(4..8)?;

    scratch.write(16, &[1u32, 2, 3, 4])?;
    kv.put(peer, 0, &numbers)?;
    job.flush(Some(peer), SOON)?;
    scratch.write(16, &[0u32; 4])?;
    kv.get(peer, 0, &mut numbers)?;
    let mut back = [0u32; 4];
    scratch.read(16, &mut back)?;
    assert_eq!(back, [1, 2, 3, 4]);
    assert_eq!((numbers.len(), numbers.is_empty()), (4, false));
    assert_eq!(kv.slice::<u64>(500..513).expect_err("outside").code(), Code::Range);
    let unnamed = scratch.put(peer, 0, &[0u8]).expect_err("no name");
    assert_eq!(unnamed.code(), Code::InvalidArg);
    let mapped = kv.map(peer)?;
    assert!(!mapped.as_ptr().is_null());
    assert!(!kv.routes(peer, None)?.is_empty());
    job.team_world(SOON)?.barrier()?;
});

ranks!(kinds_and_access, 2, |job| {
    let peer = other(job);
    let memory = Memory::new().no_put().pinned().populate();
    let kv = job.region_of("kv", 1 << 16, &memory)?;
    let info = kv.query(peer, SOON)?;

    assert!(info.no_put && !info.no_get && info.kind == Kind::Host);
    assert_eq!(kv.put(peer, 0, &[0u8]).expect_err("no puts").code(), Code::Access);
    let nowhere = job.region_of("numa", 4096, &Memory::new().numa_node(9999));
    assert_eq!(nowhere.expect_err("no such node").code(), Code::NoDevice);
    match job.region_of("gpu", 4096, &Memory::new().kind(Kind::Cuda)) {
        Ok(gpu) => {
            gpu.write(0, &[1u8, 2, 3])?;
            assert!(gpu.bytes().is_none());
            assert_eq!(gpu.to_vec()?[..3], [1, 2, 3]);
        }
        Err(error) => assert_eq!(error.code(), Code::NoDevice, "{error}"),
    }
    job.team_world(SOON)?.barrier()?;
});
