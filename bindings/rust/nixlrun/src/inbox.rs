// SPDX-License-Identifier: Apache-2.0
//! Notifications and events that a queue has taken, and the futures that receive them.
//!
//! A notification goes to the receiver that waited first; one that nobody waits for is kept.
use crate::error::{Code, Error, Result};
use crate::note::{Event, Note};
use crate::panics::wake_all;
use crate::queue::Queue;
use nixlrun_sys as sys;
use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context as Task, Poll, Waker};

/// How many notifications that nobody receives a queue keeps before it takes no more.
pub const MAX_UNMATCHED: usize = 65_536;

#[derive(Clone, Copy)]
struct Filter {
    rank: Option<i32>,
    tag: u64,
    mask: u64,
}

impl Filter {
    fn matches(&self, note: &Note) -> bool {
        self.rank.map_or(true, |rank| rank == note.rank) && (note.tag ^ self.tag) & self.mask == 0
    }
}

#[derive(Default)]
struct Slot {
    note: Option<Result<Note>>,
    waker: Option<Waker>,
}

struct Waiting {
    filter: Filter,
    slot: Arc<Mutex<Slot>>,
}

#[derive(Default)]
struct State {
    notes: VecDeque<Note>,
    receivers: VecDeque<Waiting>,
    events: VecDeque<Event>,
    listeners: Vec<Waker>,
    gone: HashSet<i32>,
}

impl State {
    fn take(&mut self, filter: &Filter) -> Option<Result<Note>> {
        let found = self.notes.iter().position(|note| filter.matches(note));

        if let Some(note) = found.and_then(|index| self.notes.remove(index)) {
            return Some(Ok(note));
        }
        filter.rank.filter(|rank| self.gone.contains(rank)).map(|rank| Err(gone(rank)))
    }

    /// A rank has gone: the wakers of those that it ends.
    fn end(&mut self, rank: i32) -> Vec<Waker> {
        let receivers = std::mem::take(&mut self.receivers);
        let (ended, kept): (VecDeque<_>, VecDeque<_>) =
            receivers.into_iter().partition(|waiting| waiting.filter.rank == Some(rank));

        self.gone.insert(rank);
        self.receivers = kept;
        ended.iter().filter_map(|waiting| fill(&waiting.slot, Err(gone(rank)))).collect()
    }
}

#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Give a receiver what it waits for, and its waker, to be called without a lock.
fn fill(slot: &Mutex<Slot>, note: Result<Note>) -> Option<Waker> {
    let mut slot = lock(slot);

    slot.note = Some(note);
    slot.waker.take()
}

fn gone(rank: i32) -> Error {
    let text = format!(
        "rank {rank} has died, left, or was detached, and all that it had sent was received"
    );

    Error::made(Code::PeerLost, Some(rank), "nixl_notify_recv", text)
}

/// Whether the library knows the rank as one that has died, left, or was detached.
fn is_gone(rank: i32) -> Result<bool> {
    // SAFETY: any number may be given.
    match unsafe { sys::nixl_peer_state(rank) } {
        status if status < 0 => Err(Error::last(status)),
        state => Ok(state != sys::NIXL_PEER_ALIVE as i32),
    }
}

impl Inbox {
    /// It keeps so many that no more should be taken.
    pub fn is_full(&self) -> bool {
        lock(&self.state).notes.len() >= MAX_UNMATCHED
    }

