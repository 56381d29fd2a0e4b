// SPDX-License-Identifier: Apache-2.0
//! Objects of an S3 store as regions, and questions about them.
use crate::abort_on_panic;
use crate::context::Context;
use crate::error::{check, text_in, Error, Result};
use crate::job::c_text;
use crate::region::{name_pointer, Region};
use crate::time::nanoseconds;
use nixlrun_sys as sys;
use std::ffi::CString;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr;
use std::time::{Duration, SystemTime};

/// How objects are opened as a region; `Objects::new()` is one object that is there, all of it.
///
/// ```no_run
/// # fn main() -> nixlrun::Result<()> {
/// use nixlrun::{Job, Objects};
///
/// let job = Job::join()?;
/// let store = job.open_object("store", "s3://bucket/kv", &Objects::new().table(1000, 65536))?;
/// store.put(0, 7 * 65536, &vec![1u8; 65536])?;
/// println!("{:?}", store.object_stat(7, None)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Objects {
    flags: u32,
    access: u32,
    nobjects: u64,
    object_nbytes: u64,
    keys: Option<Vec<String>>,
    part_nbytes: u64,
    nconnections: u32,
    endpoint: Option<String>,
    aws_region: Option<String>,
    ca_file: Option<String>,
}

impl Objects {
    /// One object that is there, for reading and writing.
    pub fn new() -> Objects {
        Objects::default()
    }

    /// One object of this size, whether it is there or not.
    pub fn one(mut self, nbytes: u64) -> Objects {
        self.object_nbytes = nbytes;
        self
    }

    /// So many objects of so many bytes; their keys are the URL's path, "/" and their numbers as 16
    /// hexadecimal digits.
    pub fn table(mut self, nobjects: u64, object_nbytes: u64) -> Objects {
        self.nobjects = nobjects;
        self.object_nbytes = object_nbytes;
        self
    }

    /// Objects of so many bytes, with these keys behind the URL's path and "/".
    pub fn keys<T: Into<String>>(
        mut self,
        keys: impl IntoIterator<Item = T>,
        object_nbytes: u64,
    ) -> Objects {
        self.keys = Some(keys.into_iter().map(Into::into).collect());
        self.object_nbytes = object_nbytes;
        self
    }

    /// Only for reading.
    pub fn read_only(self) -> Objects {
        self.flag(sys::NIXL_OBJECT_READ_ONLY)
    }

    /// Check bytes by MD5, for servers without CRC32C; it costs time.
    pub fn md5(self) -> Objects {
        self.flag(sys::NIXL_OBJECT_MD5)
    }

    /// Sign nothing: public buckets.
    pub fn anonymous(self) -> Objects {
        self.flag(sys::NIXL_OBJECT_ANONYMOUS)
    }

    /// Longer objects are put in such parts; else 8 MiB.
    pub fn part_nbytes(mut self, nbytes: u64) -> Objects {
        self.part_nbytes = nbytes;
        self
    }

    /// To the store at once, at most; else 32.
    pub fn nconnections(mut self, n: u32) -> Objects {
        self.nconnections = n;
        self
    }

    /// "https://HOST\[:PORT\]"; else as AWS's variables and files say.
    pub fn endpoint(mut self, url: impl Into<String>) -> Objects {
        self.endpoint = Some(url.into());
        self
    }

    /// Such as "eu-west-1"; else as AWS's variables and files say.
    pub fn aws_region(mut self, region: impl Into<String>) -> Objects {
        self.aws_region = Some(region.into());
        self
    }

    /// Certificates to trust, in PEM; else as AWS's variables and files say.
    pub fn ca_file(mut self, path: impl Into<String>) -> Objects {
        self.ca_file = Some(path.into());
        self
    }

    /// Peers may not put.
    pub fn no_put(mut self) -> Objects {
        self.access |= sys::NIXL_ACCESS_NO_PUT;
        self
    }

    /// Peers may not get.
    pub fn no_get(mut self) -> Objects {
        self.access |= sys::NIXL_ACCESS_NO_GET;
        self
    }

    fn flag(mut self, flag: sys::nixl_object_flag) -> Objects {
        self.flags |= flag;
        self
    }
}

/// What a store has at a key, or a directory at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectInfo {
    /// Its number in the region; `None`: it is none of the region's.
    pub number: Option<u64>,
    /// Bytes of the object that is there.
    pub nbytes: u64,
    /// When it was put, in seconds.
    pub modified: SystemTime,
    /// How the store names this version.
    pub etag: String,
    /// Behind the URL's path; of a region of one object: the whole key. What is not UTF-8 of a path
    /// is U+FFFD.
    pub key: String,
}

impl ObjectInfo {
    fn of(info: &sys::nixl_object_info) -> ObjectInfo {
        let seconds = u64::try_from(info.modified).unwrap_or(0);

        ObjectInfo {
            number: Some(info.object).filter(|number| *number != u64::MAX),
            nbytes: info.nbytes,
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
            etag: text_in(&info.etag),
            key: text_in(&info.key),
        }
    }
}

