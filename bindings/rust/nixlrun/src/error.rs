// SPDX-License-Identifier: Apache-2.0
//! Failures: the library's statuses, with the detail of the thread that failed.
use nixlrun_sys as sys;
use std::ffi::CStr;
use std::fmt;
use std::os::raw::{c_char, c_int};

/// What the calls return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! codes {
    ($($name:ident $status:ident $text:literal)*) => {
        /// Why a call has failed: the statuses of nixl_error(3).
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = $text] $name,)*
            /// A status of a library that is newer than this crate.
            Unknown(i32),
        }

        impl Code {
            /// The status of the library, `NIXL_E_*`.
            pub fn status(self) -> i32 {
                match self {
                    $(Code::$name => sys::$status,)*
                    Code::Unknown(status) => status,
                }
            }

            fn of(status: c_int) -> Code {
                match status {
                    $(sys::$status => Code::$name,)*
                    _ => Code::Unknown(status),
                }
            }
        }
    };
}

codes! {
    InvalidArg NIXL_E_INVALID_ARG "An argument is not allowed."
    Range NIXL_E_RANGE "Offset or length is outside of the region."
    NotInit NIXL_E_NOT_INIT "The process is in no job."
    Forked NIXL_E_FORKED "The process is a fork of one that is in the job."
    NameInUse NIXL_E_NAME_IN_USE "The rank has a region, context or channel of this name."
    NotFound NIXL_E_NOT_FOUND "Nothing of that name was found."
    Stale NIXL_E_STALE "What it refers to has ended or was replaced: a region, a grant, a process."
    Truncated NIXL_E_TRUNCATED "The buffer is too small."
    Again NIXL_E_AGAIN "It would block; nothing has happened."
    Timeout NIXL_E_TIMEOUT "It was not done in time."
    InUse NIXL_E_IN_USE "It is still in use."
    Unsupported NIXL_E_UNSUPPORTED "It is not supported on this path."
    NoDevice NIXL_E_NO_DEVICE "There is no such device."
    NoMemory NIXL_E_NO_MEMORY "There is not enough memory."
    Limit NIXL_E_LIMIT "A limit of the system or the library is reached."
    PeerLost NIXL_E_PEER_LOST "The peer has died or left."
    Canceled NIXL_E_CANCELED "It was canceled."
    Transport NIXL_E_TRANSPORT "The transport failed."
    Internal NIXL_E_INTERNAL "An error in the library."
    Expired NIXL_E_EXPIRED "The lifetime is over."
    Access NIXL_E_ACCESS "Access is not permitted."
    Storage NIXL_E_STORAGE "The storage failed; the text has path and reason."
}

struct Detail {
    code: Code,
    rank: Option<i32>,
    native_code: i32,
    operation: String,
    transport: String,
    text: String,
}

/// A failure, with its detail. Its text says what happened and what to do.
pub struct Error(Box<Detail>);

impl Error {
    /// Why, as a status of the library.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The peer that it is about.
    pub fn rank(&self) -> Option<i32> {
        self.0.rank
    }

    /// `errno`, or the transport library's own code; 0: none.
    pub fn native_code(&self) -> i32 {
        self.0.native_code
    }

    /// The call of the library that failed: "nixl_put".
    pub fn operation(&self) -> &str {
        &self.0.operation
    }

    /// The transport that was involved: "shm"; "": none.
    pub fn transport(&self) -> &str {
        &self.0.transport
    }

    /// Whether the other rank has died or left.
    pub fn is_peer_lost(&self) -> bool {
        self.0.code == Code::PeerLost
    }

    /// Whether the time was over.
    pub fn is_timeout(&self) -> bool {
        self.0.code == Code::Timeout
    }

    /// A failure that the library reports by a number only, in an entry of a queue.
    pub(crate) fn plain(status: c_int, rank: i32, operation: &str) -> Error {
        // SAFETY: any value has a constant text.
        let text = unsafe { text_of(sys::nixl_strerror(status)) };

        Error::made(Code::of(status), (rank >= 0).then_some(rank), operation, text)
    }

    /// A failure that this crate finds itself.
    pub(crate) fn invalid(operation: &str, text: String) -> Error {
        Error::made(Code::InvalidArg, None, operation, text)
    }

    pub(crate) fn made(code: Code, rank: Option<i32>, operation: &str, text: String) -> Error {
        Error(Box::new(Detail {
            code,
            rank,
            native_code: 0,
            operation: operation.into(),
            transport: String::new(),
            text,
        }))
    }

    /// The detail of this thread's last failure, which a call has just returned.
    pub(crate) fn last(status: c_int) -> Error {
        // SAFETY: the struct is this thread's, and unchanged until its next failure.
        unsafe {
            let detail = &*sys::nixl_last_error();

            if detail.status != status {
                return Error::plain(status, -1, "");
            }
            Error(Box::new(Detail {
                code: Code::of(status),
                rank: (detail.rank >= 0).then_some(detail.rank),
                native_code: detail.native_code,
                operation: text_of(detail.operation),
                transport: text_of(detail.transport),
                text: text_of(detail.text),
            }))
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("code", &self.0.code)
            .field("rank", &self.0.rank)
            .field("native_code", &self.0.native_code)
            .field("operation", &self.0.operation)
            .field("transport", &self.0.transport)
            .field("text", &self.0.text)
            .finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        use std::io::ErrorKind::*;

        let kind = match error.code() {
            Code::InvalidArg | Code::Range => InvalidInput,
            Code::NotFound | Code::NoDevice => NotFound,
            Code::NameInUse => AlreadyExists,
            Code::Timeout | Code::Expired => TimedOut,
            Code::Again => WouldBlock,
            Code::PeerLost => ConnectionReset,
            Code::NotInit => NotConnected,
            Code::Unsupported => Unsupported,
            Code::NoMemory => OutOfMemory,
            Code::Access => PermissionDenied,
            _ => Other,
        };

        std::io::Error::new(kind, error)
    }
}

/// A failure, and what the call had taken: a buffer, or a handle that was not closed.
pub struct Failed<T> {
    /// Why.
    pub error: Error,
    /// What the call had taken.
    pub value: T,
}

impl<T> From<Failed<T>> for Error {
    fn from(failed: Failed<T>) -> Error {
        failed.error
    }
}

impl<T> fmt::Debug for Failed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> fmt::Display for Failed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<T> std::error::Error for Failed<T> {}

/// A text of the library, copied.
///
/// # Safety
/// `text` is NULL or ends with a zero.
pub(crate) unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: of the caller.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A text in a struct of the library, copied.
pub(crate) fn text_in(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();

    String::from_utf8_lossy(&bytes).into_owned()
}

/// The failure of a call; what is in progress counts as not done in time.
pub(crate) fn failure(status: c_int, operation: &str) -> Error {
    if status == sys::NIXL_INPROGRESS {
        let text = format!("{operation}: nothing yet, and the timeout is 0");

        return Error::made(Code::Timeout, None, operation, text);
    }
    Error::last(status)
}

/// The outcome of a call, as [`failure`].
pub(crate) fn check(status: c_int, operation: &str) -> Result<()> {
    match status {
        sys::NIXL_OK => Ok(()),
        status => Err(failure(status, operation)),
    }
}

/// As [`check`], of a call that tests: `None` is "not yet".
pub(crate) fn check_found(status: c_int) -> Result<Option<()>> {
    match status {
        sys::NIXL_OK => Ok(Some(())),
        sys::NIXL_INPROGRESS | sys::NIXL_E_AGAIN => Ok(None),
        _ => Err(Error::last(status)),
    }
}
