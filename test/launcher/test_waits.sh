#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Who waits for whom: a job that is stuck in each way is looked at from outside, and one sentence must name
# it. Usage: test_waits.sh; finds the trees by top_srcdir and top_builddir. Prints TAP.
# needs: test/mp/stuck
set -u
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
nixlrun=$build/launcher/nixlrun
export NIXLRUN_NOTE_QUEUE=64K

# begin NP KIND OPTION...: start a job that gets stuck; $job is its pid. WHERE as in "begin 2 KIND WHERE": see stuck.c
begin() {
    np=$1 kind=$2 where=
    shift 2
    case ${1-} in file:*) where=$1; shift ;; esac
    rm -f "$scratch/code" "$scratch/pid"
    { "$nixlrun" --oversubscribe "$@" -np "$np" "$build/test/mp/stuck" "$kind" "$where" >"$scratch/out" 2>&1 &
        echo $! >"$scratch/pid"; wait $!; echo $? >"$scratch/code"; } </dev/null 2>/dev/null &
    until_is "$scratch/pid" .
    job=$(cat "$scratch/pid")
}

# until_is FILE PATTERN: wait for a line in it
until_is() {
    tries=0
    until grep -qs -E -e "$2" "$1"; do
        tries=$((tries + 1))
        [ "$tries" -lt 1500 ] || { echo "no line '$2' in $1:"; cat "$1"; return 1; }
        sleep 0.02
    done
}

# shown PATTERN: nixlrun ps -w has such a line within the patience
shown() {
    tries=0
    until "$nixlrun" ps -w "$job" >"$scratch/ps" 2>"$scratch/err" && grep -qE -e "$1" "$scratch/ps"; do
        tries=$((tries + 1))
        [ "$tries" -lt 500 ] || { echo "no line '$1':"; cat "$scratch/ps" "$scratch/err" "$scratch/out"; return; }
        sleep 0.05
    done
    [ ! -s "$scratch/err" ] || cat "$scratch/err"
}

end() {
    [ "$job" -gt 1 ] && kill -KILL "$job" 2>/dev/null
    until_is "$scratch/code" .
}

# stuck NP KIND SENTENCE OPTION...: what is said of a job of that kind
stuck() {
    np=$1 kind=$2 sentence=$3
    shift 3
    begin "$np" "$kind" "$@"
    verdict "$(shown "^$sentence$")" "$kind is named in one sentence"
    end
}

stuck 2 missing 'rank 0 waits in nixl_notify_recv for tag 42 from rank 1, which waits in nixl_barrier for rank 0'
stuck 2 wrong_tag 'rank 0 waits in nixl_notify_recv for tag 42 from rank 1 \(queued unmatched: tag 41 from rank 1\), which waits in nixl_barrier for rank 0'
stuck 2 wrong_signal "rank 1 waits in nixl_barrier for rank 0, which waits in nixl_signal_wait until the word at offset 0 of region 'words' is 5 \(it is 3\), and no rank is left that could end this wait"
stuck 4 some_of_team 'rank 0 waits in nixl_barrier for rank 1, which waits in nixl_notify_recv for tag 7 from rank 0; 2 other ranks wait for these'
stuck 2 full_queues 'rank 0 waits in nixl_notify for room in the queue of notifications to rank 1, which waits in nixl_notify for room in the queue of notifications to rank 0'
stuck 2 full_channel "rank 0 waits in nixl_channel_acquire for a free slot of channel 'items', all 4 of which are full, at rank 1, which waits in nixl_barrier for rank 0"
stuck 2 stopped_peer 'rank 0 waits in nixl_notify_recv for tag 42 from rank 1, which is stopped \(by a signal or a debugger\)'
stuck 2 dead_peer "rank 0 waits in nixl_signal_wait until the word at offset 0 of region 'words' is 5 \(it is 0\), and no rank is left that could end this wait: rank 1 has died" \
    --on-failure continue
