// SPDX-License-Identifier: Apache-2.0
//! Blocks go round a ring: each rank sends what it has to the next one, while it adds what it got
//! before, until all have the sum. The buffers are borrowed, in a scope.
//!
//!     nixlrun -np 4 target/release/examples/ring
use nixlrun::{scope, Change, Job, Op, Result};
use std::time::{Duration, Instant};

const N: usize = 1 << 20;
const SOON: Option<Duration> = Some(Duration::from_secs(30));

fn main() -> Result<()> {
    let job = Job::join()?;
    let nbytes = N * 8;
    let (rank, size) = (job.rank(), job.size());
    /* Two halves, and a word that counts what has arrived. */
    let inbox = job.region("inbox", 2 * nbytes + 8)?;
    let arrived = inbox.signal(2 * nbytes as u64);
    let team = job.team_world(SOON)?;
    let (right, begin) = ((rank + 1) % size, Instant::now());
    let mut block: Vec<u64> = (0..N as u64).map(|i| i + rank as u64).collect();
    let mut sum = block.clone();

    for step in 1..size {
        let half = (step as usize % 2) * nbytes;
        let op = Op::new().signal(&arrived, Change::Add(1));
        let mut next = vec![0u64; N];

        scope(|s| {
            s.put(&inbox, right, half as u64, &block, &op)?;
            arrived.at_least(step as u64, SOON)?;
            inbox.read(half as u64, &mut next)?;
            sum.iter_mut().zip(&next).for_each(|(sum, value)| *sum += value);
            Ok(())
        })?;
        block = next;
        team.barrier()?; /* the right one has read its half */
    }
    let n = size as u64;
    let is_right = (0..N as u64).zip(&sum).all(|(i, sum)| *sum == n * i + n * (n - 1) / 2);
    let seconds = begin.elapsed().as_secs_f64();
    println!("rank {rank}: {} in {seconds:.3} s", if is_right { "right" } else { "wrong" });
    drop((arrived, inbox, team));
    job.leave()?;
    std::process::exit(i32::from(!is_right));
}
