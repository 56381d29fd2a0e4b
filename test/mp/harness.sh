#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does run-mp notice what it is there to notice? Each case runs harness_probe in one way.
# needs: test/mp/harness_probe
root=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0
unset NXR_TEST_SLACK # cases know their limits

# case WAY PATTERN [KEYS]: the report must have a line that matches PATTERN
case_() {
    echo "prog=harness_probe np=1 launcher=none args=$1 $3" >"$dir/case.mp"
    MPT_LINGER=2 "$root/test/mp/run-mp" "$dir/case.mp" >"$dir/report" 2>&1
    too "$1" "$2"
}

# too WAY PATTERN: the last report must have a line that matches this one as well
too() {
    n=$((n + 1))
    if grep -q -e "$2" "$dir/report"; then
        echo "ok $n - $1 is noticed"
    else
        echo "not ok $n - $1 is noticed"
        sed 's/^/# /' "$dir/report"
    fi
}

case_ pass '^ok 1 - harness_probe pass np=1 shm launcher=none$'
case_ fail '^not ok 1 .*exit code 1, expected 0'
case_ fail '^#   mptest: harness_probe.c:[0-9]*: 6 \* 7 == 54: left is 42'
case_ fail '^ok 1 ' 'rc=1 lost=1'
case_ skip '^ok 1 .* # SKIP no towel here$'
case_ skip_all '^ok 1 .* # SKIP no plan here$' verdict=tap
case_ hang '^not ok 1 .*: not done in 15 s$' timeout=15
too hang '^# rank 0 has not passed: '
too hang '^#   last words$'
too hang '^# process .*harness_probe hang ), state S'
if command -v gdb >/dev/null; then
    too hang '^#   #.* main '
else
    n=$((n + 1))
    echo "ok $n - the stack of one that hangs # SKIP no gdb"
fi
case_ silent '^not ok 1 .*: 0 of 1 ranks passed, expected 1$'
too silent '^# rank 0 has not passed: no word of a check'
case_ crash '^not ok 1 .*: exit code 134, expected 0$'
case_ process '^not ok 1 .*: something is left$'
too process '^# left: process [0-9]*: .*harness_probe process'
case_ file '^# left: file .*/nixlrun.left$'
case_ tap '^ok 1 .*: first$' verdict=tap
case_ tap '^not ok 2 .*: second$' verdict=tap
case_ tap '^not ok 3 .*: 2 of 3 checks were reached$' verdict=tap
case_ pass '^Bail out! .*unknown key .color.' color=red
case_ pass '^Bail out! .*launcher .ssh.; allowed:' launcher=ssh
case_ pass "^Bail out! .*bed 'b'; allowed: ids, nets or engine" 'hosts=2 bed=b'
case_ pass "^Bail out! .*hostid 'x'; allowed: host, same, rank or none" 'hosts=2 hostid=x'
echo "1..$n"
