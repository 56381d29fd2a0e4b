// SPDX-License-Identifier: Apache-2.0
//! Operations on borrowed memory: none of them outlives the scope that it was started in.
use crate::error::{Failed, Result};
use crate::flight::Flight;
use crate::region::Region;
use crate::request::Request;
use crate::{Buffer, BufferMut, Op};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

type Shared = Arc<Mutex<Option<Request<()>>>>;

/// Where operations on borrowed memory are started; made by [`scope()`].
pub struct Scope<'scope, 'env: 'scope> {
    started: Mutex<Vec<Shared>>,
    /* Both invariant, as those of std::thread::Scope. */
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// An operation of a scope. It goes on if this is dropped; the scope waits for it.
pub struct Pending<'scope, P> {
    request: Shared,
    buffer: P,
    _scope: PhantomData<&'scope mut &'scope ()>,
}

/// Start operations on memory that is borrowed: no buffer can be freed or changed while one is in
/// flight. When the closure ends, all of them are waited for; if it fails or panics, they are
/// canceled.
///
/// The failure is that of the closure, or of the first operation that nobody has waited for.
///
/// ```no_run
/// # fn f(kv: &nixlrun::Region, block: &[u8]) -> nixlrun::Result<()> {
/// let mut there = vec![0u8; block.len()];
/// nixlrun::scope(|s| {
///     s.put(kv, 1, 0, block, &nixlrun::Op::new())?;
///     s.get(kv, 2, 0, &mut there[..], &nixlrun::Op::new())?;
///     Ok(())
/// })?;
/// println!("{}", there[0]);
/// # Ok(()) }
/// ```
///
/// The buffer cannot be touched meanwhile:
///
/// ```compile_fail,E0502
/// # fn f(kv: &nixlrun::Region) -> nixlrun::Result<()> {
/// let mut there = vec![0u8; 64];
/// nixlrun::scope(|s| {
///     s.get(kv, 2, 0, &mut there[..], &nixlrun::Op::new())?;
///     println!("{}", there[0]);
///     Ok(())
/// })
/// # }
/// ```
///
/// and must live longer than the scope:
///
/// ```compile_fail,E0373
/// # fn f(kv: &nixlrun::Region) -> nixlrun::Result<()> {
/// nixlrun::scope(|s| {
///     let block = vec![0u8; 64];
///     s.put(kv, 2, 0, &block[..], &nixlrun::Op::new())?;
///     Ok(())
/// })
/// # }
/// ```
pub fn scope<'env, R, F>(body: F) -> Result<R>
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R>,
{
    let scope = Scope { started: Mutex::default(), _scope: PhantomData, _env: PhantomData };
    let settled = Settled(&scope.started);
    let made = body(&scope);

    if made.is_ok() {
        settled.wait()?;
    }
    made
}

/// Cancels what is there when it goes, by whatever way the scope is left.
struct Settled<'a>(&'a Mutex<Vec<Shared>>);

impl Settled<'_> {
    /// Wait for all, and report the first failure.
    fn wait(&self) -> Result<()> {
        let mut outcome = Ok(());

        for shared in lock(self.0).iter() {
            if let Some(request) = lock(shared).take() {
                let waited = request.wait().map_err(|failed| failed.error);

                outcome = outcome.and(waited);
            }
        }
        outcome
    }
}

impl Drop for Settled<'_> {
    fn drop(&mut self) {
        for shared in lock(self.0).iter() {
            if let Some(mut request) = lock(shared).take() {
                request.settle();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Start a put; see [`Region::put`].
    pub fn put<B: Buffer + ?Sized>(
        &'scope self,
        region: &Region,
        rank: i32,
        offset: u64,
        src: &'scope B,
        op: &Op<'_>,
    ) -> Result<Pending<'scope, &'scope B>> {
        let pointer = crate::buffer::source(src);
        let (op, keep) = region.put_op(op)?;
        let flight = Flight::new((), keep);
        let start = |_, req_p| {
            // SAFETY: the memory is borrowed until the scope ends, which waits for the put.
            unsafe { region.raw_put(rank, offset, pointer, src.nbytes(), &op, req_p) }
        };
        let started = Request::start(flight, region.context(), "nixl_put", start);

        self.keep(started, src)
    }

    /// Start a get; see [`Region::get`].
    pub fn get<B: BufferMut + ?Sized>(
        &'scope self,
        region: &Region,
        rank: i32,
        offset: u64,
        dst: &'scope mut B,
        op: &Op<'_>,
    ) -> Result<Pending<'scope, Filled<'scope, B>>> {
        let nbytes = dst.nbytes();
        let buffer: *mut B = dst;
        // SAFETY: this borrow ends before the library writes.
        let pointer = crate::buffer::target(unsafe { &mut *buffer });
        let (op, keep) = region.get_op(op)?;
        let flight = Flight::new((), keep);
        let start = |_, req_p| {
            // SAFETY: the memory is borrowed until the scope ends, which waits for the get.
            unsafe { region.raw_get(rank, offset, pointer, nbytes, &op, req_p) }
        };
        let started = Request::start(flight, region.context(), "nixl_get", start);

        self.keep(started, Filled { buffer, _borrow: PhantomData })
    }

    fn keep<P>(
        &'scope self,
        started: Result<Request<()>, Failed<()>>,
        buffer: P,
    ) -> Result<Pending<'scope, P>> {
        let request = Arc::new(Mutex::new(Some(started?.borrowing())));

        lock(&self.started).push(Arc::clone(&request));
        Ok(Pending { request, buffer, _scope: PhantomData })
    }
}

/// Memory that a get of a scope fills; [`Pending::wait`] gives it back.
pub struct Filled<'scope, B: ?Sized> {
    buffer: *mut B,
    _borrow: PhantomData<&'scope mut B>,
}

// SAFETY: as a mutable reference.
unsafe impl<B: ?Sized + Send> Send for Filled<'_, B> {}

impl<'scope, B: ?Sized> Pending<'scope, Filled<'scope, B>> {
    /// Wait for the get, and have the memory again, within the scope.
    pub fn wait(self) -> Result<&'scope mut B> {
        wait_for(&self.request)?;
        // SAFETY: the get has ended, so the borrow is the caller's alone again.
        Ok(unsafe { &mut *self.buffer.buffer })
    }
}

impl<'scope, B: ?Sized> Pending<'scope, &'scope B> {
    /// Wait for the put.
    pub fn wait(self) -> Result<&'scope B> {
        wait_for(&self.request)?;
        Ok(self.buffer)
    }
}

impl<P> Pending<'_, P> {
    /// Whether it has ended; never waits.
    pub fn is_done(&self) -> bool {
        lock(&self.request).as_mut().map_or(true, Request::is_done)
    }

    /// Wait up to a time, and say whether it has ended.
    pub fn wait_for(&self, timeout: Duration) -> bool {
        lock(&self.request).as_mut().map_or(true, |request| request.wait_for(timeout))
    }
}

fn wait_for(shared: &Shared) -> Result<()> {
    match lock(shared).take() {
        Some(request) => request.wait().map_err(|failed| failed.error),
        None => Ok(()),
    }
}
