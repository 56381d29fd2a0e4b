// SPDX-License-Identifier: Apache-2.0
//! Move memory between the processes of a job, by rank: safe types over libnixlrun.
//!
//! `nixlrun -np 4 ./program` starts the ranks. Each has named memory, which the others write and
//! read, and is told by notifications and signals what has arrived:
//!
//! ```no_run
//! fn main() -> nixlrun::Result<()> {
//!     let job = nixlrun::Job::join()?;
//!     let inbox = job.region("box", 64)?;
//!     let right = (job.rank() + 1) % job.size();
//!
//!     inbox.put_with(right, 0, b"hello", &nixlrun::Op::new().note(7, b""))?;
//!     let note = job.recv(None, Some(7), None)?;
//!     let mut text = [0u8; 5];
//!     inbox.read(0, &mut text)?;
//!     println!("rank {} says {}", note.rank, String::from_utf8_lossy(&text));
//!     drop(inbox);
//!     job.leave()?;
//!     Ok(())
//! }
//! ```
//!
//! # What is where
//!
//! | | |
//! |---|---|
//! | [`Job`], [`Context`], [`Rank`] | joining and leaving; components; what is known of a rank |
//! | [`Region`], [`Slice`], [`Memory`] | memory: allocated, registered, opened, of any kind |
//! | [`File`], [`Directory`], [`Objects`] | what is stored, as regions |
//! | [`Op`], [`Request`], [`scope()`] | what goes with an operation; starting them |
//! | [`Signal`], [`AtomicOp`] | words |
//! | [`Transfer`], [`Blocks`] | many pieces at once |
//! | [`Note`], [`Event`] | what is received |
//! | [`Context::grant`], [`Region::expose`] | blocks that are lent, by tokens |
//! | [`Producer`], [`Consumer`] | channels |
//! | [`Team`] | collectives |
//! | [`Queue`], [`block_on`], [`Driver`] | `await` |
//! | [`Error`], [`Code`], [`Failed`] | failures |
//!
//! The manual of the library, nixlrun(7), says what is guaranteed on order and visibility, and the
//! page of each call what it costs.
//!
//! # Memory in flight
//!
//! Safe code cannot free or change memory that an operation uses. A call that waits borrows its
//! buffers. Those that start an operation either own them until its end, and give them back
//! ([`Region::start_put`], all futures), or borrow them within a [`scope()`]. The memory of a region
//! is changed by other ranks at any time, and so is never lent as plain values; see [`Region`].
//!
//! # await
//!
//! A [`Queue`] turns operations, notifications, events and waits for signals into futures. It has a
//! descriptor, and neither a runtime nor a thread of its own; see there how any executor drives it.
//!
//! # Times
//!
//! A timeout is `Option<Duration>`: `None` is no limit, zero a test. What takes longer fails with
//! [`Code::Timeout`]. Calls without one end within NIXLRUN_OP_TIMEOUT, 60 s unless it is set.
//!
//! # Threads, fork, exit
//!
//! All types may be used by several threads, but for the ends of channels, which one thread uses at
//! a time; of a [`Team`] one thread is in a collective, and one starts a [`Transfer`], while others
//! get [`Code::InUse`]. A forked child gets [`Code::Forked`] from every call. See [`Job`] for how a
//! job ends.
#![warn(missing_docs)]
#![warn(unsafe_op_in_unsafe_fn)]

mod aio;
mod buffer;
mod channel;
mod collective;
mod context;
mod directory;
mod error;
mod executor;
mod file;
mod flight;
mod grant;
mod inbox;
mod job;
mod log;
mod memory;
mod note;
mod object;
mod op;
mod pair;
mod panics;
mod prepared;
mod put_get;
mod queue;
mod rank;
mod region;
mod registered;
mod request;
mod scope;
mod signal;
mod stats;
mod team;
mod time;
mod transfer;
mod view;

pub use aio::{Completion, SignalWait};
pub use buffer::{Bf16, Buffer, BufferMut, Element, Plain, Word, F16};
pub use channel::{Consumer, Item, Producer, Slot};
pub use collective::ReduceOp;
pub use context::Context;
pub use directory::Directory;
pub use error::{Code, Error, Failed, Result};
pub use executor::{block_on, Driver};
pub use file::File;
pub use grant::{GrantInfo, GrantState, Lend};
pub use inbox::{NextEvent, Recv, MAX_UNMATCHED};
pub use job::{abort, end_job, library_version, Job};
pub use log::{log_to, log_to_stderr, Level};
pub use memory::{Kind, Memory, RegionInfo};
pub use note::{Event, Note, NOTE_MAX};
pub use object::{ObjectInfo, Objects};
pub use op::Op;
pub use pair::{PairInfo, PairUse};
pub use prepared::Prepared;
pub use queue::Queue;
pub use rank::{PeerInfo, Rank, Route, Scope as RankScope, State};
pub use region::Region;
pub use registered::Registered;
pub use request::{cancel_questions, wait_any, Outcome, Request};
pub use scope::{scope, Filled, Pending, Scope};
pub use signal::{signal_wait_any, AtomicOp, Change, Compare, Signal};
pub use stats::{Stats, StatsOp, StatsTimes};
pub use team::{Strided, Team};
pub use transfer::{Blocks, Side, Transfer, TransferInfo};
pub use view::{Mapping, Slice};

/// Call a function of the user's from the library, whose frames no panic may cross.
fn abort_on_panic<R>(call: impl FnOnce() -> R) -> R {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)) {
        Ok(value) => value,
        Err(_) => std::process::abort(),
    }
}
