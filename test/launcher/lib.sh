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
limit=300 # seconds after which a job is taken to hang
. "$top_srcdir/test/launcher/steps.sh"

# run ARG...: nixlrun with these arguments; its exit code is in $rc, its output in $work/out and err
run() {
    timeout -k 5 "$limit" "$nixlrun" --oversubscribe "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
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

# clean NAME: nothing of the jobs stays
clean() {
    until_true 300 nothing_runs
    status=$?
    for pid in $(marked); do
        echo "left: process $pid: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
    done >"$work/left" 2>/dev/null
    result $status "$1: no process is left" "$work/left"
    nothing_lies
    status=$?
    find "$work/run" -mindepth 1 -printf 'left: %M %u %P, changed %t\n' >"$work/left"
    result $status "$1: no directory is left" "$work/left"
}

# finish: the plan
finish() {
    clean "at the end"
    echo "1..$n_lines"
}
