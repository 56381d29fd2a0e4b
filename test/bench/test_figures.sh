#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nixl_bench: patterns of traffic, percentiles of single operations, comparing results and drawing
# them. Figures of this machine are not looked at; results that are compared are made up.
# shellcheck disable=SC1091 # lib.sh is checked by itself
. "$top_srcdir/test/launcher/lib.sh"
bench=$top_builddir/test/bench/nixl_bench
limit=120
NIXLRUN_RESOLVE_TIMEOUT=60s NIXLRUN_FINALIZE_TIMEOUT=60s
export NIXLRUN_RESOLVE_TIMEOUT NIXLRUN_FINALIZE_TIMEOUT
python=/usr/bin/python3

# says CODE PATTERN NAME ARG...: nixl_bench without a launcher
says() {
    code=$1 pattern=$2 name=$3
    shift 3
    "$bench" "$@" >"$work/out" 2>"$work/err" </dev/null
    [ $? = "$code" ] && { [ -z "$pattern" ] || grep -Eq -e "$pattern" "$work/out" "$work/err"; }
    result $? "$name" "$work/out" "$work/err"
}

# Patterns: each has rows, whose bytes the bench itself has checked.
small="--sizes 8,5000 --iters 3"
# shellcheck disable=SC2086
gives 0 "every pattern of 5 ranks" -np 5 --oversubscribe "$bench" pattern $small --csv --threads 2 \
    --pattern pair,all_pairs,many_to_one,one_to_many,ring,bisection,tp
[ "$(awk -F, '$1 == "pattern" && /2 threads/' "$work/out" | wc -l)" = 14 ]
result $? "has two rows of each" "$work/out"
printf '0 64K 1M\n8;0,0\n0 1 0\n' >"$work/matrix"
gives 0 "a matrix with data that changes" -np 3 --oversubscribe "$bench" pattern --fresh --iters 3 \
    --pattern "$work/matrix" --json
"$python" - "$work/out" <<'END'
import json, sys
row, = json.load(open(sys.argv[1]))["rows"]
has = [[cell > 0 for cell in line] for line in row["matrix_gb_per_s"]]
assert has == [[False, True, True], [True, False, False], [False, True, False]], has
END
result $? "has the bandwidth of the pairs that it names" "$work/out"
# shellcheck disable=SC2086
gives 0 "a pattern over a network" -np 3 --oversubscribe "$bench" pattern $small --tcp --csv --pattern all_pairs
run -np 2 "$bench" pattern --pattern "$work/matrix"
[ "$rc" = 1 ] && grep -q "'$work/matrix' has '0' as its number 5; allowed: 2 rows of 2" "$work/err"
result $? "a matrix of other ranks is refused" "$work/err"
run -np 4 --oversubscribe "$bench" pattern --pattern "$work/matrix"
[ "$rc" = 1 ] && grep -q "has 9 numbers; allowed: 4 rows of 4" "$work/err"
result $? "and one that is too short" "$work/err"
gives 2 "an unknown pattern" -np 2 "$bench" pattern --pattern "$work/nosuch"
has "$work/err" "^nixl_bench: --pattern has '.*nosuch'; allowed: pair, all_pairs," "is refused"
gives 2 "no threads" -np 2 "$bench" pattern --threads 0
has "$work/err" "^nixl_bench: --threads is '0'; allowed: a number from 1" "are refused"
gives 2 "too many samples of batches" -np 2 "$bench" put --iters 5000
has "$work/err" "^nixl_bench: --iters is '5000'; .* with --single to 200000" "are refused"

gives 0 "operations one by one" -np 2 "$bench" notify --sizes 8 --single --iters 20000
has "$work/out" "^ +p90 .*, p99.9 .*, p99.99 .*, max .* of 20000" "have percentiles"

# Results that are made up: one row each of what can happen.
"$python" - "$work/old.json" "$work/new.json" <<'END'
import json, sys
def row(what, median, limit, flag=200.0, spread=0.01, bytes=8):
    return {"test": "put", "what": what, "ranks": 2, "bytes": bytes, "has_bytes": True, "dst_offset": 0,
            "src_offset": 0, "unit": "ns", "median": median, "p99": median * 2, "min": median / 2,
            "gb_per_s": bytes / median, "median_low": median * (1 - spread),
            "median_high": median * (1 + spread), "limit_name": "memcpy", "limit": limit, "flag_ns": flag}
