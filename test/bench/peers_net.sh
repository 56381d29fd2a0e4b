#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nixl_bench peers --network: nixlrun between two hosts beside raw TCP, raw UCX, raw libfabric, Open
# MPI and, for collectives, MPICH. The hosts are namespaces of this machine, joined by veth with
# cubic; they are made at the start and removed at the end, however it comes. Peers run in turns
# (A B C A B C), with the way of a flag between the two cores before and after each: runs in which
# that changed are left out. A peer whose package is missing is named, and left out.
set -u
# shellcheck source=turns.sh
. "$(dirname "$0")/turns.sh"
# shellcheck source=peers_report.sh
. "$(dirname "$0")/peers_report.sh"
# shellcheck source=netpair.sh
. "$(dirname "$0")/netpair.sh"

usage() {
    cat <<EOF
Usage: nixl_bench peers --network [OPTION...]

Measure nixlrun between two hosts beside raw TCP, UCX, libfabric, Open MPI and, for collectives,
MPICH, as far as they are installed, in turns. The hosts are namespaces of this one joined by veth,
which needs root and iproute2; Open MPI starts nixlrun's ranks, too.

  --list            which peers are here, which are not and how to install them; measure nothing
  --only LIST       of: peers, collectives, own (nixl_bench beside TCP), rails (two and
                    four of 1 Gbit/s against one). Default: peers
  --peers LIST      of: $all_peers. Default: all that are installed
  --ranks LIST      numbers of ranks of the collectives, half on each host. Default: 2
  --sizes LIST      bytes, such as 8,1048576. Default: depends on what is measured
  --budget MS       milliseconds of each figure. Default: 40
  --repeat, --markdown, --json, --goals, --state, --patience, --keep, --build
                    as without --network
  -h, --help        this text
EOF
}

choices=peers,collectives,own,rails all_peers=ucx,ofi,openmpi,mpich
default_only=peers default_ranks=2 default_budget=40
parse_options "$@"

find_mpi
compile_own sentinel sentinel
compile_own peer_nixlrun nixlrun
compile_own peer_tcp tcp
offer UCX "$(version_by_package ucx)" gcc peer_ucx ucx "gcc libucx-dev" -lucp -lucs
[ ! -e "$work/ucx" ] || compile gcc peer_ucx_am ucx-am -lucp -lucs
offer libfabric "$(version_by_package libfabric)" gcc peer_ofi ofi "gcc libfabric-dev" -lfabric
offer "Open MPI" "$(version_of "$openmpi_run" --version)" "$openmpi_cc" peer_mpi openmpi "openmpi-bin libopenmpi-dev"
offer MPICH "$(version_of "$mpich_run" --version)" "$mpich_cc" collective_mpi coll-mpich "mpich libmpich-dev"
if [ $is_list = yes ]; then
    say_peers
    exit 0
fi
say_peers >&2
[ "$(id -u)" = 0 ] || fail "--network needs root, to make network namespaces"
command -v ip >/dev/null || fail "--network needs ip (Debian: apt-get install iproute2)"
command -v "$openmpi_run" >/dev/null ||
    fail "--network needs Open MPI, which starts the ranks (Debian: apt-get install openmpi-bin libopenmpi-dev)"
if is_chosen collectives; then
    compile_own collective_nixlrun coll-nixlrun
    [ ! -e "$work/openmpi" ] || compile "$openmpi_cc" collective_mpi coll-openmpi
fi

at_exit() { netpair_down; }
netpair_up "$work" || fail "cannot make two network namespaces joined by veth"
netpair_agent "$work/agent"

# For peers without a runtime, which fork and enter the hosts, and the interface that they are to use.
# A guess of a message's time keeps the rows short.
export PEER_NETNS=${hosts[0]},${hosts[1]} PEER_ADDRESS=10.80.0.2 PEER_LATENCY=5000
export PEER_SIZES=${sizes:-8,4096,65536,1048576,67108864}
export PEER_OPS=put,get,put_notify,send,put_window,get_window,send_window
export PEER_STARTS=$work/starts # both hosts have these files
ucx="UCX_TLS=tcp UCX_NET_DEVICES=veth0 PEER_MALLOC=1"
large_segments="UCX_TCP_TX_SEG_SIZE=256k UCX_TCP_RX_SEG_SIZE=256k"
ofi="FI_NET_IFACE=veth0 FI_TCP_IFACE=veth0"

# mpirun starts the ranks of all that have a runtime, one on each host.
network=10.80.0.0/24
mpirun=("${enter[@]}" "$openmpi_run" --allow-run-as-root --oversubscribe --bind-to none
    --map-by node --mca plm_rsh_agent "$work/agent" --mca oob_tcp_if_include "$network")
two=(-np 2 -H "10.80.0.1:1,10.80.0.2:1")
for variable in PEER_SIZES PEER_OPS PEER_BUDGET PEER_LATENCY PEER_STARTS; do
    mpirun+=(-x "$variable")
