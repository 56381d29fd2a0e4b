#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks that ask for GPU memory where the loader, the driver or the device is not there. Prints TAP.
# needs: test/mp/no_device
set -eu
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"

# without REASON VARIABLE...: two ranks are refused Vulkan memory for that reason.
without() {
    reason=$1
    shift
    env LP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES='' NIXLRUN_RESOLVE_TIMEOUT=60s "$@" "$build/launcher/nixlrun" -np 2 --oversubscribe \
        "$build/test/mp/no_device" vulkan "$reason" >"$scratch/out" 2>&1 </dev/null ||
        cat "$scratch/out"
}

mkdir "$scratch/empty" "$scratch/wrong"
: >"$scratch/empty/libvulkan.so.1"
cp "$(command -v env)" "$scratch/wrong/libvulkan.so.1"
echo '{"file_format_version": "1.0.0", "ICD": {"library_path": "/nonexistent.so", "api_version": "1.3.0"}}' \
    >"$scratch/icd.json"

# driverless WHAT VARIABLE...: the loader is there and finds no driver.
driverless() {
    what=$1
    shift
    missing=$(without 'Vulkan has no driver' "$@")
    case $missing in
    *'no Vulkan loader'*) echo "ok $((number += 1)) - $what # SKIP no Vulkan loader" ;;
    *) verdict "$missing" "$what" ;;
    esac
}

echo 1..4
verdict "$(without 'no Vulkan loader' LD_LIBRARY_PATH="$scratch/empty")" "a loader that cannot be loaded"
verdict "$(without 'Vulkan' LD_LIBRARY_PATH="$scratch/wrong")" "a file that is no loader"
driverless "no driver" VK_DRIVER_FILES=/dev/null VK_ICD_FILENAMES=/dev/null
driverless "a driver whose library is not there" VK_DRIVER_FILES="$scratch/icd.json" \
    VK_ICD_FILENAMES="$scratch/icd.json"
