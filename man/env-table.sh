#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The environment section of nixlrun.7, made from src/util/env.def.
#     env-table.sh ENV.DEF                 print it
#     env-table.sh ENV.DEF NIXLRUN.7       write it into the page, between its two marks
set -eu

table() {
    awk '
        /^NXR_ENV\(/ { reading = 1; text = "" }
        reading { text = text $0 }
        reading && /\)[ \t]*$/ {
            reading = 0
            n = split(text, quoted, "\"")
            split(quoted[1], word, /[(, ]+/)
            help = quoted[8]
            for (i = 10; i < n; i += 2) { help = help quoted[i] }
            gsub(/\\/, "\\e", help)
            gsub(/-/, "\\-", help)
            print ".TP"
            print ".BR NIXLRUN_" word[3] " (" word[4] \
                (quoted[2] == "" ? "" : "; default " quoted[2]) \
                (quoted[4] == "" ? "" : word[4] == "word" ? "; one of " quoted[4] : \
                    word[4] == "names" ? "; of " quoted[4] : "; from " quoted[4] " to " quoted[6]) ")"
            print help
        }' "$1" | sed -E 's/^(\.BR NIXLRUN_[A-Z_]+) (.*)$/\1 " \2"/'
}

[ $# -gt 1 ] || { table "$1"; exit 0; }
generated=$(mktemp)
trap 'rm -f "$generated"' EXIT
table "$1" >"$generated"
sed -i -e "/^\\.\\\\\" begin env.def/r $generated" \
    -e '/^\.\\" begin env.def/,/^\.\\" end env.def/{/^\.\\"/!d}' "$2"
