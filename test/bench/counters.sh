#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What do the counters cost, which are always on? The rows of nixl_bench by the library as it is, beside those
# by one that counts nothing, in turns:
#
#   counters.sh COUNTED UNCOUNTED [TURNS [TEST...]]
#
# Both are build folders; the second is configured with CPPFLAGS=-DNXR_UNCOUNTED. The goal is a ratio of 1.01:
# exits with 1 if a row is slower by more than 1 % and beyond noise, with 2 if it cannot tell.
# $COUNTERS_BUDGET is the time of a row (300ms), $COUNTERS_KEEP a folder for the results.
set -eu

if [ $# -lt 2 ]; then
    sed -n '3,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
counted=$1 uncounted=$2 turns=${3:-5}
shift $(($# < 3 ? $# : 3))
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(put put_flush get put_nb get_nb put_strided copy_read put_notify notify put_signal
    signal fetch_add atomic xfer channel pair barrier broadcast reduce allreduce allgather alltoall)
case $turns in '' | *[!0-9]* | 0 | 1 | 2) echo "counters.sh: TURNS is '$turns'; allowed: a number from 3" >&2; exit 2 ;; esac
for folder in "$counted" "$uncounted"; do
    if [ ! -x "$folder/test/bench/nixl_bench" ] || [ ! -x "$folder/launcher/nixlrun" ]; then
        echo "counters.sh: there is no nixl_bench in '$folder'; build it" >&2
        exit 2
    fi
done
if grep -q NXR_UNCOUNTED "$counted/Makefile" || ! grep -q NXR_UNCOUNTED "$uncounted/Makefile"; then
    echo "counters.sh: only '$uncounted' is to be configured with CPPFLAGS=-DNXR_UNCOUNTED" >&2
    exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
keep=${COUNTERS_KEEP:-$work}
mkdir -p "$keep"
: >"$keep/counted.json"
: >"$keep/uncounted.json"

# measure FOLDER NAME
measure() {
    "$1/launcher/nixlrun" -np 2 "$1/test/bench/nixl_bench" "${tests[@]}" --budget "${COUNTERS_BUDGET:-300ms}" --json \
        </dev/null >>"$keep/$2.json"
}

for ((turn = 1; turn <= turns; turn++)); do
    echo "counters.sh: turn $turn of $turns" >&2
    if ((turn % 2)); then # each is the first as often as the other
        measure "$counted" counted
        measure "$uncounted" uncounted
    else
        measure "$uncounted" uncounted
        measure "$counted" counted
    fi
done
"$counted/test/bench/nixl_bench" compare --threshold 1 --all --check "$keep/uncounted.json" "$keep/counted.json"
