// SPDX-License-Identifier: Apache-2.0
//! A server with await and no runtime: it serves squares to all other ranks, several at a time, and
//! sees who has left.
//!
//!     nixlrun -np 3 target/debug/examples/queue
use nixlrun::{block_on, Job, Op, Queue, Region, Result};

const REQUEST: u64 = 1;
const ANSWER: u64 = 2;
const END: u64 = 3;
const N: u64 = 100;

fn main() -> Result<()> {
    let job = Job::join()?;
    let queue = job.queue_with_notes()?;
    let answers = job.region("answers", 8 * N as usize)?;

    if job.rank() == 0 {
        block_on(&queue, serve(&job, &queue, &answers))?;
    } else {
        block_on(&queue, ask(&job, &queue, &answers))?;
    }
    drop((answers, queue));
    job.leave()?;
    Ok(())
}

/// Put each answer where its asker has room for it, and tell it.
async fn serve(job: &Job, queue: &Queue, answers: &Region) -> Result<()> {
    let mut clients = job.size() - 1;
    let mut served = 0;

    while clients > 0 {
        let note = queue.recv(None, None).await?;
        if note.tag == END {
            clients -= 1;
            continue;
        }
        let number = note.message.try_into().map(u64::from_le_bytes).unwrap_or(0);
        let square = vec![number * number];
        let op = Op::new().note(ANSWER, b"");
        queue.put(answers, note.rank, 8 * number, square, &op).await?;
        served += 1;
    }
    println!("rank 0: served {served} requests of {} clients", job.size() - 1);
    Ok(())
}

async fn ask(job: &Job, queue: &Queue, answers: &Region) -> Result<()> {
    let mut squares = vec![0u64; N as usize];

    for number in 0..N {
        queue.notify(0, REQUEST, &number.to_le_bytes())?;
    }
    for _ in 0..N {
        queue.recv(Some(0), Some(ANSWER)).await?;
    }
    answers.read(0, &mut squares)?;
    assert!((0..N).all(|number| squares[number as usize] == number * number));
    queue.notify(0, END, b"")?;
    println!("rank {}: all squares are right", job.rank());
    Ok(())
}
