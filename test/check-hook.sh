#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The hook that ./quickstart hook installs: what it refuses, and what it lets through. Prints TAP.
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"
for tool in git clang-format; do
    command -v "$tool" >/dev/null || { echo "1..0 # SKIP no $tool"; exit 0; }
done

mkdir -p "$scratch/clone/test/hooks"
cd "$scratch/clone"
cp "$src/quickstart" "$src/.clang-format" .
cp "$src/test/hooks/pre-commit" test/hooks/
git init -q . && git config user.name nobody && git config user.email nobody@localhost

# commits: what is staged goes in. No output, or what was said.
commits() { git commit -q -m "test" 2>&1 || :; }

# refuses WORDS: it does not, and says them.
refuses() {
    said=$(git commit -q -m "test" 2>&1) && { echo "it was committed"; return; }
    echo "$said" | grep -qF -e "$1" || echo "said: $said"
}

echo 1..6
verdict "$(./quickstart hook | grep -q '^==> hook: .*pre-commit' || echo "it says nothing")" \
    "quickstart installs it"
printf 'int f(void)\n{\n    return 0;\n}\n' >good.c
git add good.c && verdict "$(commits)" "a formatted file is committed"
printf 'int g( void )\n{\n  return 0;\n}\n' >bad.c
git add bad.c && verdict "$(refuses "not formatted: bad.c")" "another one is refused, and named"
clang-format -i bad.c
verdict "$(refuses "not formatted: bad.c")" "what is staged counts, not the working tree"
printf '/* %0101d */\nint h;\n' 0 >bad.c
git add bad.c && verdict "$(refuses "bad.c:1: longer than 100 columns")" "a long comment is refused"
echo "my own" >.git/hooks/pre-commit
verdict "$(./quickstart hook 2>&1 | grep -q 'is there already' || echo "it was overwritten")" \
    "a hook of the user's own stays"
