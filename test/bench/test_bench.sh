#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nixl_bench: what it refuses and how, and that every test gives rows in every format. Its figures
# are not looked at: the machine is busy with other tests.
# shellcheck disable=SC1091 # lib.sh is checked by itself
. "$top_srcdir/test/launcher/lib.sh"
bench=$top_builddir/test/bench/nixl_bench
limit=60

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

refuses "there is no test 'nosuch'" "an unknown test" nosuch
refuses "no test named" "no test"
refuses "there is no option '--frob'" "an unknown option" put --frob
refuses "option '--sizes' wants a value" "an option without its value" put --sizes
refuses "--sizes has '8x'" "a bad size" put --sizes 4K,8x
refuses "--sizes has '9G'" "a size that is too large" put --sizes 9G
refuses "--alignment has '4096'" "a bad alignment" put --alignment 4096
refuses "--alignment has '1:x'" "a bad source alignment" put --alignment 1:x
refuses "--budget is '0'" "no budget" put --budget 0
refuses "--iters is '-1'" "a negative number of samples" put --iters -1
refuses "--window is '5000'" "too large a window" put_nb --window 5000
refuses "--seconds is 'x'" "bad seconds" idle --seconds x
refuses "memory cannot run together" "memory with another test" memory put
gives 2 "put with 3 ranks" -np 3 "$bench" put
has "$work/err" "^nixl_bench: put runs with 2 ranks, this job has 3" "says how many it wants"
gives 0 "--help" -np 1 "$bench" --help
has "$work/out" "^  put_notify " "lists the tests"

small="--sizes 8,4K --iters 3"
# shellcheck disable=SC2086 # several words
for test in put put_flush get put_nb flush copy_read put_notify notify barrier passive sleep; do
    gives 0 "$test" -np 2 "$bench" "$test" $small --csv
    [ "$(awk -F, 'NR > 1 && $1 == "'$test'" && $8 > 0 && NF == 18' "$work/out" | wc -l)" -ge 1 ]
    result $? "$test gives rows" "$work/out"
done
# shellcheck disable=SC2086
gives 0 "registered memory" -np 2 "$bench" put get $small --registered --csv
has "$work/out" "^put,put by (process_vm|bounce)" "says which way it went"
# shellcheck disable=SC2086
gives 0 "limits" -np 2 "$bench" limits $small
has "$work/out" "^one way: flag +0 .* ns" "gives the way of a flag"
gives 0 "rate with 4 senders" -np 5 "$bench" rate --budget 50ms
has "$work/out" "none lost" "loses nothing"
gives 0 "idle with 3 ranks" -np 3 "$bench" idle --seconds 0.3 --json
has "$work/out" '"test": "idle".*"unit": "%"' "gives a share of the CPU"
gives 0 "memory of 4 ranks" -np 4 "$bench" memory
has "$work/out" "^over a bare client after all talked .* MiB" "gives what talking costs"
run --on-failure continue -np 5 "$bench" death
[ "$rc" = 137 ] && [ "$(grep -Ec '^death seen while (sleeping|spinning) .*us' "$work/out")" = 2 ]
result $? "death of 4 ranks" "$work/out" "$work/err"
finish
