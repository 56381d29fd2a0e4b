// SPDX-License-Identifier: Apache-2.0
//! Files and block devices as regions.
use crate::context::Context;
use crate::error::{check, Error, Result};
use crate::job::c_text;
use crate::region::{name_pointer, Region};
use crate::time::op_nanoseconds;
use nixlrun_sys as sys;
use std::ffi::CString;
use std::os::raw::c_char;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::io::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::ptr;
use std::time::Duration;

/// How a file is opened as a region; `File::new()` is an existing one, all of it.
///
/// ```no_run
/// # fn main() -> nixlrun::Result<()> {
/// use nixlrun::{File, Job, Op};
///
/// let job = Job::join()?;
/// let spill = job.open_file("spill", "/nvme/spill", &File::new().create().nbytes(1 << 30))?;
/// spill.put_with(0, 4096, b"block", &Op::new().durable())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct File {
    flags: u32,
    nbytes: u64,
    offset: u64,
    mode: u32,
    access: u32,
}

impl File {
    /// An existing file, for reading and writing.
    pub fn new() -> File {
        File::default()
    }

    /// The region's size; else up to the end of the file or device. A shorter file is extended.
    pub fn nbytes(mut self, nbytes: u64) -> File {
        self.nbytes = nbytes;
        self
    }

    /// Where the region begins in the file or device.
    pub fn offset(mut self, offset: u64) -> File {
        self.offset = offset;
        self
    }

    /// Make the file if there is none.
    pub fn create(self) -> File {
        self.flag(sys::NIXL_FILE_CREATE)
    }

    /// Make the file; fail if there is one.
    pub fn create_new(self) -> File {
        self.flag(sys::NIXL_FILE_CREATE | sys::NIXL_FILE_NEW)
    }

    /// Permissions of a file that is made, less the umask; else 0600.
    pub fn mode(mut self, mode: u32) -> File {
        self.mode = mode;
        self
    }

    /// Only for reading.
    pub fn read_only(self) -> File {
        self.flag(sys::NIXL_FILE_READ_ONLY)
    }

    /// Fail if another process, or another region, has it so.
    pub fn exclusive(self) -> File {
        self.flag(sys::NIXL_FILE_EXCLUSIVE)
    }

    /// Past the page cache, where the file system can.
    pub fn direct(self) -> File {
        self.flag(sys::NIXL_FILE_DIRECT)
    }

    /// Reserve the space of the whole region now.
    pub fn preallocate(self) -> File {
        self.flag(sys::NIXL_FILE_PREALLOCATE)
    }

    /// When the region is closed, cut the file behind the last byte that was put.
    pub fn truncate(self) -> File {
        self.flag(sys::NIXL_FILE_TRUNCATE)
    }

    /// Peers may not change it.
    pub fn no_put(mut self) -> File {
        self.access |= sys::NIXL_ACCESS_NO_PUT;
        self
    }

    /// Peers may not read it.
    pub fn no_get(mut self) -> File {
        self.access |= sys::NIXL_ACCESS_NO_GET;
        self
    }

    fn flag(mut self, flag: sys::nixl_file_flag) -> File {
        self.flags |= flag;
        self
    }
}

impl Context {
    /// Open a file or block device of this host, and publish it under a name: a region of
    /// [`Kind::File`](crate::Kind::File), without memory here.
    ///
    /// Any rank puts into it and gets from it, of this host or of another. With
    /// [`Op::durable`](crate::Op::durable) a put ends when its bytes are on the medium.
    pub fn open_file<'a>(
        &self,
        name: impl Into<Option<&'a str>>,
        path: impl AsRef<Path>,
        file: &File,
    ) -> Result<Region> {
        let path = CString::new(path.as_ref().as_os_str().as_bytes()).map_err(|_| {
            Error::invalid("nixl_region_open_file", "the path has a zero byte".into())
        })?;

        self.open_at(name.into(), path.as_ptr(), -1, file)
    }

    /// The same with a descriptor, of which the library opens its own. What it may do the region
    /// may do.
    pub fn open_fd<'a>(
        &self,
        name: impl Into<Option<&'a str>>,
        fd: BorrowedFd<'_>,
        file: &File,
    ) -> Result<Region> {
        self.open_at(name.into(), ptr::null(), fd.as_raw_fd(), file)
    }

    fn open_at(
        &self,
        name: Option<&str>,
        path: *const c_char,
        fd: i32,
        file: &File,
    ) -> Result<Region> {
        let text = name.map(c_text).transpose()?;
        let name = name_pointer(&text);
        let mut pointer = ptr::null_mut();
        let params = sys::nixl_file_params {
            flags: file.flags,
            fd,
            nbytes: file.nbytes,
            offset: file.offset,
            mode: file.mode,
            access: file.access,
            context: self.pointer(),
            ..sys::zeroed()
        };

        // SAFETY: texts or NULL, params, and a pointer to be written.
        let status = unsafe { sys::nixl_region_open_file(name, path, &params, &mut pointer) };
        check(status, "nixl_region_open_file")?;
        self.adopt(pointer, None)
    }

    /// As [`flush`](Context::flush), and wait until all that was put into files at that rank, or at
    /// all (`None`), is on the medium.
    pub fn flush_durable(&self, rank: Option<i32>, timeout: Option<Duration>) -> Result<()> {
        let rank = rank.unwrap_or(sys::NIXL_ALL_RANKS);
        let op = sys::nixl_op { flags: sys::NIXL_OP_DURABLE, ..self.op(op_nanoseconds(timeout)) };

        // SAFETY: no region is all of them.
        let status = unsafe { sys::nixl_flush_x(rank, ptr::null_mut(), &op, ptr::null_mut()) };
        check(status, "nixl_flush_x")
    }
}
