# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# What the launcher's tests share; read by `.`. Every job runs with a mark in its environment and its
# temporary directory in a place of the test's own, so that "nothing is left" can be looked for.
set -u
nixlrun=$top_builddir/launcher/nixlrun
clients=$top_builddir/test/launcher
work=$(mktemp -d "${TMPDIR:-/tmp}/nixlrun-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/run"
XDG_RUNTIME_DIR=$work/run
NXR_TEST_MARK=$work
export XDG_RUNTIME_DIR NXR_TEST_MARK
limit=20 # seconds that a job may take
n_lines=0

# result STATUS NAME [FILE...]: one TAP line; after a failure the files
result() {
    n_lines=$((n_lines + 1))
    if [ "$1" = 0 ]; then
        echo "ok $n_lines - $2"
        return
    fi
    echo "not ok $n_lines - $2"
    shift 2
    for file in "$@"; do
        [ -s "$file" ] && sed "s|^|# ${file##*/}: |" "$file" | head -40
    done
}

# run ARG...: nixlrun with these arguments; its exit code is in $rc, its output in $work/out and err
run() {
    timeout -k 5 "$limit" "$nixlrun" --oversubscribe "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
}

# gives RC NAME ARG...: the job ends with this code
gives() {
    wanted=$1
    name=$2
    shift 2
    run "$@"
    [ "$rc" = "$wanted" ] || echo "exit code $rc instead of $wanted" >>"$work/err"
    [ "$rc" = "$wanted" ]
    result $? "$name" "$work/err" "$work/out"
}

# has FILE PATTERN NAME: the file has a line that matches
has() {
    grep -Eq -e "$2" "$1"
    result $? "$3" "$1"
}

# until_true SECONDS COMMAND...: try again until the command succeeds
until_true() {
    tries=$(($1 * 50))
    shift
    while ! "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.02
    done
}

# marked: pids of processes that carry the mark, without this shell and what it runs just now
marked() {
    # shellcheck disable=SC2013
    for environ in $(grep -lzx "NXR_TEST_MARK=$work" /proc/[0-9]*/environ 2>/dev/null); do
        pid=${environ#/proc/}
        pid=${pid%/environ}
        case $(cat "/proc/$pid/comm" 2>/dev/null) in
        nixlrun* | pmix_* | sleep | cat | yes) echo "$pid" ;;
        esac
    done
}

nothing_runs() {
    [ -z "$(marked)" ]
}

nothing_lies() {
    [ -z "$(ls -A "$work/run")" ]
}

# one_directory_lies: of a nixlrun that lives or was killed
one_directory_lies() {
    set -- "$work"/run/*
    [ $# = 1 ] && [ -d "$1" ]
}

# clean NAME: nothing of the jobs is left, at most a second later
clean() {
    until_true 1 nothing_runs
    result $? "$1: no process is left"
    nothing_lies
    result $? "$1: no directory is left"
}

# finish: the plan
finish() {
    clean "at the end"
    echo "1..$n_lines"
}
