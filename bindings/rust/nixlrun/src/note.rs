// SPDX-License-Identifier: Apache-2.0
//! What is received: notifications and events.
use crate::error::text_in;
use nixlrun_sys as sys;
use std::fmt;

/// The longest message of a notification, in bytes.
pub const NOTE_MAX: usize = sys::NIXL_NOTE_MAX as usize;

/// A notification that was received.
#[derive(Clone, PartialEq, Eq)]
pub struct Note {
    /// The sender, as the library knows it.
    pub rank: i32,
    /// The sender's tag.
    pub tag: u64,
    /// The sender's message.
    pub message: Vec<u8>,
    /// A put that the sender made before it did not arrive: this rank had closed its region, or it
    /// failed or was canceled.
    pub is_stale: bool,
}

impl Note {
    /// # Safety
    /// `note` was written by the library, which leaves the end of the payload as it was.
    pub(crate) unsafe fn read(note: *const sys::nixl_note, is_stale: bool) -> Note {
        // SAFETY: of the caller.
        unsafe {
            let nbytes = (*note).nbytes as usize;
            let payload = std::ptr::addr_of!((*note).payload).cast::<u8>();
            let message = std::slice::from_raw_parts(payload, nbytes).to_vec();

            Note { rank: (*note).rank, tag: (*note).tag, message, is_stale }
        }
    }
}

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Note")
            .field("rank", &self.rank)
            .field("tag", &self.tag)
            .field("message", &String::from_utf8_lossy(&self.message))
            .field("is_stale", &self.is_stale)
            .finish()
    }
}

/// What has happened to a rank or a region.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The rank has died.
    PeerLost {
        /// Its number.
        rank: i32,
    },
    /// The rank has left the job, or ended the attachment.
    PeerLeft {
        /// Its number.
        rank: i32,
    },
    /// A process is attached; or a rank has come back, see [`Rank::readmit`](crate::Rank::readmit).
    PeerJoined {
        /// Its number.
        rank: i32,
        /// How many processes of the rank were in its job before.
        incarnation: u32,
        /// The name of the publication; "" of a rank that has come back.
        name: String,
    },
    /// The rank has closed a region that this one used.
    RegionClosed {
        /// Its number.
        rank: i32,
        /// The name of the region.
        name: String,
    },
    /// The launcher has gone; this rank ends after NIXLRUN_ORPHAN_GRACE.
    LauncherLost,
    /// An event of a library that is newer than this crate.
    Unknown {
        /// Its `enum nixl_event_type`.
        kind: i32,
        /// Its number.
        rank: i32,
    },
}

impl Event {
    pub(crate) fn of(event: &sys::nixl_event) -> Event {
        Event::made(event.type_, event.rank, event.incarnation, text_in(&event.name))
    }

    pub(crate) fn made(kind: i32, rank: i32, incarnation: u32, name: String) -> Event {
        match kind as sys::nixl_event_type {
            sys::NIXL_EVENT_PEER_LOST => Event::PeerLost { rank },
            sys::NIXL_EVENT_PEER_LEFT => Event::PeerLeft { rank },
            sys::NIXL_EVENT_PEER_JOINED => Event::PeerJoined { rank, incarnation, name },
            sys::NIXL_EVENT_REGION_CLOSED => Event::RegionClosed { rank, name },
            sys::NIXL_EVENT_LAUNCHER_LOST => Event::LauncherLost,
            _ => Event::Unknown { kind, rank },
        }
    }

    /// The rank that is lost or has left.
    pub fn gone(&self) -> Option<i32> {
        match self {
            Event::PeerLost { rank } | Event::PeerLeft { rank } => Some(*rank),
            _ => None,
        }
    }
}
