#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nixlrun --trace: what it writes is read back by Perfetto's own classes (PyPI: perfetto, in build/python): tracks,
# slices that nest, arrows from puts and notifications to their receive, also of ranks that were killed and of
# rings that wrapped. And the static probes of the library. Usage: test_trace.sh; finds the trees by top_srcdir and
# top_builddir. Prints TAP.
# needs: test/mp/restart_cases test/mp/traced
set -u
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
nixlrun=$build/launcher/nixlrun
program=$build/test/mp/traced
python=$build/python/bin/python3
unset NIXLRUN_TRACE NIXLRUN_TRACE_EVENTS

# trace CODE ARG...: run, trace and read: the lines are in $scratch/lines, what nixlrun said in $scratch/err
trace() {
    code=$1
    shift
    rm -f "$scratch/trace"
    timeout 100 "$nixlrun" --trace "$scratch/trace" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    got=$?
    [ "$got" = "$code" ] || { echo "code $got"; cat "$scratch/out" "$scratch/err"; }
    "$python" "$src/test/launcher/read_trace.py" "$scratch/trace" >"$scratch/lines" 2>&1 || cat "$scratch/lines"
}

# wants PATTERN...: each is a line
wants() {
    for pattern; do
        grep -qxE -e "$pattern" "$scratch/lines" || { echo "no '$pattern' in:"; cat "$scratch/lines"; return; }
    done
}

# counts N PATTERN: so many lines
counts() {
    n=$(grep -cxE -e "$2" "$scratch/lines")
    [ "$n" = "$1" ] || { echo "$n lines '$2'"; cat "$scratch/lines"; }
}

# says PATTERN...: nixlrun has said each
says() {
    for pattern; do
        grep -qE -e "$pattern" "$scratch/err" || { echo "no '$pattern' in:"; cat "$scratch/err"; return; }
    done
}

# refused PATTERN ARG...: a usage error with such a line
refused() {
    pattern=$1
    shift
    timeout 60 "$nixlrun" "$@" -np 1 true >"$scratch/out" 2>"$scratch/err" </dev/null
    got=$?
    [ "$got" = 2 ] || echo "code $got"
    says "$pattern"
}

verdict "$(refused "trace '/nowhere/x': .*No such file" --trace /nowhere/x
    refused "trace-kinds 'puts'.*allowed: put, get, .* all" --trace "$scratch/x" --trace-kinds puts
    refused "trace-events '0'.*64 to 16777216" --trace "$scratch/x" --trace-events 0)" "bad values are refused"
timeout 60 "$nixlrun" --trace "$scratch/trace" -np 1 true 2>"$scratch/err" </dev/null
verdict "$(says 'nothing was recorded: no rank has called nixl_init')" "a program without the library"

verdict "$(ulimit -f 20000
    timeout 60 "$nixlrun" --trace "$scratch/trace" -np 2 "$program" all >"$scratch/out" 2>"$scratch/err" </dev/null || echo "code $?"
    says 'nothing is traced: rings of .* exceed half the limit of file sizes' 'none could record')" "a limit of file sizes is told"
verdict "$(timeout 60 "$nixlrun" --trace /dev/full -np 2 "$program" all >"$scratch/out" 2>"$scratch/err" </dev/null && echo "code 0"
    says "--trace '/dev/full': cannot write it: No space left on device")" "a full disk is told, and the code is not 0"

probes=$(readelf -n "$build/src/.libs/libnixlrun.so" 2>/dev/null | sed -n 's/^ *Name: //p' | sort -u | xargs)
if grep -q '^#define HAVE_SYS_SDT_H' "$build/config.h"; then
    verdict "$([ "$probes" = "complete lost note_received note_sent start wait_begin wait_end" ] || echo "'$probes'")" \
        "the library has the probes of the manual"
    verdict "$(for probe in $probes; do grep -q "$probe" "$src/man/nixlrun-observe.7" || echo "$probe"; done)" \
        "the manual has all of them"
else
    verdict "" "probes # SKIP built without sys/sdt.h (Debian: systemtap-sdt-dev)"
fi

if ! "$python" -c 'import perfetto.protos.perfetto.trace.perfetto_trace_pb2' 2>/dev/null; then
    verdict "" "traces # SKIP no perfetto in build/python; ./quickstart packages check installs it"
    echo "1..$number"
    exit
fi

verdict "$(trace 0 -np 3 "$program" all
    says 'trace: [0-9]+ events of 3 processes in ')" "3 ranks are traced"
verdict "$(wants 'process rank 0 \(.*, pid [0-9]+\)' 'process rank 2 \(.*\)' 'thread rank 1 traced [0-9]+')" \
    "each rank is a process, with its threads"
verdict "$(wants 'slice rank 0 0 nixl_init' 'slice rank 0 0 nixl_put rank=1 bytes=4096' \
    'slice rank 1 0 nixl_put_notify rank=2 bytes=100 tag=41' 'slice rank 2 0 nixl_notify_recv rank=1 tag=42' \
    'slice rank 0 0 nixl_allreduce bytes=8' 'slice rank 2 0 nixl_finalize' \
    'slice rank 0 0 nixl_put rank=1 bytes=8 status=.*outside of the region')" "calls are slices, with what they did"
