// SPDX-License-Identifier: Apache-2.0
//! How much went where: the counters of this process, which are always on.
use crate::error::{check, text_in, Error, Result};
use crate::job::Job;
use nixlrun_sys as sys;
use std::ffi::CString;
use std::ptr;

/// What is counted.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StatsOp {
    /// Bytes written to the peer.
    Put,
    /// Bytes read from it.
    Get,
    /// Words of it changed or read.
    Atomic,
    /// Notifications sent to it.
    Notify,
    /// Notifications taken from it.
    Receive,
    /// Collectives; of no peer.
    Collective,
    /// Waits that slept; of no peer.
    Wait,
    /// Times that a thread of the peer was woken.
    Wake,
    /// Items published in a channel for the peer.
    ChannelSend,
    /// Items received from it.
    ChannelReceive,
    /// What a network has sent to the peer by one of its rails.
    RailSend,
    /// What it has received from it.
    RailReceive,
}

const OPS: [(StatsOp, sys::nixl_stats_op); 12] = [
    (StatsOp::Put, sys::NIXL_STATS_PUT),
    (StatsOp::Get, sys::NIXL_STATS_GET),
    (StatsOp::Atomic, sys::NIXL_STATS_ATOMIC),
    (StatsOp::Notify, sys::NIXL_STATS_NOTIFY),
    (StatsOp::Receive, sys::NIXL_STATS_RECEIVE),
    (StatsOp::Collective, sys::NIXL_STATS_COLLECTIVE),
    (StatsOp::Wait, sys::NIXL_STATS_WAIT),
    (StatsOp::Wake, sys::NIXL_STATS_WAKE),
    (StatsOp::ChannelSend, sys::NIXL_STATS_CHANNEL_SEND),
    (StatsOp::ChannelReceive, sys::NIXL_STATS_CHANNEL_RECEIVE),
    (StatsOp::RailSend, sys::NIXL_STATS_RAIL_SEND),
    (StatsOp::RailReceive, sys::NIXL_STATS_RAIL_RECEIVE),
];

const ANY_OP: u32 = u32::MAX;

/// Times of operations, in ns. Bucket i has those from 2^i to less than 2^(i + 1) ns.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StatsTimes {
    /// How many were timed.
    pub count: u64,
    /// Of all of them.
    pub sum_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// How many in each bucket.
    pub buckets: Vec<u64>,
}

/// The counters of one peer, path and operation, which only grow; see [`Job::stats`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// The peer; `None`: none, or several.
    pub rank: Option<i32>,
    /// `None`: several.
    pub op: Option<StatsOp>,
    /// The transport that carried it; "": none, or several.
    pub transport: String,
    /// How the bytes moved; "": none, or several.
    pub method: String,
    /// Operations that succeeded.
    pub nops: u64,
    /// Their bytes.
    pub nbytes: u64,
    /// Operations that failed after they had been started.
    pub nfailed: u64,
    /// Those of `nops` that were not done within their call.
    pub nrequests: u64,
    /// How often one found no room and had to wait.
    pub nretries: u64,
    /// Pieces that went through a staging buffer.
    pub nstages: u64,
    /// Until a transport has accepted an operation that takes time.
    pub post: StatsTimes,
    /// Until it has ended.
    pub complete: StatsTimes,
    /// Of a collective, a channel, or a rail of a network; else "".
    pub name: String,
    /// Of the teams of a collective; else 0.
    pub nmembers: u32,
    /// How long collectives waited for other members, or a channel was full or empty.
    pub wait: StatsTimes,
}

impl StatsTimes {
    fn of(times: &sys::nixl_stats_times) -> StatsTimes {
        StatsTimes {
            count: times.count,
            sum_ns: times.sum_ns,
            max_ns: times.max_ns,
            buckets: times.buckets.to_vec(),
        }
    }
}

impl Stats {
    fn of(stats: &sys::nixl_stats) -> Stats {
        Stats {
            rank: (stats.rank >= 0).then_some(stats.rank),
            op: OPS.iter().find(|(_, number)| *number == stats.op).map(|(op, _)| *op),
            transport: text_in(&stats.transport),
            method: text_in(&stats.method),
            nops: stats.nops,
            nbytes: stats.nbytes,
            nfailed: stats.nfailed,
            nrequests: stats.nrequests,
            nretries: stats.nretries,
            nstages: stats.nstages,
            post: StatsTimes::of(&stats.post),
            complete: StatsTimes::of(&stats.complete),
            name: text_in(&stats.name),
            nmembers: stats.nmembers,
            wait: StatsTimes::of(&stats.wait),
        }
    }
}

impl Job {
    /// How much went where: the counters by peer, path and operation, in the order of first use.
    pub fn stats(&self) -> Result<Vec<Stats>> {
        let mut found = Vec::new();

        loop {
            let mut stats: sys::nixl_stats = sys::zeroed();
            // SAFETY: a struct of the library's shape to be written.
            match unsafe { sys::nixl_stats_query(found.len() as u32, &mut stats) } {
                sys::NIXL_OK => found.push(Stats::of(&stats)),
                sys::NIXL_E_NOT_FOUND => return Ok(found),
                status => return Err(Error::last(status)),
            }
        }
    }

    /// The sum of all counters of a rank, an operation and a transport; `None`: of all.
    pub fn stats_sum(
        &self,
        rank: Option<i32>,
        op: Option<StatsOp>,
        transport: Option<&str>,
    ) -> Result<Stats> {
        let mut stats: sys::nixl_stats = sys::zeroed();
        let number = OPS.iter().find(|(known, _)| Some(*known) == op).map_or(ANY_OP, |(_, n)| *n);
        /* No transport has a name with a zero in it. */
        let name = transport.map(|name| CString::new(name).unwrap_or_default());
        let name = name.as_ref().map_or(ptr::null(), |name| name.as_ptr());

        check(
            // SAFETY: the name lives through the call, and the struct has the library's shape.
            unsafe {
                let rank = rank.unwrap_or(sys::NIXL_ANY_RANK);
                sys::nixl_stats_sum(rank, number, name, &mut stats)
            },
            "nixl_stats_sum",
        )?;
        Ok(Stats::of(&stats))
    }
}