stuck 2 outside 'rank 0 waits in nixl_barrier for rank 1, which sleeps outside of nixlrun.s calls'
stuck 2 finalize 'rank 0 waits in nixl_finalize for rank 1, which waits in nixl_notify_recv for tag 42 from rank 0'
stuck 3 ring 'rank 0 waits in nixl_notify_recv for tag 42 from rank 1, which waits in nixl_notify_recv for tag 42 from rank 2, which waits in nixl_notify_recv for tag 42 from rank 0'
stuck 3 mixed_ring "rank 0 waits in nixl_notify_recv for tag 42 from rank 1, which waits in nixl_channel_acquire for a free slot of channel 'items', all 4 of which are full, at rank 2, which waits in nixl_barrier for rank 0"
stuck 3 threads 'rank 0 waits in nixl_notify_recv for tag 1 from rank 1, which waits in nixl_notify_recv for tag 7 from rank 0'
begin 2 published "file:$scratch"
"$nixlrun" --oversubscribe -np 2 "$build/test/mp/stuck" attached "file:$scratch" >"$scratch/attached" 2>&1 </dev/null &
other=$!
verdict "$(shown '^rank 1 waits in nixl_notify_recv for tag 7 from rank 0, which waits in nixl_notify_recv for tag 42 from the attached process 2 \(rank 0 of job [0-9a-f]{8}, host .+\)$')" \
    "of a wait for another job, its rank and host are named"
end
kill -KILL "$other"
begin 2 unseen
verdict "$(shown '^ *queued unmatched: tag 43 from rank 1, 4 bytes$')" "what no call has looked for yet is listed, too"
end
stuck 2 init 'rank 0 waits in nixl_init for rank 1, which has not called nixl_init'

# ---- how much it costs -----------------------------------------------------------------------------------

# 200 ms for 128 ranks, also when all are stopped: not by the clock, which other work bends, but by processor time and
# system calls. Of these a rank takes 25, and each other process of this machine up to 12.
begin 128 missing
wait_text='^rank 0 waits in nixl_notify_recv for tag 42 from rank 1, which waits in nixl_barrier for rank 0; 126 other ranks wait for these$'
verdict "$(shown "$wait_text")" "128 ranks are explained in one sentence"
# shellcheck disable=SC2046
verdict "$(halt $(sed -n 's/^  rank [0-9]* (pid \([0-9]*\)).*/\1/p' "$scratch/ps")
    shown '^all 128 ranks are stopped')" "128 ranks that are stopped are read"
cat >"$scratch/cost" <<'END'
import resource, subprocess, sys
times = [0.0]
for _ in range(5):
    subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    times.append(usage.ru_utime + usage.ru_stime)
print(round(min(b - a for a, b in zip(times, times[1:])) * 1000))
END
cost=$(python3 "$scratch/cost" "$nixlrun" ps -w "$job")
verdict "$([ "${cost:-201}" -le 200 ] || echo "${cost:-?} ms, at most 200")" "which takes at most 200 ms of processor time"
if [ -n "$(sed -n 's/^SAN_CFLAGS = //p' "$build/Makefile")" ] || ! strace -c -o "$scratch/calls" true 2>/dev/null; then
    verdict "" "and few system calls # SKIP no strace, or built with a sanitizer"
else
    others=$(ps -A | wc -l)
    strace -f -c -o "$scratch/calls" "$nixlrun" ps -w "$job" >"$scratch/ps" 2>&1
    calls=$(awk '$NF == "total" { print $4 }' "$scratch/calls")
    verdict "$([ "${calls:-0}" -gt 1000 ] && [ "$calls" -le $((128 * 25 + 12 * others)) ] ||
        { echo "${calls:-?} with $others other processes"; cat "$scratch/calls"; })" "and at most 25 system calls for each rank"
fi

# A hundredth of a core for top, which reads the counters once a second: 30 million instructions, of which it may have
# 12 with its start, and 35 system calls for each rank; a reading after the first takes 15.
if [ -n "$(sed -n 's/^SAN_CFLAGS = //p' "$build/Makefile")" ] || ! command -v valgrind >/dev/null ||
    ! strace -c -o "$scratch/calls" true 2>/dev/null; then
    verdict "" "top of 128 ranks is cheap # SKIP no strace or valgrind, or built with a sanitizer"
else
    strace -f -c -o "$scratch/calls" "$nixlrun" top --once "$job" >"$scratch/top" 2>&1
    calls=$(awk '$NF == "total" { print $4 }' "$scratch/calls")
    n=$("$build/libtool" --mode=execute valgrind --tool=callgrind --callgrind-out-file="$scratch/lines" "$nixlrun" \
        top --once "$job" 2>&1 >/dev/null | sed -n 's/.*Collected : \([0-9]*\).*/\1/p')
    verdict "$(grep -q 'ranks 128' "$scratch/top" || cat "$scratch/top"
        [ "${calls:-0}" -gt 1000 ] && [ "$calls" -le $((128 * 35)) ] || { echo "${calls:-?} system calls"; cat "$scratch/calls"; }
        [ "${n:-0}" -gt 1000000 ] && [ "$n" -le 12000000 ] || echo "${n:-?} instructions")" "top of 128 stopped ranks is cheap"