verdict "$(wants 'slice rank [0-2] 1 asleep for=all ranks in nixl_init')" "sleeps lie within calls"
verdict "$(counts 3 'arrow rank [0-2] nixl_put_notify -> rank [0-2] note received'
    counts 3 'arrow rank [0-2] nixl_put -> rank [0-2] note received')" "arrows lead from puts to the receive"
verdict "$(counts 3 'arrow rank 0 item published -> rank 1 item received'; wants 'dangling 0')" \
    "arrows lead through channels, and none is loose"
verdict "$(wants 'slice rank 0/operations 1 0 put rank=1 bytes=8388608 transport=shm')" \
    "operations that take time have tracks of their own"

verdict "$(trace 0 -np 2 --trace-kinds put,note "$program" all; wants 'slice rank 0 0 nixl_put .*'
    counts 0 'slice rank [01] [0-9] (nixl_init|asleep|nixl_allreduce).*')" "kinds can be chosen"
verdict "$(trace 0 -np 2 --trace-kinds ^put,job "$program" all; wants 'slice rank 0 0 nixl_notify .*'
    counts 0 'slice rank [01] [0-9] (nixl_put|nixl_init).*')" "or left out"
verdict "$(export NIXLRUN_TRACE=collective; trace 0 -np 2 "$program" all; counts 0 'slice .* nixl_put .*'
    wants 'slice rank 1 0 nixl_barrier')" "by the variable, too"

verdict "$(trace 0 -np 2 --trace-events 64 "$program" wrap; says '; 9[0-9]{3} earlier ones are lost'
    wants 'instant rank 0 events lost before this events=9[0-9]{3}' 'slice rank 0 0 nixl_finalize'
    counts 0 'slice rank 0 0 nixl_init')" "rings that wrap keep the last events, and say how many are lost"
verdict "$(trace 0 -np 2 "$program" threads; counts 30 'slice rank 0 0 nixl_put rank=1 bytes=8'
    n=$(grep -c '^thread rank 0 ' "$scratch/lines"); [ "$n" -ge 4 ] || echo "$n threads")" "each thread has a track"
verdict "$(trace 0 -np 2 "$program" forked; counts 10 'slice rank 0 0 nixl_put rank=1 bytes=8'
    counts 0 'slice rank 0 .* bytes=16 .*')" "a child of a rank records nothing"
# The main thread and one of the library may have rings, too.
verdict "$(trace 0 -np 2 "$program" crowd; says '; [6-9]0 of threads beyond the first 64 of a rank are lost$'
    grep -q -e --trace-events "$scratch/err" && cat "$scratch/err"
    counts 1 'instant rank 0 events of more threads than are recorded events=[6-9]0')" "events of more threads than have rings are told"
# A trace of 256 MiB for each of 4 ranks; sanitizers reserve more than any limit.
if [ -n "$(sed -n 's/^SAN_CFLAGS = //p' "$build/Makefile")" ]; then
    verdict "" "traces for which there is no address space # SKIP built with a sanitizer"
else
    # shellcheck disable=SC2016  # for the shells of the ranks
    verdict "$(ulimit -S -v 700000
        trace 0 -np 4 --oversubscribe sh -c 'ulimit -S -v unlimited && exec "$0" "$@"' "$program" threads
        says 'trace: [0-9]+ events of [12] process' '--trace: [23] processes are missing: .* address space .*ulimit -v')" \
        "traces for which there is no address space are told"
fi

# 20000 events are 313 pages.
verdict "$(trace 0 -np 2 "$program" faults; n=$(sed -n 's/^\([0-9]*\) faults$/\1/p' "$scratch/out")
    [ "${n:-999}" -lt 32 ] || { echo "$n faults"; cat "$scratch/out"; })" "recording faults no pages in"
verdict "$(trace 137 -np 2 --on-failure continue "$program" kill
    wants 'slice rank 1 0 nixl_notify_recv \(has not ended\) rank=0' 'instant rank 0 rank died rank=1' \
        'instant rank 1 last event: the rank did not call nixl_finalize' \
        'arrow rank 1 note sent -> rank 0 note received')" "a killed rank is traced up to its death"
verdict "$(trace 0 -np 2 --on-failure restart=5 --stats="$scratch/counts.json" "$build/test/mp/restart_cases" again
    wants 'process rank 1 .*, pid [0-9]+\)' 'process rank 1 .*, started again 1x\)' 'process rank 1 .*, started again 2x\)'
    jq -e '[.ranks[] | [.rank, .incarnation]] == [[0, 0], [1, 0], [1, 1], [1, 2]]' "$scratch/counts.json" >/dev/null ||
        cat "$scratch/counts.json")" "each process of a rank that is started again is traced and counted"
# shellcheck disable=SC2016  # for the shells of the ranks
verdict "$(trace 0 -np 2 sh -c '"$@" && exec "$@"' sh "$program" all
    says 'trace: [0-9]+ events of 4 processes'; counts 2 'process rank 0 \(.*'; counts 4 'slice rank [01] 0 nixl_finalize')" \
    "programs that a rank runs one after another have tracks of their own"
echo "1..$number"
