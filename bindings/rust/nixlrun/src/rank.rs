// SPDX-License-Identifier: Apache-2.0
//! What is known of a rank: its process, its state, and how it is reached.
use crate::context::Context;
use crate::error::{check, text_in, Error, Result};
use nixlrun_sys as sys;
use std::fmt;

/// Whether a rank lives.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing else is known.
    Alive,
    /// It has died. Only [`Rank::readmit`] ends that, if nixlrun has started the rank again.
    Lost,
    /// It has left the job in order.
    Finished,
}

/// Where a rank runs, relative to this one.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// It is this process.
    Itself,
    /// It shares memory with this one.
    Local,
    /// It is on another host, or there is no proof of the same one.
    Remote,
}

/// Which process a rank is; see [`Rank::info`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PeerInfo {
    /// The same for all ranks of a job.
    pub job: u64,
    /// Its number.
    pub rank: i32,
    /// How often the rank had been started before.
    pub incarnation: u32,
    /// Whether it lives.
    pub state: State,
    /// Where it runs.
    pub scope: Scope,
    /// The name of its host; "": it was lost before that was known.
    pub host: String,
    /// Why it is lost; "": it is not, or the cause is not known.
    pub why: String,
    /// Its rank in `job`.
    pub job_rank: i32,
    /// How many ranks `job` has.
    pub job_size: i32,
}

/// A transport, and whether it serves a rank; see [`Rank::routes`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Route {
    /// Its name: "self", "shm", "tcp".
    pub transport: String,
    /// It works in this process.
    pub is_usable: bool,
    /// It serves this rank; two may share the work.
    pub is_chosen: bool,
    /// Expected: a small put with a notification, one way, in ns; 0: not known.
    pub latency_ns: u64,
    /// Expected: MB/s of a large put; 0: not known.
    pub bandwidth_mbps: u64,
    /// The number of parallel paths.
    pub nrails: u32,
    /// The library below it, or "".
    pub library: String,
    /// A line for each device that it uses, or "".
    pub devices: String,
    /// Why it is not usable or not chosen.
    pub why: String,
    /// How bytes move, if it was asked about two memories and is chosen.
    pub method: String,
}

impl Route {
    pub(crate) fn of(info: &sys::nixl_route_info) -> Route {
        Route {
            transport: text_in(&info.transport),
            is_usable: info.is_usable != 0,
            is_chosen: info.is_chosen != 0,
            latency_ns: info.latency_ns,
            bandwidth_mbps: info.bandwidth_mbps,
            nrails: info.nrails,
            library: text_in(&info.library),
            devices: text_in(&info.devices),
            why: text_in(&info.why),
            method: text_in(&info.method),
        }
    }
}

/// All that `query` finds, by number from 0 on.
pub(crate) fn routes(
    query: impl Fn(u32, *mut sys::nixl_route_info) -> std::os::raw::c_int,
) -> Result<Vec<Route>> {
    let mut found = Vec::new();

    loop {
        let mut info: sys::nixl_route_info = sys::zeroed();
        match query(found.len() as u32, &mut info) {
            sys::NIXL_OK => found.push(Route::of(&info)),
            sys::NIXL_E_NOT_FOUND if !found.is_empty() => return Ok(found),
            status => return Err(Error::last(status)),
        }
    }
}

/// A rank of the job, or an attached process; made by [`Job::peer`](crate::Job::peer).
#[derive(Clone)]
pub struct Rank {
    number: i32,
    context: Context,
}

impl Rank {
    pub(crate) fn new(number: i32, context: Context) -> Rank {
        Rank { number, context }
    }

    /// Its number, which all calls take.
    pub fn number(&self) -> i32 {
        self.number
    }

    /// Which process it is, where, and whether it lives. The first call for a rank connects to it.
    pub fn info(&self) -> Result<PeerInfo> {
        let mut info: sys::nixl_peer_info = sys::zeroed();

        // SAFETY: a struct of the library's shape to be written.
        check(unsafe { sys::nixl_peer_query(self.number, &mut info) }, "nixl_peer_query")?;
        Ok(PeerInfo {
            job: info.job,
            rank: info.rank,
            incarnation: info.incarnation,
            state: state_of(info.state),
            scope: match info.scope as sys::nixl_scope_kind {
                sys::NIXL_SCOPE_SELF => Scope::Itself,
                sys::NIXL_SCOPE_LOCAL => Scope::Local,
                _ => Scope::Remote,
            },
            host: text_in(&info.host),
            why: text_in(&info.why),
            job_rank: info.job_rank,
            job_size: info.job_size,
        })
    }

    /// Whether it lives; never blocks.
    pub fn state(&self) -> Result<State> {
        // SAFETY: any number may be given.
        match unsafe { sys::nixl_peer_state(self.number) } {
            status if status < 0 => Err(Error::last(status)),
            state => Ok(state_of(state)),
        }
    }

    /// How it is reached: all transports, and why they are chosen or not.
    pub fn routes(&self) -> Result<Vec<Route>> {
        // SAFETY: a struct of the library's shape to be written.
        routes(|index, info| unsafe { sys::nixl_route_query(self.number, index, info) })
    }

    /// Readmit it after [`Event::PeerJoined`](crate::Event::PeerJoined): calls mean the process of
    /// that incarnation from now on. It stays lost until then.
    pub fn readmit(&self, incarnation: u32) -> Result<()> {
        // SAFETY: any numbers may be given.
        check(unsafe { sys::nixl_peer_readmit(self.number, incarnation) }, "nixl_peer_readmit")?;
        self.context.membership().mark_back(self.number);
        Ok(())
    }

    /// Kill it by SIGKILL, to test how a program survives a death.
    pub fn kill(&self) -> Result<()> {
        // SAFETY: any number may be given.
        check(unsafe { sys::nixl_rank_kill(self.number) }, "nixl_rank_kill")
    }
}

fn state_of(state: i32) -> State {
    match state as sys::nixl_peer_liveness {
        sys::NIXL_PEER_ALIVE => State::Alive,
        sys::NIXL_PEER_FINISHED => State::Finished,
        _ => State::Lost,
    }
}

impl From<Rank> for i32 {
    fn from(rank: Rank) -> i32 {
        rank.number
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rank({})", self.number)
    }
}
