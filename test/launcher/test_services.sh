#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every PMIx service, by a client that uses it and checks the effect.
# needs: test/launcher/pmix_data test/launcher/pmix_events test/launcher/pmix_jobs test/net/nodes
# shellcheck disable=SC1091,SC2016 # $PMIX_RANK is for the ranks' shells
. "$top_srcdir/test/launcher/lib.sh"

host=$(uname -n)
data=$clients/pmix_data
jobs=$clients/pmix_jobs
events=$clients/pmix_events

gives 0 "a collecting fence gives everybody's data" -np 4 "$data" fence
gives 0 "direct modex: a value put after the fence" -np 4 "$data" dmodex
gives 0 "a get of what never comes times out" -np 2 "$data" timeout
gives 0 "publish, look up, wait, unpublish" -np 3 "$data" publish
gives 0 "what a client may ask about its job" -np 4 "$data" keys "$host" 0,1,2,3
timeout -k 5 "$limit" env LD_PRELOAD="$top_builddir/test/launcher/.libs/newer_pmix.so" \
    "$nixlrun" --oversubscribe -np 3 "$data" topology >"$work/out" 2>"$work/err" </dev/null
result $? "clients of a newer PMIx find the topology in shared memory" "$work/err"
if unshare -u true 2>/dev/null; then
    long=$(printf '%060d' 0 | tr 0 x)
    for name in "$long" "${long}12"; do
        timeout -k 5 60 unshare -u sh -c 'hostname "$0" && exec "$@"' "$name" \
            "$nixlrun" --oversubscribe -np 2 "$data" keys "$name" 0,1 \
            >"$work/out" 2>"$work/err" </dev/null
        result $? "a client finds a host name of ${#name} letters" "$work/err"
    done
fi
gives 0 "fences of pairs" -np 4 "$data" subset
gives 0 "which ranks share a host" -np 3 "$top_builddir/test/net/nodes"
[ "$(sort "$work/out" | tr '\n' '|')" = "0 of 1 hosts: 0 0 0|1 of 1 hosts: 0 0 0|2 of 1 hosts: 0 0 0|" ]
result $? "is known to the library" "$work/out"
[ "$("$top_builddir/test/net/nodes")" = "0 of 1 hosts: 0" ]
result $? "also without a launcher"

gives 0 "spawn, connect, fence across, disconnect, event at the end" -np 2 "$jobs" spawn
[ "$(grep -c '^child [01] of nixlrun' "$work/out")" = 2 ]
result $? "both children wrote their line" "$work/out"
gives 0 "a spawn of a program that is not there fails alone" -np 2 "$jobs" badspawn
has "$work/err" "cannot run '/nowhere/program'" "and says so"
mkdir -p "$work/half/job1.rank.0.out" "$work/half/job2.rank.1.err"
limit=60
gives 0 "a spawn of which one rank has no output file fails alone" -np 2 --timeout 30 \
    --output-dir "$work/half" "$jobs" halfspawn
has "$work/err" 'cannot open .*/job1\.rank\.0\.out: Is a directory' "and says so of the first"
has "$work/err" 'cannot open .*/job2\.rank\.1\.err: Is a directory' "and of the second"
limit=300
gives 0 "a group with a context id" -np 4 "$jobs" group
gives 0 "job control kills a rank and the job goes on" -np 3 "$jobs" kill
gives 0 "the process table has the right pids" -np 3 "$jobs" query
gives 0 "also when the first asks while the last are being started" -np 16 "$jobs" query

gives 0 "an event of a client reaches the others" -np 3 "$events" notify
gives 0 "log" -np 2 "$events" log
has "$work/err" '^logged to stderr$' "log to stderr"
has "$work/out" '^logged to stdout$' "log to stdout"
gives 0 "I/O forwarding to a client" -np 2 "$events" iof
has "$work/out" '^forwarded twice$' "and to us"

# 5 deaths, each heard by 3 survivors
: >"$work/times"
for i in 1 2 3 4 5; do
    run -np 4 --on-failure continue "$events" death "$work/clock"
    cat "$work/out" >>"$work/times"
    [ "$rc" = 137 ] || break
done
[ "$rc" = 137 ]
result $? "a death with --on-failure continue gives 137" "$work/err"
median=$(awk '{ print $3 }' "$work/times" | sort -n | sed -n 8p)
[ "$(wc -l <"$work/times")" = 15 ]
result $? "every survivor hears of it (median $median us)" "$work/err" "$work/times"
finish
