// SPDX-License-Identifier: Apache-2.0
//! Teams and collectives.
use crate::{other, ranks};
use nixlrun::{block_on, Code, Kind, Memory, ReduceOp, StatsOp, Strided};
use std::time::Duration;

const SOON: Option<Duration> = Some(Duration::from_secs(20));

ranks!(data_moves_among_all, 3, |job| {
    let team = job.team_world(SOON)?.with_timeout(SOON);
    let (me, n) = (team.rank() as u32, team.size());
    let mut word = [me + 5];

    team.broadcast(2, &mut word)?;
    assert_eq!(word, [7]);
    let mut all = vec![0u32; n];
    team.allgather(&[me], &mut all)?;
    assert_eq!(all, [0, 1, 2]);
    let mut root = if me == 1 { vec![0u32; n] } else { vec![] };
    team.gather(1, &[me * 10], &mut root)?;
    assert_eq!(root, if me == 1 { vec![0, 10, 20] } else { vec![] });
    let mut part = [0u32];
    team.scatter(1, &root, &mut part)?;
    assert_eq!(part, [me * 10]);
    let sent: Vec<u32> = (0..3).map(|to| me * 100 + to).collect();
    team.alltoall(&sent, &mut all)?;
    assert_eq!(all, [me, 100 + me, 200 + me]);

    let counts = [1, 2, 3];
    let mine = vec![me; counts[team.rank()]];
    let mut six = vec![9u32; 6];
    team.allgatherv(&counts, &mine, &mut six)?;
    assert_eq!(six, [0, 1, 1, 2, 2, 2]);
    let mut at_root = if me == 0 { vec![0u32; 6] } else { vec![] };
    team.gatherv(0, if me == 0 { &counts } else { &[] }, &mine, &mut at_root)?;
    assert!(me != 0 || at_root == six);
    let mut back = vec![0u32; counts[team.rank()]];
    team.scatterv(0, if me == 0 { &counts } else { &[] }, &at_root, &mut back)?;
    assert_eq!(back, mine);
    let to_each = [team.rank() + 1; 3];
    let mut received = vec![0u32; 6];
    team.alltoallv(&to_each, &counts, &vec![me; 3 * to_each[0]], &mut received)?;
    assert_eq!(received, [0, 1, 1, 2, 2, 2]);
    let shape = Strided { block_nbytes: 4, nblocks: 1, src_stride: 4, dst_stride: 8 };
    let mut spread = vec![77u32; 6];
    team.alltoall_strided(&sent, &mut spread, &shape)?;
    assert_eq!(spread, [me, 77, 100 + me, 77, 200 + me, 77]);

    let small = team.allgather(&[me], &mut [0u32; 2]).expect_err("too small");
    assert_eq!(small.code(), Code::InvalidArg);
    assert!(small.to_string().contains("dst has 8 bytes; this call needs 12"), "{small}");
    team.barrier()?;
});

ranks!(values_are_combined, 3, |job| {
    let team = job.team_world(SOON)?;
    let me = team.rank() as i64;
    let mut out = [0i64; 2];

    team.allreduce(ReduceOp::Sum, &[me, 1], &mut out)?;
    assert_eq!(out, [3, 3]);
    team.allreduce_in_place(ReduceOp::Max, &mut out)?;
    assert_eq!(out, [3, 3]);
    team.reduce(1, ReduceOp::Prod, &[me + 1, 2], &mut out)?;
    assert_eq!(out, if me == 1 { [6, 8] } else { [3, 3] });
    let mut part = [0f64];
    team.reduce_scatter(ReduceOp::Sum, &[1.5, 2.5, 3.5], &mut part)?;
    assert_eq!(part, [3.0 * (1.5 + me as f64)]);
    let mut sum = [100i32];
    team.scan(ReduceOp::Sum, &[me as i32 + 1], &mut sum)?;
    assert_eq!(sum, [[1, 3, 6][me as usize]]);
    team.exclusive_scan(ReduceOp::Sum, &[me as i32 + 1], &mut sum)?;
    assert_eq!(sum, [[1, 1, 3][me as usize]]);
    let mut pair = [[0u32; 2]];
    team.allreduce_by(
        |a: [u32; 2], b: [u32; 2]| if a[1] >= b[1] { a } else { b },
        &[[me as u32, 10 + me as u32 % 2]],
        &mut pair,
    )?;
    assert_eq!(pair, [[1, 11]]);
    let mut least = [0i64];
    team.reduce_by(0, |a: i64, b: i64| a.min(b), &[5 - me], &mut least)?;
    assert!(me != 0 || least == [3]);

    let (src, dst) = team.start_allreduce(ReduceOp::Sum, vec![me], vec![0i64])?.wait()?;
    assert_eq!((src, dst), (vec![me], vec![3]));
    team.start_barrier()?.wait()?;
    assert_eq!(team.start_broadcast(0, vec![me; 4])?.wait()?, [0; 4]);
    let float = team.allreduce(ReduceOp::Xor, &[1f32], &mut [0f32]).expect_err("no bits");
    assert_eq!(float.code(), Code::InvalidArg);
});

