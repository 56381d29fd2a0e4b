#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs on three hosts through Open MPI's mpirun.
# needs: test/launcher/pmix_events test/mp/abort test/mp/channel_return test/mp/restart test/mp/restart_cases test/net/nodes test/net/scope test/net/survive
engine=openmpi
bed=nxompi
needs=mpirun.openmpi
. "$top_srcdir/test/net/lib.sh"
. "$top_srcdir/test/net/engines.sh"

common
gives 0 "several programs" -np 3 --host h0:2,h1:2 -l sh -c 'echo "a $(uname -n)"' : -np 1 \
    sh -c 'echo "b $(uname -n)"'
[ "$(sort "$work/out" | tr '\n' '|')" = "[0] a h0|[1] a h0|[2] a h1|[3] b h1|" ]
result $? "are one job" "$work/out"
# Without --engine: other hosts are named, and there is one engine for them.
on_hosts on h0 "$nixlrun" --host h1:1 uname -n >"$work/out" 2>"$work/err" </dev/null
[ "$(cat "$work/out")" = h1 ]
result $? "is found where another host is named" "$work/out" "$work/err"
on_hosts on h1 "$nixlrun" -v --host h1:1 uname -n >"$work/out" 2>"$work/err" </dev/null
[ "$(cat "$work/out")" = h1 ] && ! grep -q mpirun "$work/err"
result $? "is not needed for this host" "$work/out" "$work/err"
gives 0 "this host by its address, and not first" --host h1:1,10.77.0.10:1 -l uname -n
[ "$(sort "$work/out" | tr '\n' '|')" = "[0] h1|[1] h0|" ]
result $? "ranks are in the order of the hosts" "$work/out"
# A host is cut off silently: mpirun would wait for it forever.
"$hosts" -b "$bed" on h0 timeout -k 5 240 "$nixlrun" -v --host h0:1,h1:1,h2:1 --on-failure continue \
    --kill-grace 0 sh -c "[ \$PMIX_RANK != 2 ] || exec sleep $mark; sleep 3" \
    >"$work/out" 2>"$work/err" </dev/null 9>&- &
pid=$!
until_true 300 grep -q '^nixlrun: rank 2 started as pid' "$work/err" # before that nothing waits for it
on_hosts cut h2
wait "$pid"
[ $? = 1 ]
result $? "a job that goes on ends without a host that is lost" "$work/out" "$work/err"
has "$work/err" '^nixlrun: rank 2 on host h2 .* has been silent for 15 s' "which is told"
on_hosts join h2
until_true 300 nothing_runs
result $? "nothing is left on the host when it comes back" "$work/err"
start_job --on-failure restart=5 --kill-grace 0 sh -c "echo runs; exec sleep $mark"
on_hosts cut h1
job_gives_alone 1 "a host that is lost ends a job whose ranks may be started again"
has "$work/err" '^nixlrun: rank [12] on host h1 .* has been silent for 15 s; the job ends$' "which is told"
on_hosts join h1
until_true 300 nothing_runs
result $? "nothing is left on that host when it comes back" "$work/err"
on_hosts on h0 timeout -k 5 240 mpirun.openmpi --allow-run-as-root --host h0:2,h1:2 -np 4 \
    "$work/by_host" "$build/test/net/scope" 2 2 >"$work/out" 2>"$work/err" </dev/null
[ $? = 0 ] && [ "$(grep -c heard "$work/out")" = 4 ]
result $? "mpirun without nixlrun" "$work/out" "$work/err"
finish
