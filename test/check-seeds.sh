#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The inputs by which the fuzz targets of messages begin are those of this version: otherwise a target would see
# nothing behind the test of the version. Usage: check-seeds.sh. Prints TAP.
# needs: test/fuzz/make_seeds
set -u
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"
mkdir "$scratch/seeds"

verdict "$("$build/test/fuzz/make_seeds" "$scratch/seeds" 2>&1)" "each message that is made is taken by its receiver"
for target in card entry introduction ucx wire; do
    verdict "$(diff -r "$src/test/fuzz/seeds/$target" "$scratch/seeds/$target" ||
        echo "make -C build seeds writes them anew")" "the seeds of fuzz_$target.c are of this version"
done
echo "1..$number"
