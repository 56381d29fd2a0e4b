// SPDX-License-Identifier: Apache-2.0
//! Views of regions: this rank's own memory as atomics and in parts, and a pointer to a peer's.
use crate::error::{check, Code, Error, Result};
use crate::region::Region;
use crate::{Buffer, BufferMut, Plain};
use nixlrun_sys as sys;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicU8};

impl Region {
    /// This rank's own host memory, as atomics; `None` if it is not host memory in one piece.
    ///
    /// What a rank has put before a notification or a signal is there when that was received.
    pub fn bytes(&self) -> Option<&[AtomicU8]> {
        if self.as_ptr().is_null() || !self.is_host() {
            return None;
        }
        // SAFETY: the memory stays as long as the region, which is borrowed; it is not borrowed
        // otherwise, and AtomicU8 has the layout of u8.
        Some(unsafe {
            std::slice::from_raw_parts(self.as_ptr().cast::<AtomicU8>(), self.nbytes() as usize)
        })
    }

    /// The same as 64-bit words; what does not fill one at the end is left out.
    pub fn words(&self) -> Option<&[AtomicU64]> {
        let bytes = self.bytes()?;

        if bytes.as_ptr() as usize % 8 != 0 {
            return None;
        }
        // SAFETY: as of the bytes, and aligned.
        Some(unsafe {
            std::slice::from_raw_parts(bytes.as_ptr().cast::<AtomicU64>(), bytes.len() / 8)
        })
    }

    /// A part of this rank's own memory, of any kind, as a source or destination.
    ///
    /// `range` counts items from the start of the memory.
    pub fn slice<T: Plain>(&self, range: Range<usize>) -> Result<Slice<T>> {
        let item = std::mem::size_of::<T>();
        let end = range.end.checked_mul(item).map(|end| end as u64);
        let is_aligned = self.as_ptr() as usize % std::mem::align_of::<T>() == 0;

        if self.as_ptr().is_null() || !is_aligned {
            let text = "this rank has no such memory in one piece, aligned to the type".into();
            return Err(Error::invalid("slice", text));
        }
        if range.start > range.end || end.map_or(true, |end| end > self.nbytes()) {
            let text = format!(
                "items {} to {} of {item} bytes are outside of the region's {} bytes",
                range.start,
                range.end,
                self.nbytes()
            );
            return Err(Error::made(Code::Range, None, "slice", text));
        }
        Ok(Slice { region: self.clone(), range, _item: PhantomData })
    }

    /// A pointer to a rank's memory, for loads and stores, or for kernels of a GPU.
    ///
    /// [`Code::Unsupported`]: it cannot be mapped: registered host memory, several pieces, another
    /// host.
    pub fn map(&self, rank: i32) -> Result<Mapping> {
        let mut address = ptr::null_mut();

        // SAFETY: an open region, and a pointer to be written.
        let status = unsafe { sys::nixl_region_map(rank, self.pointer(), &mut address) };
        check(status, "nixl_region_map")?;
        Ok(Mapping { region: self.clone(), rank, address: address.cast() })
    }
}

/// A part of this rank's own memory in a region, of any kind: a source or destination of
/// everything. It is not borrowed, as other ranks change it.
#[derive(Clone, Debug)]
pub struct Slice<T> {
    region: Region,
    range: Range<usize>,
    _item: PhantomData<T>,
}

impl<T: Plain> Slice<T> {
    /// The region that it is a part of.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// How many items it has.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

// SAFETY: the region holds the memory, which nobody borrows.
unsafe impl<T: Plain> Buffer for Slice<T> {
    type Item = T;

    fn pointer(&self) -> *const T {
        self.region.as_ptr().cast::<T>().wrapping_add(self.range.start)
    }

    fn count(&self) -> usize {
        self.range.len()
    }

    fn part(&self) -> Option<(&Region, u64)> {
        Some((&self.region, (self.range.start * std::mem::size_of::<T>()) as u64))
    }
}

// SAFETY: as above.
unsafe impl<T: Plain> BufferMut for Slice<T> {
    fn pointer_mut(&mut self) -> *mut T {
        self.region.as_ptr().cast::<T>().wrapping_add(self.range.start)
    }
}

/// A pointer to another rank's memory; made by [`Region::map`], and released when it is dropped.
#[derive(Debug)]
pub struct Mapping {
    region: Region,
    rank: i32,
    address: *mut u8,
}

// SAFETY: an address.
unsafe impl Send for Mapping {}
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The first byte of the rank's memory. Others read and write it, too.
    pub fn as_ptr(&self) -> *mut u8 {
        self.address
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped by the same region.
        unsafe { sys::nixl_region_unmap(self.rank, self.region.pointer(), self.address.cast()) };
    }
}
