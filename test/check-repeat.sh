#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does "repeat" count runs and failures, keep what failed, and end its loops?
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"

# A tree with a copy of it and two tests, of which one fails each time but the first.
mkdir -p "$scratch/test" "$scratch/build/test"
cp "$src/test/repeat" "$src/test/limited" "$src/test/stacks" "$scratch/test"
: >"$scratch/test/limits"
printf '#!/bin/sh\necho "ok 1 - well"\n' >"$scratch/test/good.sh"
cat >"$scratch/test/bad.sh" <<TEXT
#!/bin/sh
if mkdir "$scratch/was_here" 2>/dev/null; then echo "ok 1 - once"; else echo "not ok 1 - again"; fi
TEXT
chmod +x "$scratch/test/good.sh" "$scratch/test/bad.sh"
repeat() { "$scratch/test/repeat" "$@" >"$scratch/out" 2>"$scratch/err"; }
# line TEST: the counts of its line
line() { awk -F '\t' -v test="$1" '$1 == test { print NF, $2, $3, $7, $8 }' "$scratch/out"; }

echo 1..4
verdict "$(repeat "$scratch/build" 2 test/good.sh || echo "exit code $?"
    [ "$(line test/good.sh)" = "11 2 0 2 0" ] || cat "$scratch/out" "$scratch/err"
    ls -A "$scratch/build/repeat")" "runs are counted, and what passed leaves nothing"
verdict "$(status=0; repeat "$scratch/build" 2 test/good.sh test/bad.sh || status=$?
    [ "$status" = 1 ] || echo "exit code $status"
    [ "$(line test/good.sh)" = "11 2 0 2 0" ] || cat "$scratch/out"
    [ "$(line test/bad.sh)" = "11 2 1 2 2" ] || cat "$scratch/out"
    grep -L '^not ok 1 - again' "$scratch/build/repeat/test_bad.sh.alone.2" \
        "$scratch/build/repeat/test_bad.sh.busy.1" "$scratch/build/repeat/test_bad.sh.busy.2")" \
    "failures are counted, and their output is kept"
verdict "$(grep -lsz -e "^$scratch/test/repeat\$" /proc/[0-9]*/cmdline)" "no loop is left"
verdict "$(status=0; repeat "$scratch/build" 2 test/none.sh || status=$?
    [ "$status" = 2 ] || echo "exit code $status"
    grep -q "no test 'test/none.sh'" "$scratch/err" || cat "$scratch/err"
    status=0; repeat "$scratch/build" 0 test/good.sh || status=$?
    [ "$status" = 2 ] || echo "exit code $status"
    grep -q "'0' runs" "$scratch/err" || cat "$scratch/err")" "wrong arguments are refused"