ranks!(teams_are_divided, 4, |job| {
    let world = job.team_world(SOON)?;
    let me = job.rank();
    let half = world.split(Some(me % 2), -me, SOON)?.expect("a color");

    assert_eq!((half.size(), half.rank()), (2, usize::from(me < 2)));
    assert_eq!(half.translate(0, None)?, Some(me % 2 + 2));
    assert_eq!(world.translate(((me + 1) % 4) as usize, Some(&half))?, None);
    assert!(world.split((me == 0).then_some(0), 0, SOON)?.is_some() == (me == 0));
    assert_eq!(job.team_node(SOON)?.size(), 4);
    if me != 3 {
        let three = job.team(&[2, 1, 0], SOON)?;
        assert_eq!((three.size(), three.rank()), (3, 2 - me as usize));
    }
    if me % 2 == 0 {
        assert_eq!(job.team_strided(0, 2, 2, SOON)?.rank(), me as usize / 2);
    }
    assert_eq!(world.shrink(SOON)?.size(), 4);
    let bad = job.team(&[me, me], SOON).expect_err("twice");
    assert_eq!(bad.code(), Code::InvalidArg);
});

ranks!(collectives_are_awaited, 3, |job| {
    let queue = job.queue()?;

    block_on(&queue, async {
        let team = queue.team_world().await?;
        let me = team.rank() as u64;
        let sums = queue.allreduce(&team, ReduceOp::Sum, vec![me, 1], vec![0u64; 2]);
        let (_, sums) = sums.await?;
        assert_eq!(sums, [3, 3]);
        let root = queue.broadcast(&team, 1, vec![me; 3]).await?;
        assert_eq!(root, [1; 3]);
        let failed = queue.allgather(&team, vec![me], vec![0u64; 2]).await.expect_err("small");
        assert_eq!((failed.error.code(), failed.value.1.len()), (Code::InvalidArg, 2));
        queue.barrier(&team).await?;
        let halves = queue.split(&team, (me != 1).then_some(3), 0).await?;
        assert_eq!(halves.map(|half| half.size()), (me != 1).then_some(2));
        let two = queue.team(&[2, 1, 0]).await?;
        assert_eq!(two.rank(), 2 - team.rank());
        Ok(())
    })?;
});

ranks!(collectives_are_prepared, 3, |job| {
    let team = job.team_world(SOON)?.with_timeout(SOON);
    let me = team.rank() as u64;
    let mut sum = team.prepare_allreduce(ReduceOp::Sum, vec![0u64; 4], vec![0u64; 4])?;
    let mut all = team.prepare_allgather(vec![me; 9000], vec![0u64; 27000])?;
    let mut word = team.prepare_broadcast(1, [me])?;
    let (mut total, mut every) = ([0u64; 4], vec![0u64; 27000]);

    for step in 0..5 {
        sum.write_src(&[me + step; 4])?;
        let started = sum.start()?;
        all.write_src(&[me * step; 9000])?;
        all.run()?;
        all.read_dst(&mut every)?;
        assert!((0..27000u64).all(|i| every[i as usize] == i / 9000 * step));
        sum = started.wait()?;
        sum.read_dst(&mut total)?;
        assert_eq!(total, [3 + 3 * step; 4]);
        word.run()?;
    }
    let queue = job.queue()?;
    sum = block_on(&queue, async { Ok(queue.prepared(sum).await?) })?;
    assert_eq!(sum.into_buffers().1, [15; 4]);
    assert_eq!(word.into_buffers().1, [1]);
    let wrong = all.write_src(&[0; 5]).expect_err("another size");
    assert!(wrong.to_string().contains("the source has 9000 items; 5 were given"), "{wrong}");
    let small = team.prepare_alltoall(vec![0u8; 4], vec![0u8; 4]).map(|_| ()).expect_err("4 of 3");
    assert_eq!(small.code(), Code::InvalidArg);
    team.barrier()?;
});

