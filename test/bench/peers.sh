#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nixl_bench peers: nixlrun beside its peers and beside what the machine can do, on one host. Peers
# run in turns (A B C A B C), with the way of a flag between the two cores before and after each:
# runs in which that changed are left out, since every short figure changes with it. A peer whose
# package is missing is named, and left out. Collectives are measured with several numbers of
# ranks, bound to the cores in turn. With --network: peers_net.sh, between two hosts.
set -u
for word in "$@"; do
    if [ "$word" = --network ]; then
        exec "${BASH:-bash}" "$(dirname "$0")/nixl_bench-peers-net" "$@"
    fi
done
# shellcheck source=turns.sh
. "$(dirname "$0")/turns.sh"
# shellcheck source=peers_report.sh
. "$(dirname "$0")/peers_report.sh"

usage() {
    cat <<EOF
Usage: nixl_bench peers [OPTION...]
       nixl_bench peers --network [OPTION...]

Measure nixlrun beside UCX, libfabric, Open MPI, its OpenSHMEM, MPICH, NVIDIA NIXL and Mooncake, as
far as they are installed, in turns on this host; with --network between two hosts made of namespaces.
The measuring programs are compiled against what is installed, into a temporary folder.

  --list            which peers are here, which are not and how to install them; measure nothing
  --only LIST       of: peers (put, get, messages of two ranks), collectives, own (nixl_bench
                    beside the limits of the machine). Default: peers
  --peers LIST      of: $all_peers. Default: all that are installed
  --ranks LIST      numbers of ranks of the collectives. Default: $default_ranks
  --sizes LIST      bytes, such as 8,1048576. Default: depends on what is measured
  --budget MS       milliseconds of each figure. Default: 100
  --repeat N        turns of each peer. Default: 3
  --markdown        print the tables of the README instead of all figures
  --json FILE       write all figures, the machine and the peers' versions into FILE as well
  --goals           say whether nixlrun keeps to its goals against its peers
  --state near|far  wait for the two cores to lie so to each other. Default: take what comes
  --patience S      seconds to wait for that before each run. Default: 60
  --keep FILE       keep every measured line, with its state, as CSV
  --python PROGRAM  the python in which NIXL and Mooncake are installed. Default: python3
  --build DIR       a build folder of nixlrun to measure, in place of this one
  -h, --help        this text
EOF
}

default_ranks=2
for n in 4 8 16 32; do
    [ $n -gt "$(nproc)" ] || default_ranks=$default_ranks,$n
done
choices=peers,collectives,own all_peers=ucx,ofi,openmpi,oshmem,mpich,nixl,mooncake default_only=peers
parse_options "$@"

export SHMEM_SYMMETRIC_SIZE=200M
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
find_mpi
compile_own sentinel sentinel
compile_own peer_nixlrun nixlrun
offer UCX "$(version_by_package ucx)" gcc peer_ucx ucx "gcc libucx-dev" -lucp -lucs
offer libfabric "$(version_by_package libfabric)" gcc peer_ofi ofi "gcc libfabric-dev" -lfabric
offer "Open MPI" "$(version_of "$openmpi_run" --version)" "$openmpi_cc" peer_mpi openmpi "openmpi-bin libopenmpi-dev"
offer OpenSHMEM "$(version_of oshmem_info --version)" oshcc peer_shmem oshmem "openmpi-bin libopenmpi-dev"
offer MPICH "$(version_of "$mpich_run" --version)" "$mpich_cc" peer_mpi mpich "mpich libmpich-dev"
offer_python "NVIDIA NIXL" peer_nixl.py nixl nixl
offer_python Mooncake peer_mooncake.py mooncake mooncake-transfer-engine-non-cuda
if [ $is_list = yes ]; then
    say_peers
    exit 0
fi
say_peers >&2

if is_chosen collectives; then
    compile_own collective_nixlrun coll-nixlrun
    compile_own collective_limit coll-limit
    [ ! -e "$work/openmpi" ] || compile "$openmpi_cc" collective_mpi coll-openmpi
    [ ! -e "$work/oshmem" ] || compile oshcc collective_shmem coll-oshmem
    [ ! -e "$work/mpich" ] || compile "$mpich_cc" collective_mpi coll-mpich
fi

# ---- two ranks ----

