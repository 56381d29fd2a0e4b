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

# assembles KERNELS ARCHITECTURE
assembles() {
    output=$(ptxas -arch="$2" -o "$scratch/kernel.cubin" "$src/src/memory/kernels/$1.ptx" 2>&1) ||
        output=${output:-failed without a word}
    verdict "$output" "the PTX of $1 assembles for $2"
}

# matches KERNELS
matches() {
    ptx=$src/src/memory/kernels/$1.ptx
    "$src/src/memory/kernels/make-ptx" "$src/src/memory/kernels/$1.cu" >"$scratch/made.ptx"
    if [ "$(sed -n 2p "$scratch/made.ptx")" != "$(sed -n 2p "$ptx")" ]; then
        number=$((number + 1))
        echo "ok $number # SKIP the PTX was made by another CUDA compiler"
    else
        verdict "$(diff -u "$ptx" "$scratch/made.ptx" | head -20)" \
            "the PTX is what make-ptx makes of $1.cu"
    fi
}

echo 1..6
assembles kernel_copy sm_75
assembles kernel_copy sm_90
assembles kernel_reduce sm_75
assembles kernel_reduce sm_90
matches kernel_copy
matches kernel_reduce