done

# across NAME SETTINGS PROGRAM [OPTION...]: one turn of a peer that mpirun starts
across() {
    local name=$1 settings=$2 program=$3 setting
    local options=("${two[@]}" -x PEER_NAME "${@:4}")
    for setting in $settings; do
        options+=(-x "${setting%%=*}")
    done
    run "$name" "$settings" "$program" "${mpirun[@]}" "${options[@]}"
}

peer_turn() {
    run tcp "" tcp
    run tcp-sleeping "PEER_BLOCKING=1 PEER_OPS=put,put_notify PEER_SIZES=8" tcp
    across nixlrun "" nixlrun
    across nixlrun-tcp "NIXLRUN_TRANSPORTS=self,shm,tcp" nixlrun
    run ucx "$ucx" ucx
    run ucx-256k "$ucx $large_segments" ucx
    run ucx-am "$ucx" ucx-am
    across nixlrun-ucx "NIXLRUN_TRANSPORTS=self,shm,ucx" nixlrun
    run ofi-net "$ofi PEER_PROVIDER=net" ofi
    run ofi-net-rxm "$ofi PEER_PROVIDER=net;ofi_rxm" ofi
    run ofi-tcp-rxm "$ofi PEER_PROVIDER=tcp;ofi_rxm" ofi
    across nixlrun-ofi "NIXLRUN_TRANSPORTS=self,shm,ofi" nixlrun
    across openmpi "" openmpi --mca pml ob1 --mca osc pt2pt --mca btl tcp,self \
        --mca btl_tcp_if_include $network
}

# Each transport against its own library, and the automatic choice against the best of all.
ucx_ways="ucx ucx-256k ucx-am"
ofi_ways="ofi-net ofi-net-rxm ofi-tcp-rxm"
ours_and_peers() { # OPERATION BYTES
    local op=$1 size=$2 ucx=$ucx_ways ofi=$ofi_ways
    if [ "$op" = put_notify ]; then # a message with its data does the same
        ucx="$ucx ucx:send" ofi="$ofi ofi-net:send ofi-net-rxm:send ofi-tcp-rxm:send"
    fi
    # shellcheck disable=SC2086 # several words
    goal "$op" "$size" nixlrun 1.1 $ucx $ofi
    goal "$op" "$size" nixlrun-tcp 1.15 tcp
    # shellcheck disable=SC2086
    goal "$op" "$size" nixlrun-ucx 1.15 $ucx
    # shellcheck disable=SC2086
    goal "$op" "$size" nixlrun-ofi 1.15 $ofi
}

peer_goals() {
    local op size ours
    for op in put_notify put get; do
        ours_and_peers $op 8
    done
    for op in put get; do
        for size in 1048576 67108864; do
            # 0.95 times the bandwidth of one stream that does the same: alone, the data and an
            # answer that it is there; in a row, one answer behind all.
            for ours in nixlrun nixlrun-tcp; do
                goal $op $size $ours 1.053 tcp
                goal ${op}_window $size $ours 1.053 tcp
            done
        done
    done
}

peer_columns="nixlrun|nixlrun
raw TCP|tcp
UCX|$ucx_ways
libfabric|$ofi_ways
Open MPI|openmpi"
peer_rows='put 8 B, known to be visible|put|8
get 8 B|get|8
put 8 B in a window of 64|put_window|8
put 8 B and notify the target, one way|put_notify|8
message of 8 B, one way|send|8
messages of 8 B in a row, each|send_window|8
put 1 MiB|put|1048576
get 1 MiB|get|1048576
put 64 MiB|put|67108864
get 64 MiB|get|67108864'

if is_chosen peers; then
    run_turns
    [ "$is_markdown" = no ] || markdown_head
    report "$peer_columns" "$peer_rows" "Goals against peers" peer_goals
fi

# ---- collectives ----

# UCX takes both hosts for one, since they are: it has TCP alone. As in compare, Open MPI yields where
# ranks outnumber cores, and MPICH cannot. nixlrun does by itself where a host has more ranks than
# cores; that both hosts have the same cores here it cannot know, so that up to twice as many ranks
# as cores it spins, and sleeps, while others need the core.
collective_turn() { # RANKS
    local half=$((($1 + 1) / 2)) wanted yields=0
    [ "$1" -le "$(nproc)" ] || yields=1
    local two=(-np "$1" -H "10.80.0.1:$half,10.80.0.2:$half")
    wanted="PEER_OPS=barrier,broadcast,allreduce,reduce_scatter,alltoall,touch"
    wanted="$wanted,fresh_broadcast,fresh_allreduce,fresh_reduce_scatter,fresh_alltoall"
    wanted="$wanted PEER_SIZES=${sizes:-8,65536,1048576}"
    across nixlrun "$wanted" coll-nixlrun
    across openmpi "$wanted" coll-openmpi --mca pml ob1 --mca btl tcp,self,vader \
        --mca btl_tcp_if_include $network --mca mpi_yield_when_idle $yields
    across nixlrun-regions "$wanted PEER_REGIONS=1" coll-nixlrun
    run mpich "$wanted UCX_TLS=tcp,self UCX_NET_DEVICES=veth0" coll-mpich "${enter[@]}" \
        "$mpich_run" -launcher ssh -launcher-exec "$work/agent" -hosts 10.80.0.1,10.80.0.2 \
        -ppn "$half" -genvall -np "$1"
}

