// SPDX-License-Identifier: Apache-2.0
//! Paired operations: a buffer for a single use by the holder of its token.
use crate::buffer::{source, target};
use crate::context::Context;
use crate::error::{check, Error, Failed, Result};
use crate::flight::{Flight, Keep};
use crate::job::c_text;
use crate::region::Region;
use crate::request::Request;
use crate::time::nanoseconds;
use crate::{Buffer, BufferMut};
use nixlrun_sys as sys;
use std::ffi::CString;
use std::ops::Range;
use std::time::Duration;

const TOKEN_ROOM: usize = sys::NIXL_TOKEN_MAX as usize + 1;

/// What the holder of a token may do.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum PairUse {
    /// Copy the buffer out.
    Read,
    /// Fill it.
    Write,
}

/// What a token says; see [`Context::pair_query`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PairInfo {
    /// The rank that has exposed the buffer.
    pub rank: i32,
    /// What may be done.
    pub usage: PairUse,
    /// Its size.
    pub nbytes: u64,
}

impl Region {
    /// Expose bytes of this rank's own memory for one use, by `rank` or by whoever has the token
    /// (`None`): a text for JSON, HTTP or a command line. It begins within `lifetime` (`None`:
    /// without limit) or not at all.
    ///
    /// The request ends when the partner has finished; to cancel it takes the buffer back.
    pub fn expose(
        &self,
        range: Range<u64>,
        usage: PairUse,
        rank: Option<i32>,
        lifetime: Option<Duration>,
    ) -> Result<(String, Request<()>)> {
        let mut token = vec![0u8; TOKEN_ROOM];
        let nbytes = range.end.saturating_sub(range.start);
        let nbytes = usize::try_from(nbytes).unwrap_or(usize::MAX);
        let raw = match usage {
            PairUse::Read => sys::NIXL_PAIR_READ,
            PairUse::Write => sys::NIXL_PAIR_WRITE,
        };
        let flight = Flight::new((), vec![self.shared()]);
        let request = Request::start(flight, self.context(), "nixl_pair_expose", |_, req_p| {
            // SAFETY: an open region, and room for a token.
            unsafe {
                sys::nixl_pair_expose(
                    rank.unwrap_or(sys::NIXL_ANY_RANK),
                    self.pointer(),
                    range.start,
                    nbytes,
                    raw,
                    nanoseconds(lifetime),
                    token.as_mut_ptr().cast(),
                    TOKEN_ROOM,
                    req_p,
                )
            }
        })?;
        let end = token.iter().position(|byte| *byte == 0).unwrap_or(0);

        token.truncate(end);
        let token = String::from_utf8(token)
            .map_err(|_| Error::invalid("nixl_pair_expose", "the token is no text".into()))?;
        Ok((token, request))
    }
}

impl Context {
    /// What a token says. Contacts no other rank.
    pub fn pair_query(&self, token: &str) -> Result<PairInfo> {
        let token = c_text(token)?;
        let mut info: sys::nixl_pair_info = sys::zeroed();

        // SAFETY: a text, and a struct of the library's shape to be written.
        check(unsafe { sys::nixl_pair_query(token.as_ptr(), &mut info) }, "nixl_pair_query")?;
        let usage = match info.use_ as sys::nixl_pair_use {
            sys::NIXL_PAIR_READ => PairUse::Read,
            _ => PairUse::Write,
        };
        Ok(PairInfo { rank: info.rank, usage, nbytes: info.nbytes })
    }

    /// Start to read the buffer that a token names, all of it.
    pub fn pair_read<B>(&self, token: &str, dst: B) -> Result<Request<B>, Failed<B>>
    where
        B: BufferMut + Send + 'static,
    {
        let token = match c_text(token) {
            Ok(token) => token,
            Err(error) => return Err(Failed { error, value: dst }),
        };
        let flight = Flight::new(dst, Keep::new());

        Request::start(flight, self, "nixl_pair_read", |dst, req_p| {
            // SAFETY: a text; the flight holds the memory until the read has ended.
            unsafe {
                sys::nixl_pair_read(token.as_ptr(), target(&mut *dst), (*dst).nbytes(), req_p)
            }
        })
    }

    /// Start to fill the buffer that a token names.
    pub fn pair_write<B>(&self, token: &str, src: B) -> Result<Request<B>, Failed<B>>
    where
        B: Buffer + Send + 'static,
    {
        let token: CString = match c_text(token) {
            Ok(token) => token,
            Err(error) => return Err(Failed { error, value: src }),
        };
        let flight = Flight::new(src, Keep::new());

        Request::start(flight, self, "nixl_pair_write", |src, req_p| {
            // SAFETY: a text; the flight holds the memory until the write has ended.
            unsafe { sys::nixl_pair_write(token.as_ptr(), source(&*src), (*src).nbytes(), req_p) }
        })
    }

    /// Say that a token will not be used: its exposer's request ends as canceled.
    pub fn pair_decline(&self, token: &str) -> Result<()> {
        let token = c_text(token)?;

        // SAFETY: a text.
        check(unsafe { sys::nixl_pair_decline(token.as_ptr()) }, "nixl_pair_decline")
    }
}
