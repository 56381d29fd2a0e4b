#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kill -9 of nixlrun, of its guardian, of both: nothing survives, and what lies is swept.
# needs: test/launcher/pmix_events
# shellcheck disable=SC1091,SC2016 # $PMIX_RANK is for the ranks' shells
. "$top_srcdir/test/launcher/lib.sh"

# start: a job whose ranks have descendants that try to get away
start() {
    : >"$work/out"
    "$nixlrun" --oversubscribe -np 3 sh -c '
        setsid sleep 1000 &
        (sleep 1001 &)
        exec "$0" wait' "$clients/pmix_events" >"$work/out" 2>"$work/err" </dev/null &
    job=$!
    until_true 300 all_run
    result $? "$1: ranks and their descendants run" "$work/err" "$work/out"
}

# named COMM: pids of our processes of this name
named() {
    for pid in $(marked); do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$1" ] && echo "$pid"
    done
}

all_run() {
    [ "$(grep -cx ready "$work/out")" = 3 ] && [ "$(named sleep | wc -l)" = 6 ]
}

no_rank_lives() {
    [ -z "$(named pmix_events)" ]
}

guardian() {
    pgrep -x -P "$job" nixlrun-guard
}

is_stopped() {
    grep -q '^State:.T' "/proc/$job/status"
}

start "kill -9 of nixlrun"
kill -9 "$job"
wait "$job" 2>/dev/null
clean "kill -9 of nixlrun"

start "kill -9 of the guardian"
kill -9 "$(guardian)"
wait "$job"
[ $? = 1 ]
result $? "nixlrun ends with 1" "$work/err"
has "$work/err" 'the guardian process has died' "and says why"
clean "kill -9 of the guardian"

start "kill -9 of both"
kill -STOP "$job" # or it might see the guardian's end before its own
until_true 300 is_stopped
kill -9 "$(guardian)" "$job"
wait "$job" 2>/dev/null
until_true 300 no_rank_lives
result $? "the ranks die with them"
# shellcheck disable=SC2046
kill -9 $(named sleep) # nobody is left who could know of these
one_directory_lies
result $? "a directory stays"
mkdir "$work/run/nixlrun.other" # of an owner that is gone too
gives 0 "the next nixlrun runs" -np 1 true
clean "and sweeps both"

# a directory whose owner lives is let alone
start "a second nixlrun beside the first"
gives 0 "runs" -np 1 true
one_directory_lies
result $? "and leaves the first's directory" "$work/err"
kill -9 "$job"
wait "$job" 2>/dev/null

# what a rank leaves behind does not outlive the job
gives 0 "a rank that leaves a daemon" -np 1 sh -c 'setsid sleep 1000 >/dev/null 2>&1 & exit 0'
clean "a rank that leaves a daemon"

# start in a place with few descriptors
timeout -k 5 "$limit" prlimit --nofile=64 "$nixlrun" -np 2 "$clients/pmix_events" quick >"$work/out" 2>"$work/err"
result $? "64 descriptors are enough for 2 ranks" "$work/err"

finish