collective_goals() { # RANKS
    local ours
    for ours in nixlrun nixlrun-regions; do
        goal "barrier/$1" 0 $ours 1.0 openmpi mpich
        goal "allreduce/$1" 8 $ours 1.0 openmpi mpich
        goal "fresh_allreduce/$1" 1048576 $ours 1.0 openmpi mpich
    done
}

collective_columns='nixlrun|nixlrun
nixlrun, in regions|nixlrun-regions
Open MPI|openmpi
MPICH|mpich'

collective_rows() { # RANKS
    local op
    echo "barrier, $1 ranks|barrier/$1|0"
    echo "allreduce 8 B, $1 ranks|allreduce/$1|8"
    for op in broadcast allreduce alltoall; do
        echo "$op 1 MiB, $1 ranks|fresh_$op/$1|1048576"
    done
}

if is_chosen collectives; then
    for n in ${ranks//,/ }; do
        [ $ended = 0 ] || break
        run_apart "collectives of $n ranks" collective_turn "$n"
        report "$collective_columns" "$(collective_rows "$n")" "Goals of collectives of $n ranks on two hosts" collective_goals "$n"
        run_joined
    done
fi

# ---- what nixl_bench holds against a TCP connection in the same run ----

# bench TRANSPORTS ARGUMENT...: nixl_bench between the hosts; TRANSPORTS may be auto
bench() {
    local transports=()
    [ "$1" = auto ] || transports=(-x "NIXLRUN_TRANSPORTS=self,shm,$1")
    shift
    timeout 300 "${mpirun[@]}" "${two[@]}" "${transports[@]}" "$bench_program" "$@"
}

if is_chosen own; then
    for transports in auto tcp ucx ofi; do
        echo
        echo "nixl_bench between hosts, transports: $transports"
        await_state
        bench $transports put_notify put_flush get --sizes 8,4K,64K,1M,64M --budget 100ms
        bench $transports put_nb get_nb --sizes 8,4K,64K,1M --budget 100ms
        bench $transports passive --sizes 8,4K,64K,1M,64M --budget 100ms
        bench $transports rate sleep idle --seconds 5
    done
fi

# ---- several rails of 1 Gbit/s against one ----

rail_size=16M
rail_goals="2:1.9 4:3.7" # how many, and how many times as fast as one

# rails TRANSPORT N OPERATION: the nanoseconds of it over so many rails; nothing if there is no figure
rails() {
    local host rail state
    for host in "${hosts[@]}"; do
        for rail in 1 2 3; do
            state=down
            [ "$rail" -ge "$2" ] || state=up
            ip -n "$host" link set "veth$rail" $state
        done
    done
    for host in "${hosts[@]}"; do
        netpair_await_links "$host" "$2" || return 1
    done
    bench "$1" "$3" --sizes $rail_size --iters 15 --csv | awk -F, -v test="$3" '$1 == test { print $8 }'
}

# rails_verdict TRANSPORT OPERATION N GOAL ONE MANY
rails_verdict() {
    awk -v what="$1 $2" -v n="$3" -v goal="$4" -v one="$5" -v many="$6" 'BEGIN {
        if (one <= 0 || many <= 0) {
            printf "%-6s %-14s %d rails: not measured\n", "-", what, n
            exit
        }
        printf "%-6s %-14s one %.1f ms, %d rails %.1f ms: %.2f times  allowed from %.2f\n",
               (one / many >= goal ? "PASS" : "FAIL"), what, one / 1e6, n, many / 1e6, one / many, goal
    }'
}

if is_chosen rails; then
    echo
    echo "Two and four rails of 1 Gbit/s against one, $rail_size"
    netpair_down
    if ! netpair_up "$work" 4 || ! netpair_limit 1gbit; then
        fail "cannot make four rails of 1 Gbit/s"
    fi
    for transport in tcp ofi; do
        for op in put_flush get; do
            with_one=$(rails $transport 1 $op)
            for goal in $rail_goals; do
                with_many=$(rails $transport "${goal%:*}" $op)
                rails_verdict $transport $op "${goal%:*}" "${goal#*:}" "$with_one" "$with_many"
            done
        done
    done
fi
write_json true
exit $ended
