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
gives 0 "one pair of two" -np 4 --oversubscribe "$bench" pattern --sizes 64K --duration 20ms \
    --pattern pair,bisection,tp --pairs 1 --json
"$python" - "$work/out" <<'END'
import json, sys
pairs = [[(a, b) for a, line in enumerate(row["matrix_gb_per_s"]) for b, cell in enumerate(line) if cell > 0]
         for row in json.load(open(sys.argv[1]))["rows"]]
assert pairs == [[(0, 1)], [(0, 2), (2, 0)], [(0, 2)]], pairs
END
result $? "sends alone" "$work/out"
run -np 4 --oversubscribe "$bench" pattern --pattern tp --pairs 3
[ "$rc" = 1 ] && grep -q "nixl_bench: --pairs is 3; allowed: 1 to 2, for 4 ranks" "$work/err"
result $? "more pairs than there are are refused" "$work/err"
gives 2 "pairs of a ring" -np 4 --oversubscribe "$bench" pattern --pairs 1
has "$work/err" "^nixl_bench: --pairs needs --pattern with pair, bisection or tp" "are refused"
gives 2 "an unknown pattern" -np 2 "$bench" pattern --pattern "$work/nosuch"
has "$work/err" "^nixl_bench: --pattern has '.*nosuch'; allowed: pair, all_pairs," "is refused"
gives 2 "no threads" -np 2 "$bench" pattern --threads 0
has "$work/err" "^nixl_bench: --threads is '0'; allowed: a number from 1" "are refused"
gives 2 "too many samples of batches" -np 2 "$bench" put --iters 5000
has "$work/err" "^nixl_bench: --iters is '5000'; .* with --single to 200000" "are refused"

gives 0 "operations one by one" -np 2 "$bench" notify --sizes 8 --single --iters 20000
has "$work/out" "^ +p90 .*, p99.9 .*, p99.99 .*, max .* of 20000" "have percentiles"

# Results that are made up: three runs of each, with one row each of what can happen.
"$python" - "$work/old.json" "$work/new.json" "$work/once.json" <<'END'
import json, sys
def row(what, median, limit, flag=200.0, spread=0.0, bytes=8):
    return {"test": "put", "what": what, "ranks": 2, "bytes": bytes, "has_bytes": True, "dst_offset": 0,
            "src_offset": 0, "unit": "ns", "median": median * (1 + spread), "p99": median * 2, "min": median / 2,
            "gb_per_s": bytes / median, "median_low": median * 0.99, "median_high": median * 1.01,
            "limit_name": "memcpy", "limit": limit, "flag_ns": flag}
def rows_of(n, more, is_new): # of run n, whose values differ so much
    if is_new:
        return [row("lost", 150, 50, spread=more), row("won", 60, 50, spread=more), row("kept", 103, 50, spread=more),
                row("noisy", 150, 50, spread=40 * more), row("moved", 150, 75, spread=more),
                row("elsewhere", 150, 50, flag=60.0, spread=more), row("busy", 100 + 40 * n, 40 + 16 * n), row("come", 1, 1)]
    return [row(what, 100, 50, spread=more) for what in ("lost", "won", "kept", "moved", "elsewhere")] + [
        row("noisy", 100, 50, spread=40 * more), row("busy", 130 + 52 * n, 65 + 26 * n), row("gone", 1, 1)]
for is_new in (False, True):
    for n, more in enumerate((-0.01, 0.01, 0.0)):
        run = {"machine": {"processor": "new" if is_new else "old"}, "date": f"2026-01-0{2 * n + is_new + 1}T00:00:00Z",
               "rows": rows_of(n, more, is_new)}
        print(json.dumps(run, indent=n), file=open(sys.argv[1 + is_new], "a"))
