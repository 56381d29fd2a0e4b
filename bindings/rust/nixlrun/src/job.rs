// SPDX-License-Identifier: Apache-2.0
//! The job: joining and leaving it, and ending it for all.
//!
//! Every handle of this crate holds the [`Membership`] that it was made in, so that the library
//! has left the job only when no handle is there to be used. One that could not be left in order is
//! given back to the caller, who may make handles of it: they are refused, as there is no job, so
//! that none must be joined meanwhile.
use crate::context::Context;
use crate::error::{check, Code, Error, Failed, Result};
use crate::inbox::Inbox;
use crate::rank::Rank;
use crate::time::op_nanoseconds;
use nixlrun_sys as sys;
use std::ffi::CString;
use std::ops::{Deref, Range};
use std::os::raw::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

/// How many memberships are there that have left without order. Locked while joining and leaving.
static STALE: Mutex<usize> = Mutex::new(0);

fn stale() -> MutexGuard<'static, usize> {
    STALE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// One counted nixl_init().
pub(crate) struct Membership {
    has_left: AtomicBool,
    is_stale: AtomicBool,
    inboxes: Mutex<Vec<Weak<Inbox>>>,
}

impl Membership {
    fn new() -> Arc<Membership> {
        Arc::new(Membership {
            has_left: AtomicBool::new(false),
            is_stale: AtomicBool::new(false),
            inboxes: Mutex::default(),
        })
    }

    fn inboxes(&self) -> MutexGuard<'_, Vec<Weak<Inbox>>> {
        self.inboxes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A number was detached: no event tells those who wait.
    fn mark_gone(&self, rank: i32) {
        self.inboxes().iter().filter_map(Weak::upgrade).for_each(|inbox| inbox.mark_gone(rank));
    }

    /// A rank was readmitted.
    pub fn mark_back(&self, rank: i32) {
        self.inboxes().iter().filter_map(Weak::upgrade).for_each(|inbox| inbox.mark_back(rank));
    }

    /// An inbox that hears of a number that was detached.
    pub fn inbox(&self) -> Arc<Inbox> {
        let inbox = Arc::new(Inbox::default());
        let mut inboxes = self.inboxes();

        inboxes.retain(|known| known.strong_count() > 0);
        inboxes.push(Arc::downgrade(&inbox));
        inbox
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if self.is_stale.load(Ordering::Relaxed) {
            *stale() -= 1;
        }
        /* A thread that panics ends the program: the others see a death, and do not wait. */
        if self.has_left.load(Ordering::Relaxed) || std::thread::panicking() {
            return;
        }
        let _ = finalize(Some(Duration::ZERO));
    }
}

fn finalize(timeout: Option<Duration>) -> Result<()> {
    let op = sys::nixl_op { timeout_ns: op_nanoseconds(timeout), ..sys::zeroed() };

    // SAFETY: the caller has a membership that it gives up, and all its handles are gone.
    check(unsafe { sys::nixl_finalize_x(&op) }, "nixl_finalize")
}

/// This process as a rank of the job.
///
/// A job is also its default [`Context`], by which memory, notifications, teams and queues are
/// had. Clones are the same job; several that were joined are independent, as of several libraries
/// in one process, and the last one leaves.
///
/// ```no_run
/// let job = nixlrun::Job::join()?;
/// println!("rank {} of {}", job.rank(), job.size());
/// job.leave()?;
/// # Ok::<(), nixlrun::Error>(())
/// ```
///
/// End with [`leave`](Job::leave), which waits for the other ranks. A job that is dropped without
/// it, as by `?` in `main`, is left at once: others see that this rank has left before them, and
/// calls that wait for it end with [`Code::PeerLost`]. While a thread panics the job is not left at
/// all, so that the process ends as one that has died.
#[derive(Clone)]
pub struct Job {
    context: Context,
}

