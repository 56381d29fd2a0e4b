// SPDX-License-Identifier: Apache-2.0
//! Where the library's log lines go.
use nixlrun_sys as sys;
use std::ffi::CStr;
use std::os::raw::{c_char, c_void};
use std::ptr;

/// How important a line is.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// An error.
    Error,
    /// A warning.
    Warn,
    /// For the user.
    Info,
    /// For who looks for a fault.
    Debug,
    /// Everything.
    Trace,
}

type Sink = dyn Fn(Level, &str, &str) + Send + Sync;

/// Send log lines to a function instead of stderr: the level, the part of the library, and the
/// text. `NIXLRUN_LOG` says which lines there are. It may be called by any thread, one call at a
/// time, and must not call this crate. A function that was set before is kept: it may be running.
pub fn log_to(sink: impl Fn(Level, &str, &str) + Send + Sync + 'static) {
    let sink: Box<Box<Sink>> = Box::new(Box::new(sink));

    // SAFETY: the function is never freed.
    unsafe { sys::nixl_log_set_fn(Some(forward), Box::into_raw(sink).cast()) };
}

/// Send log lines to stderr again.
pub fn log_to_stderr() {
    // SAFETY: no function is stderr.
    unsafe { sys::nixl_log_set_fn(None, ptr::null_mut()) };
}

unsafe extern "C" fn forward(
    level: sys::nixl_log_level,
    subsystem: *const c_char,
    text: *const c_char,
    sink: *mut c_void,
) {
    // SAFETY: the sink is never freed; texts of the library end with a zero.
    let (sink, subsystem, text) =
        unsafe { (&*sink.cast::<Box<Sink>>(), CStr::from_ptr(subsystem), CStr::from_ptr(text)) };
    let level = match level {
        sys::NIXL_LOG_ERROR => Level::Error,
        sys::NIXL_LOG_WARN => Level::Warn,
        sys::NIXL_LOG_INFO => Level::Info,
        sys::NIXL_LOG_DEBUG => Level::Debug,
        _ => Level::Trace,
    };

    crate::abort_on_panic(|| sink(level, &subsystem.to_string_lossy(), &text.to_string_lossy()));
}
