#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Signals to nixlrun: what reaches the ranks, how jobs end by them, and a user at a terminal.
# needs: test/launcher/pmix_events
# shellcheck disable=SC1091,SC2016 # $PMIX_RANK is for the ranks' shells
. "$top_srcdir/test/launcher/lib.sh"

# start ARG...: a job in the background in a process group of its own; its pid is in $job
start() {
    : >"$work/out"
    setsid "$nixlrun" --oversubscribe "$@" >"$work/out" 2>"$work/err" </dev/null &
    job=$!
}

# ended: the job has ended; its exit code goes to $rc
ended() {
    rc=timeout
    until_true 300 sh -c "! kill -0 $job" || kill -9 "$job"
    wait "$job"
    rc=$?
}

# ends_by SIGNAL CODE WORDS: send nixlrun the signal; it ends with that exit code
ends_by() {
    kill -"$1" "$job"
    ended
    [ "$rc" = "$2" ]
    result $? "$3 (exit code $rc, expected $2)" "$work/err"
}

# lines N TEXT: the output has N lines that are TEXT
lines() {
    [ "$(grep -cx "$2" "$work/out")" = "$1" ]
}

trap_all='
    for name in INT TERM USR1 USR2 WINCH; do trap "echo got $name" "$name"; done
    echo ready
    while :; do sleep 0.02; done'
start -np 2 --kill-grace 60 sh -c "$trap_all"
until_true 300 lines 2 ready
result $? "two ranks are ready" "$work/err"
for name in USR1 USR2 WINCH; do
    kill -"$name" "$job"
    until_true 300 lines 2 "got $name"
    result $? "SIG$name reaches both" "$work/out" "$work/err"
done
kill -TERM "$job"
until_true 300 lines 2 "got TERM"
result $? "SIGTERM reaches both" "$work/out" "$work/err"
kill -TERM "$job"
ended
[ "$rc" -ge 128 ]
result $? "a second SIGTERM kills at once (exit code $rc)" "$work/err"
clean "after a second SIGTERM"

start -np 2 "$clients/pmix_events" wait
until_true 300 lines 2 ready
ends_by INT 130 "SIGINT ends the job"
has "$work/err" 'caught signal 2 .Interrupt.; forwarding' "and a line"

start -np 2 --kill-grace 0.3 sh -c 'trap "" INT; echo ready; while :; do sleep 0.02; done'
until_true 300 lines 2 ready
ends_by INT 137 "ranks that ignore SIGINT are killed after the grace"

start -np 2 --kill-grace 60 sh -c 'echo ready; exec sleep 300'
until_true 300 lines 2 ready
ends_by HUP 129 "SIGHUP ends the job"

start -np 2 --kill-grace 60 sh -c 'trap "exit 0" TERM; echo ready; while :; do sleep 0.02; done'
until_true 300 lines 2 ready
ends_by TERM 0 "ranks that end with 0 on SIGTERM make a job that succeeds"

# stopped: all ranks are stopped
stopped() {
    for pid in $(marked); do
        case $(cat "/proc/$pid/comm") in
        nixlrun-guard) ;;
        *) grep -q '^State:.T' "/proc/$pid/status" || return 1 ;;
        esac
    done
}

none_is_stopped() {
    for pid in $(marked); do
        ! grep -q '^State:.T' "/proc/$pid/status" || return 1
    done
}

# ranks_are_stopped N: so many processes named sh of this test are stopped
ranks_are_stopped() {
    n_stopped=0
    for environ in $(grep -lzx "NXR_TEST_MARK=$work" /proc/[0-9]*/environ 2>/dev/null); do
        status=${environ%environ}status
        if grep -q '^Name:.sh$' "$status" && grep -q '^State:.T' "$status"; then
            n_stopped=$((n_stopped + 1))
        fi
    done 2>/dev/null
    [ "$n_stopped" = "$1" ]
}
start -np 2 --kill-grace 60 sh -c 'echo ready; exec sleep 300'
until_true 300 lines 2 ready
kill -TSTP "$job"
until_true 300 stopped
result $? "SIGTSTP stops the ranks and nixlrun" "$work/err"
kill -CONT "$job"
until_true 300 sh -c "grep -q '^State:.[SR]' /proc/$job/status"
result $? "SIGCONT continues nixlrun"
until_true 300 none_is_stopped
result $? "and the ranks"
ends_by TERM 143 "which then get SIGTERM"
clean "after stop and continue"

start -np 2 --kill-grace 60 sh -c 'kill -STOP $$; echo goes on; exec sleep 300'
until_true 300 ranks_are_stopped 2
kill -CONT "$job"
until_true 300 lines 2 "goes on"
result $? "SIGCONT continues ranks that have stopped themselves" "$work/out" "$work/err"
kill -TERM "$job"
ended
start -np 2 --kill-grace 600 sh -c 'kill -STOP $$; exec sleep 300'
until_true 300 ranks_are_stopped 2
ends_by TERM 143 "SIGTERM reaches ranks that are stopped"

