#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The manual and the README say what the code says: functions, prototypes, statuses, variables, sizes,
# options. Prints TAP.
# needs: test/manual/scale
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"

# different WANTED FOUND: lines that are in one file only.
different() { diff "$1" "$2" | grep '^[<>]' | sed 's/^</only in the code:  /; s/^>/only in the manual:/' || :; }

plain() { groff -man -Tascii -rLL=200n -P-c -P-b -P-u -P-o "$1"; }

# prototypes PAGE: those of the synopsis as a reader sees them, one per line.
prototypes() {
    plain "$1" | awk '/^SYNOPSIS/ { on = 1; next } /^[A-Z]/ { on = 0 } on && !/#include/' |
        tr '\n' ' ' | tr ';' '\n' | sed -E 's/^ +//; s/ +/ /g; /^$/d; s/$/;/'
}

# marked FILE: words of a page that stand in bold or in a tag, roff's escapes taken away.
unescaped() { sed -e 's/\\-/-/g' -e 's/\\f[BIRP]//g' -e 's/\\&//g' "$1"; }

if ! command -v groff >/dev/null || ! command -v lexgrog >/dev/null; then
    echo "1..0 # SKIP groff or man-db is not installed"
    exit 0
fi
echo 1..21

verdict "$(for page in "$src"/man/*.[137]; do
    { groff -ww -man -Tutf8 "$page" 2>&1 >/dev/null || echo "groff failed"; } |
        sed "s|^|${page##*/}: |"
done)" "every page is clean to groff"

# A macro of two fonts sets its words without blanks: text behind it belongs on a line of its own.
verdict "$(grep -nE '^\.(BR|BI|RB|RI|IR|IB) ' "$src"/man/*.[137] | sed -E 's|^.*/man/||; h; s/"[^"]*"//g
    /[.,;:] +[A-Za-z0-9(]/!d; g')" "no text stands behind the punctuation of a macro"

cut -f2 <<TEXT | LC_ALL=C sort >"$scratch/declared"
$(awk -f "$src/test/prototypes.awk" "$src"/include/nixlrun/*.h)
TEXT
for page in "$src"/man/*.3; do
    prototypes "$page"
done | LC_ALL=C sort >"$scratch/described"
verdict "$(different "$scratch/declared" "$scratch/described")" \
    "every prototype of the header is in one page, letter by letter"

verdict "$(awk -f "$src/test/prototypes.awk" "$src"/include/nixlrun/*.h | cut -f1 |
    while read -r name; do
        page=$src/man/$name.3
        if [ ! -e "$page" ]; then
            page=$build/man/$name.3
            target=$(sed -n 's|^\.so man3/||p' "$page" 2>/dev/null || :)
            page=$src/man/${target:-none}
        fi
        # The name must stand in the NAME section of the page that man would show.
        sed -n '/^\.SH NAME/,/^\.SH SYNOPSIS/p' "$page" 2>/dev/null | grep -qw "$name" ||
            echo "man 3 $name shows no page with that name"
    done)" "every function has its page"

# What apropos knows of a page are the names that lexgrog finds in it.
lexgrog "$src"/man/*.[137] | sed -nE 's/^[^:]*: "([^ ]+) - .*/\1/p' | LC_ALL=C sort >"$scratch/indexed"
{
    awk -f "$src/test/prototypes.awk" "$src"/include/nixlrun/*.h | cut -f1
    sed -nE 's/.*(nixl_device_[a-z_]*[a-z])\(.*/\1/p' "$src/include/nixlrun_device.cuh"
} | LC_ALL=C sort -u >"$scratch/declared"
verdict "$(LC_ALL=C comm -23 "$scratch/declared" "$scratch/indexed" | sed 's/$/ is unknown to apropos/'
    uniq -d "$scratch/indexed" | LC_ALL=C comm -12 - "$scratch/declared" | sed 's/$/ is in two pages/')" \
    "apropos finds every function, in one page"

mkdir "$scratch/pages"
for page in "$src"/man/*.[137]; do
    unescaped "$page" >"$scratch/pages/${page##*/}"
done
awk -f "$src/test/prototypes.awk" "$src"/include/nixlrun/*.h >"$scratch/declared"
verdict "$(awk -f "$src/test/call_arguments.awk" "$scratch/declared" "$scratch"/pages/*)" \
    "every call in an example has as many arguments as the function takes"

grep -ohE '(nixl|NIXL)_[A-Za-z0-9_]*[A-Za-z0-9]' "$src"/include/*.* "$src"/include/*/*.h \
    "$build/include/nixlrun_version.h" | LC_ALL=C sort -u >"$scratch/public"
sed -nE 's/^ *_x\((\w+), .*/NIXL_\1/p' "$src"/include/nixlrun/*.h >>"$scratch/public"
for page in "$src"/man/*.[137]; do
    basename "${page%.*}"
done >>"$scratch/public"
verdict "$(for page in "$src"/man/*.[137]; do
    unescaped "$page" | grep -oE '(^|[^A-Za-z_])(nixl|NIXL)_[A-Za-z0-9_]*[A-Za-z0-9]' | sed 's/^[^nN]//' | LC_ALL=C sort -u |
        grep -vxF -f "$scratch/public" | grep -vE '^NIXL_(ERR_|IN_PROG$)' | # NVIDIA's
        sed "s|^|${page##*/}: |; s|\$| does not exist|"