peer_turn() {
    run nixlrun "" nixlrun "$nixlrun" -np 2
    run ucx "UCX_TLS=posix,cma" ucx
    run nixlrun-malloc "PEER_MALLOC=1 PEER_OPS=put,get" nixlrun "$nixlrun" -np 2
    run nixlrun-signal "PEER_SIGNAL=1 PEER_OPS=put_notify,put_read,fresh_put_read" nixlrun \
        "$nixlrun" -np 2
    run ucx-malloc "UCX_TLS=posix,cma PEER_MALLOC=1 PEER_OPS=put,get" ucx
    run nixlrun-bounce "PEER_MALLOC=1 NIXLRUN_PROCESS_VM=0 PEER_OPS=put,get" nixlrun \
        "$nixlrun" -np 2
    run openmpi "" openmpi "$openmpi_run" --oversubscribe --bind-to none -np 2
    run oshmem "OMPI_MCA_spml_ucx_tls=any" oshmem oshrun --oversubscribe --bind-to none -np 2
    run mpich "" mpich "$mpich_run" -np 2
    run ofi "" ofi
    run nixl "" nixl
    run mooncake "" mooncake
}

peer_columns='nixlrun|nixlrun
UCX|ucx
Open MPI|openmpi
its OpenSHMEM|oshmem
MPICH|mpich
libfabric|ofi
NIXL (Python)|nixl
Mooncake (Python, TCP)|mooncake'
peer_rows='put 8 B, visible at the target|put|8
get 8 B|get|8
put 8 B in a window of 64|put_window|8
put 8 B and notify the target, one way|put_notify|8
the same by a signal|put_notify|8|nixlrun-signal
message of 8 B, one way|send|8
messages of 8 B in a row, each|send_window|8
fetch and add of 8 B|fetch_add|8
write 64 KiB, put it, then the target reads all of it|fresh_put_read|65536
put 1 MiB|put|1048576
put 1 MiB, then the target reads all of it|put_read|1048576
write 1 MiB, put it, then the target reads all of it|fresh_put_read|1048576
put 1 MiB from and to malloc'\''ed memory|put|1048576|nixlrun-malloc|ucx-malloc
the same where process_vm is forbidden|put|1048576|nixlrun-bounce
put 64 MiB|put|67108864
write 64 MiB, put it, then the target reads all of it|fresh_put_read|67108864'

peer_goals() {
    local size
    goal put 8 nixlrun 1.0 ucx
    goal get 8 nixlrun 1.0 ucx
    goal put_window 8 nixlrun 1.0 ucx
    goal put_notify 8 nixlrun-signal 1.0 ucx oshmem openmpi mpich
    goal fetch_add 8 nixlrun 1.0 ucx
    goal send_window 8 nixlrun 0.833 ucx # at least 1.2 times the rate
    goal put 1048576 nixlrun-bounce 1.111 ucx-malloc
    for size in 1048576 16777216 67108864; do
        goal fresh_put_read $size nixlrun 1.0 ucx oshmem openmpi mpich ofi
    done
}

if is_chosen peers; then
    run_turns
    [ "$is_markdown" = no ] || markdown_head
    report "$peer_columns" "$peer_rows" "Goals against peers" peer_goals
fi

# ---- collectives ----

# Peers that wait by yielding where ranks outnumber cores; MPICH cannot, and takes 18 ms a barrier
# then, so that it is never the best.
collective_turn() { # RANKS
    local n=$1 yields=0
    local wanted="PEER_OPS=barrier,broadcast,reduce,allreduce,allgather,alltoall,touch"
    wanted="$wanted,fresh_broadcast,fresh_reduce,fresh_allreduce,fresh_allgather,fresh_alltoall"
    wanted="$wanted PEER_SIZES=${sizes:-8,65536,1048576} PEER_BUDGET=$((budget / 2 + 1))"
    [ "$n" -le "$(nproc)" ] || yields=1
    run nixlrun "$wanted" coll-nixlrun "$nixlrun" -np "$n" --oversubscribe
    run openmpi "$wanted OMPI_MCA_mpi_yield_when_idle=$yields" coll-openmpi \
        "$openmpi_run" --oversubscribe --bind-to none -np "$n"
    run nixlrun-regions "$wanted PEER_REGIONS=1" coll-nixlrun "$nixlrun" -np "$n" --oversubscribe
    run oshmem "$wanted OMPI_MCA_mpi_yield_when_idle=$yields OMPI_MCA_spml_ucx_tls=any" \
        coll-oshmem oshrun --oversubscribe --bind-to none -np "$n"
    run limit "$wanted PEER_RANKS=$n" coll-limit
    run limit-regions "$wanted PEER_RANKS=$n PEER_REGIONS=1" coll-limit
    if [ $yields = 0 ]; then
        run mpich "$wanted" coll-mpich "$mpich_run" -np "$n"
    fi
}

