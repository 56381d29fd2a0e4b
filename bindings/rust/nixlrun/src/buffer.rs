// SPDX-License-Identifier: Apache-2.0
//! Memory of the caller, as sources and destinations.
use crate::region::Region;
use nixlrun_sys as sys;
use std::sync::Arc;

/// Values that are nothing but their bytes: another process may write any.
///
/// # Safety
/// Every pattern of bytes is a valid value, there is no padding, and nothing in it is a pointer or
/// a reference.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

/// Numbers that reductions combine.
pub trait Element: Plain {
    #[doc(hidden)]
    const TYPE: sys::nixl_type;
}

/// Numbers that atomic operations change: of 4 and 8 bytes.
pub trait Word: Element + PartialEq {}

/// The bits of an IEEE 754 binary16, for reductions.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub u16);

/// The bits of a bfloat16, for reductions.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

macro_rules! elements {
    ($($name:ty, $type:ident;)*) => {
        $(
            // SAFETY: a number.
            unsafe impl Plain for $name {}
            impl Element for $name {
                const TYPE: sys::nixl_type = sys::$type;
            }
        )*
    };
}

elements! {
    i8, NIXL_TYPE_INT8; u8, NIXL_TYPE_UINT8; i16, NIXL_TYPE_INT16; u16, NIXL_TYPE_UINT16;
    i32, NIXL_TYPE_INT32; u32, NIXL_TYPE_UINT32; i64, NIXL_TYPE_INT64; u64, NIXL_TYPE_UINT64;
    f32, NIXL_TYPE_FLOAT; f64, NIXL_TYPE_DOUBLE; F16, NIXL_TYPE_FLOAT16; Bf16, NIXL_TYPE_BFLOAT16;
}

// SAFETY: numbers, and arrays of what is plain.
unsafe impl Plain for usize {}
unsafe impl Plain for isize {}
unsafe impl Plain for u128 {}
unsafe impl Plain for i128 {}
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

impl Word for i32 {}
impl Word for u32 {}
impl Word for i64 {}
impl Word for u64 {}
impl Word for f32 {}
impl Word for f64 {}

/// Memory that can be copied from: slices, arrays, `Vec`, `Box<[T]>`, `Arc<[T]>`, `str`, `String`,
/// and [`Slice`](crate::Slice), a part of a region.
///
/// # Safety
/// The memory stays where it is, valid and unchanged, as long as the value is neither moved,
/// changed nor dropped. That of `Vec` and the like stays also when the value is moved.
pub unsafe trait Buffer {
    /// What it is made of.
    type Item: Plain;
    /// Its first byte.
    fn pointer(&self) -> *const Self::Item;
    /// How many items it has.
    fn count(&self) -> usize;
    /// Its size in bytes.
    fn nbytes(&self) -> usize {
        self.count() * std::mem::size_of::<Self::Item>()
    }
    /// The region that it is a part of, and from which byte on: memory of any kind, which only the
    /// library may touch.
    #[doc(hidden)]
    fn part(&self) -> Option<(&Region, u64)> {
        None
    }
}

/// Memory that can be copied to.
///
/// # Safety
/// As [`Buffer`], and nothing else reads or writes the memory while the value is borrowed mutably;
/// parts of regions are an exception, whose bytes are never borrowed.
pub unsafe trait BufferMut: Buffer {
    /// Its first byte.
    fn pointer_mut(&mut self) -> *mut Self::Item;
}

macro_rules! sources {
    ($([$($generics:tt)*] $name:ty, $item:ty;)*) => {
        $(
            // SAFETY: the memory is that of a slice, which the value owns or borrows.
            unsafe impl<$($generics)*> Buffer for $name {
                type Item = $item;
                fn pointer(&self) -> *const $item {
                    self.as_ptr()
                }
                fn count(&self) -> usize {
                    self.len()
                }
            }
        )*
    };
}

macro_rules! targets {
    ($([$($generics:tt)*] $name:ty, $item:ty;)*) => {
        sources! { $([$($generics)*] $name, $item;)* }
        $(
            // SAFETY: as above, and the value owns it, or borrows it mutably.
            unsafe impl<$($generics)*> BufferMut for $name {
                fn pointer_mut(&mut self) -> *mut $item {
                    self.as_mut_ptr()
                }
            }
        )*
    };
}

targets! {
    [T: Plain] [T], T;
    [T: Plain] Vec<T>, T;
    [T: Plain] Box<[T]>, T;
    [T: Plain] &'static mut [T], T;
    [T: Plain, const N: usize] [T; N], T;
}

sources! {
    [T: Plain] Arc<[T]>, T;
    [T: Plain] Arc<Vec<T>>, T;
    [T: Plain] &'static [T], T;
    [T: Plain, const N: usize] &'static [T; N], T;
    [] str, u8;
    [] String, u8;
    [] &'static str, u8;
}

/// An address as the library takes it; NULL of an empty buffer.
pub(crate) fn source<B: Buffer + ?Sized>(buffer: &B) -> *const std::os::raw::c_void {
    if buffer.nbytes() == 0 {
        return std::ptr::null();
    }
    buffer.pointer().cast()
}

/// The same of memory that is written.
pub(crate) fn target<B: BufferMut + ?Sized>(buffer: &mut B) -> *mut std::os::raw::c_void {
    if buffer.nbytes() == 0 {
        return std::ptr::null_mut();
    }
    buffer.pointer_mut().cast()
}
