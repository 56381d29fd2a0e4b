#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One table of environment variables: the library reads its variables in src/util/env.c only, what the
# launcher gave it in src/boot/; the launcher takes no NIXLRUN_ variable past the table. Prints TAP.
set -eu
root=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# calls ROOT: each place that reads the environment and may not.
calls() (
    cd "$1"
    find src transports launcher -name '*.[ch]' | LC_ALL=C sort |
        xargs grep -nE '\<(secure_)?getenv *\(|\<environ\>' |
        grep -vE '^(src/util/env\.c|src/boot/[^:]*|launcher/[^:]*):' || :
    find launcher -name '*.[ch]' | LC_ALL=C sort |
        xargs grep -nE '\<(secure_)?getenv *\( *"NIXLRUN_' || :
)

echo 1..2
found=$(calls "$root")
if [ -z "$found" ]; then
    echo "ok 1 - the environment is read in one place"
else
    echo "not ok 1 - the environment is read in one place"
    echo "$found" | sed 's/^/# /'
fi

mkdir -p "$scratch/src/util" "$scratch/src/boot" "$scratch/transports" "$scratch/launcher"
echo 'x = getenv("HOME");' | tee "$scratch/src/put.c" "$scratch/src/util/env.c" \
    "$scratch/src/boot/pmix.c" "$scratch/launcher/main.c" >"$scratch/transports/shm.c"
echo 'x = getenv("NIXLRUN_LOG");' >"$scratch/launcher/spawn.c"
got=$(calls "$scratch" | cut -d: -f1 | tr '\n' ' ')
if [ "$got" = "src/put.c transports/shm.c launcher/spawn.c " ]; then
    echo "ok 2 - a wrong place is found"
else
    echo "not ok 2 - a wrong place is found"
    echo "# found: $got"
fi