# Goals for any buffers and for buffers in regions, with so many ranks. OpenSHMEM's buffers lie in
# symmetric memory, which is shared, as regions are; MPI's may lie anywhere. So what has any buffers
# is held against those that take any, and against the best of all. The limits are nothing but copies
# (collective_limit.c); where one misses the goal itself, nobody can reach it on this machine.
# Large data is written before each operation and read after (fresh_*), as programs do; without that
# the table has it, too.
any_goal() { # OPERATION BYTES FACTOR
    goal "$1" "$2" nixlrun "$3" openmpi mpich
    goal "$1" "$2" nixlrun "$3" openmpi oshmem mpich
}

collective_goals() { # RANKS
    local n=$1 op short=0.5 allreduce=0.5 broadcast=0.5 alltoall=0.5 regions=0.5
    case $n in
    2) short=0.7 regions=0.3 ;;
    4) short=0.7 allreduce=0.4 regions=0.4 alltoall=0.8 ;;
    esac
    goal "barrier/$n" 0 nixlrun $short openmpi oshmem mpich
    goal "allreduce/$n" 8 nixlrun $short openmpi oshmem mpich
    any_goal "fresh_allreduce/$n" 1048576 $allreduce
    goal "fresh_allreduce/$n" 1048576 nixlrun-regions $regions openmpi oshmem mpich
    any_goal "fresh_broadcast/$n" 1048576 $broadcast
    goal "fresh_broadcast/$n" 1048576 nixlrun-regions $broadcast openmpi oshmem mpich
    if [ "$n" = 2 ]; then
        goal fresh_alltoall/2 1048576 nixlrun 0.6 openmpi
        goal fresh_alltoall/2 1048576 nixlrun-regions 1.0 oshmem
    else
        any_goal "fresh_alltoall/$n" 1048576 $alltoall
        goal "fresh_alltoall/$n" 1048576 nixlrun-regions $alltoall openmpi oshmem mpich
        goal "fresh_alltoall/$n" 1048576 limit $alltoall openmpi mpich
        goal "fresh_alltoall/$n" 1048576 limit-regions $alltoall openmpi oshmem mpich
    fi
    any_goal "fresh_broadcast/$n" 65536 $broadcast
    any_goal "fresh_alltoall/$n" 65536 $alltoall
    for op in fresh_broadcast fresh_alltoall; do
        goal "$op/$n" 1048576 nixlrun 1.1 limit
        goal "$op/$n" 1048576 nixlrun-regions 1.1 limit-regions
    done
}

collective_columns='nixlrun|nixlrun
nixlrun, in regions|nixlrun-regions
Open MPI|openmpi
OpenSHMEM|oshmem
MPICH|mpich
only copies|limit'

collective_rows() { # RANKS
    local op size text
    echo "barrier, $1 ranks|barrier/$1|0"
    echo "allreduce 8 B, $1 ranks|allreduce/$1|8"
    for op in broadcast allreduce alltoall; do
        for size in 65536 1048576; do
            text=$([ $size = 65536 ] && echo "64 KiB" || echo "1 MiB")
            echo "$op $text, $1 ranks|fresh_$op/$1|$size"
        done
    done
}

if is_chosen collectives; then
    export PEER_STARTS=$work/starts
    for n in ${ranks//,/ }; do
        [ $ended = 0 ] || break
        export SHMEM_SYMMETRIC_SIZE=$((80 + 3 * n))M
        run_apart "collectives of $n ranks" collective_turn "$n"
        report "$collective_columns" "$(collective_rows "$n")" "Goals of collectives of $n ranks" collective_goals "$n"
        run_joined
    done
fi

# ---- what nixl_bench holds against the limits of the same run ----

if is_chosen own; then
    bench=$bench_program
    echo
    echo "Goals against the limits of the same run (nixl_bench)"
    await_state
    "$nixlrun" -np 2 "$bench" put_notify put_flush put get --sizes 8,4K,64K,1M,16M,64M,256M
    await_state
    "$nixlrun" -np 2 "$bench" put get --sizes 4K,64K,1M --alignment all
    await_state
    "$nixlrun" -np 2 "$bench" put get --sizes 1M --registered
    await_state
    "$nixlrun" -np 2 "$bench" put_signal fetch_add --sizes 8
    "$nixlrun" -np 2 "$bench" copy_read passive sleep
    await_state
    "$nixlrun" -np 2 "$bench" xfer channel
    "$nixlrun" -np 5 --oversubscribe "$bench" rate
    "$nixlrun" -np 4 --oversubscribe "$bench" idle --seconds 5
    "$nixlrun" -np 16 --oversubscribe --on-failure continue "$bench" death 2>/dev/null
    "$nixlrun" -np 128 --oversubscribe "$bench" memory
fi
write_json false
exit $ended
