#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The help: every topic is there, nothing is wider than a screen, the short help fits on one.
set -u
PATH=${top_builddir:-$PWD}/launcher:$PATH
number=0
failed=0

# report CONDITION TEXT: one line of TAP
report() {
    number=$((number + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        failed=1
    fi
}

[ "$(nixlrun --help | wc -l)" -le 28 ]
report $? 'the short help has no more than 28 lines'
[ "$(nixlrun -h)" = "$(nixlrun --help)" ]
report $? '-h and --help are the same'
topics=$(nixlrun --help | sed -n '/^More:/,$p' | tr '\n' ' ' | tr -d ',' | sed 's/.*with //')
[ "$(echo "$topics" | wc -w)" -eq 10 ]
report $? 'the short help names 10 topics'
for topic in '' $topics; do
    # shellcheck disable=SC2086  # no topic, no word
    text=$(nixlrun --help $topic)
    [ -n "$text" ] && [ "$(echo "$text" | awk 'length > 80' | wc -l)" -eq 0 ]
    report $? "--help $topic is there and at most 80 columns wide"
    [ "$(echo "$text" | grep -c '[[:blank:]]$')" -eq 0 ]
    report $? "--help $topic has no blanks at the end of a line"
done
for option in $(nixlrun --help | sed -n 's/^  \(-[^ ]*\) .*/\1/p' | tr -d ,); do
    nixlrun --help options | grep -q -e "^  .*$option\\b"
    report $? "$option of the short help is explained by --help options"
done
[ "$(nixlrun --env | grep -c '^NIXLRUN_')" -gt 10 ]
report $? '--env prints the variables'
echo "1..$number"
exit $failed
