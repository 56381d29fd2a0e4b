#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The examples as a user runs them. Prints TAP.
set -eu
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
nixlrun=$build/launcher/nixlrun
kv=$build/examples/kv_transfer
small='--requests 3 --prompt-tokens 100 --layers 3'
# For a machine that is busy, or stops for a moment.
NIXLRUN_RESOLVE_TIMEOUT=60s NIXLRUN_FINALIZE_TIMEOUT=60s
export NIXLRUN_RESOLVE_TIMEOUT NIXLRUN_FINALIZE_TIMEOUT
# Leaks of libraries that are unloaded are known by who called them, as run-mp has it.
ASAN_OPTIONS=detect_leaks=1:fast_unwind_on_malloc=0
export ASAN_OPTIONS

# run CODE COMMAND...: output to $scratch/out and err; says if the exit code is another one.
run() {
    want=$1
    shift
    got=0
    timeout 300 "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || got=$?
    [ "$got" = "$want" ] || { echo "$*: exit code $got, not $want"; tail -n 5 "$scratch/err"; }
}

# verified BLOCKS: the row of the sums has so many verified blocks and no wrong one.
verified() {
    awk -v want="$1" '$1 == "all" && $(NF - 1) == want && $NF == 0 { found = 1 }
        END { if (!found) { print "the table has no row \"all\" with " want " blocks" } }' \
        "$scratch/out"
}

# one_line PATTERN: nixlrun may add its own lines; the program has said one, and it fits.
one_line() {
    [ "$(grep -c '^kv_transfer: ' "$scratch/err")" = 1 ] || cat "$scratch/err"
    grep -qE "^kv_transfer: $1" "$scratch/err" || echo "not found: $1"
}

echo 1..25

verdict "$(run 0 "$nixlrun" -np 3 "$build/examples/hello"
    host=$(hostname)
    for rank in 0 1 2; do
        echo "rank $rank of 3 on $host"
        for peer in 0 1 2; do
            [ "$rank" = "$peer" ] && echo "rank $rank sees rank $peer: myself" ||
                echo "rank $rank sees rank $peer: same host"
        done
    done | sort >"$scratch/want"
    sort "$scratch/out" | diff "$scratch/want" -)" "hello: every rank sees every rank"

for np in 1 4; do
    verdict "$(run 0 "$nixlrun" -np $np "$build/examples/ring"
        for round in 1 2 3; do
            echo "round $round: the token is $((round * np))"
        done | diff - "$scratch/out")" "ring: the token counts $np ranks"
done

verdict "$(run 0 "$nixlrun" -np 4 "$build/examples/allreduce"
    echo "46 numbers, mean 14.457, largest 48" | diff - "$scratch/out")" \
    "allreduce: four ranks find mean and largest"

verdict "$(for example in channel pair paged_kv; do
    run 2 "$build/examples/$example"
    grep -q "^$example: 1 rank is too few; start it as nixlrun -np [234] $example\$" "$scratch/err" || cat "$scratch/err"
done)" "an example that needs two ranks says so when it is started alone"

verdict "$(run 0 "$nixlrun" -np 4 "$build/examples/channel"
    for rank in 1 2 3; do
        grep "^from rank $rank:" "$scratch/out" >"$scratch/some"
        for item in 0 1 2 3 4; do
            echo "from rank $rank: item $item of rank $rank"
        done | diff - "$scratch/some"
    done)" "channel: items of every rank, in order"

verdict "$(run 0 "$nixlrun" -np 3 "$build/examples/pair"
    for rank in 1 2; do
        echo "rank $rank got 4096 bytes of rank 0: the page of rank $rank"
        echo "rank $rank has read its page"
        echo "rank $rank tries again: refused"
    done | sort >"$scratch/want"
    sort "$scratch/out" | diff "$scratch/want" -)" "pair: each rank reads its page, once"

verdict "$(run 0 "$nixlrun" -np 4 "$build/examples/paged_kv"
    for rank in 1 3; do
        for request in 0 1 2 3; do
            echo "rank $rank: request $request: 192 pages, 0 wrong"
        done
    done | sort >"$scratch/want"
    grep wrong "$scratch/out" | sort | diff "$scratch/want" -
    [ "$(grep -c '192 pages as 192 pieces' "$scratch/out")" = 2 ] || cat "$scratch/out")" \
    "paged_kv: two pairs move every page of every layer"

# A store that is found again, also by another number of ranks; a block that was torn is spilled again.
verdict "$(run 0 "$nixlrun" -np 2 "$build/examples/kv_store" "$scratch/store"
    grep -qx '0 blocks fetched, 200 spilled, 0 of these because they were torn' "$scratch/out" || cat "$scratch/out"
    offset=$(grep -aobF 1erotsVK "$scratch/store" | head -n 1 | cut -d: -f1)
    printf torn | dd of="$scratch/store" bs=1 seek=$((offset + 1000)) conv=notrunc 2>/dev/null
    run 0 "$nixlrun" -np 3 "$build/examples/kv_store" "$scratch/store"
    grep -qx '199 blocks fetched, 1 spilled, 1 of these because they were torn' "$scratch/out" || cat "$scratch/out"
    run 0 "$nixlrun" -np 1 "$build/examples/kv_store" "$scratch/store"
    grep -qx '200 blocks fetched, 0 spilled, 0 of these because they were torn' "$scratch/out" || cat "$scratch/out")" \
    "kv_store: blocks are found after a restart, and torn ones are spilled again"