impl Job {
    /// Join the job: under nixlrun, mpirun, srun or prterun with all its ranks, without a launcher
    /// as a job of one rank. Collective over all ranks of the job, the first time.
    ///
    /// [`Code::InUse`]: there is a job whose [`leave`](Job::leave) has failed; drop it first.
    pub fn join() -> Result<Job> {
        let stale = stale();

        if *stale > 0 {
            let text =
                "a job that was not left in order is still there: drop what its leave() has \
                        returned before a job is joined";
            return Err(Error::made(Code::InUse, None, "nixl_init", text.into()));
        }
        // SAFETY: no params are the defaults: any number of threads.
        check(unsafe { sys::nixl_init(ptr::null()) }, "nixl_init")?;

        Ok(Job { context: Context::default_of(Membership::new()) })
    }

    /// Leave the job in order: complete the puts of this process, and wait until the living ranks
    /// leave, too; without limit, unless NIXLRUN_FINALIZE_TIMEOUT is set.
    ///
    /// All other handles must be gone: regions, teams, queues, requests and clones of this one.
    /// Else the failure is [`Code::InUse`], and has the job. After any other failure the rank has
    /// left all the same, and the job that it has is of no use but to be dropped.
    pub fn leave(self) -> Result<(), Failed<Job>> {
        // SAFETY: 0 is the variable.
        self.leave_by(|| check(unsafe { sys::nixl_finalize() }, "nixl_finalize"))
    }

    /// As [`leave`](Job::leave), and wait for the others up to a time; with 0, not at all.
    pub fn leave_within(self, timeout: Duration) -> Result<(), Failed<Job>> {
        self.leave_by(|| finalize(Some(timeout)))
    }

    fn leave_by(self, finalize: impl FnOnce() -> Result<()>) -> Result<(), Failed<Job>> {
        let membership = match self.context.into_membership() {
            Ok(membership) => membership,
            Err(context) => {
                let text = "the job has handles that are in use: drop all regions, teams, queues, \
                            requests and clones of the job before it is left";
                let error = Error::made(Code::InUse, None, "nixl_finalize", text.into());

                return Err(Failed { error, value: Job { context } });
            }
        };

        let mut stale = stale();
        membership.has_left.store(true, Ordering::Relaxed);
        finalize().map_err(|error| {
            /* The rank has left all the same; what is returned has nothing to leave. */
            *stale += usize::from(!membership.is_stale.swap(true, Ordering::Relaxed));
            Failed { error, value: Job { context: Context::default_of(membership) } }
        })
    }

    /// This process's rank: 0 up to the size of the job.
    pub fn rank(&self) -> i32 {
        // SAFETY: reads a number.
        unsafe { sys::nixl_rank() }
    }

    /// The number of ranks in the job.
    pub fn size(&self) -> i32 {
        // SAFETY: reads a number.
        unsafe { sys::nixl_size() }
    }

    /// The ranks of the job, this one, too.
    pub fn ranks(&self) -> Range<i32> {
        0..self.size()
    }

    /// This rank's number among those that were started on its host, and how many these are.
    pub fn local(&self) -> (i32, i32) {
        // SAFETY: reads numbers.
        unsafe { (sys::nixl_local_rank(), sys::nixl_local_size()) }
    }

    /// The number of this rank's program on the command line, where ':' separates them.
    pub fn program(&self) -> i32 {
        // SAFETY: reads a number.
        unsafe { sys::nixl_program() }
    }

    /// Write what this rank waits for, as lines of text. `nixlrun ps -w` shows all ranks, from
    /// outside.
    ///
    /// # Errors
    /// The descriptor cannot be written to.
    pub fn debug_dump(&self, to: &impl std::os::unix::io::AsRawFd) -> Result<()> {
        // SAFETY: the descriptor is open while `to` lives.
        check(unsafe { sys::nixl_debug_dump(to.as_raw_fd()) }, "nixl_debug_dump")
    }