/* A root that becomes 0 when it is shortened, one that becomes -1, and the first that is none. */
ranks!(a_root_is_a_member, 1, |job| {
    let team = job.team_world(SOON)?.with_timeout(SOON);
    let queue = job.queue()?;

    for root in [1usize << 32, usize::MAX, 1] {
        let (src, counts) = (vec![7u8; 4096], [4096]);
        let mut dst = vec![1u8; 16].into_boxed_slice();
        let guard = vec![1u8; 4096];
        let (long, small) = (|| vec![7u8; 4096], || vec![1u8; 16]);
        let codes = [
            team.gather(root, &src, &mut dst[..]).err().map(|error| error.code()),
            team.gatherv(root, &counts, &src, &mut dst[..]).err().map(|error| error.code()),
            team.scatter(root, &src[..16], &mut vec![0u8; 4096]).err().map(|error| error.code()),
            team.scatterv(root, &counts, &src[..16], &mut dst[..]).err().map(|e| e.code()),
            team.reduce(root, ReduceOp::Sum, &src, &mut dst[..]).err().map(|error| error.code()),
            team.reduce_by(root, |a: u8, _| a, &src, &mut dst[..]).err().map(|e| e.code()),
            team.broadcast(root, &mut dst[..]).err().map(|error| error.code()),
            team.start_gather(root, long(), small()).err().map(|failed| failed.error.code()),
            team.start_broadcast(root, small()).err().map(|failed| failed.error.code()),
            team.prepare_gather(root, long(), small()).err().map(|error| error.code()),
            team.prepare_broadcast(root, small()).err().map(|error| error.code()),
            block_on(&queue, async { Ok(queue.gather(&team, root, long(), small()).await) })?
                .err()
                .map(|failed| failed.error.code()),
            block_on(&queue, async { Ok(queue.broadcast(&team, root, small()).await) })?
                .err()
                .map(|failed| failed.error.code()),
            team.translate(root, None).err().map(|error| error.code()),
        ];

        assert_eq!(codes, [Some(Code::InvalidArg); 14], "root {root}");
        assert!(dst.iter().chain(&guard).all(|byte| *byte == 1));
    }
    let text = team.broadcast(1, &mut [0u8]).expect_err("no member").to_string();
    assert!(text.contains("member 1 is none of the 1 of the team"), "{text}");
    team.gather(0, &[5u8], &mut [0u8])?;
    team.barrier()?;
});

/* Memory of a GPU is no memory of the processor: what it has moves by the library. */
ranks!(prepared_parts_of_regions_move_by_the_library, 2, |job| {
    let team = job.team_world(SOON)?.with_timeout(SOON);
    let copies = |op| job.stats_sum(Some(job.rank()), Some(op), None).map(|sum| sum.nops);
    let hidden = Memory::new().no_put().no_get();
    let kinds = [hidden.clone(), hidden.clone().kind(Kind::Cuda), hidden.kind(Kind::Vulkan)];

    for (i, memory) in kinds.iter().enumerate() {
        let kv = match job.region_of("kv", 4096, memory) {
            Err(error) if i > 0 && error.code() == Code::NoDevice => continue,
            kv => kv?,
        };
        let (src, dst) = (kv.slice::<u64>(3..7)?, kv.slice::<u64>(7..11)?);
        let mut sum = team.prepare_allreduce(ReduceOp::Sum, src, dst)?;
        let (puts, gets) = (copies(StatsOp::Put)?, copies(StatsOp::Get)?);
        let mut out = [0u64; 4];

        sum.write_src(&[1, 2, 3, 4])?;
        sum.run()?;
        sum.read_dst(&mut out)?;
        assert_eq!(out, [2, 4, 6, 8]);
        assert!(copies(StatsOp::Put)? == puts + 1 && copies(StatsOp::Get)? == gets + 1);
        drop(sum);
        assert_eq!(&kv.to_vec()?[..32], [[0u8; 8], [0; 8], [0; 8], 1u64.to_ne_bytes()].concat());
        team.barrier()?;
    }
});

/* The library would mix the calls of two threads. */
ranks!(one_thread_at_a_time_uses_a_team, 2, |job| {
    let team = job.team_world(SOON)?.with_timeout(SOON);
    let (peer, queue) = (other(job), job.queue()?);
    let mut sum = team.prepare_allreduce(ReduceOp::Sum, vec![1u64], vec![0u64])?;

    if job.rank() == 0 {
        job.recv(Some(peer), Some(1), SOON)?;
        return team.barrier();
    }
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| team.barrier());
        let code = |error: nixlrun::Error| Some(error.code());
        let mut codes = [None; 5];

        /* Until the thread is in its barrier, which ends when the other rank has the note. */
        std::thread::sleep(Duration::from_millis(500));
        codes[0] = team.with_timeout(None).barrier().err().and_then(code);
        codes[1] = sum.run().err().and_then(code);
        codes[2] = team.start_barrier().err().and_then(code);
        codes[3] = block_on(&queue, async { Ok(queue.barrier(&team).await?) }).err().and_then(code);
        codes[4] = team.prepare_broadcast(0, [0u8]).err().and_then(code);
        job.notify(peer, 1, b"")?;
        assert_eq!(codes, [Some(Code::InUse); 5]);
        waiting.join().expect("no panic")
    })?;
});
