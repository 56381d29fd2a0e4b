// SPDX-License-Identifier: Apache-2.0
//! What may go with an operation: what follows it, and how long it may take.
use crate::context::Context;
use crate::error::Result;
use crate::flight::Keep;
use crate::job::c_text;
use crate::signal::{Change, Signal};
use crate::time::op_nanoseconds;
use nixlrun_sys as sys;
use std::os::raw::c_void;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

/// What goes with an operation: `Op::new()` is nothing, and each method adds something.
///
/// Nothing follows an operation that fails or is canceled. What a call has no use for is
/// [`Code::Unsupported`](crate::Code::Unsupported); nixl_op(3) has the table.
///
/// ```
/// use nixlrun::Op;
/// use std::time::Duration;
///
/// let op = Op::new().note(7, b"block 3").timeout(Duration::from_secs(2));
/// ```
#[derive(Clone, Default)]
pub struct Op<'a> {
    note: Option<(u64, &'a [u8])>,
    signal: Option<(&'a Signal, Change)>,
    timeout: Option<Duration>,
    stream: Option<*mut c_void>,
    grant: Option<&'a str>,
    is_durable: bool,
}

/// Whose word a signal is.
pub(crate) enum Side {
    /// The other rank's, behind a put.
    Theirs,
    /// This rank's own, behind a get.
    Own,
}

impl<'a> Op<'a> {
    /// Nothing.
    pub const fn new() -> Op<'a> {
        Op { note: None, signal: None, timeout: None, stream: None, grant: None, is_durable: false }
    }

    /// A notification to the rank follows: behind a put it arrives after the data, behind a get
    /// when all was read.
    pub fn note(mut self, tag: u64, message: &'a [u8]) -> Op<'a> {
        self.note = Some((tag, message));
        self
    }

    /// A signal changes: behind a put that rank's word, behind a get this rank's own.
    pub fn signal(mut self, signal: &'a Signal, change: Change) -> Op<'a> {
        self.signal = Some((signal, change));
        self
    }

    /// The operation moves blocks that their owner has lent by this token; see
    /// [`Context::grant`].
    pub fn grant(mut self, token: &'a str) -> Op<'a> {
        self.grant = Some(token);
        self
    }

    /// Of a put into files, a prepared one, too: it ends, and what follows it comes, when its bytes
    /// are on the medium.
    pub fn durable(mut self) -> Op<'a> {
        self.is_durable = true;
        self
    }

    /// What takes longer ends with [`Code::Timeout`](crate::Code::Timeout). Without it, a call that
    /// waits ends within the timeout of its context or NIXLRUN_OP_TIMEOUT, and what was started has
    /// no limit.
    pub fn timeout(mut self, timeout: Duration) -> Op<'a> {
        self.timeout = Some(timeout);
        self
    }

    /// The operation runs in the order of a CUDA stream, a `CUstream` or `cudaStream_t`: it begins
    /// when the stream's earlier work has ended, and the call returns when it is queued.
    ///
    /// # Safety
    /// The stream is one of this process's. It completes the operation before the memory of both
    /// sides is freed, closed or used otherwise, before the job is left, and before the stream is
    /// destroyed: what a call gives back is still in use until then.
    pub unsafe fn stream(mut self, stream: *mut c_void) -> Op<'a> {
        self.stream = Some(stream);
        self
    }

    /// As the library takes it, and what must stay until the operation has ended.
    pub(crate) fn read(&self, context: &Context, side: Side) -> Result<(sys::nixl_op, Keep)> {
        let mut op = context.op(self.timeout.map_or(0, |time| op_nanoseconds(Some(time))));
        let mut keep = Keep::new();

        if let Some((tag, message)) = self.note {
            op.flags |= sys::NIXL_OP_NOTE;
            op.tag = tag;
            op.msg = crate::buffer::source(message);
            op.msg_nbytes = message.len();
        }
        if let Some((signal, change)) = self.signal {
            let (signal_op, value) = change.parts();

            op.flags |= sys::NIXL_OP_SIGNAL;
            op.signal_op = signal_op as i32;
            op.signal_value = value;
            match side {
                Side::Theirs => {
                    op.signal_region = signal.region().pointer();
                    op.signal_offset = signal.offset();
                }
                Side::Own => op.signal = ptr::addr_of!(*signal.word()?) as *mut u64,
            }
            keep.push(signal.region().shared());
        }
        if let Some(token) = self.grant {
            let token = Arc::new(c_text(token)?);

            op.flags |= sys::NIXL_OP_GRANT;
            op.grant = token.as_ptr();
            keep.push(token);
        }
        if self.is_durable {
            op.flags |= sys::NIXL_OP_DURABLE;
        }
        if let Some(stream) = self.stream {
            op.flags |= sys::NIXL_OP_STREAM;
            op.stream = stream;
        }
        Ok((op, keep))
    }
}
