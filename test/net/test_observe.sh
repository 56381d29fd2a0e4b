#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is told of ranks on several hosts, through Open MPI's mpirun: --stats, top, --metrics, --trace. The second
# host's monotonic clock is 5000 s ahead, which the trace must find.
# needs: test/mp/stats test/mp/traced
engine=openmpi
bed=nxobs
needs="mpirun.openmpi curl"
. "$top_srcdir/test/net/lib.sh"
. "$top_srcdir/test/net/engines.sh"
python=$build/python/bin/python3

cat >"$work/ahead" <<'SCRIPT'
#!/bin/sh
NIXLRUN_HOSTID=$(uname -n)
export NIXLRUN_HOSTID
[ "$NIXLRUN_HOSTID" = h1 ] || exec "$@"
exec unshare --time --monotonic 5000 "$@"
SCRIPT
chmod +x "$work/ahead"

gives 0 "--stats" --host h0:2,h1:2 --stats "$work/by_host" "$build/test/mp/traced" all
has "$work/err" '^nixlrun: statistics of 4 ranks: .* moved in ' "all ranks are counted"
has "$work/err" '^ +2 +3 .* shm/' "also of the other host"
has "$work/err" '^ +1 +2 .* tcp|ucx|ofi' "and between hosts"
gives 0 "--stats=FILE" --host h0:1,h1:1 --stats="$work/counts.json" "$work/by_host" "$build/test/mp/traced" all
jq -e '[.ranks[] | .host] | unique == ["h0", "h1"]' "$work/counts.json" >/dev/null
result $? "names their hosts" "$work/counts.json"

# counted FILTER TEXT: an expression of jq holds for what was counted
counted() {
    jq -e "$1" "$work/counts.json" >"$work/jq" 2>&1
    result $? "$2" "$work/counts.json"
}
# What rank 1, of the other host, has counted comes from its nixlrun-rank once it was killed.
gives 137 "a rank that has counted is killed" --host h0:1,h1:1 --on-failure continue --stats="$work/counts.json" \
    "$work/by_host" "$build/test/mp/stats" die
counted '[.ranks[] | [.host, .state]] == [["h0", "finished"], ["h1", "ended"]]' "how each has ended is told"
counted '[.collectives[] | select(.collective == "barrier" and .members == 2 and .calls > 60) | .rank] == [0, 1]' \
    "collectives are counted of both, of a team on two hosts"
counted '[.channels[] | select(.channel == "counted" and .items == 20) | [.rank, .direction]] == [[0, "send"], [1, "receive"]]' \
    "and channels"
counted '[.rails[] | select(.bytes > 40000000) | .rank] | unique == [0, 1]' "and what their rails carried"

# rows N: top shows so many ranks
rows() {
    on_hosts on h0 "$nixlrun" top --once "$pid" >"$work/top" 2>&1
    [ "$(grep -cE '^ *[0-9]+ (runs|sleeps|waits)' "$work/top")" = "$1" ]
}
"$hosts" -b "$bed" on h0 "$nixlrun" --engine "$engine" --host h0:1,h1:1 --metrics 9477 --kill-grace 1 \
    "$work/by_host" "$build/test/mp/stats" stay >"$work/out" 2>"$work/err" </dev/null 9>&- &
pid=$! # nixlrun's own: each program in between becomes the next
until_true 300 eval '[ "$(grep -c stays "$work/out")" = 2 ]'
result $? "a job runs on two hosts" "$work/err" "$work/out"
until_true 100 rows 2
result $? "nixlrun top shows the ranks of both" "$work/top"
items_of_bed() {
    on_hosts on h0 "$nixlrun" top --items --once "$pid" >"$work/top" 2>&1
    grep -qE ' barrier of 2$' "$work/top" && grep -qE ' channel counted, 0 to 1$' "$work/top" && grep -qE ' rank 1 by [a-z]+/' "$work/top"
}
until_true 100 items_of_bed
result $? "--items its collectives, channels and rails" "$work/top"
# shellcheck disable=SC2016  # for the shell of until_true
until_true 100 eval 'on_hosts on h0 curl -s http://127.0.0.1:9477/metrics >"$work/metrics" &&
    grep -q "^nixlrun_moved_bytes_total.*host=\"h1\"" "$work/metrics"'
result $? "--metrics serves those of the other host" "$work/metrics"
"$nixlrun" kill "$pid" >/dev/null 2>&1
wait "$pid"

if ! "$python" -c 'import perfetto.protos.perfetto.trace.perfetto_trace_pb2' 2>/dev/null; then
    result 0 "--trace # SKIP no perfetto in build/python; ./quickstart packages check installs it"
    finish
    exit
fi
read_trace() {
    "$python" "$top_srcdir/test/launcher/read_trace.py" "$work/trace" >"$work/lines" 2>&1
}
gives 0 "--trace" --host h0:2,h1:2 --trace "$work/trace" "$work/ahead" "$build/test/mp/traced" all
has "$work/err" 'events of 4 processes on 2 hosts, their clocks aligned to within [0-9.]+ [um]s in ' \
    "clocks are aligned, and it is said how well"
read_trace # fails if anything is received before it was sent
result $? "it can be read" "$work/lines"
has "$work/lines" '^process rank 3 \(h1, pid [0-9]+\)$' "and has the ranks of the other host"
has "$work/lines" '^arrow rank 1 nixl_put_notify -> rank 2 note received$' "with arrows between hosts"
has "$work/lines" '^span [0-9]$' "an offset of 5000 s is taken out"
gives 137 "a rank of the other host is killed" --host h0:1,h1:1 --on-failure continue --trace "$work/trace" \
    "$work/by_host" "$build/test/mp/traced" kill
read_trace
result $? "it can be read" "$work/lines"
has "$work/lines" '^slice rank 1 0 nixl_notify_recv \(has not ended\)' "the call in which it died is shown"
finish
