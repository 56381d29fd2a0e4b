// SPDX-License-Identifier: Apache-2.0
//! The files of a directory as one region.
use crate::context::Context;
use crate::error::{check, Error, Result};
use crate::job::c_text;
use crate::region::{name_pointer, Region};
use nixlrun_sys as sys;
use std::ffi::{CString, OsStr};
use std::os::raw::c_char;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

/// How a directory is opened as a region; `Directory::new()` has all files that are there.
///
/// ```no_run
/// # fn main() -> nixlrun::Result<()> {
/// use nixlrun::{Directory, Job};
///
/// let job = Job::join()?;
/// let table = Directory::new().table(1000, 65536).create();
/// let blocks = job.open_directory("blocks", "/nvme/kv", &table)?;
/// blocks.put(0, 7 * 65536, &vec![1u8; 65536])?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Directory {
    flags: u32,
    access: u32,
    nobjects: u64,
    object_nbytes: u64,
    keys: Option<Vec<PathBuf>>,
    mode: u32,
    ndescriptors: u32,
}

impl Directory {
    /// All files that are there, each with the room of the largest, in the order of their paths.
    pub fn new() -> Directory {
        Directory::default()
    }

    /// So many files with so many bytes of room, named by their numbers as 16 hexadecimal digits.
    pub fn table(mut self, nobjects: u64, object_nbytes: u64) -> Directory {
        self.nobjects = nobjects;
        self.object_nbytes = object_nbytes;
        self
    }

    /// Files with these paths in the directory, and so many bytes of room.
    pub fn keys<T: Into<PathBuf>>(
        mut self,
        keys: impl IntoIterator<Item = T>,
        object_nbytes: u64,
    ) -> Directory {
        self.keys = Some(keys.into_iter().map(Into::into).collect());
        self.object_nbytes = object_nbytes;
        self
    }

    /// Make the directory, not its parents, if there is none.
    pub fn create(self) -> Directory {
        self.flag(sys::NIXL_DIRECTORY_CREATE)
    }

    /// Only for reading; not with `create` or `in_place`.
    pub fn read_only(self) -> Directory {
        self.flag(sys::NIXL_DIRECTORY_READ_ONLY)
    }

    /// Puts write any range of a file, at once; else a file is replaced as a whole, in one step.
    pub fn in_place(self) -> Directory {
        self.flag(sys::NIXL_DIRECTORY_IN_PLACE)
    }

    /// Past the page cache, where the file system can.
    pub fn direct(self) -> Directory {
        self.flag(sys::NIXL_DIRECTORY_DIRECT)
    }

    /// Permissions of files that are made, less the umask; else 0600.
    pub fn mode(mut self, mode: u32) -> Directory {
        self.mode = mode;
        self
    }

    /// Of files that stay open, at most; else 256.
    pub fn ndescriptors(mut self, n: u32) -> Directory {
        self.ndescriptors = n;
        self
    }

    /// Peers may not put.
    pub fn no_put(mut self) -> Directory {
        self.access |= sys::NIXL_ACCESS_NO_PUT;
        self
    }

    /// Peers may not get.
    pub fn no_get(mut self) -> Directory {
        self.access |= sys::NIXL_ACCESS_NO_GET;
        self
    }

    fn flag(mut self, flag: sys::nixl_directory_flag) -> Directory {
        self.flags |= flag;
        self
    }
}

fn c_path(path: &OsStr) -> Result<CString> {
    CString::new(path.as_bytes()).map_err(|_| {
        let text = format!("the path {path:?} has a zero byte");

        Error::invalid("nixl_region_open_directory", text)
    })
}

impl Context {
    /// Publish files of a directory of this host under a name, as one region of
    /// [`Kind::Object`](crate::Kind::Object): file i lies at the offsets from i times the room of a
    /// file on.
    ///
    /// What is said of [`Context::open_object`] holds; [`Region::object_stat`] and its kin serve it,
    /// too.
    pub fn open_directory<'a>(
        &self,
        name: impl Into<Option<&'a str>>,
        path: impl AsRef<Path>,
        directory: &Directory,
    ) -> Result<Region> {
        let (path, name) =
            (c_path(path.as_ref().as_os_str())?, name.into().map(c_text).transpose()?);
        let keys: Option<Vec<CString>> = match &directory.keys {
            Some(keys) => {
                Some(keys.iter().map(|key| c_path(key.as_os_str())).collect::<Result<_>>()?)
            }
            None => None,
        };
        if keys.as_ref().map_or(false, Vec::is_empty) {
            let text = "there are no keys; allowed: at least one".into();

            return Err(Error::invalid("nixl_region_open_directory", text));
        }
        let keys: Option<Vec<*const c_char>> =
            keys.as_ref().map(|keys| keys.iter().map(|key| key.as_ptr()).collect());
        let mut pointer = ptr::null_mut();
        let params = sys::nixl_directory_params {
            flags: directory.flags,
            access: directory.access,
            nobjects: keys.as_ref().map_or(directory.nobjects, |keys| keys.len() as u64),
            object_nbytes: directory.object_nbytes,
            keys: keys.as_ref().map_or(ptr::null(), |keys| keys.as_ptr()),
            mode: directory.mode,
            ndescriptors: directory.ndescriptors,
            context: self.pointer(),
            ..sys::zeroed()
        };

        // SAFETY: texts or NULL, which live until it has returned, params, and a pointer to be
        // written.
        let status = unsafe {
            sys::nixl_region_open_directory(
                name_pointer(&name),
                path.as_ptr(),
                &params,
                &mut pointer,
            )
        };
        check(status, "nixl_region_open_directory")?;
        self.adopt(pointer, None)
    }
}
