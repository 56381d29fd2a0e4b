#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# serve_demo.sh [SECONDS [WORKERS]]: a decode server that stays, and prefill workers that come and go.
#
# Starts the example serve, and beside it so many workers (4), each a program of its own; kills them at
# random moments, stops some for longer than a grant lives, lets others leave, and starts each again, for
# SECONDS (20). The server verifies every byte. The last line is
#
#     served N requests from M workers, K killed, 0 wrong bytes
#
# and the exit code 0 only then. serve and serve_worker are looked for in SERVE_PROGRAMS, beside this script,
# in ./, ./examples and the tree that ./quickstart builds. SERVE_KILLS=N: end after N kills instead of SECONDS.
# SERVE_STOPS=no: stop none. SERVE_PAUSE=MS: the longest time between two kills (60). SERVE_WATCH=COMMAND: run it with
# the server's pid and its folder after a tenth of the kills, ten at least, and again at the end.
set -u

usage() {
    echo "usage: ${0##*/} [SECONDS [WORKERS]]; whole numbers above 0" >&2
    exit 2
}

seconds=${1:-20}
n_workers=${2:-4}
[ $# -le 2 ] || usage
for number in "$seconds" "$n_workers"; do
    case $number in
        '' | *[!0-9]* | 0*) usage ;;
    esac
done

here=$(cd "$(dirname "$0")" && pwd)
for programs in "${SERVE_PROGRAMS:-$here}" . ./examples "$here/../build/examples" none; do
    [ ! -x "$programs/serve" ] || [ ! -x "$programs/serve_worker" ] || break
done
if [ "$programs" = none ]; then
    echo "${0##*/}: serve and serve_worker are not in $here, ./, ./examples or ../build/examples; build them, or set" \
        "SERVE_PROGRAMS to their folder" >&2
    exit 2
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/serve-demo.XXXXXX") || exit 1
mkdir "$dir/names"
where=file:$dir/names
server=
workers=()
stopped=() # when those that are stopped were, in microseconds

# shellcheck disable=SC2317  # the trap calls it
clean_up() {
    trap - EXIT INT TERM HUP
    for pid in "${workers[@]}" $server; do
        kill -9 "$pid" 2>/dev/null
    done
    wait
    rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

fail() {
    echo "${0##*/}: $1" >&5
    cat "$dir/log" >&5
    exit 1
}

# A worker in that place, which leaves by itself after some requests, or works on.
start_worker() {
    local requests=0
    [ $((RANDOM % 4)) -ne 0 ] || requests=$((RANDOM % 70 + 1))
    "$programs/serve_worker" "$where" "$requests" >>"$dir/log" 2>&1 &
    workers[$1]=$!
}

# A random part of a second, up to so many milliseconds.
pause() {
    read -r -t "0.$(printf '%03d' $((RANDOM % $1 + 1)))" <>"$dir/never"
}

: >"$dir/log"
mkfifo "$dir/never" || exit 1
exec 5>&2 2>>"$dir/log" # where the shell itself says that a program was killed
"$programs/serve" "$where" >"$dir/said" 2>&5 &
server=$!
until grep -q '^ready' "$dir/said"; do
    kill -0 "$server" 2>/dev/null || fail "the server did not start"
    pause 20
done
for ((i = 0; i < n_workers; i++)); do
    start_worker "$i"
done

kills=${SERVE_KILLS:-0}
early=$((kills > 100 ? kills / 10 : 10))
n_killed=0
end=$((SECONDS + seconds))
watched=no
while [ "$n_killed" -lt "$kills" ] || { [ "$kills" -eq 0 ] && [ "$SECONDS" -lt "$end" ]; }; do
    pause "${SERVE_PAUSE:-60}"
    kill -0 "$server" 2>/dev/null || fail "the server has ended"
    if [ "$watched" = no ] && [ "$n_killed" -ge "$early" ] && [ ${#stopped[@]} -eq 0 ]; then
        watched=yes
        ${SERVE_WATCH:-true} "$server" "$dir/names" || fail "SERVE_WATCH has failed"
    fi
    i=$((RANDOM % n_workers))
    pid=${workers[$i]}
    if [ -n "${stopped[$i]-}" ]; then
        # Longer than its grant lives; it goes on, and is refused, or dies in its sleep.
        [ $((${EPOCHREALTIME/[!0-9]/} - stopped[i])) -ge 700000 ] || continue
        unset "stopped[$i]"
        [ $((RANDOM % 2)) -eq 0 ] || kill -CONT "$pid" 2>/dev/null
        pause 30
    elif [ "${SERVE_STOPS:-yes}" = yes ] && [ ${#stopped[@]} -lt $(((n_workers + 1) / 2)) ] &&
        [ $((RANDOM % 10)) -eq 0 ] && kill -STOP "$pid" 2>/dev/null; then
        stopped[i]=${EPOCHREALTIME/[!0-9]/}
        continue
    fi
    if kill -9 "$pid" 2>/dev/null; then
        wait "$pid" 2>/dev/null
        [ $? -ne 137 ] || n_killed=$((n_killed + 1))
    else
        wait "$pid" 2>/dev/null
        code=$?
        [ "$code" -eq 0 ] || fail "a worker ended with exit code $code"
    fi
    start_worker "$i"
done
for i in "${!stopped[@]}"; do
    kill -CONT "${workers[$i]}" 2>/dev/null
done
if [ "$watched" = yes ]; then
    ${SERVE_WATCH:-true} "$server" "$dir/names" || fail "SERVE_WATCH has failed"
fi

kill -TERM "$server"
wait "$server"
code=$?
server=
grep -v '^ready' "$dir/said"
[ "$code" -eq 0 ] || cat "$dir/log" >&5
exit "$code"