# 100 tokens are 7 blocks of 16; 3 requests of each prefill rank.
for np in 2 3 4; do
    # shellcheck disable=SC2086
    verdict "$(run 0 "$nixlrun" -np $np "$kv" $small; verified $((np / 2 * 3 * 7)))" \
        "kv_transfer: $np ranks verify every block"
done

# Without vulkan_ipc it goes through host memory.
for transports in self,shm,vulkan_ipc self,shm; do
    # shellcheck disable=SC2086
    verdict "$(run 0 env LP_NUM_THREADS=1 NIXLRUN_TRANSPORTS=$transports \
        "$nixlrun" -np 2 "$kv" $small --memory vulkan >"$scratch/said"
        if grep -q 'no such device' "$scratch/err"; then
            :
        else
            cat "$scratch/said"
            verified 21
        fi)" "kv_transfer: caches in Vulkan memory over $transports, where there is a device"
done

# shellcheck disable=SC2086
verdict "$(run 0 "$nixlrun" -np 3 "$kv" $small --tier "file:$scratch"
    verified 21
    if [ -n "$(find "$scratch" -name 'kv_transfer.*')" ]; then echo "a file is left"; fi)" \
    "kv_transfer: blocks in files of the decode ranks"
verdict "$(run 1 "$nixlrun" -np 2 "$kv" --tier "file:$scratch/none"
    grep -q "$scratch/none/kv_transfer.1: cannot open: No such file" "$scratch/err" || cat "$scratch/err")" \
    "kv_transfer: a folder that is not there is named"

verdict "$(run 0 "$nixlrun" -np 2 "$kv" --model deepseek-v3 --prompt-tokens 65 --requests 4
    verified 8
    grep -q 'deepseek-v3: 61 layers of 1 x 1 x 576 values in bf16, 64 tokens a block' "$scratch/out" ||
        echo "the shape is not that of the model")" "kv_transfer: deepseek-v3 has one latent of 576"

# More blocks than one notification lists, and pieces of an odd size.
verdict "$(run 0 "$nixlrun" -np 2 "$kv" --layers 1 --kv-heads 1 --head-dim 3 --block-tokens 1 \
    --dtype fp8 --prompt-tokens 1500 --requests 5; verified 7500)" "kv_transfer: long lists, odd sizes"

# shellcheck disable=SC2086
verdict "$(run 1 env ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS:-}" \
    "$nixlrun" -np 2 -x LD_PRELOAD="$build/test/examples/.libs/flip_byte.so" "$kv" $small
    grep -q 'request 0 of rank 0: block 0, layer 2 is wrong from byte 65535 on' "$scratch/err" ||
        cat "$scratch/err"
    awk '$1 == "all" { print $(NF - 1), $NF }' "$scratch/out" | grep -qx '21 1' || cat "$scratch/out")" \
    "kv_transfer: a flipped bit is found, named and counted"

verdict "$(run 2 "$nixlrun" -np 1 "$kv"; one_line '1 rank is too few')" "kv_transfer: one rank is refused"
verdict "$(run 2 "$nixlrun" -np 3 "$kv" --layers 0
    one_line "--layers is '0'; allowed: 1 to 1024\$")" "kv_transfer: a bad option is named, once"
verdict "$(run 0 "$kv" --help; grep -q '^  --model NAME' "$scratch/out" || cat "$scratch/out")" \
    "kv_transfer: help, also without a launcher"

# shellcheck disable=SC2086
verdict "$(run 0 "$nixlrun" -np 2 "$kv" $small
    if grep -q 'requests sent' "$scratch/err"; then echo "progress where there is no terminal"; fi
    run 0 script -qec "$nixlrun -np 2 $kv $small" /dev/null
    grep -q 'rank 0: 1 of 3 requests sent' "$scratch/out" || echo "no progress on a terminal")" \
    "kv_transfer: progress on a terminal only"

# serve_line: the last line says that all is well
serve_line() {
    tail -n 1 "$scratch/out" | grep -qE \
        '^served [1-9][0-9]* requests from [1-9][0-9]* workers, [1-9][0-9]* killed, 0 wrong bytes$' ||
        cat "$scratch/out" "$scratch/err"
}

SERVE_PROGRAMS=$build/examples
export SERVE_PROGRAMS
verdict "$(run 0 "$src/examples/serve_demo.sh" 4 3; serve_line
    [ ! -s "$scratch/err" ] || cat "$scratch/err")" \
    "serve_demo: a server verifies every byte of workers that come, die and return"
verdict "$(run 2 "$src/examples/serve_demo.sh" 4 none; grep -q '^usage: serve_demo.sh' "$scratch/err" ||
    cat "$scratch/err"
    run 2 "$build/examples/serve"; run 2 "$build/examples/serve_worker"
    run 1 "$build/examples/serve" "file:$scratch/missing"
    grep -q "missing" "$scratch/err" || cat "$scratch/err")" "serve: bad arguments are refused in words"
