# shellcheck shell=sh disable=SC2154  # build and scratch are tap.sh's
# SPDX-License-Identifier: Apache-2.0
# Programs that run beside a test of attachments, and what they print; read by `.` after test/tap.sh. Each runs
# by the words in `on`, if there are any: on which host.
end=$build/test/attach/attach_end
hostile=$build/test/attach/hostile
on=

# Programs beside have a stdin that never ends and never has anything.
mkfifo "$scratch/hold"
exec 8<>"$scratch/hold"

# begin LOG COMMAND...: run it beside; in LOG.pid is the shell above it
begin() {
    log=$scratch/$1
    rm -f "$log.code"
    : >"$log"
    shift
    # shellcheck disable=SC2086  # several words
    { $on timeout -k 5 100 "$@" >"$log" 2>&1; echo $? >"$log.code"; } <&8 &
    echo $! >"$log.pid"
}

# line LOG PATTERN: wait until a line of the log matches; nothing is printed, or what the log has instead
line() {
    tries=0
    until grep -q -e "$2" "$scratch/$1"; do
        tries=$((tries + 1))
        [ "$tries" -lt 1000 ] || { echo "$1 has no line '$2':"; cat "$scratch/$1"; return; }
        sleep 0.02
    done
}

# pid_in LOG: the pid that an attach_end has printed
pid_in() { line "$1" '^pid ' && sed -n 's/^pid //p' "$scratch/$1" | head -1; }

# ended LOG: wait for it; prints its exit code
ended() {
    until [ -s "$scratch/$1.code" ]; do sleep 0.02; done
    cat "$scratch/$1.code"
}

# killed LOG: kill the attach_end whose output is there, and wait until nothing writes into LOG and LOG.code
killed() { kill -9 "$(pid_in "$1")" && ended "$1" >"$scratch/code"; }

# passed LOG: wait for it; nothing is printed if it passed
passed() {
    if [ "$(ended "$1")" != 0 ] || ! grep -q 'mptest: passed' "$scratch/$1"; then
        cat "$scratch/$1"
    fi
}

# says PATTERN COMMAND...: the command passes and prints a line that matches
says() {
    pattern=$1
    shift
    # shellcheck disable=SC2086  # several words
    if ! $on timeout 60 "$@" >"$scratch/says" 2>&1 || ! grep -q -e "$pattern" "$scratch/says"; then
        echo "no line '$pattern':"
        cat "$scratch/says"
    fi
}

# at LOG: where a publisher that runs beside says that it is
at() { line "$1" '^published' && sed -n 's/^at //p' "$scratch/$1" | head -1; }
