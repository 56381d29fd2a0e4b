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

echo 1..8
sed -n "/^packages='/,/^'/p" "$src/quickstart" | sed '1d;$d' >"$scratch/list"
verdict "$(LC_ALL=C sort -uc -k1,1 "$scratch/list" 2>&1
    grep -vE '^[a-z0-9.+-]+ +(run|check|ci)$' "$scratch/list" || :
    [ -s "$scratch/list" ] || echo "no list was found")" \
    "the packages are sorted, each once, each with a level"

verdict "$("$src/quickstart" --help | grep -q '^Usage: ./quickstart' || echo "no usage")" \
    "quickstart tells how it is used"
verdict "$(refuses "quickstart: 'all' is not known; allowed: check, packages, hook, --help" \
    "$src/quickstart" all
    refuses "quickstart: 'most' is not a level; allowed: run, check, ci" \
        "$src/quickstart" packages most)" "quickstart names what it does not know"

verdict "$(refuses ".ci/run: 'tests' is not a stage; allowed: $("$src/.ci/run" --list | tr '\n' ' ' |
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

# A Makefile whose check fails.
printf 'check:\n\t@cat lines; false\nlist-tests:\n\t@echo a.mp\n' >"$scratch/Makefile"
printf '%s\n' 'PASS: b 1 - two' 'FAIL: a.mp 1 - one' >"$scratch/lines"
printf '%s\n' 'not ok 1 - one' '# for a reason' 'ok 2 - x' '# said of x' >"$scratch/a.log"
verdict "$("$src/test/run-check.sh" "$scratch" >"$scratch/out" && echo "a failure is no failure"
    for line in 'FAIL: a.mp 1 - one' '  | # for a reason'; do
        grep -qxF "$line" "$scratch/out" || cat "$scratch/out"
    done
    grep 'said of x' "$scratch/out"
    grep -q recheck "$src/test/run-check.sh" && echo "a test that fails is run again")" \
    "what fails once has failed, and the words of its log are told"

# Two tests at a time, each of which prints in the middle of a line of the other.
mkfifo "$scratch/a" "$scratch/b"
cat >"$scratch/Makefile" <<'TEXT'
check: a b
	@echo '$(TESTS)'
a b:
	@printf 'PASS: $@ 1 - one, '; timeout 20 ./meet $@; echo two
list-tests:
	@printf '%s\n' a test/net/b c.sh d.mp test/check-install.sh e.sh f.mp test/check-man.sh test/check-python.sh test/net/hosts.mp
.PHONY: a b
TEXT
cat >"$scratch/meet" <<'TEXT'
#!/bin/sh
if [ "$1" = a ]; then echo a >a && read -r line <b; else read -r line <a && echo b >b; fi
TEXT
chmod +x "$scratch/meet"
verdict "$("$src/test/run-check.sh" "$scratch" >"$scratch/out" || echo "code $?"
    for line in 'PASS: a 1 - one, two' 'PASS: b 1 - one, two' 'test/check-install.sh c.sh d.mp test/check-python.sh test/net/hosts.mp test/check-man.sh test/net/b e.sh  f.mp   a'; do
        grep -qxF "$line" "$scratch/out" || cat "$scratch/out"
    done)" "lines of tests that run at a time are whole; tests that wait run beside others, long ones before short ones, one alone runs first"

cat >"$scratch/log" <<'TEXT'
PASS: test/conformance/a.mp 1 - conformance np=1 shm: put: one (1 ms)
PASS: test/conformance/a.mp 2 - conformance np=2 shm: put: one (1 ms)
PASS: test/conformance/a.mp 3 - conformance np=2 shm: get: two (1 ms)
FAIL: test/conformance/a.mp 4 - conformance np=4 shm: put: one - rank 1: a.c:7: no
PASS: test/conformance/b.mp 1 - conformance local=cuda np=2 shm+cuda_ipc: put: one (1 ms)
PASS: test/conformance/b.mp 2 - conformance local=cuda np=2 shm+cuda_ipc: put between kinds: two (1 ms)
SKIP: test/conformance/c.mp 1 - conformance segment=vulkan np=2 shm+vulkan_ipc # SKIP no device
PASS: test/mp/hello.mp 1 - hello np=2 shm
PASS: test/conformance/d.mp 1 - conformance segment= ms)
PASS: test/conformance/d.mp 2 - conformance segment=file loPASS: test/mp/hello.mp 1 - hello np=2 shm
TEXT
cat >"$scratch/want" <<'TEXT'
host -> host self 1 -
host -> host shm memcpy 2/3 1
cuda -> host cuda_ipc 1 -
host -> vulkan vulkan_ipc - - skipped: no device
Not run: host -> cuda, cuda -> cuda, cuda -> vulkan, vulkan -> host, vulkan -> cuda, vulkan -> vulkan.
TEXT
verdict "$("$src/test/matrix.sh" "$scratch/log" | sed -n -e '/^local/d' -e '/ -> /p' |
    sed 's/  */ /g' >"$scratch/rows"
    "$src/test/matrix.sh" /dev/null >/dev/null && echo "nothing at all is no failure"
    [ "$("$src/test/matrix.sh" "$scratch/log" | grep -c '^matrix: a line is cut')" = 2 ] || echo "cut lines are not told"
    diff "$scratch/rows" "$scratch/want")" "the matrix has what passed, failed, was skipped, is missing"
