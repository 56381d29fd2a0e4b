# shellcheck shell=sh disable=SC2154  # work is net/lib.sh's
# SPDX-License-Identifier: Apache-2.0
# For tests of attachments between hosts: the hosts of `bed` (test/net/lib.sh) and the programs beside
# (attach/lib.sh); read by `.`.
. "$top_srcdir/test/net/lib.sh"
scratch=$work
. "$top_srcdir/test/attach/lib.sh"

# verdict OUTPUT TEXT: no output is good
verdict() {
    printf '%s\n' "$1" >"$work/verdict"
    [ -z "$1" ]
    result $? "$2" "$work/verdict"
}
