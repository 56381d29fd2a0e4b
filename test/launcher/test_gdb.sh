#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What gdb shows of a rank: its waits, and handles as one line. Usage: test_gdb.sh; finds the trees by
# top_srcdir and top_builddir. Prints TAP.
# needs: test/mp/stuck
set -u
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
nixlrun=$build/launcher/nixlrun
command -v gdb >/dev/null || { echo "1..0 # SKIP no gdb"; exit 0; }

"$nixlrun" --oversubscribe -np 2 "$build/test/mp/stuck" wrong_tag >"$scratch/out" 2>&1 </dev/null &
job=$!
trap 'kill -KILL $job 2>/dev/null; wait $job 2>/dev/null; rm -rf "$scratch"' EXIT
tries=0
until "$nixlrun" ps -w "$job" 2>/dev/null | tee "$scratch/ps" | grep -q 'queued unmatched: tag 41'; do
    tries=$((tries + 1))
    [ "$tries" -lt 500 ] || { cat "$scratch/ps" "$scratch/out"; exit 1; }
    sleep 0.05
done
rank=$(sed -n 's/^  rank 0 (pid \([0-9]*\)).*/\1/p' "$scratch/ps")

gdb -q -nx -batch -iex 'set auto-load no' -iex 'set debuginfod enabled off' -x "$src/src/libnixlrun-gdb.py" -p "$rank" \
    -ex 'nixlrun waits' -ex 'print words' -ex 'print world' -ex 'print (struct nxr_peer *)nxr_job.peers[1]' \
    >"$scratch/gdb" 2>&1 </dev/null
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
verdict "$(gdb -q -nx -batch -x "$src/src/libnixlrun-gdb.py" -ex 'nixlrun waits' 2>&1 </dev/null |
    grep -v 'nixlrun waits: no libnixlrun with debugging information is loaded')" "without the library it says so"
echo "1..$number"
