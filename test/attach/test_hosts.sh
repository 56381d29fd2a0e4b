#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Processes on different hosts attach to each other by TCP. The hosts share a kernel, so without NIXLRUN_HOSTID
# they are like containers of one host that share no sockets. Usage: test_hosts.sh. Prints TAP.
# needs: test/attach/attach_end test/attach/attach_enter
bed=nxattach
hosts_options="-n 2"
. "$top_srcdir/test/attach/beds.sh"

# h0 and h1 run their programs with HOSTID, as different hosts would have it
on_h0() { on="$hosts -b $bed on h0 $1"; }
on_h1() { on="$hosts -b $bed on h1 $1"; }

NIXLRUN_TOKEN=the_token_of_this_test
NIXLRUN_PEER_TIMEOUT=2s
NIXLRUN_TRANSPORTS=self,shm,tcp
ATTACH_OVER=tcp
export NIXLRUN_TOKEN NIXLRUN_PEER_TIMEOUT NIXLRUN_TRANSPORTS ATTACH_OVER

on_h0 "$work/by_host"
begin serve "$end" serve tcp://0.0.0.0:0 calls 3
where=$(at serve)
on_h1 "$work/by_host"
verdict "$(says 'mptest: passed' "$end" visit "tcp://10.77.0.10:${where##*:}" calls 3; passed serve
    grep 'seems to be' "$scratch/says" "$scratch/serve")" "every call between two hosts"

for network in ofi ucx; do
    if [ ! -e "$build/transports/$network/.libs/nixlrun_$network.so" ]; then
        echo "ok $((n_lines += 1)) - every call by $network # SKIP it is not built"
        continue
    fi
    by="env NIXLRUN_TRANSPORTS=self,shm,$network ATTACH_OVER=$network"
    # shellcheck disable=SC2086  # words
    on_h0 "$work/by_host"
    begin serve $by "$end" serve tcp://10.77.0.10:0 calls 3
    where=$(at serve)
    on_h1 "$work/by_host"
    verdict "$(says 'mptest: passed' $by "$end" visit "$where" calls 3; passed serve)" \
        "every call between two hosts by $network"
done

enter=$build/test/attach/attach_enter
on_h0 "$work/by_host"
begin lend "$enter" lend tcp://10.77.0.10:4711 enter
on_h1 "$work/by_host"
verdict "$(line lend '^published'; says 'mptest: passed' "$enter" enter tcp://10.77.0.10:4711 enter; passed lend)" \
    "an attachment ends while operations are to enter a grant of a stopped process"

on_h0 ""
begin serve "$end" serve tcp://10.77.0.10:0 calls 1
where=$(at serve)
on_h1 ""
verdict "$(says 'seems to be on this host, but is attached by tcp: .*Shared memory is faster' \
    "$end" visit "$where" calls 1; passed serve)" "every call between containers, and why not by shared memory"

on_h0 "$work/by_host"
begin serve "$nixlrun" -np 2 "$end" serve tcp://10.77.0.10:0 jobs 2
at serve >"$work/where"
tries=0
until [ "$(grep -c '^\(\[[^]]*\] \)*published' "$scratch/serve")" = 2 ] || [ $((tries += 1)) -gt 500 ]; do sleep 0.02; done
on_h1 "$work/by_host"
n=0
for where in $(sed -n 's/^\(\[[^]]*\] \)*at //p' "$scratch/serve"); do
    for rank in 0 1; do
        $on timeout 60 "$end" try "$where" "jobs.$rank" "blocks of 64 KiB" >"$work/try" 2>&1
        n=$((n + $(grep -c '^NIXL_OK' "$work/try")))
    done
done
verdict "$([ "$n" = 2 ] || { echo "$n of 2 ranks attached"; cat "$work/try" "$scratch/serve"; })" \
    "ranks of a job on another host, each at a port of its own"
for pid in $(sed -n 's/^\(\[[^]]*\] \)*pid //p' "$scratch/serve"); do kill -9 "$pid"; done
ended serve >"$work/code"

for round in 1 2; do
    on_h0 "$work/by_host"
    begin serve "$end" serve tcp://10.77.0.10:0 fall 2
    where=$(at serve)
    on_h1 "$work/by_host"
    begin stay "$end" stay "$where" fall
    line stay '^putting'
    killed stay
    verdict "$(line serve '^rank 1 lost'; says 'mptest: passed' "$end" cycle "$where" fall 1; passed serve)" \
        "round $round: an attached process is killed, and the next one comes"

    on_h0 "$work/by_host"
    begin serve "$end" serve tcp://10.77.0.10:0 fall 1
    where=$(at serve)
    on_h1 "$work/by_host"
    begin stay "$end" stay "$where" fall
    line stay '^putting'
    killed serve
    verdict "$(passed stay)" "round $round: a publisher is killed while data moves to it"
done

on_h0 "$work/by_host"
begin serve "$end" serve tcp://10.77.0.10:0 fall 1
where=$(at serve)
on_h1 "$work/by_host"
begin stay "$end" stay "$where" fall
line stay '^putting'
on_hosts cut h1
verdict "$(line serve '^rank 1 lost'; passed serve; passed stay)" "a cable is cut: both sides lose each other"
verdict "$(says "^-6: nobody has published 'fall' .*it is not reached" "$end" try "$where" fall "blocks of 64 KiB")" \
    "a publisher behind a cut cable is awaited"
on_hosts join h1
on_h0 "$work/by_host"
begin idle "$end" publish tcp://10.77.0.10:0 idle "blocks of 64 KiB"
where=$(at idle)
on_h1 "$work/by_host"
begin watch "$end" watch "$where" idle
line watch '^attached'
on_hosts cut h1
verdict "$(passed watch)" "a peer that nobody talks to is lost when its host falls silent"
on_hosts join h1
kill -9 "$(pid_in idle)"
ended idle >"$work/code"
finish
