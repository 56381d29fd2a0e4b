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

# With so many ranks the guardian dies while it starts them; nixlrun sees that as a failed request.
"$nixlrun" --oversubscribe -np 200 sleep 60 >"$work/out" 2>"$work/err" </dev/null &
job=$!
until_true 300 guardian >/dev/null
kill -9 "$(guardian)"
wait "$job"
[ $? = 1 ]
result $? "nixlrun ends with 1 if its guardian dies while it starts ranks" "$work/err"
has "$work/err" 'the guardian process has died' "and says why"

# The guardian dies while a rank waits to be started again. Until that time has come, output that is
# not read keeps nixlrun.
mkfifo "$work/unread"
exec 7<>"$work/unread"
"$nixlrun" -np 1 --timeout 30 --on-failure restart=3,2 sh -c 'head -c 200000 /dev/zero; exit 3' \
    >"$work/unread" 2>"$work/err" </dev/null 7>&- &
job=$!
until_true 300 grep -q 'it is started again' "$work/err"
kill -9 "$(guardian)"
until_true 300 grep -q 'the guardian process has died' "$work/err"
sleep 2 # the time at which the rank was to be started
timeout 20 head -c 200000 <&7 >"$work/out"
until_true 20 test ! -e "/proc/$job/fd/1"
result $? "nixlrun ends if its guardian dies while a rank waits to be started again" "$work/err"
kill -9 "$job" 2>/dev/null
wait "$job"
exec 7>&-
grep -q 'cannot start' "$work/err"
[ $? = 1 ]
result $? "and starts none" "$work/err"

start "kill -9 of both"
kill -STOP "$job" # or it might see the guardian's end before its own
until_true 300 is_stopped
kill -9 "$(guardian)" "$job"
wait "$job" 2>/dev/null
until_true 300 no_rank_lives
result $? "the ranks die with them"
# shellcheck disable=SC2046
kill -9 $(named sleep) # no process is left that could know of these
one_directory_lies
result $? "a directory stays"
mkdir -m 700 "$work/run/nixlrun.1.2f" # of an owner that is gone too
mkdir -p "$work/run/nixlrun.results/sub" # of the user
: >"$work/run/nixlrun.results/sub/data"
gives 0 "the next nixlrun runs" -np 1 true
test -e "$work/run/nixlrun.results/sub/data"
result $? "it leaves a user's directory, whatever its name"
rm -rf "$work/run/nixlrun.results"
clean "and sweeps both"

# kill -9 of nixlrun as soon as there is a directory: before its guardian existed no process knew of it
appears() {
    while set -- "$work"/run/*; [ ! -e "$1" ]; do
        kill -0 "$job" 2>/dev/null || return 1
    done
}
lies=0
for round in $(seq 30); do
    "$nixlrun" -np 1 sleep 1000 >"$work/out" 2>"$work/err" </dev/null &
    job=$!
    appears && kill -9 "$job"
    wait "$job" 2>/dev/null
    until_true 300 nothing_runs
    nothing_lies || lies=$((lies + 1))
    rm -rf "$work"/run/*
done
[ "$lies" = 0 ]
result $? "no directory is left by kill -9 when it has just been made ($lies of $round rounds)"

# A rank that is killed is the first failure, though others that see it end before nixlrun looks.
exits_after_it() {
    grep -q '^State:.Z' "/proc/$(cat "$work/answers")/status"
}
rm -f "$work/go"
"$nixlrun" --oversubscribe -np 2 sh -c '
    [ "$PMIX_RANK" = 1 ] && { echo $$ >"$0/cause"; exec sleep 1000; }
    echo $$ >"$0/answers"
    while [ ! -e "$0/go" ]; do sleep 0.02; done
    exit 7' "$work" >"$work/out" 2>"$work/err" </dev/null &
job=$!
until_true 300 test -s "$work/cause" -a -s "$work/answers"
result $? "two ranks run" "$work/err"
guard=$(guardian)
kill -STOP "$job" # or it continues the guardian
until_true 300 is_stopped
kill -STOP "$guard"
kill -9 "$(cat "$work/cause")"
: >"$work/go"
until_true 300 exits_after_it
result $? "one ends by a code when the other has been killed" "$work/err"
kill -CONT "$guard" "$job"
wait "$job"
[ $? = 137 ]
result $? "the job ends with the code of the kill" "$work/err"
has "$work/err" 'rank 1 on host .* was killed by signal 9' "of which nixlrun tells"

# Of two that fail by codes, the one that ended first is the failure, not the one that was started first.
ended() {
    grep -q '^State:.Z' "/proc/$(cat "$work/pid.$1")/status"
}
rm -f "$work"/go.* "$work"/pid.*
"$nixlrun" --oversubscribe -np 2 sh -c '
    echo $$ >"$0/pid.$PMIX_RANK"
    while [ ! -e "$0/go.$PMIX_RANK" ]; do sleep 0.02; done
    exit $((7 - PMIX_RANK))' "$work" >"$work/out" 2>"$work/err" </dev/null &
job=$!
until_true 300 test -s "$work/pid.0" -a -s "$work/pid.1"
guard=$(guardian)
kill -STOP "$job" # or it continues the guardian
until_true 300 is_stopped
kill -STOP "$guard"
for rank in 1 0; do
    : >"$work/go.$rank"
    until_true 300 ended $rank
    result $? "rank $rank ends" "$work/err"
done
kill -CONT "$guard" "$job"
wait "$job"
[ $? = 6 ]
result $? "the job ends with the code of the one that ended first" "$work/err"
[ "$(sed -n 's/^nixlrun: rank \(.\) on host .* exited with code .*/\1/p' "$work/err" | head -n 1)" = 1 ]
result $? "which is the first that is told of" "$work/err"

# A debugger holds a rank that has ended: the guardian serves the others meanwhile.
cat >"$work/trace.py" <<'EOF'
import ctypes, os, signal, sys
ptrace, pid = ctypes.CDLL(None).ptrace, int(sys.argv[1])
if ptrace(16, pid, None, None) != 0:  # PTRACE_ATTACH
    open(sys.argv[2], "w").write("refused\n")
else:
    os.waitpid(pid, 0)
    ptrace(7, pid, None, None)  # PTRACE_CONT
    open(sys.argv[2], "w").write("attached\n")
    signal.pause()
EOF
rm -f "$work"/go.* "$work"/pid.*
"$nixlrun" --oversubscribe -np 3 --kill-grace 60 sh -c '
    trap "echo asked >$0/asked; exit 0" TERM
    echo $$ >"$0/pid.$PMIX_RANK"
    while [ ! -e "$0/go.$PMIX_RANK" ]; do sleep 0.02; done
    exit 5' "$work" >"$work/out" 2>"$work/err" </dev/null &
job=$!
until_true 300 test -s "$work/pid.0" -a -s "$work/pid.1" -a -s "$work/pid.2"
python3 "$work/trace.py" "$(cat "$work/pid.1")" "$work/attached" &
tracer=$!
until_true 300 test -s "$work/attached"
grep -q attached "$work/attached" || echo "# debuggers are forbidden here: the next two lines show less"
kill -9 "$(cat "$work/pid.1")"
! grep -q attached "$work/attached" || until_true 300 ended 1
: >"$work/go.0"
until_true 300 test -s "$work/asked"
result $? "another rank's failure ends the job although the debugger holds a dead rank" "$work/err"
kill -9 "$tracer" 2>/dev/null
wait "$job"
[ $? != 0 ]
result $? "the job ends when the debugger has gone" "$work/err"

# a directory whose owner lives is left alone
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
