#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nixl_bench between two hosts: every test that runs there gives rows, held against a TCP connection,
# and says by which network. Its figures are not looked at.
# shellcheck disable=SC1091 # lib.sh is checked by itself
bed=nxbench
needs=mpirun.openmpi
hosts_options="-n 2"
. "$top_srcdir/test/net/lib.sh"
bench=$build/test/bench/nixl_bench

# on_both NETWORK ARG...: a rank on each host
on_both() {
    network=$1
    shift
    on_hosts on h0 timeout 300 "$nixlrun" --engine openmpi -np 2 --host h0:1,h1:1 \
        -x "NIXLRUN_TRANSPORTS=self,shm,$network" "$work/by_host" "$bench" "$@" \
        >"$work/out" 2>"$work/err" </dev/null
    rc=$?
}

for network in tcp ucx ofi; do
    [ -e "$build/transports/$network/.libs" ] || continue
    on_both $network put put_flush get put_nb get_nb put_notify notify put_signal fetch_add \
        notify_barrier barrier allreduce passive sleep limits --sizes 8,4K --iters 3 --csv
    [ "$rc" = 0 ]
    result $? "$network: all tests of two ranks" "$work/out" "$work/err"
    [ "$(awk -F, 'NF == 26 && $8 > 0 && $13 == "raw TCP" && $15 > 0' "$work/out" | wc -l)" -ge 15 ]
    result $? "$network: rows are held against a TCP connection" "$work/out"
    grep -q "^put_flush,put + flush by ${network}[/,]" "$work/out"
    result $? "$network: rows say the network" "$work/out"
    on_both $network rate idle --budget 50ms --seconds 0.1
    [ "$rc" = 0 ] && grep -q '^notify from 1 sender ' "$work/out"
    result $? "$network: rate and idle" "$work/out" "$work/err"
done
on_both tcp storage --sizes 1M --iters 1 --csv
[ "$rc" = 0 ] &&
    [ "$(awk -F, '/peer.s file: (put|get) in order/ && $8 > 0 && $13 == "slower of both" && $15 > 0' "$work/out" | wc -l)" = 2 ]
result $? "a peer's file is held against the network and the file" "$work/out" "$work/err"
# Two processes that are started separately, a host each.
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/token"
chmod 600 "$work/token"
pairs="put put_flush get put_nb get_nb put_notify notify put_signal fetch_add channel limits --sizes 8,4K --iters 3 --csv"
# apart HOST ARG...: one of them
apart() {
    host=$1
    shift
    # shellcheck disable=SC2086  # words
    on_hosts on "$host" timeout 100 env NIXLRUN_TOKEN_FILE="$work/token" "$work/by_host" "$bench" $pairs "$@"
}
apart h1 --attach tcp://10.77.0.10:7070 >"$work/second" 2>&1 &
apart h0 --publish tcp://10.77.0.10:7070 >"$work/out" 2>"$work/err" && wait $! &&
    [ "$(awk -F, 'NF == 26 && $8 > 0 && $13 == "raw TCP" {print $1}' "$work/out" | sort -u | wc -l)" -ge 8 ]
result $? "two processes apart, a host each" "$work/out" "$work/err" "$work/second"
on_both ucx copy_read
[ "$rc" = 2 ] && grep -q "copy_read runs with all ranks on one host" "$work/err"
result $? "a test of shared memory is refused" "$work/out" "$work/err"
finish
