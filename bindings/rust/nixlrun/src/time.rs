// SPDX-License-Identifier: Apache-2.0
//! Times as the library takes them: nanoseconds.
use nixlrun_sys as sys;
use std::time::Duration;

const FOREVER: i64 = sys::NIXL_FOREVER as i64;

/// A timeout of a simple call; `None`: no limit.
pub(crate) fn nanoseconds(timeout: Option<Duration>) -> i64 {
    match timeout {
        None => FOREVER,
        Some(time) => i64::try_from(time.as_nanos()).unwrap_or(FOREVER),
    }
}

/// A time in params, where 0 stands for none given; zero is the shortest instead.
pub(crate) fn given_nanoseconds(time: Option<Duration>) -> i64 {
    time.map_or(0, |time| nanoseconds(Some(time)).max(1))
}

/// A timeout in struct nixl_op, where 0 is the default.
pub(crate) fn op_nanoseconds(timeout: Option<Duration>) -> i64 {
    match nanoseconds(timeout) {
        0 => sys::NIXL_AT_ONCE.into(),
        time => time,
    }
}
