// SPDX-License-Identifier: Apache-2.0
//! The C calls of libnixlrun, as `bindgen.sh` reads them from its headers; the crate `nixlrun` has
//! them as safe types.
//!
//! The texts are those of the headers; the manual of the library, nixlrun(7) and the pages of each
//! call, has the rest. A struct that begins with `struct_nbytes` is made with [`zeroed`].
//!
//! # Linking
//!
//! The build script asks pkg-config for the library that is installed. `NIXLRUN_LIB_DIR` names
//! another folder; pkg-config and its variables are not needed then. The folder is handed on to the
//! build scripts of packages that depend on this one, as `DEP_NIXLRUN_LIB_DIR`.
#![allow(non_camel_case_types, non_upper_case_globals)]
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

include!("bindings.rs");

/// A struct of the library that grows: all of it zero, which is the default of each field, and its
/// own size where the library looks for that.
pub trait Versioned: Copy {
    #[doc(hidden)]
    fn set_size(&mut self, nbytes: usize);
}

macro_rules! sized {
    ($($name:ident)*) => {
        $(impl Versioned for $name {
            fn set_size(&mut self, nbytes: usize) {
                self.struct_nbytes = nbytes;
            }
        })*
    };
}

sized! {
    nixl_blocks nixl_context_params nixl_cq_params nixl_directory_params nixl_error nixl_event nixl_file_params
    nixl_grant_info nixl_grant_params nixl_init_params
    nixl_mem_params nixl_note nixl_object_info nixl_object_params nixl_op nixl_pair_info nixl_peer_info nixl_reduce_args
    nixl_region_info nixl_route_info nixl_stats nixl_strided_args nixl_vector_args nixl_xfer_info
}

/// A struct of the library, ready for a call: its size is set, and all else is zero.
pub fn zeroed<T: Versioned>() -> T {
    // SAFETY: the structs have integers, arrays of them, and pointers that may be NULL.
    let mut made: T = unsafe { std::mem::zeroed() };

    made.set_size(std::mem::size_of::<T>());
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_the_library() {
        // SAFETY: both may be called at any time.
        unsafe {
            let text = std::ffi::CStr::from_ptr(nixl_strerror(NIXL_E_PEER_LOST));

            assert_eq!(text.to_str(), Ok("the peer has died or left"));
            assert_eq!(nixl_rank(), NIXL_E_NOT_INIT);
        }
    }

    #[test]
    fn structs_know_their_size() {
        let op: nixl_op = zeroed();

        assert_eq!(op.struct_nbytes, std::mem::size_of::<nixl_op>());
        assert_eq!((op.flags, op.timeout_ns), (0, 0));
    }
}
