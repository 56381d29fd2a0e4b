// SPDX-License-Identifier: Apache-2.0
//! Grants: blocks of a region that their owner lends, for some uses and some time, by a token.
use crate::context::Context;
use crate::error::{check, Error, Result};
use crate::flight::Flight;
use crate::job::c_text;
use crate::request::Request;
use crate::time::{given_nanoseconds, nanoseconds};
use crate::transfer::Blocks;
use nixlrun_sys as sys;
use std::time::Duration;

const TOKEN_ROOM: usize = sys::NIXL_TOKEN_MAX as usize + 1;

/// How blocks are lent; `Lend::new()` is for reading, any number of times, without limit.
#[derive(Clone, Debug)]
pub struct Lend {
    rights: sys::nixl_grant_right,
    uses: u32,
    lifetime: Option<Duration>,
}

impl Default for Lend {
    fn default() -> Lend {
        Lend { rights: sys::NIXL_GRANT_READ, uses: 0, lifetime: None }
    }
}

impl Lend {
    /// For reading, any number of times, without limit.
    pub fn new() -> Lend {
        Lend::default()
    }

    /// For writing, and not for reading.
    pub fn for_writing(mut self) -> Lend {
        self.rights = sys::NIXL_GRANT_WRITE;
        self
    }

    /// For both.
    pub fn for_both(mut self) -> Lend {
        self.rights = sys::NIXL_GRANT_READ | sys::NIXL_GRANT_WRITE;
        self
    }

    /// For so many operations, each of any number of the blocks.
    pub fn uses(mut self, uses: u32) -> Lend {
        self.uses = uses;
        self
    }

    /// For operations that begin within this time. Zero: for none.
    pub fn lifetime(mut self, lifetime: Duration) -> Lend {
        self.lifetime = Some(lifetime);
        self
    }
}

/// Where a grant is in its life.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum GrantState {
    /// It may be used.
    Open,
    /// No use is left.
    Used,
    /// Its lifetime is over.
    Expired,
    /// Its owner has taken it back.
    Revoked,
    /// Its region was closed.
    Closed,
}

/// What is known of a grant; see [`Context::grant_query`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GrantInfo {
    /// Its owner.
    pub rank: i32,
    /// Where it is in its life.
    pub state: GrantState,
    /// It may be read.
    pub may_read: bool,
    /// It may be written.
    pub may_write: bool,
    /// How many operations may begin; `None`: any number.
    pub uses_left: Option<u32>,
    /// Operations that have begun and not ended.
    pub users: u32,
    /// What is left of its lifetime; `None`: no limit.
    pub left: Option<Duration>,
    /// The size of all blocks.
    pub nbytes: u64,
}

impl Context {
    /// Lend blocks of this rank's memory: who has the token may move them, by puts, gets and
    /// transfers with [`Op::grant`](crate::Op::grant). They belong to the users until the request
    /// has ended: then nobody moves a byte of them any more, and nobody will.
    ///
    /// It ends well when all uses are over, with [`Code::Expired`](crate::Code::Expired), or with
    /// [`Code::Canceled`](crate::Code::Canceled) when it is revoked, as by canceling the request.
    pub fn grant(&self, blocks: &Blocks, lend: &Lend) -> Result<(String, Request<()>)> {
        let mut token = vec![0u8; TOKEN_ROOM];
        let params = sys::nixl_grant_params {
            rights: lend.rights,
            uses: lend.uses,
            lifetime_ns: given_nanoseconds(lend.lifetime),
            ..sys::zeroed()
        };
        let entry = blocks.raw();
        let flight = Flight::new((), vec![blocks.region().shared()]);
        let request = Request::start(flight, self, "nixl_grant_create", |_, req_p| {
            let room = token.as_mut_ptr().cast();
            // SAFETY: an entry of an open region, read within the call, and room for a token.
            unsafe { sys::nixl_grant_create(&entry, &params, room, TOKEN_ROOM, req_p) }
        })?;

        token.truncate(token.iter().position(|byte| *byte == 0).unwrap_or(0));
        let token = String::from_utf8(token)
            .map_err(|_| Error::invalid("nixl_grant_create", "the token is no text".into()))?;
        Ok((token, request))
    }

    /// Let a grant live for this time from now on; `None`: without limit. Its owner may, and
    /// everyone who has the token.
    pub fn grant_renew(&self, token: &str, lifetime: Option<Duration>) -> Result<()> {
        let token = c_text(token)?;

        // SAFETY: a text.
        let status = unsafe { sys::nixl_grant_renew(token.as_ptr(), nanoseconds(lifetime)) };
        check(status, "nixl_grant_renew")
    }

    /// End a grant of this process, and wait until those who had begun have ended; `None`: without
    /// limit. [`Code::Timeout`](crate::Code::Timeout): the blocks are not free yet.
    pub fn grant_revoke(&self, token: &str, timeout: Option<Duration>) -> Result<()> {
        let token = c_text(token)?;

        // SAFETY: a text.
        let status = unsafe { sys::nixl_grant_revoke(token.as_ptr(), nanoseconds(timeout)) };
        check(status, "nixl_grant_revoke")
    }

    /// Ask the owner of a grant about it.
    pub fn grant_query(&self, token: &str) -> Result<GrantInfo> {
        let token = c_text(token)?;
        let mut info: sys::nixl_grant_info = sys::zeroed();

        // SAFETY: a text, and a struct of the library's shape to be written.
        check(unsafe { sys::nixl_grant_query(token.as_ptr(), &mut info) }, "nixl_grant_query")?;
        Ok(GrantInfo {
            rank: info.rank,
            state: match info.state as sys::nixl_grant_state {
                sys::NIXL_GRANT_OPEN => GrantState::Open,
                sys::NIXL_GRANT_USED => GrantState::Used,
                sys::NIXL_GRANT_EXPIRED => GrantState::Expired,
                sys::NIXL_GRANT_REVOKED => GrantState::Revoked,
                _ => GrantState::Closed,
            },
            may_read: info.rights & sys::NIXL_GRANT_READ != 0,
            may_write: info.rights & sys::NIXL_GRANT_WRITE != 0,
            uses_left: (info.uses_left != u32::MAX).then_some(info.uses_left),
            users: info.nusers,
            left: (info.left_ns != sys::NIXL_FOREVER as i64)
                .then(|| Duration::from_nanos(info.left_ns.max(0) as u64)),
            nbytes: info.nbytes,
        })
    }
}