done)" "no page names what the headers do not have"

# fields FILE...: "STRUCT FIELD" for each field of each struct that is written out there, comments gone.
fields() {
    sed -e 's/\\-/-/g' -e 's|/\*.*||' "$@" | awk '
        /^struct nixl_[a-z_]* \{/ { name = $2; next }
        /^}/ { name = "" }
        name != "" && NF { gsub(/[ \t]+/, " "); print name $0 }' | sed 's/ $//' | LC_ALL=C sort -u
}
fields "$src"/include/nixlrun/*.h >"$scratch/declared"
fields "$src"/man/*.3 >"$scratch/described"
verdict "$(different "$scratch/declared" "$scratch/described")" \
    "every struct of the header is in a page, field by field"

sed -nE 's/^ *_x\((\w+), (-?[0-9]+), "(.*)"\).*/NIXL_\1 (\2) \3/p' "$src"/include/nixlrun/*.h |
    LC_ALL=C sort >"$scratch/declared"
unescaped "$src/man/nixl_error.3" | sed -nE '/^\.BR NIXL_/ { N
    s/^\.BR (\w+) " (\(.*\))"\n/\1 \2 /p }' | LC_ALL=C sort >"$scratch/described"
verdict "$(different "$scratch/declared" "$scratch/described")" \
    "every status is in nixl_error.3 with its number and text"

grep -oE '[a-z_]+, [0-9]+, [0-9]+, [0-9]+,' "$src/src/util/coll_table.h" |
    sed -E 's/^(\w+), ([0-9]+),.*/\1 (default \2)/' | LC_ALL=C sort >"$scratch/declared"
sed -nE 's/^\.BR (\w+) " (\(default [0-9]+\))"/\1 \2/p' "$src/man/nixl_collective.3" |
    LC_ALL=C sort >"$scratch/described"
verdict "$(different "$scratch/declared" "$scratch/described")" \
    "every limit of NIXLRUN_COLL_TABLE is in nixl_collective.3 with its default"

# What reports on the library has no counterpart to be named there.
verdict "$(for page in "$scratch"/pages/nixl_*.3; do
    case ${page##*/} in
    nixl_debug_dump.3 | nixl_log.3) continue ;;
    esac
    sed -n '/^\.SH NAME/,/^\.SH SYNOPSIS/p' "$page" | grep -oE 'nixl_[a-z_]*[a-z]' >"$scratch/names"
    basename "$page" .3 >>"$scratch/names"
    grep -qwF -f "$scratch/names" "$scratch/pages/nixlrun-porting.7" || echo "none of ${page##*/} is there"
done)" "nixlrun-porting.7 names something of every page of calls"

