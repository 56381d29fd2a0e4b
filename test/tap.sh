# shellcheck shell=sh disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# What the test scripts share, read by `.`: where the trees are, a scratch folder that goes at the end,
# and TAP lines.
src=${top_srcdir:-$(cd "$(dirname "$0")" && until [ -e quickstart ] || [ "$PWD" = / ]; do cd ..; done && pwd)}
build=${top_builddir:-$PWD}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
number=0

# verdict OUTPUT TEXT: one TAP line. No output is good; what there is says what is wrong.
verdict() {
    number=$((number + 1))
    if [ -z "$1" ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        printf '%s\n' "$1" | sed 's/^/# /'
    fi
}

# halt PID...: stop these processes and wait until they are stopped. A process takes a signal when it runs next; on a
# busy machine kill returns before that.
halt() {
    for halted; do
        [ "$halted" -gt 1 ] || { echo "'$halted' is no process"; return 1; }
        kill -STOP "$halted" || return
        tries=0
        until grep -q '^State:.T' "/proc/$halted/status"; do
            tries=$((tries + 1))
            [ "$tries" -lt 1500 ] || { echo "$halted does not stop"; return 1; }
            sleep 0.02
        done
    done
}
