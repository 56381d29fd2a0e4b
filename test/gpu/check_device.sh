#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The header for kernels compiles alone, in the languages and for the GPUs that it promises. What it
# does is seen on a GPU only: test/gpu/run. Prints TAP.
set -eu
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"

PATH=$PATH:/usr/local/cuda/bin
if ! command -v nvcc >/dev/null; then
    echo "1..0 # SKIP no CUDA compiler"
    exit 0
fi

# compiles STANDARD ARCHITECTURE
compiles() {
    output=$(nvcc -std="$1" -arch="$2" -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror \
        -I"$src/include" -I"$build/include" -c -o "$scratch/device.o" \
        "$src/test/gpu/device_compile.cu" 2>&1) || output=${output:-failed without a word}
    verdict "$output" "nixlrun_device.cuh compiles alone as $1 for $2"
}

echo 1..2
compiles c++11 sm_75
compiles c++17 sm_90
