#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The kernels that stand in the sources as PTX are what the CUDA compiler makes of their source, and
# are accepted for the GPUs that are promised. Other compilers write other PTX: the texts are compared
# with the one that made them only. Prints TAP.
set -eu
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"

PATH=$PATH:/usr/local/cuda/bin
if ! command -v nvcc >/dev/null || ! command -v ptxas >/dev/null; then
    echo "1..0 # SKIP no CUDA compiler"
    exit 0
fi
header=$src/src/memory/kernel_copy_ptx.h

# assembles ARCHITECTURE
assembles() {
    sed -n 's/^    "\(.*\)\\n"$/\1/p' "$header" >"$scratch/kernel.ptx"
    output=$(ptxas -arch="$1" -o "$scratch/kernel.cubin" "$scratch/kernel.ptx" 2>&1) ||
        output=${output:-failed without a word}
    verdict "$output" "the PTX assembles for $1"
}

echo 1..3
assembles sm_75
assembles sm_90
"$src/src/memory/make-ptx" "$src/src/memory/kernel_copy.cu" >"$scratch/made.h"
if [ "$(sed -n 2p "$scratch/made.h")" != "$(sed -n 2p "$header")" ]; then
    echo "ok 3 # SKIP the PTX was made by another CUDA compiler"
else
    verdict "$(diff -u "$header" "$scratch/made.h" | head -20)" \
        "the PTX is what src/memory/make-ptx makes of kernel_copy.cu"
fi