fi
end

# ---- the other ways to see it ----------------------------------------------------------------------------

sentence='^(nixlrun: )?rank 0 waits in nixl_notify_recv for tag 42 from rank 1, which waits in nixl_barrier for rank 0$'
begin 2 missing
verdict "$(shown '^  rank 0 \(pid [0-9]+\): waits in nixl_notify_recv for tag 42 from rank 1, for [0-9.]+ s$')" \
    "each rank has a line"
kill -USR2 "$job"
verdict "$(until_is "$scratch/out" "$sentence"; grep -q '^nixlrun: who waits for whom:$' "$scratch/out" || cat "$scratch/out"
    [ ! -e "$scratch/code" ] || echo "it has ended")" "SIGUSR2 shows it, and kills nobody"
# shellcheck disable=SC2046
verdict "$(halt $(sed -n 's/^  rank [01] (pid \([0-9]*\)).*/\1/p' "$scratch/ps")
    shown '^  rank 1 \(pid [0-9]+\): is stopped; waits in nixl_barrier for rank 0, for')" \
    "ranks that are stopped are read, too"
end

begin 2 missing --timeout 2s
verdict "$(until_is "$scratch/code" .; grep -qE "$sentence" "$scratch/out" || cat "$scratch/out")" "--timeout shows it"

# Ctrl-\ comes from a terminal.
cat >"$scratch/terminal" <<'END'
import os, pty, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
text, end = b"", time.monotonic() + 60
shown = n = 0
while time.monotonic() < end:
    try:
        text += os.read(fd, 4096)
    except OSError:
        break
    if b"started all" in text and not shown:
        shown = 1
        os.write(fd, b"\x1c")
    if text.count(b"again within 2 s") == 1 and n == 0:
        n = 1
        os.write(fd, b"\x1c")
sys.stdout.write(text.decode().replace("\r", ""))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
python3 "$scratch/terminal" "$nixlrun" --oversubscribe -np 2 sh -c '[ "$PMIX_RANK" = 0 ] || echo started all; exec "$0" outside' \
    "$build/test/mp/stuck" >"$scratch/out" 2>&1
code=$?
verdict "$([ $code = 131 ] || echo "code $code"; grep -q 'who waits for whom' "$scratch/out" &&
    grep -q 'caught signal 3' "$scratch/out" || cat "$scratch/out")" 'Ctrl-\ shows it, and a second one ends the job'

# Under an engine the signal stays with nixlrun, which would not know whom it kills.
if command -v mpirun >/dev/null && mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
    begin 2 missing --engine openmpi
    verdict "$(shown "$sentence")" "ranks of an engine are read"
    kill -USR2 "$job"
    verdict "$(until_is "$scratch/out" "$sentence"; [ ! -e "$scratch/code" ] || echo "it has ended")" "SIGUSR2 under an engine"
    kill -TERM "$job"
    until_is "$scratch/code" .
else
    echo "ok $((number + 1)) - ranks of an engine are read # SKIP no Open MPI"
    number=$((number + 1))
fi

# ---- command lines ---------------------------------------------------------------------------------------

# refused PATTERN ARG...: ends with 2 and such a line on stderr
refused() {
    pattern=$1
    shift
    "$nixlrun" "$@" >"$scratch/out" 2>"$scratch/err"
    if [ $? != 2 ] || ! grep -q -e "$pattern" "$scratch/err"; then
        cat "$scratch/out" "$scratch/err"
    fi
}
verdict "$(refused "needs one job" ps -w; refused "needs one job" ps -w 1 2; refused "'1' is no job" ps --waits 1
    refused "'-v' is not known; allowed: --help, -w" ps -v)" "bad command lines are refused"

# A program that does not use the library.
rm -f "$scratch/code" "$scratch/pid"
{ "$nixlrun" -np 2 sleep 300 >"$scratch/out" 2>&1 & echo $! >"$scratch/pid"; wait $!; echo $? >"$scratch/code"; } </dev/null 2>/dev/null &
until_is "$scratch/pid" .
job=$(cat "$scratch/pid")
verdict "$(shown '^  rank 1 \(pid [0-9]+\): has not called nixl_init$')" "ranks that do not use the library are listed"
end
echo "1..$number"
