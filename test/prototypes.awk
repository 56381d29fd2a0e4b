# SPDX-License-Identifier: Apache-2.0
# From the headers below include/nixlrun: one line per public function, as "NAME<tab>PROTOTYPE;",
# attributes left out and blanks made single. Macros that are called like functions are among them, by
# the prototype in their comment.
function finish() {
    gsub(/NIXL_API|NIXL_MUST_CHECK|NIXL_NORETURN/, "", text)
    gsub(/[ \t]+/, " ", text)
    gsub(/^ | (;|$)/, "", text)
    sub(/ *;? *$/, "", text)
    name = text
    sub(/\(.*/, "", name)
    sub(/.*[ *]/, "", name)
    print name "\t" text ";"
    text = ""
}
/^NIXL_API/ { reading = 1 }
/^ \* @fn / { text = substr($0, 8); finish(); next }
reading { text = text " " $0 }
reading && /;/ { finish(); reading = 0 }
