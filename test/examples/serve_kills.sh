#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# serve_kills.sh [KILLS]: workers of the example serve are killed and come back so often (1000) while they put.
# The server's memory, descriptors and files are then about what they were after a tenth of the kills: peers
# that died a moment ago may still have some, and nothing grows with their number. Of the pages that it shares
# with peers it has touched more, until each number was given to as many at once as ever have it: some MiB,
# most of them by the first tenth. Half of the new workers have their first good byte with the server within
# 100 ms of their start. Prints TAP and the figures.
# needs: examples/serve examples/serve_worker
set -eu
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
kills=${1:-1000}

# The server's state: resident KiB of its own, and shared, descriptors, mappings, files in the folder of its name.
cat >"$scratch/watch" <<TEXT
#!/bin/sh
echo "\$(awk '\$1 == "RssAnon:" { own = \$2 } \$1 == "RssShmem:" { print own, \$2 }' "/proc/\$1/status") \$(ls "/proc/\$1/fd" | wc -l)" \
    "\$(wc -l <"/proc/\$1/maps") \$(ls "\$2" | wc -l)" >>"$scratch/seen"
TEXT
chmod +x "$scratch/watch"

# demo KILLS WORKERS SETTING...: the last line into $scratch/out; says if it is not right.
demo() {
    number=$1
    workers=$2
    shift 2
    code=0
    env SERVE_PROGRAMS="$build/examples" SERVE_KILLS="$number" "$@" \
        "$src/examples/serve_demo.sh" 1 "$workers" >"$scratch/out" 2>"$scratch/err" || code=$?
    if [ "$code" != 0 ] || ! tail -n 1 "$scratch/out" | grep -qE \
        '^served [1-9][0-9]* requests from [1-9][0-9]* workers, [1-9][0-9]* killed, 0 wrong bytes$'; then
        cat "$scratch/out" "$scratch/err"
    fi
}

echo 1..3
verdict "$(demo "$kills" 4 SERVE_PAUSE=30 SERVE_WATCH="$scratch/watch")" "$kills kills and returns, and no wrong byte"
sed 's/^/# /' "$scratch/out"
awk '{ printf "# %s: %s KiB of its own, %s shared, %s descriptors, %s mappings, %s files\n",
    NR == 1 ? "after a tenth" : "at the end", $1, $2, $3, $4, $5 }' "$scratch/seen"
verdict "$(awk '{ own[NR] = $1; shared[NR] = $2; fds[NR] = $3; maps[NR] = $4; files[NR] = $5 }
    END {
        if (NR != 2) { print "the server was not looked at twice" }
        if (own[2] > own[1] + 1024) { print "memory grew by " own[2] - own[1] " KiB" }
        if (shared[2] > shared[1] + 4096) { print "shared memory grew by " shared[2] - shared[1] " KiB" }
        if (fds[2] > fds[1] + 30) { print "descriptors: " fds[1] ", then " fds[2] }
        if (maps[2] > maps[1] + 150) { print "mappings: " maps[1] ", then " maps[2] }
        if (files[2] != files[1]) { print "files: " files[1] ", then " files[2] }
    }' "$scratch/seen")" "the server's memory, descriptors and files do not grow"
verdict "$(demo 100 1 SERVE_STOPS=no
    sed -n 's/.*median \([0-9.]*\) ms.*/\1/p' "$scratch/out" |
        awk '{ found = 1; if ($1 > 100) { print $1 " ms" } }
            END { if (!found) { print "no time was printed" } }')" \
    "half of the new workers have their first good byte there within 100 ms"
sed 's/^/# /' "$scratch/out"
