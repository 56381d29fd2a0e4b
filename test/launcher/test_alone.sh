#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Processes of launchers without PMIx are alone, and one of them says so.
# needs: test/mp/hello
# shellcheck disable=SC1091 # the helpers are found at run time
. "$top_srcdir/test/launcher/lib.sh"
hello=$top_builddir/test/mp/hello

# alone VARIABLE...: the program by itself, with these variables and none of any launcher
alone() {
    env -i PATH="$PATH" HOME=/ "$@" "$hello" 1 >"$work/out" 2>"$work/err" </dev/null
    rc=$?
}

# warns NAME PATTERN VARIABLE...: it works, and warns by one line
warns() {
    name=$1 pattern=$2
    shift 2
    alone "$@"
    [ "$rc" = 0 ] && [ "$(grep -c 'rank 0 of 1' "$work/err")" = 1 ] && grep -Eq "$pattern" "$work/err"
    result $? "$name: one line of the first process" "$work/err"
}

# silent NAME VARIABLE...: it works, and says nothing of that
silent() {
    name=$1
    shift
    alone "$@"
    [ "$rc" = 0 ] && ! grep -q 'rank 0 of 1' "$work/err"
    result $? "$name: no word" "$work/err"
}

warns "MPICH's hydra" ' boot: PMI_SIZE=2 is set, as by .* start them with nixlrun, or unset PMI_SIZE' PMI_SIZE=2 PMI_RANK=0
silent "MPICH's hydra, another process" PMI_SIZE=2 PMI_RANK=1
silent "one process of hydra" PMI_SIZE=1 PMI_RANK=0
warns "torchrun" ' boot: WORLD_SIZE=4 is set' WORLD_SIZE=4 RANK=0 LOCAL_RANK=0
silent "torchrun, another process" WORLD_SIZE=4 RANK=3 LOCAL_RANK=3
warns "srun without PMIx" ' boot: SLURM_NTASKS=3 is set.* srun --mpi=pmix' SLURM_NTASKS=3 SLURM_PROCID=0
silent "srun, another process" SLURM_NTASKS=3 SLURM_PROCID=2
warns "Flux without PMIx" ' boot: FLUX_JOB_SIZE=2 is set' FLUX_JOB_SIZE=2 FLUX_TASK_RANK=0
silent "no launcher"
silent "no number" WORLD_SIZE=many RANK=0
PMI_SIZE=2 PMI_RANK=0 gives 0 "nixlrun inside of another launcher" -np 2 "$hello"
! grep -q 'rank 0 of 1' "$work/err"
result $? "its ranks are not alone" "$work/err"
finish
