#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nixl_bench: what it refuses and how, and that every test gives rows in every format. Its figures
# are not looked at: the machine is busy with other tests.
# shellcheck disable=SC1091 # lib.sh is checked by itself
. "$top_srcdir/test/launcher/lib.sh"
bench=$top_builddir/test/bench/nixl_bench
limit=300
# For a machine that is busy, or stops for a moment.
NIXLRUN_RESOLVE_TIMEOUT=60s NIXLRUN_FINALIZE_TIMEOUT=60s
export NIXLRUN_RESOLVE_TIMEOUT NIXLRUN_FINALIZE_TIMEOUT

# refuses PATTERN NAME ARG...: one line of its own that matches, exit code 2
refuses() {
    pattern=$1
    name=$2
    shift 2
    run -np 2 "$bench" "$@"
    [ "$rc" = 2 ] && [ "$(grep -c '^nixl_bench: ' "$work/err")" = 1 ] &&
        grep -Eq -e "^nixl_bench: $pattern" "$work/err"
    result $? "$name" "$work/err" "$work/out"
}

refuses "unknown test 'nosuch'" "an unknown test" nosuch
refuses "no test named" "no test"
refuses "rate cannot run with --attach; allowed: tests between two ranks, collectives" "a test of all ranks apart" --attach file:. rate
refuses "--publish and --attach are for one process each" "both ends in one process" --attach file:. --publish file:. put
refuses "--attach and --tcp cannot be combined" "apart by TCP" --attach file:. --tcp put
refuses "unknown option '--frob'" "an unknown option" put --frob
refuses "option '--sizes' needs a value" "an option without its value" put --sizes
refuses "--sizes has '8x'" "a bad size" put --sizes 4K,8x
refuses "--sizes has '9G'" "a size that is too large" put --sizes 9G
refuses "--alignment has '4096'" "a bad alignment" put --alignment 4096
refuses "--alignment has '1:x'" "a bad source alignment" put --alignment 1:x
refuses "--budget or --duration is '0'" "no budget" put --budget 0
refuses "--iters is '-1'" "a negative number of samples" put --iters -1
refuses "--window is '5000'" "too large a window" put_nb --window 5000
refuses "--memory is 'gpu'; allowed: KIND or KIND:KIND" "an unknown memory" put --memory gpu
refuses "--memory is 'cuda:'" "half a pair of memories" put --memory cuda:
refuses "rate has no --memory" "a test of other memory" rate --memory vulkan
refuses "--registered is for host memory" "registered GPU memory" put -r --memory cuda
refuses "put has no --fresh; copy_read, nb_read, get_read," "a test in which nobody reads" put --fresh
refuses "--fresh is for host memory" "fresh GPU memory" allreduce --fresh --memory cuda
refuses "--seconds is 'x'" "bad seconds" idle --seconds x
refuses "memory cannot run together" "memory with another test" memory put
gives 2 "put with 3 ranks" -np 3 "$bench" put
has "$work/err" "^nixl_bench: put runs with 2 ranks, this job has 3" "says how many it wants"
gives 0 "--help" -np 1 "$bench" --help
has "$work/out" "^  put_notify " "lists the tests"

small="--sizes 8,4K --iters 3"
# shellcheck disable=SC2086 # several words
for test in put put_flush get put_nb get_nb flush copy_read nb_read get_read put_notify notify signal atomic xfer extents channel pair grant notify_barrier passive sleep; do
    gives 0 "$test" -np 2 "$bench" "$test" $small --csv
    [ "$(awk -F, 'NR > 1 && $1 == "'$test'" && $8 > 0 && NF == 26' "$work/out" | wc -l)" -ge 1 ]
    result $? "$test gives rows" "$work/out"
done
# Two processes that are started separately; a process that attaches awaits the name.
mkdir "$work/meet"
pairs="put put_flush get put_nb get_nb flush copy_read nb_read get_read put_notify notify signal atomic xfer extents channel
    pair grant passive sleep barrier broadcast reduce allreduce reduce_scatter scan gather scatter allgather alltoall
    alltoall_strided gatherv scatterv allgatherv alltoallv"
# shellcheck disable=SC2086
timeout $limit "$bench" --attach "file:$work/meet" $pairs $small --csv >"$work/second" 2>&1 &
# shellcheck disable=SC2086
timeout $limit "$bench" --publish "file:$work/meet" $pairs $small --csv >"$work/out" 2>"$work/err" && wait $! &&
    [ "$(awk -F, 'NR > 1 && $8 > 0 && NF == 26 {print $1}' "$work/out" | sort -u | wc -l)" = 35 ]
