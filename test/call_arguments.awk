# SPDX-License-Identifier: Apache-2.0
# Calls in the examples of the manual pages that do not have as many arguments as the function.
# First file: what test/prototypes.awk prints; the others: pages, roff's escapes taken away.

# count(TEXT): the arguments in TEXT, which begins with the open parenthesis; -1 if it is not closed.
function count(text, i, c, depth, n, quote, filled) {
    n = depth = filled = 0
    quote = ""
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (quote != "") {
            if (c == "\\") {
                i++
            } else if (c == quote) {
                quote = ""
            }
        } else if (c == "\"" || c == "'") {
            quote = c
            filled = 1
        } else if (index("([{", c)) {
            depth++
            filled = filled || i > 1
        } else if (index(")]}", c)) {
            if (--depth == 0) {
                return filled ? n + 1 : 0
            }
        } else if (c == "," && depth == 1) {
            n++
        } else if (c !~ /[ \t\n]/) {
            filled = 1
        }
    }
    return -1
}

# examine(TEXT): each call in TEXT.
function examine(text, name, n) {
    while (match(text, /nixl_[a-z_]*[a-z]\(/)) {
        name = substr(text, RSTART, RLENGTH - 1)
        text = substr(text, RSTART + RLENGTH - 1)
        n = count(text)
        if (name in wanted && n != wanted[name]) {
            print page ": " name "() has " n " arguments, and takes " wanted[name]
        }
    }
}

NR == FNR {
    split($0, field, "\t")
    if (field[2] !~ /\.\.\./) {
        sub(/\(void\)/, "()", field[2])
        wanted[field[1]] = count(substr(field[2], index(field[2], field[1] "(") + length(field[1])))
    }
    next
}
FNR == 1 { page = FILENAME; sub(/.*\//, "", page); reading = 0 }
/^\.SH / { examples = /^\.SH EXAMPLE/ }
/^\.nf/ { reading = examples; text = ""; next }
/^\.fi/ && reading { examine(text); reading = 0 }
reading && !/^\.R[SE]/ {
    gsub(/\/\*.*\*\//, "")
    text = text "\n" $0
}
