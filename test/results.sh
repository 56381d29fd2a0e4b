#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sum the results in what "make check" printed: the tests that did not pass, one per line, and then
# "N passed, N failed, N skipped". The exit code is 1 if one failed or there was none at all.
# Usage: results.sh LOG ...
set -eu
cat "$@" | awk '
    /^(PASS|XFAIL): / { passed++ }
    /^SKIP: / { skipped++; print }
    /^(FAIL|XPASS|ERROR): / { failed++; print }
    END {
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
        exit failed > 0 || passed == 0
    }'