impl Context {
    /// Publish objects of an S3 store under a name: a region of
    /// [`Kind::Object`](crate::Kind::Object), without memory here, in which object i lies at the
    /// offsets from i times the bytes of an object on.
    ///
    /// Any rank puts into it and gets from it, of this host or of another; this process talks to
    /// the store. A get reads any range. Objects are put as a whole: the put that brings the last
    /// bytes of one ends when the store has it. [`Op::durable`](crate::Op::durable) waits for all
    /// that was begun.
    pub fn open_object<'a>(
        &self,
        name: impl Into<Option<&'a str>>,
        url: &str,
        objects: &Objects,
    ) -> Result<Region> {
        let optional = |text: &Option<String>| text.as_deref().map(c_text).transpose();
        let (url, name) = (c_text(url)?, name.into().map(c_text).transpose()?);
        let endpoint = optional(&objects.endpoint)?;
        let aws_region = optional(&objects.aws_region)?;
        let ca_file = optional(&objects.ca_file)?;
        let keys: Option<Vec<CString>> = match &objects.keys {
            Some(keys) => Some(keys.iter().map(|key| c_text(key)).collect::<Result<_>>()?),
            None => None,
        };
        if keys.as_ref().map_or(false, Vec::is_empty) {
            let text = "there are no keys; allowed: at least one".into();

            return Err(Error::invalid("nixl_region_open_object", text));
        }
        let keys: Option<Vec<*const c_char>> =
            keys.as_ref().map(|keys| keys.iter().map(|key| key.as_ptr()).collect());
        let mut pointer = ptr::null_mut();
        let params = sys::nixl_object_params {
            flags: objects.flags,
            access: objects.access,
            nobjects: keys.as_ref().map_or(objects.nobjects, |keys| keys.len() as u64),
            object_nbytes: objects.object_nbytes,
            keys: keys.as_ref().map_or(ptr::null(), |keys| keys.as_ptr()),
            part_nbytes: objects.part_nbytes,
            nconnections: objects.nconnections,
            endpoint: name_pointer(&endpoint),
            region: name_pointer(&aws_region),
            ca_file: name_pointer(&ca_file),
            context: self.pointer(),
            ..sys::zeroed()
        };

        // SAFETY: texts or NULL, which live until it has returned, params, and a pointer to be
        // written.
        let status = unsafe {
            sys::nixl_region_open_object(name_pointer(&name), url.as_ptr(), &params, &mut pointer)
        };
        check(status, "nixl_region_open_object")?;
        self.adopt(pointer, None)
    }
}

/// What a list has collected. The library's call ends before it is moved.
unsafe extern "C" fn collect(info: *const sys::nixl_object_info, arg: *mut c_void) -> c_int {
    // SAFETY: `arg` is the list of object_list(), and nobody else uses it meanwhile.
    abort_on_panic(|| unsafe {
        (*arg.cast::<Vec<ObjectInfo>>()).push(ObjectInfo::of(&*info));
    });
    0
}

impl Region {
    /// What is stored of an object of a region that [`Context::open_object`] or
    /// [`Context::open_directory`] has made here.
    ///
    /// [`Code::NotFound`](crate::Code::NotFound): there is no such object.
    pub fn object_stat(&self, number: u64, timeout: Option<Duration>) -> Result<ObjectInfo> {
        let mut info: sys::nixl_object_info = sys::zeroed();

        // SAFETY: an open region, and a struct of the library's shape to be written.
        let status = unsafe {
            sys::nixl_object_stat(self.pointer(), number, nanoseconds(timeout), &mut info)
        };
        check(status, "nixl_object_stat")?;
        Ok(ObjectInfo::of(&info))
    }

    /// Remove an object. One that is not there is no failure.
    pub fn object_delete(&self, number: u64, timeout: Option<Duration>) -> Result<()> {
        // SAFETY: an open region.
        let status =
            unsafe { sys::nixl_object_delete(self.pointer(), number, nanoseconds(timeout)) };
        check(status, "nixl_object_delete")
    }

    /// All objects whose keys begin with the URL's path, or all files of the directory, in order,
    /// behind the key `after`, which is without that path; those that are none of the region's,
    /// too.
    pub fn object_list(
        &self,
        after: Option<&str>,
        timeout: Option<Duration>,
    ) -> Result<Vec<ObjectInfo>> {
        let after = after.map(c_text).transpose()?;
        let mut found: Vec<ObjectInfo> = Vec::new();
        let time = nanoseconds(timeout);

        // SAFETY: an open region, a text or NULL, and a list that only collect() uses meanwhile.
        let status = unsafe {
            let list = ptr::addr_of_mut!(found).cast();
            sys::nixl_object_list(self.pointer(), name_pointer(&after), time, Some(collect), list)
        };
        check(status, "nixl_object_list")?;
        Ok(found)
    }
}
