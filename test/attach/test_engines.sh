#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs that srun and mpirun have started, with and without PMIx, attach to each other and to processes that are
# started by hand, on two hosts. Usage: test_engines.sh. Prints TAP.
# needs: test/attach/attach_end test/attach/attach_jobs
bed=nxjoin
needs="munged slurmctld slurmd srun mpirun.openmpi"
hosts_options="-n 2"
. "$top_srcdir/test/attach/beds.sh"
jobs=$build/test/attach/attach_jobs
on_hosts slurm || exit 99

NIXLRUN_TOKEN=the_token_of_this_test
NIXLRUN_PEER_TIMEOUT=5s
ATTACH_OVER=host
export NIXLRUN_TOKEN NIXLRUN_PEER_TIMEOUT ATTACH_OVER
any=tcp://0.0.0.0:0

# Two ranks, the first on h0; one process on h1. By mpirun and srun without any nixlrun.
by_srun="srun -Q --mpi=pmix -w h0,h1 -n 2 --ntasks-per-node=1 $work/by_host"
by_none="srun -Q --mpi=none -w h0,h1 -n 2 --ntasks-per-node=1 $work/by_host"
by_mpirun="mpirun.openmpi --allow-run-as-root --host h0:1,h1:1 -np 2
    -x NIXLRUN_TOKEN -x NIXLRUN_PEER_TIMEOUT -x ATTACH_OVER $work/by_host"
by_nixlrun="$nixlrun --engine openmpi --host h0:1,h1:1 -np 2 -x ATTACH_OVER $work/by_host"
by_hand=$work/by_host

# at_host HOST: where a process on that host has published
at_host() {
    line first "^at tcp://$1:" && sed -n "s/^at \(tcp:..$1:\)/\1/p" "$scratch/first" | head -1
}

# meet WHAT PUBLISHER ATTACHER: both are words before the program; nothing is printed if both pass
meet() {
    on="$hosts -b $bed on h0"
    # shellcheck disable=SC2086  # words
    begin first $2 "$jobs" publish "$1" "$any" jobs
    where=$(at_host h0)
    [ "$3" != "$by_hand" ] || on="$hosts -b $bed on h1"
    # shellcheck disable=SC2086
    begin second $3 "$jobs" attach "$1" "$where" jobs
    first=$(ended first) second=$(ended second)
    if [ "$first $second" != "0 0" ]; then
        echo "ended with $first and $second:"
        cat "$scratch/first" "$scratch/second"
    fi
}

# The tool that starts a job tells what it thinks of deaths, which is not asked here.
end_is() {
    [ "$(ended "$1")" = "$2" ] || { echo "$1 ended with $(cat "$scratch/$1.code"):"; cat "$scratch/$1"; }
}

verdict "$(meet there "$by_srun" "$by_mpirun")" "every call of 2 ranks by mpirun to each of 2 by srun"
verdict "$(meet both "$by_mpirun" "$by_srun")" "ranks by srun and by mpirun ask for all pairs at once"
verdict "$(meet there "$by_mpirun" "$by_hand")" "every call of a process started by hand to each of 2 by mpirun"
verdict "$(meet back "$by_hand" "$by_srun")" "every call of a process started by hand to each of 2 by srun"
verdict "$(meet there "$by_nixlrun" "$by_srun")" "every call of 2 ranks by srun to each of 2 by nixlrun"

# Without PMIx each process is a job of its own, and says so.
on="$hosts -b $bed on h0"
begin first "$by_hand" "$end" serve "$any" name 4
where=$(at_host h0)
# shellcheck disable=SC2086
begin second $by_none "$end" cycle "$where" name 2
verdict "$(end_is second 0; passed first; grep -q 'SLURM_NTASKS=2 is set' "$scratch/second" || cat "$scratch/second")" \
    "2 processes by srun without PMIx attach to one started by hand, each for itself"
# shellcheck disable=SC2086
begin first $by_none "$end" serve "$any" name 1
verdict "$(for host in h0 h1; do
        says NIXL_OK "$by_hand" "$end" try "$(at_host $host)" name "blocks of 64 KiB"
    done
    end_is first 0)" "and they are attached to"

# A process of one side is killed: the other side goes on, and knows.
# shellcheck disable=SC2086
begin first $by_srun "$end" serve "$any" name 1
where=$(at_host h0)
begin second "$by_hand" "$end" watch "$where" name.0
verdict "$(line second '^attached'; kill -9 "$(pid_in first)"; passed second)" \
    "a rank by srun is killed: one by hand that is attached loses it"
: "$(ended first)"
begin first "$by_hand" "$end" serve "$any" name.0 2
where=$(at_host h0)
# shellcheck disable=SC2086
begin second $by_mpirun "$end" stay "$where" name
verdict "$(line second 'putting'; kill -9 "$(pid_in second)"; passed first)" \
    "a rank by mpirun is killed, and mpirun ends the other: one by hand loses both, and goes on"
finish
