#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does "repeat" count runs and failures, keep what failed, and end its loops? Do tests that "pack" has packed
# run where they were not built?
# needs: test/mp/hello
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

echo 1..7
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
verdict "$(status=0; repeat -w alone -j 3 -c 1 -s 2 -o "$scratch/kept" "$scratch/build" 2 test/bad.sh test/good.sh ||
        status=$?
    [ "$status" = 1 ] || echo "exit code $status"
    awk -F '\t' '{ print NF, $1, $2, $3 }' "$scratch/out" >"$scratch/columns"
    printf '6 test/bad.sh 2 2\n6 test/good.sh 2 0\n' | diff - "$scratch/columns"
    [ "$(ls "$scratch/kept")" = "test_bad.sh.alone.1
test_bad.sh.alone.2" ] || ls "$scratch/kept")" "several run at a time, one way, and output goes where it should"

printf '#!/bin/sh\n[ -e %s/seen ] && sleep 600\n:>%s/seen\n' "$scratch" "$scratch" >"$scratch/test/slow.sh"
chmod +x "$scratch/test/slow.sh"
verdict "$(begin=$(date +%s)
    repeat -w alone -t 5 "$scratch/build" 9 test/slow.sh || echo "exit code $?"
    [ $(($(date +%s) - begin)) -lt 50 ] || echo "it has taken too long"
    [ "$(cut -f 1-3 "$scratch/out")" = "test/slow.sh	1	0" ] || cat "$scratch/out"
    find "$scratch/build/repeat" -name 'test_slow*'
    pgrep -f "^/bin/sh $scratch/test/slow.sh")" "what runs when the time is over is ended and not counted"

# Something like a build folder, with a program that finds its library by the path of the build.
make_packed() {
    tree=$scratch/tree
    mkdir -p "$tree/test/mp" "$tree/build/test/mp" "$tree/build/src/.libs" "$tree/build/launcher"
    cp "$src/test/repeat" "$src/test/limited" "$src/test/stacks" "$src/test/pack" "$src/test/pack-run" \
        "$tree/test"
    echo "#!/bin/sh
exec $tree/build/test/mp/hello" >"$tree/test/packed.sh"
    chmod +x "$tree/test/packed.sh"
    : >"$tree/test/limits"
    cp -L "$build/test/mp/hello" "$tree/build/test/mp"
    cp -L "$build/src/.libs/libnixlrun.so" "$tree/build/src/.libs/libnixlrun.so"
    echo : >"$tree/build/test/mp/hello.o"
    printf 'list-tests:\n\t@echo test/packed.sh\n' >"$tree/build/Makefile"
}
verdict "$(make_packed
    "$tree/test/pack" "$tree/build" "$scratch/packed.tar.gz" >"$scratch/out" 2>&1 || cat "$scratch/out"
    mv "$tree" "$scratch/elsewhere"
    tar -C "$scratch" -xzf "$scratch/packed.tar.gz"
    find "$scratch/nixlrun-test" -name 'hello.o'
    "$scratch/nixlrun-test/run" -w alone 1 'test/pack*' >"$scratch/out" 2>&1 || cat "$scratch/out"
    [ "$(cut -f 1-3 "$scratch/out")" = "test/packed.sh	1	0" ] ||
        cat "$scratch/out" "$scratch/nixlrun-test/build/repeat"/*
    "$scratch/nixlrun-test/run" 1 test/none >"$scratch/out" 2>&1 && echo "it has run"
    grep -q "no test is named 'test/none'" "$scratch/out" || cat "$scratch/out")" "what was packed runs elsewhere"
