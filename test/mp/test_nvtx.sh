#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# NIXLRUN_NVTX: ranges of calls for Nsight Systems, counted by a tool of our own, which is loaded as nsys is. Prints TAP.
# needs: test/mp/stats test/mp/nvtx_tool.la
set -u
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
nixlrun=$build/launcher/nixlrun
program=$build/test/mp/stats
tool=$build/test/mp/.libs/nvtx_tool.so

if ! grep -q '^#define HAVE_NVTX 1' "$build/config.h"; then
    verdict "$("$nixlrun" -np 1 -x NIXLRUN_NVTX=1 "$program" 2>&1 </dev/null | grep -q 'built without nvtx3/nvToolsExt.h' ||
        echo "not said")" "a build without NVTX says so"
    echo "1..$number"
    exit 0
fi

# run VARIABLE...: a job of 2 with them under the tool
run() {
    rm -f "$scratch"/ranges.*
    timeout 120 env NVTX_INJECTION64_PATH="$tool" NVTX_TOOL_OUTPUT="$scratch/ranges" "$@" \
        "$nixlrun" -np 2 "$program" >"$scratch/out" 2>&1 </dev/null || { echo "code $?"; cat "$scratch/out"; }
}

# wants LINE...: each process has such a line
wants() {
    for line; do
        [ "$(grep -lE -e "$line" "$scratch"/ranges.* | wc -l)" = 2 ] || { echo "no '$line' in both of:"; head -n 99 "$scratch"/ranges.*; return; }
    done
}

verdict "$(run NIXLRUN_NVTX=1
    wants '^nixlrun: nixl_put rank [01] 40[0-9]+$' '^nixlrun: nixl_notify rank [01] [0-9]+$' '^nixlrun: nixl_barrier [0-9]+$' \
        '^nixlrun: nixl_region_alloc [1-9]' '^open 0$')" "each call is a range of the domain, named by call and rank, and ends"
verdict "$(run NIXLRUN_NVTX=1 NIXLRUN_TRACE=note NIXLRUN_TRACE_EVENTS=64
    wants '^nixlrun: nixl_put rank [01] 40[0-9]+$' '^open 0$')" "with a trace of other calls, too"
verdict "$(run NIXLRUN_NVTX=0
    ls "$scratch" | grep '^ranges')" "without NIXLRUN_NVTX there are none"
verdict "$(NIXLRUN_NVTX=1 NIXLRUN_LOG=info timeout 120 "$nixlrun" -np 1 "$program" >"$scratch/out" 2>&1 </dev/null || echo "code $?"
    grep -q 'NIXLRUN_NVTX: no tool listens' "$scratch/out" || cat "$scratch/out")" "without a tool the job runs, and the log says so"
verdict "$("$nixlrun" -np 1 -x NIXLRUN_NVTX=maybe true 2>&1 </dev/null | grep -q 'NIXLRUN_NVTX.*allowed: 0, 1, no or yes' ||
    "$nixlrun" -np 1 -x NIXLRUN_NVTX=maybe true 2>&1 </dev/null)" "a bad value is refused"
echo "1..$number"
