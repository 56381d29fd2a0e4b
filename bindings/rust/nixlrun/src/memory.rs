// SPDX-License-Identifier: Apache-2.0
//! How memory is made, and what is known of it.
use crate::context::Context;
use crate::error::{text_in, Result};
use crate::job::c_text;
use nixlrun_sys as sys;
use std::ptr;

/// Kinds of memory.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// No memory of this rank.
    None,
    /// Host memory.
    Host,
    /// Memory of an NVIDIA GPU, by CUDA.
    Cuda,
    /// Memory of a GPU, by Vulkan.
    Vulkan,
    /// GPU memory if there is any, else host memory; of memory that is registered: what it is.
    Auto,
    /// A file or a block device: see [`Context::open_file`].
    File,
    /// Objects of an S3 store, or files of a directory: see [`Context::open_object`].
    Object,
}

/// How memory is made; `Memory::new()` is host memory of any kind.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    kind: u32,
    flags: u32,
    numa_node: i32,
    device: Option<String>,
    access: u32,
}

impl Memory {
    /// Host memory, whose pages appear when they are touched.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Memory of this kind; [`Kind::File`] and [`Kind::Object`] are refused when it is made.
    pub fn kind(mut self, kind: Kind) -> Memory {
        self.kind = match kind {
            Kind::None | Kind::Host => sys::NIXL_MEM_HOST,
            Kind::Cuda => sys::NIXL_MEM_CUDA,
            Kind::Vulkan => sys::NIXL_MEM_VULKAN,
            Kind::Auto => sys::NIXL_MEM_AUTO,
            Kind::File => sys::NIXL_MEM_FILE,
            Kind::Object => sys::NIXL_MEM_OBJECT,
        };
        self
    }

    /// GPU memory: of the "nearest" GPU, one by number, or one by UUID.
    pub fn device(mut self, device: &str) -> Memory {
        self.device = Some(device.into());
        self
    }

    /// Host memory of this NUMA node.
    pub fn numa_node(mut self, node: i32) -> Memory {
        self.numa_node = node;
        self.flag(sys::NIXL_MEM_NUMA)
    }

    /// Huge pages, if there are any.
    pub fn huge(self) -> Memory {
        self.flag(sys::NIXL_MEM_HUGE)
    }

    /// Page-locked, and known to the GPU.
    pub fn pinned(self) -> Memory {
        self.flag(sys::NIXL_MEM_PINNED)
    }

    /// All pages are touched at once.
    pub fn populate(self) -> Memory {
        self.flag(sys::NIXL_MEM_POPULATE)
    }

    /// Peers change nothing: no puts, signals or atomics.
    pub fn no_put(mut self) -> Memory {
        self.access |= sys::NIXL_ACCESS_NO_PUT;
        self
    }

    /// Peers read nothing: no gets or atomics.
    pub fn no_get(mut self) -> Memory {
        self.access |= sys::NIXL_ACCESS_NO_GET;
        self
    }

    fn flag(mut self, flag: sys::nixl_mem_flag) -> Memory {
        self.flags |= flag;
        self
    }

    /// Call the library with it as params.
    pub(crate) fn with_params<R>(
        &self,
        context: &Context,
        call: impl FnOnce(&sys::nixl_mem_params) -> R,
    ) -> Result<R> {
        let device = self.device.as_deref().map(c_text).transpose()?;
        let params = sys::nixl_mem_params {
            kind: self.kind as i32,
            flags: self.flags,
            numa_node: self.numa_node,
            device: device.as_ref().map_or(ptr::null(), |device| device.as_ptr()),
            context: context.pointer(),
            access: self.access,
            ..sys::zeroed()
        };

        Ok(call(&params))
    }
}

/// What is known of a rank's memory under a name; see [`Region::query`](crate::Region::query).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RegionInfo {
    /// Its size.
    pub nbytes: u64,
    /// Its kind.
    pub kind: Kind,
    /// Memory of its owner's own; else the library has allocated it.
    pub is_registered: bool,
    /// It is on huge pages.
    pub is_huge: bool,
    /// It is page-locked.
    pub is_pinned: bool,
    /// It is bound to a NUMA node.
    pub is_bound: bool,
    /// Peers may not change it.
    pub no_put: bool,
    /// Peers may not read it.
    pub no_get: bool,
    /// The transport that reaches it.
    pub transport: String,
    /// How bytes move: memcpy, process_vm, bounce, message, rma or device.
    pub method: String,
    /// Why a flag is missing, or a method is not the best one; or "".
    pub note: String,
    /// The GPU, or "".
    pub device: String,
    /// Expected: a small put with a notification, one way, in ns; 0: not known.
    pub latency_ns: u64,
    /// Expected: MB/s of a large put; 0: not known.
    pub bandwidth_mbps: u64,
    /// Where an extent begins, if it was asked about one.
    pub offset: u64,
    /// Of how many pieces of memory it is.
    pub nextents: u32,
}

impl RegionInfo {
    pub(crate) fn of(info: &sys::nixl_region_info) -> RegionInfo {
        RegionInfo {
            nbytes: info.nbytes,
            kind: kind_of(info.kind),
            is_registered: info.is_registered != 0,
            is_huge: info.flags & sys::NIXL_MEM_HUGE != 0,
            is_pinned: info.flags & sys::NIXL_MEM_PINNED != 0,
            is_bound: info.flags & sys::NIXL_MEM_NUMA != 0,
            no_put: info.access & sys::NIXL_ACCESS_NO_PUT != 0,
            no_get: info.access & sys::NIXL_ACCESS_NO_GET != 0,
            transport: text_in(&info.transport),
            method: text_in(&info.method),
            note: text_in(&info.note),
            device: text_in(&info.device),
            latency_ns: info.latency_ns,
            bandwidth_mbps: info.bandwidth_mbps,
            offset: info.offset,
            nextents: info.nextents,
        }
    }
}

fn kind_of(kind: i32) -> Kind {
    match kind as sys::nixl_mem_kind {
        sys::NIXL_MEM_HOST => Kind::Host,
        sys::NIXL_MEM_CUDA => Kind::Cuda,
        sys::NIXL_MEM_VULKAN => Kind::Vulkan,
        sys::NIXL_MEM_FILE => Kind::File,
        sys::NIXL_MEM_OBJECT => Kind::Object,
        _ => Kind::None,
    }
}