    /// How many processes of this rank were in the job before: more than 0 if nixlrun has started it
    /// again (`--on-failure restart`).
    pub fn incarnation(&self) -> u32 {
        // SAFETY: reads a number; a member of the job has one.
        u32::try_from(unsafe { sys::nixl_incarnation() }).unwrap_or(0)
    }

    /// What is known of a rank, or of an attached process. All calls take the number itself.
    pub fn peer(&self, rank: i32) -> Rank {
        Rank::new(rank, self.context.clone())
    }

    /// Open the context of a name: a component of a program, with notifications, events, names and
    /// teams of its own. The same name in another process is the same component.
    ///
    /// `timeout`: of its operations that give none; `None`: NIXLRUN_OP_TIMEOUT.
    pub fn context(&self, name: &str, timeout: Option<Duration>) -> Result<Context> {
        Context::named(self.context.membership(), name, timeout)
    }

    /// Make this process known by a name, so that processes of other jobs can attach to it.
    ///
    /// `place` is "file:DIR", "tcp://HOST:PORT" or "etcd://HOST:PORT/PREFIX"; `schema` any text that both sides must have. Who
    /// attaches comes as an [`Event`](crate::Event) of a peer that has joined. See nixl_attach(3).
    pub fn publish(&self, place: &str, name: &str, schema: &str) -> Result<()> {
        let (place, name, schema) = (c_text(place)?, c_text(name)?, c_text(schema)?);

        // SAFETY: texts that end with a zero.
        check(
            unsafe { sys::nixl_publish(place.as_ptr(), name.as_ptr(), schema.as_ptr()) },
            "nixl_publish",
        )
    }