result $? "every test between two ranks and every collective gives rows between two processes, too" "$work/err" "$work/second" "$work/out"
timeout $limit "$bench" --publish "file:$work/meet" put $small >"$work/out" 2>"$work/err" &
timeout $limit "$bench" --attach "file:$work/meet" get $small >"$work/second" 2>&1
[ $? = 1 ] && grep -q "its schema is '.* tests put 8 4096 .*this process asks for '.* tests get 8" "$work/second"
result $? "a process that was given another test is refused" "$work/second"
kill $!
wait
# One that is killed ends the other, wherever that waits: in a call, or on memory that both have mapped. Both have met
# when the name is gone again.
for victim in attach publish; do
    timeout $limit "$bench" --publish "file:$work/meet" put --sizes 1M --budget 100s >"$work/out" 2>"$work/err" &
    publish=$!
    for _ in $(seq 600); do [ ! -e "$work/meet/nixl_bench.entry" ] || break; sleep 0.05; done
    timeout $limit "$bench" --attach "file:$work/meet" put --sizes 1M --budget 100s >"$work/second" 2>&1 &
    attach=$!
    for _ in $(seq 600); do [ -e "$work/meet/nixl_bench.entry" ] || break; sleep 0.05; done
    if [ $victim = attach ]; then
        kill -KILL "$(pgrep -P $attach)"
        wait $publish
    else
        kill -KILL "$(pgrep -P $publish)"
        wait $attach
    fi
    # $? is the status of wait. The watching thread reports the death, or the call that failed by it.
    [ $? = 1 ] && grep -qE "(the other nixl_bench|of job [0-9a-f]+) has died" "$work/err" "$work/second"
    result $? "one ends when the other ($victim) is killed" "$work/err" "$work/second"
    wait
done
# shellcheck disable=SC2086
timeout $limit "$bench" --attach "file:$work/meet" put $small >"$work/second" 2>&1 &
for _ in $(seq 600); do grep -q "waits up to 60 s for: nixl_bench --publish file:$work/meet" "$work/second" && break; sleep 0.05; done
# shellcheck disable=SC2086
timeout $limit "$bench" --publish "file:$work/meet" put $small >"$work/out" 2>"$work/err" && wait $! &&
    grep -q 'waits up to' "$work/second"
result $? "one that attaches says what it waits for" "$work/err" "$work/second"
collectives="barrier broadcast reduce allreduce reduce_scatter scan gather scatter allgather alltoall
    gatherv scatterv allgatherv alltoallv"
for ranks in 2 5; do
    gives 0 "teams of $ranks ranks" -np $ranks --oversubscribe "$bench" team --iters 3 --csv
    [ "$(awk -F, '$1 == "team" && $3 == '$ranks' && $8 > 0' "$work/out" | wc -l)" = 12 ]
    result $? "a row of each way to make one, one of giving it back" "$work/out"
    # shellcheck disable=SC2086
    gives 0 "collectives of $ranks ranks" -np $ranks --oversubscribe "$bench" $collectives \
        --sizes 8,5000 --iters 3 --csv
    [ "$(awk -F, '$1 == "barrier" && $3 == '$ranks' && $8 > 0' "$work/out" | wc -l)" = 3 ]
    result $? "a row of the barrier, one of its start, one prepared" "$work/out"
    [ "$(awk -F, '/ any buffers|_nb in regions| in regions/ && $3 == '$ranks' && $8 > 0' \
        "$work/out" | wc -l)" = 104 ]
    result $? "four rows of each other collective and size" "$work/out"
done
# shellcheck disable=SC2086
gives 0 "data that changes" -np 2 "$bench" copy_read nb_read get_read put_notify notify channel $small \
    --fresh --json
[ "$(grep -Ec '"bytes": (8|4096),.*"note": "fresh: to write and read alone [0-9.]+ us"' "$work/out")" = 12 ]
result $? "every row says what writing and reading alone take" "$work/out"
# shellcheck disable=SC2086
gives 0 "collectives of data that changes" -np 5 --oversubscribe "$bench" $collectives \
    alltoall_strided --sizes 8,5000 --iters 3 --fresh --csv
[ "$(awk -F, '/ any buffers|_nb in regions| in regions/ && $3 == 5 && $8 > 0' "$work/out" |
    wc -l)" = 112 ]
