# SPDX-License-Identifier: Apache-2.0
# From the headers below include/nixlrun: one line per public function, as "NAME<tab>PROTOTYPE;",
# attributes left out and blanks made single. Functions that are inline there are among them.
function finish() {
    gsub(/NIXL_API|NIXL_MUST_CHECK|NIXL_NORETURN|static inline/, "", text)
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
/^static inline/ { text = $0; finish(); next }
reading { text = text " " $0 }
reading && /;/ { finish(); reading = 0 }