old = [row("lost", 100, 50), row("won", 100, 50), row("kept", 100, 50), row("noisy", 100, 50, spread=0.5),
       row("moved", 100, 50), row("elsewhere", 100, 50), row("gone", 1, 1)]
new = [row("lost", 150, 50), row("won", 60, 50), row("kept", 103, 50), row("noisy", 150, 50, spread=0.5),
       row("moved", 150, 75), row("elsewhere", 150, 50, flag=60.0), row("come", 1, 1)]
for path, rows in zip(sys.argv[1:], (old, new)):
    json.dump({"machine": {"processor": path[-8:]}, "rows": rows}, open(path, "w"))
END
says 0 "^lost .* 1.50 +1.00  slower" "a slower row" compare "$work/old.json" "$work/new.json"
has "$work/out" "^won .* 0.60 +1.00  faster" "a faster one"
has "$work/out" "^moved .* 1.50 +1.50  machine" "one whose limit has moved, too"
has "$work/out" "^elsewhere .*  machine" "one of other cores"
has "$work/out" "^6 rows: 1 slower, 1 faster, 2 as the machine .* 2 the same" "and how many of each"
has "$work/out" "^The machines differ: processor old.json and new.json" "what differs of the machines"
has "$work/out" "^only in '.*old.json': 1, only in '.*new.json': 1" "and rows of one alone"
! grep -q '^kept' "$work/out"
result $? "leaves out what is the same" "$work/out"
says 1 "slower" "--check fails for a slower row" compare --check "$work/old.json" "$work/new.json"
says 0 "0 slower" "and not for the same" compare --check "$work/old.json" "$work/old.json"
says 0 "^kept .* same" "--all shows all" compare --all --threshold 60 "$work/old.json" "$work/new.json"
says 2 "^nixl_bench: '.*nosuch': No such file" "a file that is not there" compare "$work/nosuch" "$work/new.json"
says 2 "^nixl_bench: '.*out' is no JSON" "a file that is no JSON" compare "$work/out" "$work/new.json"
echo '{"rows": [1]}' >"$work/other.json"
says 2 "^nixl_bench: '.*other.json' is no result of nixl_bench" "another JSON" compare "$work/new.json" \
    "$work/other.json"
says 2 "^nixl_bench: --threshold is 'x'; allowed" "a bad threshold" compare --threshold x "$work/old.json" \
    "$work/new.json"
says 2 "see .nixl_bench compare --help" "one file alone" compare "$work/old.json"
says 0 "^usage: nixl_bench compare" "compare --help" compare --help

# Pictures; without matplotlib only the refusal can be seen.
says 2 "^nixl_bench: the picture is 'x.pdf'; allowed: .* .svg, .png, .html" "a kind of picture that it has not" \
    plot "$work/old.json" x.pdf
gives 2 "--plot with that kind" -np 2 "$bench" put --plot x.pdf
has "$work/err" "^nixl_bench: --plot is 'x.pdf'; allowed: " "says so"
if "$python" -c 'import matplotlib' 2>"$work/err"; then
    for kind in svg png html; do
        says 0 "" "a picture .$kind" plot --title 'a <title>' "$work/old.json" "$work/new.json" "$work/picture.$kind"
    done
    [ "$(head -c 4 "$work/picture.png" | tail -c 3)" = PNG ]
    result $? ".png is PNG"
    has "$work/picture.svg" "put: bandwidth" ".svg has its words"
    has "$work/picture.html" "<title>a &lt;title&gt;</title>" ".html has them safely"
    gives 0 "--plot of a run" -np 2 --oversubscribe "$bench" pattern put $small --plot "$work/run.svg"
    has "$work/run.svg" "GB/s of each pair" "has the matrix"
    has "$work/out" "^ring, 1 thread " "and the table"
    run -np 2 "$bench" put $small --plot "$work/nosuch/run.svg"
    [ "$rc" = 1 ] && grep -q "^nixl_bench: '$work/nosuch/run.svg': No such file" "$work/err"
    result $? "a folder that is not there is named" "$work/err"
else
    result 0 "# SKIP pictures need python3-matplotlib"
fi
finish
