# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# TAP lines for tests that run nixlrun; read by `.`. The reader has `run ARG...`, which runs it and leaves
# its exit code in $rc and its output in $work/out and $work/err.
n_lines=0

# result STATUS NAME [FILE...]: one TAP line; after a failure the files
result() {
    n_lines=$((n_lines + 1))
    if [ "$1" = 0 ]; then
        echo "ok $n_lines - $2"
        return
    fi
    echo "not ok $n_lines - $2"
    shift 2
    for file in "$@"; do
        [ -s "$file" ] && sed "s|^|# ${file##*/}: |" "$file" | head -40
    done
}

# gives RC NAME ARG...: the job ends with this code
gives() {
    wanted=$1
    name=$2
    shift 2
    run "$@"
    [ "$rc" = "$wanted" ] || echo "exit code $rc instead of $wanted" >>"$work/err"
    [ "$rc" = "$wanted" ]
    result $? "$name" "$work/err" "$work/out"
}

# has FILE PATTERN NAME: the file has a line that matches
has() {
    if grep -Eq -e "$2" "$1"; then
        result 0 "$3"
    else
        result 1 "$3" "$1"
        echo "# ${1##*/} has no line that matches '$2'"
    fi
}

# until_true SECONDS COMMAND...: try again until the command succeeds
until_true() {
    tries=$(($1 * 50))
    shift
    while ! "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.02
    done
}