start -np 1 --kill-grace 60 sh -c 'kill -STOP $PPID; echo ready; exec sleep 300'
until_true 300 lines 1 ready
ends_by TERM 143 "a rank that stops its parent hides from no signal"
has "$work/err" '^nixlrun: the guardian process was stopped' "and it is told"
start -np 1 sh -c 'kill -STOP $PPID; exit 3'
ended
[ "$rc" = 3 ]
result $? "nor its end from nixlrun (exit code $rc)" "$work/err"
# What the guardian needs for the ranks after it fills the socket.
(
    MUCH=$(head -c 100000 /dev/zero | tr '\0' x)
    export MUCH
    limit=60
    run -np 20 sh -c '[ "$PMIX_RANK" != 0 ] || kill -STOP $PPID'
    exit "$rc"
)
result $? "nor the start of the others" "$work/err"
clean "after a guardian that was stopped"

# A rank that has become root under a nixlrun that is not: it can be neither asked nor killed.
# start_as_nobody: such a job, whose rank 1 is that process; its pid goes to $root
start_as_nobody() {
    : >"$work/out"
    XDG_RUNTIME_DIR=$work/nobody setsid setpriv --reuid=65534 --clear-groups "$nixlrun" --oversubscribe \
        --kill-grace 0.3 "$@" -np 2 sh -c 'if [ "$PMIX_RANK" = 1 ]; then
            exec "$1" --reuid=0 sh -c "echo root \$\$; exec sleep 300"
        else
            echo ready; exec sleep 300
        fi' sh "$work/rooted" >"$work/out" 2>"$work/err" </dev/null &
    job=$!
    until_true 300 grep -q '^root' "$work/out" && until_true 300 lines 1 ready
    root=$(sed -n 's/^root //p' "$work/out")
}

# left_alone WORDS: the rank still runs, as nixlrun has said; this ends it
left_alone() {
    has "$work/err" "^nixlrun: rank 1 on host $(uname -n) .pid $root. cannot be signalled, as it runs as another user" \
        "$1: the rank that cannot be signalled is named"
    has "$work/err" "^nixlrun: pid $root cannot be killed, as it runs as another user .uid 0.: it is left running" \
        "$1: and that it is left"
    kill -9 "$root"
    result $? "$1: it ran on"
    until_true 300 nothing_runs
}

if [ "$(id -u)" = 0 ]; then
    chmod 711 "$work"
    mkdir "$work/nobody"
    chown 65534 "$work/nobody"
    cp "$(command -v setpriv)" "$work/rooted" && chmod 4755 "$work/rooted"
    if [ "$(setpriv --reuid=65534 --clear-groups "$work/rooted" --reuid=0 id -u 2>/dev/null)" = 0 ] &&
        setpriv --reuid=65534 --clear-groups test -x "$nixlrun"; then
        start_as_nobody
        ends_by INT 130 "one SIGINT ends a job with a rank that cannot be signalled"
        left_alone "one SIGINT"
        start_as_nobody --kill-grace 600
        kill -INT "$job"
        until_true 300 grep -q "forwarding it" "$work/err"
        ends_by INT 130 "and two do at once"
        left_alone "two SIGINT"
        start_as_nobody --timeout 1
        ended
        [ "$rc" = 124 ]
        result $? "and so does --timeout (exit code $rc)" "$work/err"
        left_alone "timeout"
    fi
fi

# A user at a terminal: Ctrl-C once, then Ctrl-Z, fg, Ctrl-C.
cat >"$work/terminal.exp" <<'SCRIPT'
set timeout 300
proc fail {what} { puts "FAILED: $what"; exit 1 }
set nixlrun [lindex $argv 0]
spawn -noecho bash --norc --noprofile -i
send "PS1=prom''pt:; set +o history\r"
expect -re {prompt:$} {} timeout { fail prompt }
send "$nixlrun --oversubscribe -np 2 sh -c 'echo ready; exec sleep 300'; echo code \$?\r"
expect -re {[\r\n]ready\r\nready} {} timeout { fail ready }
send "\003"
expect -re {code 130} {} timeout { fail "Ctrl-C" }
expect -re {prompt:$} {} timeout { fail prompt }
send "$nixlrun --oversubscribe -np 1 sh -c 'echo again\$((6 * 7)); read line; echo read=\$line'; echo code=\$?\r"
expect -re {again42} {} timeout { fail again }
send "\032"
expect -re {Stopped.*prompt:$} {} timeout { fail "Ctrl-Z" }
# When this is printed, the shell does not edit lines any more: what is typed is the job's.
send "echo now; fg >/dev/null; echo status=\$?\r"
expect -re {[\r\n]now\r} {} timeout { fail fg }
send "hello\r"
expect -re {read=hello} {} timeout { fail "stdin after fg" }
expect -re {status=0} {} timeout { fail "exit code after fg" }
expect -re {prompt:$} {} timeout { fail prompt }
send "$nixlrun --oversubscribe -np 1 sh -c 'read line; echo late=\$line' &\r"
expect -re {prompt:$} {} timeout { fail prompt }
send "echo then; fg >/dev/null\r"
expect -re {[\r\n]then\r} {} timeout { fail "fg of a job from the background" }
send "hello\r"
expect -re {late=hello} {} timeout { fail "stdin of a job from the background" }
expect -re {prompt:$} {} timeout { fail prompt }
send "exit\r"
expect eof {} timeout { fail exit }
SCRIPT
if command -v expect >/dev/null; then
    command expect "$work/terminal.exp" "$nixlrun" >"$work/out" 2>&1
    result $? "Ctrl-C, Ctrl-Z, fg and typed input at a terminal" "$work/out"
else
    n_lines=$((n_lines + 1))
    echo "ok $n_lines - a user at a terminal # SKIP expect is not installed"
fi

finish