    /// Deliver or keep it, even if it is full: what was taken must not be lost.
    pub fn note(&self, note: Note) {
        let mut state = lock(&self.state);
        let found = state.receivers.iter().position(|waiting| waiting.filter.matches(&note));
        let waker = match found.and_then(|index| state.receivers.remove(index)) {
            Some(waiting) => fill(&waiting.slot, Ok(note)),
            None => {
                state.notes.push_back(note);
                None
            }
        };

        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Keep it for who listens; a rank that has gone ends what waits for it. One that was
    /// readmitted before this queue came to its event has not.
    pub fn event(&self, event: Event) {
        let mut state = lock(&self.state);
        let mut wakers = std::mem::take(&mut state.listeners);

        if let Some(rank) = event.gone() {
            /* With the lock, since mark_back() comes behind the change of the state. */
            if is_gone(rank).unwrap_or(true) {
                wakers.append(&mut state.end(rank));
            }
        }
        state.events.push_back(event);
        drop(state);
        wake_all(wakers);
    }

    /// End what waits for a rank that was detached, which no event tells.
    pub fn mark_gone(&self, rank: i32) {
        let wakers = lock(&self.state).end(rank);

        wake_all(wakers);
    }

    /// The rank has been readmitted.
    pub fn mark_back(&self, rank: i32) {
        let mut state = lock(&self.state);

        state.gone.remove(&rank);
        state.notes.retain(|note| note.rank != rank);
    }

    fn take(&self, filter: &Filter) -> Option<Result<Note>> {
        lock(&self.state).take(filter)
    }

    /// Take one, or wait for it in a slot.
    fn take_or_wait(&self, filter: &Filter, waker: &Waker) -> Result<Note, Arc<Mutex<Slot>>> {
        let mut state = lock(&self.state);
        let mut slot = Slot { note: state.take(filter), waker: None };

        if let Some(Ok(note)) = slot.note {
            return Ok(note);
        }
        let is_waiting = slot.note.is_none();
        slot.waker = Some(waker.clone());
        let slot = Arc::new(Mutex::new(slot));
        if is_waiting {
            state.receivers.push_back(Waiting { filter: *filter, slot: slot.clone() });
        }
        Err(slot)
    }

    fn forget(&self, slot: &Arc<Mutex<Slot>>) {
        lock(&self.state).receivers.retain(|waiting| !Arc::ptr_eq(&waiting.slot, slot));
    }

    /// One that was delivered to a receiver that is gone: it is the oldest.
    fn put_back(&self, note: Note) {
        let mut state = lock(&self.state);
        let found = state.receivers.iter().position(|waiting| waiting.filter.matches(&note));
        let waker = match found.and_then(|index| state.receivers.remove(index)) {
            Some(waiting) => fill(&waiting.slot, Ok(note)),
            None => {
                state.notes.push_front(note);
                None
            }
        };

        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// A notification that is awaited; made by [`Queue::recv`].
pub struct Recv {
    queue: Queue,
    filter: Filter,
    slot: Option<Arc<Mutex<Slot>>>,
}

/// An event that is awaited; made by [`Queue::event`].
pub struct NextEvent {
    queue: Queue,
}

fn no_inbox() -> Error {
    let text = "the queue takes no notifications; open it with queue_with_notes()".into();

    Error::made(Code::Unsupported, None, "nixl_cq_open", text)
}

impl Future for Recv {
    type Output = Result<Note>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Result<Note>> {
        let this = &mut *self;
        let inbox = match &this.queue.0.inbox {
            Some(inbox) => inbox,
            None => return Poll::Ready(Err(no_inbox())),
        };

        if this.slot.is_none() {
            if let Err(error) = this.notice_death(inbox) {
                return Poll::Ready(Err(error));
            }
            match inbox.take_or_wait(&this.filter, task.waker()) {
                Ok(note) => return Poll::Ready(Ok(note)),
                Err(slot) => this.slot = Some(slot),
            }
        }
        let slot = this.slot.get_or_insert_with(Default::default);
        let mut inside = lock(slot);

        match inside.note.take() {
            Some(note) => {
                drop(inside);
                this.slot = None;
                Poll::Ready(note)
            }
            None => {
                let old = inside.waker.replace(task.waker().clone());

                drop(inside);
                drop(old); // without the lock: what a waker owns may be a future of this library
                Poll::Pending
            }
        }
    }
}

impl Recv {
    /// The event of a death may have been taken before the queue was opened. All that such a rank
    /// has sent is here.
    fn notice_death(&self, inbox: &Inbox) -> Result<()> {
        if let Some(rank) = self.filter.rank {
            if is_gone(rank)? && self.queue.try_dispatch() {
                let mut state = lock(&inbox.state);

                if is_gone(rank)? {
                    state.gone.insert(rank);
                }
            }
        }
        Ok(())
    }
}

impl Drop for Recv {
    fn drop(&mut self) {
        if let (Some(slot), Some(inbox)) = (self.slot.take(), &self.queue.0.inbox) {
            inbox.forget(&slot);
            let note = lock(&slot).note.take();
            if let Some(Ok(note)) = note {
                inbox.put_back(note);
            }
        }
    }
}

impl Future for NextEvent {
    type Output = Result<Event>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Result<Event>> {
        let inbox = match &self.queue.0.inbox {
            Some(inbox) => inbox,
            None => return Poll::Ready(Err(no_inbox())),
        };
        let mut state = lock(&inbox.state);

        match state.events.pop_front() {
            Some(event) => Poll::Ready(Ok(event)),
            None => {
                if !state.listeners.iter().any(|known| known.will_wake(task.waker())) {
                    state.listeners.push(task.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl Queue {
    /// Await the oldest notification of a rank (`None`: any) with a tag (`None`: any). It goes to
    /// the future that was polled first; those that nobody has asked for are kept. While
    /// [`MAX_UNMATCHED`] are, the queue takes nothing, and [`dispatch`](Queue::dispatch) fails.
    ///
    /// [`Code::PeerLost`]: the rank has died or left, and all that it had sent was received; with
    /// any rank, never: see [`event`](Queue::event).
    pub fn recv(&self, rank: Option<i32>, tag: Option<u64>) -> Recv {
        let (tag, mask) = tag.map_or((0, 0), |tag| (tag, u64::MAX));

        self.recv_masked(rank, tag, mask)
    }

    /// As [`recv`](Queue::recv), with tags compared in the bits that are set in `mask`.
    pub fn recv_masked(&self, rank: Option<i32>, tag: u64, mask: u64) -> Recv {
        Recv { queue: self.clone(), filter: Filter { rank, tag, mask }, slot: None }
    }

    /// A notification that the queue has taken already.
    pub fn try_recv(&self, rank: Option<i32>, tag: Option<u64>) -> Result<Option<Note>> {
        let (tag, mask) = tag.map_or((0, 0), |tag| (tag, u64::MAX));
        let inbox = self.0.inbox.as_ref().ok_or_else(no_inbox)?;

        inbox.take(&Filter { rank, tag, mask }).transpose()
    }

    /// Await the oldest event of peers and regions; each goes to one future.
    pub fn event(&self) -> NextEvent {
        NextEvent { queue: self.clone() }
    }

    /// An event that the queue has taken already.
    pub fn try_event(&self) -> Result<Option<Event>> {
        let inbox = self.0.inbox.as_ref().ok_or_else(no_inbox)?;

        Ok(lock(&inbox.state).events.pop_front())
    }

    /// Send a rank a tag and a message, behind all earlier puts to it; never waits: the library
    /// keeps a copy. [`Code::Again`]: it keeps 1024 for that rank.
    pub fn notify(&self, rank: i32, tag: u64, message: &[u8]) -> Result<()> {
        let op = sys::nixl_op { cq: self.pointer(), ..self.context().op(0) };
        let bytes = crate::buffer::source(message);
        let none = std::ptr::null_mut();

        // SAFETY: the message is copied within the call.
        let status = unsafe { sys::nixl_notify_x(rank, tag, bytes, message.len(), &op, none) };
        crate::error::check(status, "nixl_notify_x")
    }
}
