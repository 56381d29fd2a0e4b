#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does run-mp put ranks on the hosts that a line asks for, notice what is left there, and remove the hosts
# however it ends?
# needs: test/mp/harness_probe test/net/relay
bed=nxbeds # only its folder is used here: run-mp makes the hosts
needs='setsid'
. "$top_srcdir/test/net/lib.sh"
on_hosts down

# case_ WAY PATTERN KEYS: the report must have a line that matches
case_() {
    echo "prog=harness_probe args=$1 $3" >"$work/probe.mp"
    env -u NXR_TEST_SLACK "$top_srcdir/test/mp/run-mp" "$work/probe.mp" >"$work/report" 2>&1 9>&-
    grep -q -e "$2" "$work/report"
    result $? "$1 $3: $2" "$work/report"
}

no_hosts() {
    ! ip netns list | grep -q '^mpprobe-' && [ ! -e /run/nixlrun-hosts/mpprobe ]
}

for kind in ids nets engine; do
    case_ pass "^ok 1 - harness_probe pass np=3 shm hosts=2 bed=$kind$" "np=3 hosts=2 bed=$kind"
done
case_ pass '^ok 1 - .* lose h1 1;' 'np=2 hosts=2 bed=nets link="lose h1 1; relay h0"'
case_ pass '^Bail out! .*no host h2' 'np=2 hosts=2 bed=nets link="lose h2 1"'
case_ file '^# left: on h1: /tmp/nixlrun.left' 'np=2 hosts=2 bed=nets'
case_ process '^ok 1 - ' 'np=2 hosts=2 bed=engine' # nixlrun kills it
case_ hang '^not ok 1 .*: not done in 1 s' 'np=2 hosts=2 bed=engine timeout=1'
no_hosts
result $? "no host is left"

# Interrupted while the ranks run. The second word marks them: other tests have ranks that hang, too.
a_rank_hangs() {
    pgrep -f "^/.*/harness_probe hang $bed$" >/dev/null
}
echo "prog=harness_probe args=\"hang $bed\" np=2 hosts=2 bed=nets" >"$work/probe.mp"
"$top_srcdir/test/mp/run-mp" "$work/probe.mp" >"$work/report" 2>&1 9>&- &
pid=$!
until_true 300 a_rank_hangs
result $? "ranks hang on their hosts" "$work/report"
kill -TERM "$pid"
wait "$pid"
[ $? = 130 ] && no_hosts && ! a_rank_hangs
result $? "an interrupted run-mp leaves no host and no process" "$work/report"
finish
