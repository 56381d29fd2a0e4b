// SPDX-License-Identifier: Apache-2.0
//! Each rank puts a greeting into the memory of the next one.
//!
//!     nixlrun -np 4 target/debug/examples/hello
use nixlrun::{Job, Op};

fn main() -> nixlrun::Result<()> {
    let job = Job::join()?;
    let inbox = job.region("box", 64)?;
    let right = (job.rank() + 1) % job.size();
    let text = format!("hello from rank {}", job.rank());

    inbox.put_with(right, 0, &text, &Op::new().note(7, b""))?;
    job.recv(None, Some(7), None)?;
    let bytes = inbox.to_vec()?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    println!("rank {}: {}", job.rank(), String::from_utf8_lossy(&bytes[..end]));
    drop(inbox);
    job.leave()?;
    Ok(())
}
