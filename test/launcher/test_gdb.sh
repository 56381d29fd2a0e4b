#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What gdb shows of a rank: its waits, and handles as one line. Usage: test_gdb.sh; finds the trees by
# top_srcdir and top_builddir. Prints TAP.
# needs: test/mp/stuck
set -u
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
nixlrun=$build/launcher/nixlrun
command -v gdb >/dev/null || { echo "1..0 # SKIP no gdb"; exit 0; }

job=
trap '[ -z "$job" ] || { kill -KILL $job 2>/dev/null; wait $job 2>/dev/null; }; rm -rf "$scratch"' EXIT

# begin KIND TEXT: a job that is stuck, when nixlrun ps -w says that; $rank is the pid of rank 0
begin() {
    "$nixlrun" --oversubscribe -np 2 "$build/test/mp/stuck" "$1" >"$scratch/out" 2>&1 </dev/null &
    job=$!
    tries=0
    until "$nixlrun" ps -w "$job" 2>/dev/null | tee "$scratch/ps" | grep -q "$2"; do
        tries=$((tries + 1))
        [ "$tries" -lt 500 ] || { cat "$scratch/ps" "$scratch/out"; exit 1; }
        sleep 0.05
    done
    rank=$(sed -n 's/^  rank 0 (pid \([0-9]*\)).*/\1/p' "$scratch/ps")
}

# debug ARG...: what gdb writes of the process or file is in $scratch/gdb
debug() {
    gdb -q -nx -batch -iex 'set auto-load no' -iex 'set debuginfod enabled off' -x "$src/src/libnixlrun-gdb.py" "$@" \
        >"$scratch/gdb" 2>&1 </dev/null
}

begin wrong_tag 'queued unmatched: tag 41'
debug -p "$rank" -ex 'nixlrun waits' -ex 'print words' -ex 'print world' -ex 'print (struct nxr_peer *)nxr_job.peers[1]' \
    -ex 'call (int)nixl_debug_dump(2)' -ex "generate-core-file $scratch/core"
if grep -q 'ptrace: Operation not permitted' "$scratch/gdb"; then
    echo "1..0 # SKIP gdb may not attach here"
    exit 0
fi

# has PATTERN: gdb has written such a line
has() {
    grep -qE -e "$1" "$scratch/gdb" || { echo "no line '$1':"; cat "$scratch/gdb"; }
}
verdict "$(has "^thread $rank: nixl_notify_recv waits for tag 42 from rank 1$"; has '^queued unmatched: tag 41 from rank 1$')" \
    "nixlrun waits"
verdict "$(has "= 0x[0-9a-f]+ <region 'words', 64 bytes at 0x[0-9a-f]+>$")" "a region"
verdict "$(has '= 0x[0-9a-f]+ <team of 2 ranks \[0, 1\], this is member 0, last call nixl_barrier>$')" "a team"
verdict "$(has '= 0x[0-9a-f]+ <rank 1, alive, 0 operations under way>$')" "a peer"
# gdb 13 cannot call any function of any process on processors with AMX.
if grep -q "Couldn't write extended state status" "$scratch/gdb"; then
    number=$((number + 1))
    echo "ok $number - nixl_debug_dump can be called # SKIP this gdb cannot write the registers of this processor"
else
    verdict "$(has '= 0$'
        grep -q "^  thread $rank waits in nixl_notify_recv for tag 42 from rank 1, for " "$scratch/out" || cat "$scratch/out")" \
        "nixl_debug_dump can be called"
fi
program=$build/test/mp/.libs/stuck
[ -x "$program" ] || program=$build/test/mp/stuck
LD_LIBRARY_PATH=$build/src/.libs debug "$program" "$scratch/core" -ex 'nixlrun waits' -ex 'print words'
verdict "$(has "^thread $rank: nixl_notify_recv waits for tag 42 from rank 1$"
    has "= 0x[0-9a-f]+ <region 'words', 64 bytes at 0x[0-9a-f]+>$")" "the same of a core file"
kill -KILL "$job"
wait "$job" 2>/dev/null

begin full_channel 'a free slot of channel'
debug -p "$rank" -ex 'nixlrun waits' -ex 'print items'
verdict "$(has "^thread $rank: nixl_channel_acquire waits for 'items' of rank 1$"
    has "= 0x[0-9a-f]+ <channel 'items', NIXL_CHANNEL_PRODUCER, with rank 1, 4 slots of 64 bytes>$")" "a channel"
kill -KILL "$job"
wait "$job" 2>/dev/null

begin masked 'mask 0xff00'
debug -p "$rank" -ex 'nixlrun waits'
verdict "$(has "^thread $rank: nixl_notify_recv waits for tag 0x4200 \(mask 0xff00\) from rank 1$")" "a set of tags"
verdict "$(gdb -q -nx -batch -x "$src/src/libnixlrun-gdb.py" -ex 'nixlrun waits' 2>&1 </dev/null |
    grep -v 'nixlrun waits: no libnixlrun with debugging information is loaded')" "without the library it says so"
echo "1..$number"
