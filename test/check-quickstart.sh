#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What can be said of ./quickstart and .ci/run without installing and building: their package list,
# their command lines, and how results are summed. Prints TAP.
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"

# refuses LINE COMMAND...: exit code 2, and this one line on stderr.
refuses() {
    want=$1
    shift
    status=0
    "$@" >"$scratch/out" 2>&1 </dev/null || status=$?
    [ "$status" = 2 ] || echo "$*: exit code $status, not 2"
    [ "$(cat "$scratch/out")" = "$want" ] || cat "$scratch/out"
}

echo 1..5
sed -n "/^packages='/,/^'/p" "$src/quickstart" | sed '1d;$d' >"$scratch/list"
verdict "$(LC_ALL=C sort -uc -k1,1 "$scratch/list" 2>&1
    grep -vE '^[a-z0-9.+-]+ +(run|check|ci)$' "$scratch/list" || :
    [ -s "$scratch/list" ] || echo "no list was found")" \
    "the packages are sorted, each once, each with a level"

verdict "$("$src/quickstart" --help | grep -q '^Usage: ./quickstart' || echo "no usage")" \
    "quickstart tells how it is used"
verdict "$(refuses "quickstart: 'all' is not known; allowed are check, packages, --help" \
    "$src/quickstart" all
    refuses "quickstart: 'most' is no level; allowed are run, check, ci" \
        "$src/quickstart" packages most)" "quickstart names what it does not know"

verdict "$(refuses ".ci/run: 'tests' is no stage; allowed: $("$src/.ci/run" --list | tr '\n' ' ' |
    sed 's/ $//')" "$src/.ci/run" tests)" "so does .ci/run"

cat >"$scratch/log" <<'TEXT'
PASS: a 1 - one
XFAIL: a 2 - two
SKIP: a 3 - three # SKIP no GPU
FAIL: b 1 - four
ERROR: b - exited with status 1
FAILED: this is no result
TEXT
verdict "$("$src/test/results.sh" "$scratch/log" >"$scratch/out" && echo "a failure is no failure"
    [ "$(tail -n 1 "$scratch/out")" = "2 passed, 2 failed, 1 skipped" ] || cat "$scratch/out"
    [ "$(wc -l <"$scratch/out")" = 4 ] || cat "$scratch/out"
    "$src/test/results.sh" /dev/null >"$scratch/out" && echo "nothing at all is no failure")" \
    "results are summed, and failures are told"
