#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Write nixlrun-sys/src/bindings.rs anew from the headers, by bindgen as Debian 12 packages it (0.60):
#
#     bindings/rust/bindgen.sh [FILE]        FILE instead of bindings.rs
#
# test/check-rust.sh compares the file in the tree with what this makes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
include=$here/../../include
out=${1:-$here/nixlrun-sys/src/bindings.rs}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The version is a value of the build; the crate has it from the library.
sed -e 's/@[A-Z_]*@/0/g' "$include/nixlrun_version.h.in" >"$scratch/nixlrun_version.h"
bindgen --allowlist-file "$include/nixlrun.*\.h" --blocklist-item 'NIXL_VERSION.*|NIXLRUN_VERSION' \
    --enable-function-attribute-detection --no-prepend-enum-name --size_t-is-usize --no-layout-tests \
    "$include/nixlrun.h" -o "$scratch/bindings.rs" -- -I"$include" -I"$scratch"
{
    echo "// SPDX-License-Identifier: Apache-2.0"
    sed 's/\[doc = "< /[doc = " /' "$scratch/bindings.rs"
} >"$out"
