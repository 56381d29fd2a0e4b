#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One table of environment variables: the library reads its variables in src/util/env.c only, what the
# launcher gave it in src/boot/, the variables of UCX and AWS where these are set up; the launcher takes no NIXLRUN_
# variable past the table. Prints TAP.
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"

# calls ROOT: each place that reads the environment and may not.
calls() (
    cd "$1"
    find src storage transports launcher -name '*.[ch]' | LC_ALL=C sort |
        xargs grep -nE '\<(secure_)?getenv *\(|\<environ\>' |
        grep -vE '^(src/util/env\.c|src/boot/[^:]*|launcher/[^:]*|transports/ucx/settings\.c|storage/s3/settings\.c):' || :
    find launcher -name '*.[ch]' | LC_ALL=C sort |
        xargs grep -nE '\<(secure_)?getenv *\( *"NIXLRUN_' || :
)

echo 1..2
verdict "$(calls "$src")" "the environment is read in one place"

mkdir -p "$scratch/src/util" "$scratch/src/boot" "$scratch/transports" "$scratch/launcher"
echo 'x = getenv("HOME");' | tee "$scratch/src/put.c" "$scratch/src/util/env.c" \
    "$scratch/src/boot/pmix.c" "$scratch/launcher/main.c" >"$scratch/transports/shm.c"
echo 'x = getenv("NIXLRUN_LOG");' >"$scratch/launcher/spawn.c"
got=$(calls "$scratch" | cut -d: -f1 | tr '\n' ' ')
verdict "$([ "$got" = "src/put.c transports/shm.c launcher/spawn.c " ] || echo "found: $got")" \
    "a wrong place is found"