result $? "have the same rows" "$work/out"
# shellcheck disable=SC2086
gives 0 "data that changes as between hosts" -np 2 "$bench" put_notify allreduce $small --fresh --tcp --csv
[ "$(awk -F, 'NR > 1 && $8 > 0 && $13 == "raw TCP"' "$work/out" | wc -l)" -ge 4 ]
result $? "is held against a TCP connection" "$work/out"
gives 0 "a collective of sizes without whole floats" -np 2 "$bench" allreduce --sizes 6 --csv
[ "$(wc -l <"$work/out")" = 1 ]
result $? "gives no rows of them" "$work/out"
# shellcheck disable=SC2086
gives 0 "registered memory" -np 2 "$bench" put get $small --registered --csv
has "$work/out" "^put,put by (process_vm|bounce)" "says which way it went"
# shellcheck disable=SC2086
gives 0 "limits" -np 2 "$bench" limits $small
has "$work/out" "^one way: flag +0 .* [num]?s " "gives the way of a flag"
gives 0 "strided blocks of no bytes" -np 2 "$bench" put_strided --sizes 0 --iters 3 --csv
gives 0 "a table" -np 2 "$bench" put --sizes 4K --budget 1ms
has "$work/out" "^limit: .*; ratio: " "says what limit and ratio are,"
has "$work/out" "^goal: .*: ok or MISSED$" "what a goal is,"
has "$work/out" "^cores of ranks 0 and 1: near: .*; far: " "and what near and far are"
stand_in=$top_builddir/test/cuda/.libs
# shellcheck disable=SC2086
for memory in cuda cuda:host host:cuda; do
    LD_LIBRARY_PATH=$stand_in gives 0 "$memory memory" -np 2 "$bench" put put_flush get put_nb \
        get_nb put_notify $small --memory $memory --csv
    [ "$(awk -F, 'NR > 1 && $8 > 0 && ($13 == "within own part" || $1 == "put_notify")' \
        "$work/out" | wc -l)" = 12 ]
    result $? "$memory memory beside the own part" "$work/out"
    LD_LIBRARY_PATH=$stand_in gives 0 "collectives in $memory memory" -np 2 "$bench" allreduce \
        broadcast $small --memory $memory --csv
    [ "$(awk -F, 'NR > 1 && $8 > 0' "$work/out" | wc -l)" -ge 4 ]
    result $? "collectives in $memory memory have rows"
    LD_LIBRARY_PATH=$stand_in gives 0 "$memory memory as between hosts" -np 2 "$bench" put get \
        put_notify $small --memory $memory --tcp --csv
    [ "$(awk -F, 'NR > 1 && $8 > 0 && $13 == "host memory" && $15 > 0' "$work/out" | wc -l)" = 6 ]
    result $? "$memory memory beside host memory" "$work/out"
done
gives 0 "as between hosts" -np 2 "$bench" put put_flush get put_nb get_nb put_notify notify \
    put_signal signal fetch_add atomic notify_barrier barrier allreduce passive sleep limits $small --tcp --csv
