#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The bash completion, called as bash calls it: COMP_WORDS broken at ':' and '=', COMP_LINE whole.
set -u
root=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
PATH=${top_builddir:-$PWD}/launcher:$PATH
number=0
failed=0
scratch=$(mktemp -d "${TMPDIR:-/tmp}/completion.XXXXXX") || exit 99
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 99
mkdir some_dir
: >some_file
# shellcheck source=/dev/null
. "$root/launcher/completion/nixlrun"

# check WANTED LINE: what is offered at the end of LINE, sorted, with blanks between.
check()
{
    local wanted=$1 got rest

    COMP_LINE=$2
    COMP_POINT=${#2}
    COMP_WORDS=()
    rest=$2
    while [[ -n $rest ]]; do
        if [[ $rest =~ ^[[:blank:]]+ ]]; then
            rest=${rest:${#BASH_REMATCH[0]}}
            [[ -n $rest ]] || COMP_WORDS+=("")
            continue
        fi
        [[ $rest =~ ^([:=]+|[^[:blank:]:=]+) ]]
        COMP_WORDS+=("${BASH_REMATCH[0]}")
        rest=${rest:${#BASH_REMATCH[0]}}
        [[ -n $rest || ${BASH_REMATCH[0]} != *[:=] ]] || COMP_WORDS+=("")
    done
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _nixlrun 2>/dev/null
    got=$(printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort | tr '\n' ' ')
    got=${got% }
    number=$((number + 1))
    if [[ $got = "$wanted" ]]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        echo "# wanted $wanted"
        echo "# got    $got"
        failed=1
    fi
}

export NXR_TEST_VARIABLE=1
check '--tag-output' 'nixlrun --tag'
check '--env --env-file' 'nixlrun --env'
check '-n -np' 'nixlrun -n'
check 'core none numa package socket' 'nixlrun --bind-to '
check 'core' 'nixlrun --bind-to c'
check 'core' 'nixlrun -bind-to c'
check 'core' 'nixlrun -n 2 --bind-to=c'
check 'core none numa package socket' 'nixlrun --bind-to='
check 'abort' 'nixlrun --tag-output --on-failure a'
check 'environment examples exit-codes' 'nixlrun --help e'
check 'mapping' 'nixlrun -h m'
check 'all none' 'nixlrun --stdin '
check 'some_dir' 'nixlrun --wdir some'
check 'some_dir' 'nixlrun --output-dir=some'
check 'some_dir some_file' 'nixlrun --env-file some'
check 'NXR_TEST_VARIABLE' 'nixlrun -x NXR_TEST_V'
check '' 'nixlrun --np '
check 'nixlrun nixlrun-inspect nixlrun-rank' 'nixlrun -n 4 nixlrun'
check 'some_dir' 'nixlrun -n4 some_'
check 'some_dir some_file' 'nixlrun -n 4 true some'
check 'some_dir some_file' 'nixlrun true -n 3 some'
check 'some_dir some_file' 'nixlrun -- true some'
check '' 'nixlrun true --bind'
check '--wdir' 'nixlrun -n 1 true : --w'
check '' 'nixlrun -n 1 true : --bind-t'
check 'some_dir' 'nixlrun true a:b : --wdir some'
check '' 'nixlrun true a:b --wdi'
check 'some_dir' 'nixlrun true : true : -wdir some'

# Every option that is offered is one that the parser knows, and every one in the help is offered.
offered=$(nixlrun --help completion | awk '{ print $1 }' | LC_ALL=C sort)
shown=$(nixlrun --help options | sed -n 's/^  -/-/p' | tr ' ' '\n' | sed -n 's/,$//; /^-/p' |
    LC_ALL=C sort)
number=$((number + 1))
if [[ -n $offered && $offered = "$shown" ]]; then
    echo "ok $number - the help shows and the completion offers the same names"
else
    echo "not ok $number - the help shows and the completion offers the same names"
    diff <(echo "$shown") <(echo "$offered") | sed 's/^/# /'
    failed=1
fi
echo "1..$number"
exit $failed