    /// Where other processes attach to a publication of this process: `place` with the port that
    /// was chosen, and an address to reach it by.
    pub fn published_at(&self, place: &str, name: &str) -> Result<String> {
        let (place, name) = (c_text(place)?, c_text(name)?);
        let mut text = vec![0u8; place.as_bytes().len() + 512];

        // SAFETY: texts that end with a zero, and room of that size for another one.
        check(
            unsafe {
                sys::nixl_publish_query(
                    place.as_ptr(),
                    name.as_ptr(),
                    text.as_mut_ptr().cast(),
                    text.len(),
                )
            },
            "nixl_publish_query",
        )?;
        text.truncate(text.iter().position(|&byte| byte == 0).unwrap_or(text.len()));
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The names that are published in a folder or in etcd, with pid and host of each publisher.
    /// Whether a publisher lives is not looked at. The time is for an etcd that is away.
    pub fn published(
        &self,
        place: &str,
        timeout: Option<Duration>,
    ) -> Result<Vec<(String, u32, String)>> {
        let place = c_text(place)?;
        let mut text = vec![0u8; 256 * 1024];

        // SAFETY: a text that ends with a zero, and room of that size for another one.
        let status = unsafe {
            sys::nixl_publish_list(
                place.as_ptr(),
                crate::time::nanoseconds(timeout),
                text.as_mut_ptr().cast(),
                text.len(),
                std::ptr::null_mut(),
            )
        };
        check(status, "nixl_publish_list")?;
        text.truncate(text.iter().position(|&byte| byte == 0).unwrap_or(text.len()));
        Ok(String::from_utf8_lossy(&text)
            .lines()
            .filter_map(|line| {
                let mut words = line.splitn(3, ' ');

                Some((words.next()?.into(), words.next()?.parse().ok()?, words.next()?.into()))
            })
            .collect())
    }

    /// End a publication of this process. Those who are attached stay.
    pub fn unpublish(&self, place: &str, name: &str) -> Result<()> {
        let (place, name) = (c_text(place)?, c_text(name)?);

        // SAFETY: texts that end with a zero.
        check(unsafe { sys::nixl_unpublish(place.as_ptr(), name.as_ptr()) }, "nixl_unpublish")
    }

    /// Attach to the process that has published a name, and get the number that all calls take for
    /// it. It may be published later, within the time; `None`: without limit.
    pub fn attach(
        &self,
        place: &str,
        name: &str,
        schema: &str,
        timeout: Option<Duration>,
    ) -> Result<i32> {
        let (place, name, schema) = (c_text(place)?, c_text(name)?, c_text(schema)?);
        let time = crate::time::nanoseconds(timeout);
        let mut rank: c_int = -1;

        // SAFETY: texts that end with a zero, and a number to be written.
        let status = unsafe {
            sys::nixl_attach(place.as_ptr(), name.as_ptr(), schema.as_ptr(), time, &mut rank)
        };
        check(status, "nixl_attach").map(|()| rank)
    }

    /// Attach to another rank of a job that is attached already, and get its number. `through`
    /// makes the two known to each other: a process of that job, a rank of this job that is
    /// attached to one, or the own rank. See nixl_attach_rank(3).
    pub fn attach_rank(
        &self,
        through: i32,
        job: u64,
        job_rank: i32,
        timeout: Option<Duration>,
    ) -> Result<i32> {
        let time = crate::time::nanoseconds(timeout);
        let mut rank: c_int = -1;

        // SAFETY: any numbers may be given, and one is written.
        let status = unsafe { sys::nixl_attach_rank(through, job, job_rank, time, &mut rank) };
        check(status, "nixl_attach_rank").map(|()| rank)
    }

    /// The number of a rank of a job that is attached, or of this one.
    pub fn number(&self, job: u64, job_rank: i32) -> Result<i32> {
        let mut rank: c_int = -1;

        // SAFETY: any numbers may be given, and one is written.
        let status = unsafe { sys::nixl_peer_number(job, job_rank, &mut rank) };
        check(status, "nixl_peer_number").map(|()| rank)
    }

    /// End an attachment, also one whose other process has ended; each side does so for itself.
    /// Waits until the other process has learned of it; with 0, not at all.
    pub fn detach(&self, rank: i32, timeout: Option<Duration>) -> Result<()> {
        // SAFETY: any number may be given.
        let status = unsafe { sys::nixl_detach(rank, crate::time::nanoseconds(timeout)) };

        if status != sys::NIXL_E_INVALID_ARG {
            self.context.membership().mark_gone(rank);
        }
        match status {
            sys::NIXL_INPROGRESS => Ok(()),
            status => check(status, "nixl_detach"),
        }
    }
}

impl Deref for Job {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

/// End the whole job at once, as after an error: print why, and kill all ranks.
pub fn abort(exit_code: i32, why: &str) -> ! {
    let why = CString::new(why.replace('\0', " ")).unwrap_or_default();

    // SAFETY: a text that ends with a zero; usable without a job.
    unsafe { sys::nixl_abort(exit_code, why.as_ptr()) };
    unreachable!("nixl_abort() does not return")
}

/// End the whole job in order, from one rank: the launcher asks all others to end, and this process
/// ends at once, as by `_exit`: flush its output first.
pub fn end_job(exit_code: i32, why: Option<&str>) -> ! {
    let why = why.map(|why| CString::new(why.replace('\0', " ")).unwrap_or_default());

    let text = why.as_ref().map_or(ptr::null(), |why| why.as_ptr());

    // SAFETY: NULL, or a text that ends with a zero; usable without a job.
    unsafe { sys::nixl_job_end(exit_code, text) };
    unreachable!("nixl_job_end() does not return")
}

/// The version of the library that is loaded: major, minor, patch.
pub fn library_version() -> (u32, u32, u32) {
    // SAFETY: reads a number; usable without a job.
    let version = unsafe { sys::nixl_version() };

    (version / 1_000_000, version / 1_000 % 1_000, version % 1_000)
}

/// A text as the library takes it.
pub(crate) fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| {
        Error::invalid("", format!("{text:?} has a zero byte, which no name or text may have"))
    })
}