json.dump(run, open(sys.argv[3], "w"))
END
says 0 "^lost .* 1.50 +[0-9]+% +1.00  slower" "a slower row" compare --all "$work/old.json" "$work/new.json"
has "$work/out" "^won .* 0.60 +[0-9]+% +1.00  faster" "a faster one"
has "$work/out" "^moved .* 1.50 +[0-9]+% +1.50  machine" "one whose limit has moved, too"
has "$work/out" "^elsewhere .*  machine" "one of other cores"
has "$work/out" "^noisy .* 1.50 +[0-9]+% +1.00  same" "one whose runs differ as much among each other"
has "$work/out" "^busy .* 0.77 +[0-9]+% +0.62  machine" "one that has become faster, but less than its limit"
has "$work/out" "^7 rows: 1 slower, 1 faster, 3 as the machine .* 2 the same" "and how many of each"
has "$work/out" "^Half of the rows would show a change of [0-9]+%" "what a change must be to be seen"
has "$work/out" "^The machines differ: processor old and new" "what differs of the machines"
has "$work/out" "^only in '.*old.json': 1, only in '.*new.json': 1" "and rows of one alone"
! grep -q 'in turns' "$work/out"
result $? "has nothing to say of runs in turns" "$work/out"
says 0 "^lost" "a comparison without --all" compare "$work/old.json" "$work/new.json"
! grep -q '^kept' "$work/out"
result $? "leaves out what is the same" "$work/out"
says 1 "slower" "--check fails for a slower row" compare --check "$work/old.json" "$work/new.json"
says 0 "0 slower" "and not for the same" compare --check "$work/old.json" "$work/old.json"
says 0 "^kept .* same" "--all shows all" compare --all --threshold 60 "$work/old.json" "$work/new.json"
says 0 "^lost .* 1 run$" "one run has no verdict" compare "$work/old.json" "$work/once.json"
has "$work/out" "^No verdict: 3 runs and 1 run; .* by 3 or more of each" "and is told how many it takes"
says 2 "^nixl_bench: --check needs 3 runs or more of each" "--check of one run" compare --check "$work/old.json" \
    "$work/once.json"
sed 's/2026/2027/' "$work/new.json" >"$work/later.json"
says 0 "^The runs were not made in turns" "runs that were not made in turns" compare "$work/old.json" "$work/later.json"

# Noise of several shapes, of equal programs and of one that takes 1.2 times as long: 100 comparisons of each.
"$python" - "$top_srcdir/test/bench" >"$work/out" 2>"$work/err" <<'END'
import math, random, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import noise
random.seed(21)
even = lambda s: random.gauss(0, s)
tailed = lambda s: random.gauss(0, s) + (random.random() < 0.15) * random.expovariate(3)
twofold = lambda s: random.gauss(0, s) + (random.random() < 0.2) * 0.26
def found_in(n_runs, sigma, change, shapes):
    """Of 10 rows of these shapes in turn, those with a difference."""
    rows = []
    for number in range(10):
        draw = lambda: math.exp(shapes[number % len(shapes)](sigma))
        old, new = [draw() for _ in range(n_runs)], [change * draw() for _ in range(n_runs)]
        rows.append(noise.Difference(old, new, []))
    noise.raise_variances(rows)
    highest = noise.highest_chance(rows)
    return sum(row.chance() <= highest for row in rows)
assert abs(noise.chance_of(2.7764451, 4) - 0.05) < 1e-6 and abs(noise.least_t(0.001, 8) - 5.0413) < 1e-3
for n_runs in (3, 5):
    for sigma in (0.01, 0.1):
        wrong = sum(found_in(n_runs, sigma, 1.0, (even, tailed, twofold)) > 0 for _ in range(100))
        print(f"# {n_runs} runs, noise {sigma:.0%}: {wrong} of 100 comparisons of equal programs find a change")
        assert wrong <= 5, wrong
    found = sum(found_in(n_runs, 0.02, 1.2, (even,)) for _ in range(100))
    print(f"# {n_runs} runs, noise 2%: {found} of 1000 rows that take 1.2 times as long are found")
    assert found >= 950, found
END
result $? "95 of 100 comparisons of equal programs find no change, and one of 1.2 is found" "$work/out" "$work/err"
cat "$work/out"
says 2 "^nixl_bench: '.*nosuch': No such file" "a file that is not there" compare "$work/nosuch" "$work/new.json"
echo "put 8 bytes" >"$work/text"
: >"$work/empty"
says 2 "^nixl_bench: '.*empty' is no result of nixl_bench" "an empty file" compare "$work/empty" "$work/new.json"
says 2 "^nixl_bench: '.*text' is no JSON" "a file that is no JSON" compare "$work/text" "$work/new.json"
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