[ "$(awk -F, 'NR > 1 && $13 == "raw TCP" && $14 > 0 && $15 > 0' "$work/out" | wc -l)" -ge 15 ]
result $? "holds rows against a TCP connection" "$work/out"
has "$work/out" "^passive,put while target computes,.*,polls . 2 wakes," "allows for wake-ups"
has "$work/out" "^passive,raw TCP: get while target computes registered," "has a bare target that computes"
gives 0 "rate as between hosts" -np 4 "$bench" rate idle --budget 50ms --seconds 0.1 --tcp
has "$work/out" "none lost" "stops all senders, loses nothing"
gives 2 "a test that wants one host" -np 2 "$bench" put copy_read --tcp
has "$work/err" "^nixl_bench: copy_read runs with all ranks on one host" "says so"
gives 0 "rate with 4 senders" -np 5 "$bench" rate --budget 50ms
has "$work/out" "none lost" "loses nothing"
gives 0 "idle with 3 ranks" -np 3 "$bench" idle --seconds 0.3 --json
has "$work/out" '"test": "idle".*"unit": "%"' "gives a share of the CPU"
gives 0 "memory of 4 ranks" -np 4 "$bench" memory
has "$work/out" "^over a bare client after all talked .* MiB" "gives what talking costs"
gives 0 "first contact of 5 ranks" -np 5 --oversubscribe "$bench" contact --csv
[ "$(awk -F, '$1 == "contact" && $3 == 5 && $8 >= 0' "$work/out" | wc -l)" = 4 ]
result $? "times the team, all pairs and each" "$work/out"
gives 0 "attaching" -np 1 "$bench" attach --iters 9 --csv
[ "$(awk -F, '$1 == "attach" && $8 > 0' "$work/out" | wc -l)" = 3 ]
result $? "times three ways to attach" "$work/out"
gives 0 "tracing" -np 1 "$bench" trace --sizes 8,4K --csv
[ "$(awk -F, '$1 == "trace" && NF == 26 && $8 + 0 >= 0 && $7 == "ns"' "$work/out" | wc -l)" = 6 ]
result $? "times an event of a trace" "$work/out"
gives 0 "tracing puts of fresh data" -np 1 "$bench" trace --sizes 8,4K --fresh --csv
[ "$(awk -F, '$1 == "trace" && $7 == "%" && $8 + 0 >= 0' "$work/out" | wc -l)" = 2 ]
result $? "has the share of an event" "$work/out"
gives 2 "a trace of two ranks" -np 2 "$bench" trace
gives 2 "a place that is no etcd" -np 1 "$bench" attach --etcd file:/tmp
has "$work/err" "--etcd is 'file:/tmp'; allowed: etcd://" "is refused"
gives 0 "storage" -np 1 "$bench" storage --sizes 64K --iters 1 --csv
[ "$(awk -F, '$1 == "storage" && /(read|write) at random/ && $8 > 0 && NF == 26' "$work/out" | wc -l)" = 6 ]
result $? "storage reads and writes at each depth" "$work/out"
gives 0 "storage of a peer" -np 2 "$bench" storage --sizes 64K --iters 1 --csv
[ "$(awk -F, '$1 == "storage" && /file: (put|get) at random/ && $8 > 0 && $13 == "file" && NF == 26' "$work/out" | wc -l)" = 2 ]
result $? "puts into and gets from a peer's file" "$work/out"
gives 1 "objects without a store" -np 1 "$bench" objects
has "$work/err" "objects needs --object URL" "is refused"
if [ -x "${S3_TEST_PYTHON:-$top_builddir/python}/bin/moto_server" ] &&
    [ -e "$top_builddir/storage/s3/.libs/nixlrun_s3.so" ]; then
    # shellcheck disable=SC2016  # the inner shell's
    "$top_srcdir/test/storage/with-s3" moto sh -c '"$1" -np 1 "$2" objects --object "$OBJECT_URL" --iters 1 --csv' \
        objects "$nixlrun" "$bench" >"$work/out" 2>"$work/err"
    [ "$(awk -F, '$1 == "objects" && $8 > 0' "$work/out" | wc -l)" = 7 ]
    result $? "objects are put and got" "$work/out" "$work/err"
fi
LP_NUM_THREADS=1 gives 0 "alloc" -np 2 "$bench" alloc --sizes 4K,1M --iters 3 --csv
[ "$(awk -F, '$1 == "alloc" && /host: (allocate|close)/ && $8 > 0' "$work/out" | wc -l)" = 4 ]
result $? "times every kind of memory" "$work/out"
run --on-failure continue -np 5 "$bench" death
[ "$rc" = 137 ] && [ "$(grep -Ec '^death seen while (sleeping|spinning) .* [num]?s ' "$work/out")" = 2 ]
result $? "death of 4 ranks" "$work/out" "$work/err"

# tune: a table of a short run that the library takes; what it refuses
tunes() { # CODE PATTERN NAME ARG...
    code=$1 pattern=$2 name=$3
    shift 3
    "$bench" tune "$@" >"$work/out" 2>"$work/err"
    [ $? = "$code" ] && grep -Eq -e "$pattern" "$work/out" "$work/err"
    result $? "$name" "$work/out" "$work/err"
}
tunes 2 "^nixl_bench tune: --rounds is '0'" "tune refuses no rounds" --rounds 0 "$nixlrun"
tunes 2 "^nixl_bench tune: missing launch command" "tune wants a command" --rounds 1
tunes 2 "^nixl_bench tune: unknown option '--frob'" "tune has options of its own" --frob
tunes 1 "^nixl_bench tune: a job with cells_up_to=[0-9]+ failed" "tune hears of a failed job" \
    --rounds 1 "$nixlrun" -np 0
tunes 0 "^Usage: nixl_bench tune" "tune --help" --help
# Every job that it starts, each with one sample of a row.
printf '#!/bin/sh\nexec "%s" -np 2 "$@" --iters 1\n' "$nixlrun" >"$work/short"
chmod +x "$work/short"
tunes 0 "^cells_up_to: 32768 1.00, 2048 [0-9.]+," "tune measures every value" --rounds 1 \
    --output "$work/table" "$work/short"
