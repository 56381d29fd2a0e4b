#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What no compiler says: licence lines, lengths, leftovers, wrong names in texts. Prints TAP; a file of
# more than 400 lines or a function of more than 60 is a remark, of more than 600 or 80 a failure.
# shellcheck disable=SC2016
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"
cd "$src"

sources() { find include src storage transports launcher examples test -name '*.[ch]' | LC_ALL=C sort; }
rust_sources() {
    find bindings/rust -name target -prune -o -name '*.rs' ! -name bindings.rs -print | LC_ALL=C sort
}
texts() {
    sources
    rust_sources
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

# files LIMIT: files of C and Rust that have more lines, but for what bindgen makes.
files() {
    { sources | grep '\.c$'; rust_sources; } | xargs awk -v limit="$1" '
        FNR == 1 && last > limit { print name " has " last " lines" }
        { name = FILENAME; last = FNR }
        END { if (last > limit) { print name " has " last " lines" } }'
}

# numbered: texts of the library that name a process by its number, but for one that does not exist.
numbered() {
    find src storage transports -name '*.c' -o -name '*.h' | LC_ALL=C sort |
        xargs grep -nE '"[^"]*(^|[^_])\<ranks? %d' | grep -v 'rank %d is not in the job;'
}

echo 1..10
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

# names TEXT: words of HACKING.md or a README that name a file, a symbol of the project, a lock or a function().
# NAME stands for any name.
names() {
    files='[A-Za-z0-9_./*-]*[A-Za-z0-9_*]\.(c|h|cu|cuh|sh|mp|mk|def|am|ac|py|md|map|supp|transcript)\>'
    symbols='\<(nxr|nixl|NXR|NIXL|NIXLRUN)_[A-Za-z0-9_]+|\<[a-z_]+_lock\>|\<[a-z_0-9]+\(\)'
    grep -oE "$files|$symbols|\`[a-z_./-]+/\`" "$1" |
        tr -d '`' | grep -v -e NAME -e '^build/' | LC_ALL=C sort -u
}

# missing TEXT: what it names that is not in the tree. The path of a file begins at the root, at src/, at
# the folder of the text or above that; HACKING.md may give the end of a path.
missing() {
    names "$1" | while read -r name; do
        case $name in
            */* | *.*)
                # shellcheck disable=SC2086
                [ -n "$(ls -d $name src/$name "${1%/*}"/$name "${1%/*}"/../$name 2>/dev/null)" ] ||
                    { [ "$1" = HACKING.md ] && grep -q "/$name\$" "$scratch/files"; } ||
                    echo "$1: $name" ;;
            *) grep -qxF "${name%()}" "$scratch/identifiers" || echo "$1: $name" ;;
        esac
    done
}

find include src storage transports launcher examples man test -type f >"$scratch/files"
grep -E '\.([ch]|mk|def)$' "$scratch/files" | xargs cat man/nixlrun.7 |
    grep -oE '[A-Za-z_][A-Za-z0-9_]*' | LC_ALL=C sort -u >"$scratch/identifiers"
printf '%s\n' 'See src/nowhere.c, `nobody.sh`, `src/none/`, core/job.h,' \
    'nxr_nothing, NIXLRUN_NEVER, nobody_calls_it(), nobodys_lock; nxr_job is there.' >"$scratch/HACKING.md"
verdict "$(for text in HACKING.md $(grep '/README$' "$scratch/files"); do missing "$text"; done
    [ "$(missing "$scratch/HACKING.md" | wc -l)" = 7 ] ||
        echo "wrong names are not found: $(missing "$scratch/HACKING.md")")" \
    "files and names in HACKING.md and the READMEs of folders are there"
verdict "$([ "$(wc -l <HACKING.md)" -le 200 ] || wc -l HACKING.md)" \
    "HACKING.md is short"
verdict "$(find HACKING.md README.md launcher src storage transports test -name 'README*' -o -name HACKING.md |
    LC_ALL=C sort | xargs awk '/^```/ { code = !code }
        length > 100 && !code && !/^( *\||    )/ { print FILENAME ":" FNR ": longer than 100 columns" }')" \
    "lines of HACKING.md and of READMEs fit, but for tables and commands"
verdict "$(numbered || :)" "texts name a process by nxr_peer_name() and the like"
