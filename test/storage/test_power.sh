#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is durable outlives a failure of power, at any point, whatever part of the rest has reached the
# medium: power_record.c records the calls of a run, power.py makes what failures may leave, and looks for
# what was durable. Runs whose syncs are forgotten show that it would be missed. Usage: test_power.sh;
# finds the trees by top_srcdir and top_builddir. Prints TAP.
# needs: examples/kv_store test/storage/power_puts test/storage/power_record.la
set -u
src=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${top_builddir:-$PWD}
. "$src/test/tap.sh"
command -v python3 >/dev/null || { echo "1..0 # SKIP there is no python3"; exit 0; }
nixlrun=$build/launcher/nixlrun
power=$src/test/storage/power.py
seed=${POWER_SEED:-$$}
echo "# POWER_SEED=$seed"

# record NAME LIES NP PROGRAM ARGS...: run it; the log is $scratch/NAME.log, its files are in $scratch/NAME
record() {
    name=$1 lies=$2 np=$3
    shift 3
    mkdir -p "$scratch/$name"
    env ${lies:+POWER_LIES=$lies} POWER_DIR="$scratch/$name" POWER_LOG="$scratch/$name.log" NIXLRUN_STORAGE=threads \
        LD_PRELOAD="$build/test/storage/.libs/power_record.so" \
        timeout 100 "$nixlrun" -np "$np" "$@" >"$scratch/out" 2>&1 </dev/null || { echo "$* fails:"; cat "$scratch/out"; }
}

# holds KIND NAME POINTS ARGS...: nothing is lost
holds() {
    kind=$1 name=$2 points=$3
    shift 3
    timeout 250 python3 "$power" "$kind" "$scratch/$name.log" "$points" "$seed" "$@" >"$scratch/lost" 2>&1 ||
        { echo "POWER_SEED=$seed"; tail -n 20 "$scratch/lost"; }
}

# misses WHAT KIND NAME POINTS ARGS...: something is lost
misses() {
    what=$1
    shift
    holds "$@" >/dev/null
    grep -q ', [1-9][0-9]* have lost something' "$scratch/lost" || { echo "nothing is lost $what:"; cat "$scratch/lost"; }
}

verdict "$(record store '' 1 "$build/examples/kv_store" "$scratch/store/file"
    holds file store 12 -- "$nixlrun" -np 1 "$build/examples/kv_store")" \
    "kv_store finds each durable block, and no torn one"
verdict "$(record lying 1 1 "$build/examples/kv_store" "$scratch/lying/file"
    misses 'without fdatasync' file lying 4 -- "$nixlrun" -np 1 "$build/examples/kv_store")" \
    "blocks are lost if the file is not synced, and that is found"
verdict "$(record nameless 2 1 "$build/examples/kv_store" "$scratch/nameless/file"
    misses 'without fsync' file nameless 4 -- "$nixlrun" -np 1 "$build/examples/kv_store")" \
    "the file is lost if its directory is not synced, and that is found"
verdict "$(record files '' 2 "$build/test/storage/power_puts" "$scratch/files"
    holds names files 200 "$scratch/files")" \
    "files of a directory: each durable one is there, whole, also when it is being replaced"
verdict "$(record made '' 1 "$build/test/storage/power_puts" "$scratch/made/in" create
    holds names made 200 "$scratch/made" in)" \
    "the same if the directory was made"
mkdir "$scratch/there"
POWER_DIR="$scratch/there" POWER_LOG="$scratch/there.log" \
    LD_PRELOAD="$build/test/storage/.libs/power_record.so" mkdir "$scratch/there/in"
verdict "$(record there '' 1 "$build/test/storage/power_puts" "$scratch/there/in" create
    holds names there 200 "$scratch/there" in)" \
    "and if another process made it, and did not sync it"
verdict "$(record old '' 1 "$src/test/storage/old-kernel" "$build/test/storage/power_puts" "$scratch/old"
    holds names old 200 "$scratch/old")" \
    "the same on old kernels and file systems"
verdict "$(record lies1 1 1 "$build/test/storage/power_puts" "$scratch/lies1"
    misses 'without fdatasync' names lies1 50 "$scratch/lies1")" \
    "files are torn if they are not synced, and that is found"
verdict "$(record lies2 2 1 "$build/test/storage/power_puts" "$scratch/lies2"
    misses 'without fsync' names lies2 50 "$scratch/lies2")" \
    "files are lost if their directories are not synced, and that is found"
echo "1..$number"
