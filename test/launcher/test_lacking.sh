#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nixlrun without memory or descriptors: its first request for either fails, or its second ... Each time
# the job runs, or nixlrun ends by itself, says what it lacks, and leaves nothing.
# shellcheck disable=SC1091,SC2154 # $rc is of lib.sh
. "$top_srcdir/test/launcher/lib.sh"
lacking=$top_builddir/test/launcher/.libs/lacking.so
limit=30
most=400 # requests
words='memory|no-mem|too many|no space|guardian process has died'

k=0
while [ "$k" -lt "$most" ]; do
    k=$((k + 1))
    rm -f "$work/said"
    LD_PRELOAD=$lacking LACKING=$k LACKING_SAID=$work/said run -np 2 "$top_builddir/test/mp/hello" 2
    [ -e "$work/said" ] || break
    case $rc in
    0) continue ;;
    1) grep -Eiq "$words" "$work/err" "$work/out" && continue ;;
    esac
    echo "exit code $rc" >>"$work/err"
    result 1 "without request $k" "$work/err" "$work/out"
done
[ "$k" -gt 20 ] && [ "$k" -lt "$most" ] && [ "$rc" = 0 ]
result $? "the job has run once $k requests were not enough to fail" "$work/err"
finish
