#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs on three hosts through Slurm's srun, with and without an allocation.
# needs: test/launcher/pmix_events test/mp/abort test/mp/channel_return test/mp/restart test/mp/restart_cases test/net/nodes test/net/scope test/net/survive
engine=slurm
bed=nxslurm
needs="munged slurmctld slurmd srun"
. "$top_srcdir/test/net/lib.sh"
. "$top_srcdir/test/net/engines.sh"
on_hosts slurm || exit 99

common
# Slurm here has no plugin that binds, and says so of each --cpu-bind.
gives 0 "a cluster that cannot bind" --host h0:1,h1:1 true
# srun tells of a wait for the job before, which may still be ending.
! grep -qvE '^srun: job [0-9]+ (queued and waiting for|has been allocated) resources$' "$work/err"
result $? "gets no warning about what the user has not asked for" "$work/err"
gives 0 "and one who asks for binding" --host h0:1,h1:1 --bind-to core true
has "$work/err" 'lacks support for cpu binding' "hears that there is none"
on_hosts on h0 salloc -Q -N 3 "$nixlrun" -np 6 --ppn 2 -l uname -n >"$work/out" 2>"$work/err" \
    </dev/null
[ "$(cut -d' ' -f2 "$work/out" | sort | uniq -c | tr -s ' \n' ' ')" = " 2 h0 2 h1 2 h2 " ]
result $? "an allocation is used, and --ppn" "$work/out" "$work/err"
on_hosts on h0 salloc -Q -N 2 -n 5 "$nixlrun" uname -n >"$work/out" 2>"$work/err" </dev/null
[ "$(grep -c '^h[0-2]$' "$work/out")" = 5 ]
result $? "without -np it has as many ranks as the allocation tasks" "$work/out" "$work/err"

# What Slurm's own tools do to a job. Of a cancelled job the ranks are asked, of a step they are killed.
job_of() {
    on_hosts on h0 squeue -h "$@" -o %i | grep -v extern | head -n 1
}
start_job sh -c "echo runs; exec sleep $mark"
on_hosts on h0 scancel "$(job_of)"
job_gives 143 "scancel of the job"
has "$work/err" 'rank [0-2] on host h[01] .* was killed by signal 15 \(Terminated\)$' "is told"
start_job sh -c "echo runs; exec sleep $mark"
on_hosts on h0 scancel "$(job_of -s)"
job_gives 137 "scancel of the step"
# By srun, or by nixlrun if a rank was killed before the nixlrun-rank that watched it.
has "$work/err" 'STEP .* CANCELLED|was killed by signal 9' "is told"

on_hosts on h0 timeout -k 5 240 srun -Q --mpi=pmix -w h0,h1 -n 4 --ntasks-per-node=2 \
    "$work/by_host" "$build/test/net/scope" 2 2 >"$work/out" 2>"$work/err" </dev/null
[ $? = 0 ] && [ "$(grep -c heard "$work/out")" = 4 ]
result $? "srun without nixlrun" "$work/out" "$work/err"
finish
