#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two jobs meet by one attach, and all ranks of both reach each other. Usage: test_jobs.sh; finds the trees by
# top_srcdir and top_builddir. Prints TAP.
# needs: test/attach/attach_jobs
set -u
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
. "${top_srcdir:-$(dirname "$0")/../..}/test/attach/lib.sh"
nixlrun=$build/launcher/nixlrun
jobs=$build/test/attach/attach_jobs
NIXLRUN_TOKEN=the_token_of_this_test
export NIXLRUN_TOKEN
mkdir "$scratch/names"
any=tcp://127.0.0.1:0
by= # words before the job that attaches

# at: where the job that has published is
at() { line first '^\(\[[^]]*\] \)*published' && sed -n 's/^\(\[[^]]*\] \)*at //p' "$scratch/first" | head -1; }

# meets N WHERE WHAT M [OPTION...]: a job of N ranks publishes, one of M attaches; nothing is printed if both pass.
# The options are those of the first.
meets() {
    n=$1 where=$2 what=$3 m=$4
    shift 4
    # shellcheck disable=SC2086  # several words
    begin first $by_first "$nixlrun" -np "$n" "$@" "$jobs" publish "$what" "$where" jobs
    # shellcheck disable=SC2086
    begin second $by "$nixlrun" -np "$m" "$jobs" attach "$what" "$(at)" jobs
    both_passed "$n" "$m"
}
both_passed() {
    first=$(ended first) second=$(ended second)
    if [ "$first $second" != "${expected:-0} 0" ]; then
        echo "ended with $first and $second:"
        cat "$scratch/first" "$scratch/second"
    fi
}
by_first=

for where in "file:$scratch/names" "$any"; do
    verdict "$(meets 4 "$where" there 3)" "every call of 3 ranks to each of 4 at ${where%%:*}, by one attach"
    verdict "$(meets 4 "$where" back 3)" "every call of 4 ranks to each of 3 who have not spoken to them"
done
verdict "$(meets 5 "$any" both 4)" "both sides ask for all pairs at once"
verdict "$(meets 1 "$any" there 4)" "4 ranks share one attach to a process"

by="env NIXLRUN_HOSTID=elsewhere" # whose processes share no memory
for network in tcp ofi; do
    if [ ! -e "$build/transports/$network/.libs/nixlrun_$network.so" ]; then
        echo "ok $((number += 1)) - every call by $network # SKIP it is not built"
        continue
    fi
    ATTACH_OVER=$network NIXLRUN_TRANSPORTS=self,shm,$network
    export ATTACH_OVER NIXLRUN_TRANSPORTS
    verdict "$(meets 3 "$any" there 2)" "every call of 2 ranks to each of 3 by $network"
    verdict "$(meets 3 "$any" back 2)" "every call of 3 ranks to each of 2 by $network, who have not spoken to them"
    verdict "$(meets 3 "$any" both 3)" "both sides ask for all pairs at once by $network"
done
unset ATTACH_OVER NIXLRUN_TRANSPORTS
by=

expected=137
verdict "$(meets 3 "$any" contact 1 --on-failure continue)" "the contact dies: those that it made known make others known"
verdict "$(meets 3 "$any" asked 1 --on-failure continue
    grep -q 'rank 2 is lost to the rank that was asked' "$scratch/second" || cat "$scratch/second")" \
    "a rank that has died is not made known"
expected=0
verdict "$(meets 3 "$any" return 1 --on-failure restart=3)" "a rank that comes back is made known again, by another number"

verdict "$(meets 2 "$any" refuse 2)" "questions are refused"
for why in 'the job has ranks 0 to 1' 'allowed: a rank of that job, 0 or more' 'that is this job' \
    'makes only ranks of its own job known' 'rank_p is NULL' 'is attached to no living process of that job'; do
    verdict "$(grep -q -e "$why" "$scratch/second" || cat "$scratch/second")" "the detail says: $why"
done
echo "1..$number"
