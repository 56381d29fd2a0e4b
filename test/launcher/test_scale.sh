#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Many ranks: 128 and 256 start, wire up, write and end; many starts in a row never hang.
# needs: test/launcher/pmix_data test/launcher/pmix_events
# shellcheck disable=SC1091,SC2016 # $PMIX_RANK is for the ranks' shells
. "$top_srcdir/test/launcher/lib.sh"

for n in 128 256; do
    gives 0 "$n ranks: init, fence, finalize" -np "$n" "$clients/pmix_events" quick
    gives 0 "$n ranks write" -np "$n" sh -c 'echo "$PMIX_RANK"'
    [ "$(sort -n "$work/out" | uniq | wc -l)" = "$n" ]
    result $? "a line each" "$work/err"
done
gives 0 "128 ranks exchange data" -np 128 "$clients/pmix_data" fence
timeout -k 5 "$limit" prlimit --nofile=256: "$nixlrun" --oversubscribe -np 128 sh -c 'ulimit -S -n' >"$work/out" 2>"$work/err"
result $? "128 ranks with a soft limit of 256 descriptors" "$work/err"
[ "$(sort -u "$work/out")" = 256 ]
result $? "which the ranks keep" "$work/out"

rc=0
i=0
while [ "$i" -lt 50 ] && [ "$rc" = 0 ]; do
    run -np 2 "$clients/pmix_events" quick
    i=$((i + 1))
done
result "$rc" "50 starts in a row (stopped at $i)" "$work/err"

finish