[ "$(grep -Ec '^(# )?[a-z_]+(=[0-9]+|: no value is faster)' "$work/table")" -ge 8 ] &&
    grep -qx 'ranks 2' "$work/table"
result $? "tune writes a section" "$work/table"
grep -Eq '^# route same shm [1-9][0-9]* [1-9][0-9]*$' "$work/table" &&
    grep -Eq '^# route same tcp [1-9][0-9]* [1-9][0-9]*$' "$work/table"
result $? "tune measures routes" "$work/table"
NIXLRUN_COLL_TABLE_FILE=$work/table "$nixlrun" --explain --json >"$work/out" 2>"$work/err"
has "$work/out" '"transport": "shm".*"note": "measured by nixl_bench tune' "--explain shows what was measured"
echo flat_up_to=7 >>"$work/table"
NIXLRUN_COLL_TABLE_FILE=$work/table gives 0 "its file is taken" -np 2 "$bench" allreduce $small
echo flat_up_to=1 >>"$work/table"
NIXLRUN_COLL_TABLE_FILE=$work/table gives 1 "a bad line is not" -np 2 "$bench" allreduce $small
has "$work/err" "line [0-9]+ has 'flat_up_to=1'; allowed: flat_up_to=2 to" "is named"

# tune --storage: what reads and writes files of a directory, and nothing else without a command
mkdir "$work/files"
tunes 2 "^nixl_bench tune: --storage is '$work/none': No such file" "tune wants a directory" --storage "$work/none"
tunes 0 "^$work/files: by threads: in order [1-9][0-9]* and [1-9][0-9]* MB/s" "tune measures files" \
    --rounds 1 --storage "$work/files" --output "$work/storage"
[ "$(grep -Ec "^# storage (io_uring|threads)( [1-9][0-9]*){4} $work/files$" "$work/storage")" -ge 1 ] &&
    ! grep -q '^ranks' "$work/storage" && [ -z "$(ls -A "$work/files")" ]
result $? "for its file, and leaves no other" "$work/storage"
NIXLRUN_COLL_TABLE_FILE=$work/storage "$nixlrun" --info --json >"$work/out" 2>"$work/err"
has "$work/out" "\"directory\": \"$work/files\", \"by\": \"threads\", \"read_mb_s\": [1-9]" "--info shows them"
(
    ulimit -f 100000 # fewer than 256 MiB, enough for what ranks share
    exec "$bench" tune --rounds 1 --storage "$work/files" >"$work/out" 2>"$work/err"
)
[ $? = 1 ] && grep -q "^nixl_bench tune: .*$work/files/nixl_bench.tune.*ulimit -f" "$work/err" &&
    [ -z "$(ls -A "$work/files")" ]
result $? "tune says why a file cannot be written, and leaves none" "$work/err"

# A made-up job: a limit that helps, one that helped once, and others without effect.
cat >"$work/job" <<'END'
#!/bin/sh
ns=100
case ,$NIXLRUN_COLL_TABLE, in
*,reduce_piece=16384,*) ns=50 ;;
*,flat_up_to=2,*) mkdir "$0.lucky" 2>/dev/null && ns=50 ;;
esac
case " $* " in *" --fresh "*) ;; *) exit 1 ;; esac
case ${NIXLRUN_TRANSPORTS:-} in
self,shm | self,ucx | self,ofi) exit 1 ;;
self,tcp) printf '%s\n' "put_notify,put_notify one way,2,8,0,0,ns,5000" "put_notify,put_notify one way,2,16777216,0,0,ns,16777216"; exit 0 ;;
esac
echo "allreduce,made up any buffers,4,8,0,0,ns,$ns"
END
chmod +x "$work/job"
tunes 0 "^reduce_piece: 16384 once more 0.50, taken" "tune takes what helps twice" --rounds 1 \
    --output "$work/made_up" "$work/job"
has "$work/err" "^flat_up_to: 2 once more 1.00, not taken" "and not what helped once"
has "$work/made_up" '^# route other tcp 5000 1000$' "routes to another host are told by what has no shared memory"
has "$work/err" '^route by shm: not measured: no job runs by it alone$' "and that others were not measured"
[ "$(grep -v '^#' "$work/made_up" | tr '\n' ' ')" = 'ranks 4 reduce_piece=16384 ' ]
result $? "its file has one limit" "$work/made_up"
finish