"$src/man/env-table.sh" "$src/src/util/env.def" >"$scratch/declared"
sed '1,/^\.\\" begin env.def/d; /^\.\\" end env.def/,$d' "$src/man/nixlrun.7" >"$scratch/described"
verdict "$(different "$scratch/declared" "$scratch/described")" \
    "the variables in nixlrun.7 are those of env.def (else run man/env-table.sh)"
verdict "$([ "$(grep -c '^NXR_ENV(' "$src/src/util/env.def")" = \
    "$(grep -c '^\.BR NIXLRUN_' "$scratch/declared")" ] || echo "env-table.sh left some out")" \
    "no variable is left out"

"$build/test/manual/scale" >"$scratch/declared"
unescaped "$src/man/nixlrun.7" | sed '1,/^\.\\" begin scale/d; /^\.\\" end scale/,$d' >"$scratch/described"
verdict "$(different "$scratch/declared" "$scratch/described")" \
    "the table of sizes in nixlrun.7 is what test/manual/scale computes"

# The memory model: its statements, and the tests that cite them, at the beginning of a comment.
sed -n '/^\.SH MEMORY MODEL/,/^\.SH STRUCTS/s/^\.B M\([0-9]*\)$/\1/p' "$src/man/nixlrun.7" >"$scratch/stated"
verdict "$([ -s "$scratch/stated" ] || echo "nixlrun.7 has no statements"
    seq "$(wc -l <"$scratch/stated")" | diff "$scratch/stated" - | grep '^[<>]')" \
    "the statements of the memory model are numbered in order"
find "$src/test" -name '*.c' -exec grep -hE '^(/\*| \*) M[0-9]+(, M[0-9]+)*(:| \*/)' {} + |
    sed 's/[: ]\*\/$//; s/:.*//' | grep -oE 'M[0-9]+' | tr -d M | sort -nu >"$scratch/cited"
verdict "$(diff "$scratch/stated" "$scratch/cited" | grep '^[<>]' |
    sed 's/^< /no test cites M/; s/^> /nixlrun.7 does not state what a test cites: M/')" \
    "every statement of the memory model has a test that cites it, and no test another one"

taken=$(sed -n 's/^#define NXR_TAKEN "\(.*\)"$/\1/p' "$src/transports/reason.h")
verdict "$(grep -qxF "${taken:-none}" "$src/man/nixlrun-transports.7" || echo "not there: $taken")" \
    "NO CONNECTION explains a connection that is accepted, in the words of the error"

# options PROGRAM ARGUMENT...: every spelling of every option that its help lists.
options() { "$@" | grep -E '^ +-' | grep -oE '(^|[ ,])--?[A-Za-z][a-z-]*' | tr -d ' ,' | sort -u; }

# undescribed PAGE WORD...: words that no tag of the page is.
undescribed() {
    page=$1
    shift
    [ $# -gt 0 ] || echo "the help lists none"
    unescaped "$src/man/$page" | grep -E '^\.(B|BR) ' >"$scratch/tags"
    for word in "$@"; do
        grep -qE -- "[ \"]$word([ \",]|\$)" "$scratch/tags" || echo "$word is not in $page"
    done
}

options "$build/launcher/nixlrun" --help options >"$scratch/options"
verdict "$(sed -n '/^## Options of nixlrun/,/^## /p' "$src/README.md" | grep '^|' |
    grep -oE -- '[`, ]--?[a-z][a-z-]*' | tr -d '`, ' | grep -vxF -f "$scratch/options" |
    sed 's/$/ is in the README, but not an option/')" "the README knows no option that is none"

# shellcheck disable=SC2046
{
    verdict "$(undescribed nixlrun.1 $(options "$build/launcher/nixlrun" --help options))" \
        "every option of nixlrun is in nixlrun.1"
    verdict "$(undescribed nixl_bench.1 $(options "$build/test/bench/nixl_bench" --help))" \
        "every option of nixl_bench is in nixl_bench.1"
    verdict "$(undescribed nixl_bench.1 $("$build/test/bench/nixl_bench" --help |
        awk '/^Tests:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }'))" \
        "every test of nixl_bench is in nixl_bench.1"
}
