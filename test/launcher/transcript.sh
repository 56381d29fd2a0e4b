#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# transcript.sh NAME: run the commands of NAME.transcript and compare what they print, as TAP.
#
# A transcript has lines "$ command", behind each of them what it writes to stdout and stderr, and
# "[N]" if it exits with N and N is not 0. Lines that begin with # and empty lines are ignored.
# Commands run in an empty directory, with nixlrun in the PATH and the recorded machines in $T.
set -u
root=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
file=$root/test/launcher/$1.transcript
PATH=${top_builddir:-$PWD}/launcher:$PATH
T=$root/test/launcher/topologies
export PATH T
scratch=$(mktemp -d "${TMPDIR:-/tmp}/transcript.XXXXXX") || exit 99
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/dir"
number=0
failed=0

run_case() {
    number=$((number + 1))
    (cd "$scratch/dir" && sh -c "$command") </dev/null >"$scratch/output" 2>&1
    code=$?
    sed '/^$/d' "$scratch/output" >"$scratch/actual"
    [ "$code" -eq 0 ] || echo "[$code]" >>"$scratch/actual"
    if diff -u "$scratch/expected" "$scratch/actual" >"$scratch/diff"; then
        printf 'ok %d - %s\n' "$number" "$command"
    else
        printf 'not ok %d - %s\n' "$number" "$command"
        sed '1,2d; s/^/# /' "$scratch/diff"
        failed=1
    fi
}

command=
while IFS= read -r line; do
    case $line in
    '$ '*)
        [ -z "$command" ] || run_case
        command=${line#??}
        : >"$scratch/expected"
        ;;
    '#'* | '') ;;
    *) printf '%s\n' "$line" >>"$scratch/expected" ;;
    esac
done <"$file"
[ -z "$command" ] || run_case
echo "1..$number"
exit $failed
