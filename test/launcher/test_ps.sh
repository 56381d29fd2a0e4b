#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nixlrun ps and nixlrun kill. Other jobs of the machine may run beside. Usage: test_ps.sh; finds the trees
# by top_srcdir and top_builddir. Prints TAP.
# needs: test/attach/attach_end
set -u
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
nixlrun=$build/launcher/nixlrun

# begin NAME COMMAND...: start a job beside; its pid is in $NAME.pid, its exit code comes in $NAME.code
begin() {
    name=$scratch/$1
    rm -f "$name.code"
    shift
    { "$nixlrun" "$@" >"$name.out" 2>&1 & echo $! >"$name.pid"; wait $!; echo $? >"$name.code"; } </dev/null &
    until_is "$name.pid" .
    job=$(cat "$name.pid")
}

# until_is FILE PATTERN: wait for a line in it
until_is() {
    tries=0
    until grep -qs -e "$2" "$1"; do
        tries=$((tries + 1))
        [ "$tries" -lt 1500 ] || { echo "no line '$2' in $1"; return 1; }
        sleep 0.02
    done
}

# shown PATTERN ARG...: nixlrun ps has such a line within the patience
shown() {
    pattern=$1
    shift
    tries=0
    until "$nixlrun" ps "$@" >"$scratch/ps" 2>"$scratch/err" && grep -q -e "$pattern" "$scratch/ps"; do
        tries=$((tries + 1))
        [ "$tries" -lt 500 ] || { echo "no line '$pattern':"; cat "$scratch/ps" "$scratch/err"; return; }
        sleep 0.05
    done
}

# refused CODE PATTERN ARG...: ends with that code and such a line on stderr
refused() {
    code=$1 pattern=$2
    shift 2
    "$nixlrun" "$@" >"$scratch/out" 2>"$scratch/err"
    if [ $? != "$code" ] || ! grep -q -e "$pattern" "$scratch/err"; then
        cat "$scratch/out" "$scratch/err"
    fi
}

begin job -np 3 sleep 300
verdict "$(shown "^$job  *3  *00:0.:..  .*nixlrun -np 3 sleep 300$")" "a job is listed with its ranks and its command"
verdict "$(shown "^2 *[0-9]* *sleeping  *00:0.:..  sleep 300$" "$job"
    [ "$(wc -l <"$scratch/ps")" = 4 ] || cat "$scratch/ps")" "the ranks of a job are listed"
stopped=$(awk '$1 == 1 { print $2 }' "$scratch/ps")
verdict "$(halt "$stopped"; shown "^1 *$stopped *stopped " "$job")" "a stopped rank is shown so"
kill -CONT "$stopped"
verdict "$(refused 2 "'1' is no job of this user on this host; allowed:.* $job" kill 1
    [ -e "$scratch/job.code" ] && echo "it has ended")" "what is no job is refused, and the jobs are named"
verdict "$(refused 2 "'$stopped' is no job" kill "$stopped"; refused 2 "'x' is no job" ps x)" "a rank is no job"
verdict "$(refused 2 "-s 'NONE': no such signal; allowed: TERM, INT" kill -s NONE "$job"
    refused 2 "no such signal" kill -s)" "an unknown signal is refused, and those allowed are named"
verdict "$(refused 2 "which job" kill; refused 2 "which job" kill -s INT; refused 2 "'-x' is not known; allowed: --help" ps -x
    refused 2 "'-9' is not known; allowed: --help, -s SIGNAL" kill -9; refused 2 "one job or one folder" ps 1 2)" \
    "bad command lines are refused"
verdict "$("$nixlrun" kill "$job" 2>&1; until_is "$scratch/job.code" . && grep -vx 143 "$scratch/job.code"
    grep -q "caught signal 15" "$scratch/job.out" || cat "$scratch/job.out")" "a job is ended"
verdict "$("$nixlrun" ps | grep "^$job ")" "a job that has ended is not listed"

begin first -np 1 sleep 300
first=$job
begin second -np 2 sleep 300
verdict "$(shown "^$first  *1 "; shown "^$job  *2 "; "$nixlrun" kill --signal SIGKILL "$first" "$job" 2>&1
    until_is "$scratch/first.code" . && until_is "$scratch/second.code" .
    cat "$scratch/first.code" "$scratch/second.code" | grep -vx 137)" "two jobs are killed"

# ---- published names -------------------------------------------------------------------------------------

mkdir "$scratch/names"
verdict "$(shown '^NAME  *PUBLISHER$' "file:$scratch/names"; [ "$(wc -l <"$scratch/ps")" = 1 ] || cat "$scratch/ps")" \
    "a folder without names"
mkfifo "$scratch/hold"
exec 8<>"$scratch/hold"
timeout 100 "$build/test/attach/attach_end" publish "file:$scratch/names" decode x >"$scratch/published" 2>&1 <&8 &
until_is "$scratch/published" '^published'
publisher=$(sed -n 's/^pid //p' "$scratch/published")
verdict "$(shown "^decode  *$publisher$" "file:$scratch/names")" "a name is listed with its publisher"
[ "$publisher" -gt 1 ] && kill -9 "$publisher"
verdict "$(shown "^decode  *dead$" "file:$scratch/names")" "a name whose publisher was killed"
verdict "$(refused 2 "cannot read the folder '$scratch/none': No such file" ps "file:$scratch/none")" "a folder that is not there"
for command in ps kill; do
    verdict "$("$nixlrun" $command --help | grep -q '^  nixlrun ps JOB ' || "$nixlrun" $command --help 2>&1)" "$command --help"
done
"$nixlrun" ps >/dev/full 2>"$scratch/err"
code=$?
verdict "$([ $code = 1 ] || echo "code $code"; grep -q "cannot write to standard output" "$scratch/err" || cat "$scratch/err")" \
    "a full disk is noticed"
stdbuf -o0 "$nixlrun" ps >/dev/full 2>"$scratch/err"
code=$?
verdict "$([ $code = 1 ] || echo "code $code"; grep -q "cannot write to standard output" "$scratch/err" || cat "$scratch/err")" \
    "also if nothing is left to write at the end"
echo "1..$number"
