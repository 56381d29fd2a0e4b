#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What no compiler says: licence lines, lengths, leftovers. Prints TAP; a file of more than 400 lines
# or a function of more than 60 is a remark, of more than 600 or 80 a failure.
# shellcheck disable=SC2016
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"
cd "$src"

sources() { find include src transports launcher examples test -name '*.[ch]' | LC_ALL=C sort; }
texts() {
    sources
    find . -path ./build -prune -o -path ./.git -prune -o \( -name '*.sh' -o -name '*.mk' -o \
        -name '*.md' -o -name '*.[137]' -o -name '*.am' -o -name '*.ac' -o -name '*.py' -o \
        -name '*.ptx' \) -print |
        grep -vE '^\./(autom4te.cache|build[^/]*|nixlrun-[0-9.]*)/' | sed 's|^\./||' | LC_ALL=C sort
    printf '%s\n' quickstart CHANGELOG
}

# functions LIMIT: functions that have more lines between their braces.
functions() {
    sources | xargs awk -v limit="$1" '
        FNR == 1 { open = 0 }
        /^[a-zA-Z].*\(/ { name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
        /^{/ { open = FNR }
        /^}/ && open {
            if (FNR - open - 1 > limit) {
                print FILENAME ": " name "() has " FNR - open - 1 " lines"
            }
            open = 0
        }'
}

# files LIMIT: C files that have more lines.
files() {
    sources | grep '\.c$' | xargs awk -v limit="$1" '
        FNR == 1 && last > limit { print name " has " last " lines" }
        { name = FILENAME; last = FNR }
        END { if (last > limit) { print name " has " last " lines" } }'
}

echo 1..7
verdict "$(texts | grep -vE '\.md$|\.[137]$|CHANGELOG' | xargs awk '
    FNR == 1 { ++files; seen[FILENAME] = 0 }
    FNR <= 2 && /SPDX-License-Identifier: Apache-2.0/ { seen[FILENAME] = 1 }
    END { for (file in seen) { if (!seen[file]) { print file } } }')" \
    "every source says its licence in its first lines"
verdict "$(functions 80)" "no function has more than 80 lines"
functions 60 | sed 's/^/# long: /'
verdict "$(files 600)" "no file has more than 600 lines"
files 400 | sed 's/^/# long: /'
verdict "$(sources | xargs awk '
    length($0) > 100 { print FILENAME ":" FNR ": longer than 100 columns" }
    /\t/ { print FILENAME ":" FNR ": a tab" }
    /[ \t]$/ { print FILENAME ":" FNR ": blank at the end" }')" \
    "lines of C fit, without tabs and blanks at the end"
verdict "$(texts | grep -v check-style | xargs grep -nE '\<(TODO|FIXME|XXX|HACK)\>' || :)" \
    "no note of unfinished work"
verdict "$(texts | xargs grep -n "$(printf '\342\200\224')" || :)" "no em dash"

# Files are named by their path, or below src/, or launcher/ in a text about it.
verdict "$(grep -oE '`[A-Za-z0-9_./-]+`' HACKING.md | tr -d '`' | grep -E '[a-z]\.(c|h|sh|mp|def|am)$|/$' |
    grep -vE 'NAME|^build/' | sort -u | while read -r name; do
        ls -d "$name" src/"$name" src/*/"$name" launcher/"$name" transports/"$name" test/"$name" test/*/"$name" 2>/dev/null |
            grep -q . || echo "$name"
    done)" "files that HACKING.md names are there"
