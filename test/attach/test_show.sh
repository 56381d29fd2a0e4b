#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nixlrun ps and --explain=PID list attached processes: of a job, of a process started by hand, by which path and
# why, and no more when they have ended. Usage: test_show.sh; finds the trees by top_srcdir and top_builddir. Prints TAP.
# needs: test/attach/attach_end
set -u
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
. "${top_srcdir:-$(dirname "$0")/../..}/test/attach/lib.sh"
nixlrun=$build/launcher/nixlrun
dir=$scratch/names
mkdir "$dir"
where=file:$dir

# shows PATTERN PID: nixlrun ps has such a line within the patience
shows() {
    tries=0
    until "$nixlrun" ps "$2" >"$scratch/ps" 2>&1 && grep -q -e "$1" "$scratch/ps"; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || { echo "no line '$1':"; cat "$scratch/ps"; return; }
        sleep 0.05
    done
}

begin serve "$end" serve "$where" shown 3
line serve '^published'
pid=$(pid_in serve)
verdict "$(shows '^no process of another job is attached to it' "$pid")" "a process that nobody is attached to"
begin first env NIXLRUN_LOG=info "$end" watch "$where" shown
line first '^attached'
verdict "$(shows "^0  *1  *0 of job [0-9a-f]*  *[0-9]* m\\?s  *shm  *shown  *$(uname -n)" "$pid"
    grep -e buffer -e 'no shared' "$scratch/ps")" "an attached process is listed: number, job, path, name, host"
verdict "$(shows '^0  *1  *0 of job .* shm  *shown' "$(pid_in first)")" "the other end lists it likewise"
verdict "$("$nixlrun" --explain="$pid" >"$scratch/out" 2>&1 &&
    grep -q "^  *0  *1  *0 of job [0-9a-f]*  *shown  *$(uname -n)  *shm *$" "$scratch/out" || cat "$scratch/out")" \
    "nixlrun --explain of a process lists how it is reached"
verdict "$("$nixlrun" --explain="$pid" --json >"$scratch/out" 2>&1 &&
    jq -e '.attached | length == 1 and .[0].rank == 0 and .[0].number == 1 and .[0].transport == "shm" and
        .[0].name == "shown" and .[0].note == ""' "$scratch/out" >"$scratch/jq" || cat "$scratch/out")" \
    "and does so for programs"
verdict "$(grep -q "of job [0-9a-f]*, attached by 'shown', is reached by shm" "$scratch/first" || cat "$scratch/first")" \
    "a process says so in its log"

begin second env NIXLRUN_TRANSPORTS=self,shm "$end" watch "$where" shown
line second '^attached'
verdict "$(shows '^0  *2  *0 of job' "$pid"; grep -q '^0  *1 ' "$scratch/ps" || cat "$scratch/ps")" "two are listed"
killed first
verdict "$(shows '^0  *2 ' "$pid"; tries=0
    while "$nixlrun" ps "$pid" | grep '^0  *1 ' && [ $((tries += 1)) -lt 100 ]; do sleep 0.05; done)" \
    "one that has died is not listed any more"

begin job "$nixlrun" -np 2 "$end" serve "$where" job 1
line job 'published$'
begin third "$end" watch "$where" job.1
line third '^attached'
job=$(sed -n 's/^\(\[[^]]*\] \)*pid //p' "$scratch/job" | head -1)
job=$(awk '/^PPid:/ { print $2 }' "/proc/$job/status")
job=$(awk '/^PPid:/ { print $2 }' "/proc/$job/status")
verdict "$(shows '^1  *2  *0 of job [0-9a-f]* .* shm  *job.1' "$job"
    grep -q '^0 *[0-9]* ' "$scratch/ps" || cat "$scratch/ps")" "a job lists what is attached to its ranks"
verdict "$("$nixlrun" --explain="$job" >"$scratch/out" 2>&1 && grep -q '^  *1  *2  *0 of job .* shm' "$scratch/out" ||
    cat "$scratch/out")" "and so does nixlrun --explain of the job"
killed third

if [ "$(id -u)" = 0 ] && unshare --pid --fork --ipc --mount true 2>/dev/null; then
    begin inside env NIXLRUN_SHARED_DIR="$dir" unshare --pid --fork --kill-child --mount-proc "$end" watch "$where" shown
    line inside '^attached'
    inside=$(cat "$scratch/inside.pid")
    while [ "$(cat "/proc/$inside/comm")" != attach_end ]; do inside=$(pgrep -P "$inside" | tail -1); done
    verdict "$(shows 'no pid names it in this PID namespace: registered memory goes through a buffer' "$inside")" \
        "why a process in another PID namespace is not reached directly"
    verdict "$("$nixlrun" --explain="$inside" >"$scratch/out" 2>&1 && grep -q 'no pid names it' "$scratch/out" ||
        cat "$scratch/out")" "nixlrun --explain says why, too"
    kill -9 "$inside"
    ended inside >"$scratch/code"
else
    echo "ok $((number += 1)) - another PID namespace # SKIP needs root"
fi
kill -9 "$pid" "$(pid_in second)"
for rank in $(sed -n 's/^\(\[[^]]*\] \)*pid //p' "$scratch/job"); do kill -9 "$rank" 2>/dev/null; done
for log in serve second third job; do ended $log >"$scratch/code"; done
verdict "$("$nixlrun" --explain="$pid" >"$scratch/out" 2>&1; [ $? = 2 ] && grep -q 'is no job' "$scratch/out" ||
    cat "$scratch/out")" "one that has ended is not explained"
verdict "$("$nixlrun" ps "$pid" >"$scratch/out" 2>&1; grep -q 'is no job of this user' "$scratch/out" || cat "$scratch/out")" \
    "a process that has ended is no job"
echo "1..$number"
