#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Channels for any rank with attached producers: beside ranks of the consumer's job, by shared memory and between
# two hosts by each network; producers that close, leave, die and are detached. Usage: test_channel.sh; needs
# top_srcdir. Prints TAP.
# needs: test/attach/attach_channel
bed=nxchan
hosts_options="-n 2"
. "$top_srcdir/test/attach/beds.sh"
channel=$build/test/attach/attach_channel
dir=$scratch/names
mkdir "$dir"
where=file:$dir

# published LOG: wait until its consumer can be attached to
published() { line "$1" 'published$'; }

for np in 1 3; do
    begin serve "$nixlrun" -np $np --oversubscribe "$channel" consume "$where" c 6
    published serve
    begin a "$channel" produce "$where" c 500 close
    begin b "$channel" produce "$where" c 300 finalize
    begin c "$channel" produce "$where" c 200 die
    begin d "$nixlrun" -np 2 --oversubscribe "$channel" produce "$where" c 400 close
    begin e "$channel" produce "$where" c 50 detached
    verdict "$(passed serve; passed a; passed b; passed d; passed e; ended c | grep -v 137)" \
        "attached producers beside $((np - 1)) ranks: none loses an item, ends are told once"
done

CHANNEL_CONTEXT=kv
export CHANNEL_CONTEXT
begin serve "$nixlrun" -np 3 --oversubscribe "$channel" consume "$where" k 4
published serve
begin a "$channel" produce "$where" k 200 close
begin b "$nixlrun" -np 2 --oversubscribe "$channel" produce "$where" k 100 close
begin c "$channel" produce "$where" k 100 die
unset CHANNEL_CONTEXT
verdict "$(passed serve; passed a; passed b; ended c | grep -v 137)" "in a context, beside a channel of the same name"

begin serve env NIXLRUN_TRANSPORTS=self,shm "$channel" consume "$where" m 600
published serve
verdict "$(says 'mptest: passed' "$channel" produce "$where" m 3 close 600; passed serve)" \
    "after 600 producers the consumer has what it had before"
sed -n 's/^\(before\|after\): /# &/p' "$scratch/serve"

begin serve "$channel" narrow "$where" n
published serve
verdict "$(says 'could not make 4 slots of 20000 bytes for this process in channel' "$channel" squeeze "$where" n
    passed serve; grep -q 'no slots for ' "$scratch/serve" || cat "$scratch/serve")" \
    "a consumer without memory for slots says so, and takes the producer later"

NIXLRUN_TOKEN=the_token_of_this_test
export NIXLRUN_TOKEN
for network in tcp ofi ucx; do
    if [ $network != tcp ] && [ ! -e "$build/transports/$network/.libs/nixlrun_$network.so" ]; then
        echo "ok $((n_lines += 1)) - producers on another host by $network # SKIP it is not built"
        continue
    fi
    NIXLRUN_TRANSPORTS=self,shm,$network
    export NIXLRUN_TRANSPORTS
    on="$hosts -b $bed on h0 $work/by_host"
    begin serve "$channel" consume tcp://10.77.0.10:0 far 4
    at=$(at serve)
    on="$hosts -b $bed on h1 $work/by_host"
    begin a "$channel" produce "$at" far 500 close
    begin b "$channel" produce "$at" far 100 finalize
    begin c "$channel" produce "$at" far 100 die
    begin e "$channel" produce "$at" far 50 detached
    verdict "$(passed serve; passed a; passed b; passed e; ended c | grep -v 137)" \
        "producers on another host by $network"
done
finish
