#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nixlrun-rank by itself: what it writes in frames, what it reports, and how it ends. In what it has
# written, @ stands for the escape of a frame, and the pid and the host are words.
# shellcheck disable=SC1091,SC2016,SC2154 # the variables are for the ranks' shells, $rc is of lib.sh
. "$top_srcdir/test/launcher/lib.sh"
helper=$top_builddir/launcher/nixlrun-rank
PMIX_RANK=2
export PMIX_RANK
unset SLURM_JOB_ID SLURM_STEP_ID PMIX_NAMESPACE

# run WORD...: nixlrun-rank with these words
run() {
    timeout -k 5 "$limit" "$helper" "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
}

# framed FILE: what is in it, in one line, readable; without what is told of waits after a second
framed() {
    tr '\020' '@' <"$1" | sed -E "s/^@r([0-9]+) $(uname -n) [0-9]+ /@r\1 HOST PID /
        / w 0 [0-9a-f]*@\.\$/d" | tr '\n' '|'
}

# writes WHICH TEXT NAME: the frames on stdout (out) or stderr (err)
writes() {
    text=$(framed "$work/$1")
    [ "$text" = "$2" ] || echo "framed: $text" >>"$work/$1"
    [ "$text" = "$2" ]
    result $? "$3" "$work/$1"
}

gives 3 "a program that fails" sh -c 'echo "out [2]"; echo err >&2; exit 3'
writes out '@oout @b2]@n@.|@r2 HOST PID o 0@.|' "its output, and the end of it"
writes err '@r2 HOST PID s 0@.|@oerr@n@.|@r2 HOST PID e 768@.|' "its start, its words and its end"
gives 0 "--calm" --calm sh -c 'exit 3'
writes err '@r2 HOST PID s 0@.|@r2 HOST PID e 768@.|' "hides a failure from the engine only"
gives 0 "a program without output" true
writes out '@r2 HOST PID o 0@.|' "has an end of it"
writes err '@r2 HOST PID s 0@.|@r2 HOST PID e 0@.|' "and its own"
gives 137 "a killed program" sh -c 'kill -9 $$'
has "$work/err" ' e 9' "its signal"
gives 127 "a program that is not there" /nowhere/program
writes err '@r2 HOST PID x 2@.|' "is not started"
gives 127 "a program below a file" /etc/passwd/program
writes err '@r2 HOST PID x 20@.|' "neither"
gives 126 "a program that cannot be run" /etc/passwd
writes err '@r2 HOST PID x 13@.|' "nor this"
gives 0 "--wdir" --wdir=/usr sh -c 'printf "%s\n%s\n" "$PWD" "$(pwd -P)"' # one write
writes out '@o/usr@n/usr@n@.|@r2 HOST PID o 0@.|' "is where it runs"
gives 1 "--wdir that is not there" --wdir=/nowhere true
writes err '@r2 HOST PID d 2@.|' "is reported"
gives 0 "--world and --keep" --world=4 sh -c 'echo "${RANK-none} ${WORLD_SIZE-none}"'
gives 2 "no program"
has "$work/err" '^nixlrun-rank is internal to nixlrun; do not run it directly$' "is a mistake"
gives 2 "words without a program" --beat --calm --wdir=/

gives 0 "a program of no job" sh -c 'echo "${NIXLRUN_RANK_SOCKET-none}"'
has "$work/out" 'onone' "has no socket of ours"
PMIX_NAMESPACE=job.7
NIXLRUN_RANK_SOCKET=outer
export PMIX_NAMESPACE NIXLRUN_RANK_SOCKET
gives 0 "a program of a job" sh -c 'echo "$NIXLRUN_RANK_SOCKET"'
unset PMIX_NAMESPACE NIXLRUN_RANK_SOCKET
has "$work/out" 'o[0-9a-f]{16}:[0-9a-f]{16}:2:job\.7' "has the name of our socket, and the key"

gives 0 "--pty" --pty=33x7 sh -c 'test -t 1 && stty size <&1'
has "$work/out" '7 33' "has that size"
gives 0 "--pty of one column" --pty=1x7 sh -c 'test -t 1 && stty size <&1'
has "$work/out" '7 1' "has that size, too"
gives 1 "--pty without a size" --pty=33 test -t 1
gives 1 "no --pty" test -t 1

gives 0 "much output" sh -c 'head -c 100000 /dev/zero | tr "\0" "\020"; echo'
[ "$(tr '\020' '@' <"$work/out" | sed -n '/^@o/s/^@o\(.*\)@\.$/\1/p' | tr -d '\n')" = \
    "$(head -c 100000 /dev/zero | sed 's/\x0/@d/g')@n" ]
result $? "is whole" "$work/err"
[ "$(tr '\020' '@' <"$work/out" | awk '{ if (length($0) > most) most = length($0) } END { print most }')" -le 900 ]
result $? "in lines that no engine breaks"

# Slurm's name of the step, from the first rank.
SLURM_JOB_ID=12 SLURM_STEP_ID=3 PMIX_RANK=0 timeout "$limit" "$helper" true >"$work/out" 2>"$work/err"
writes out '@r0 HOST PID j 12@.|@r0 HOST PID p 3@.|@r0 HOST PID o 0@.|' "the step of Slurm"
SLURM_JOB_ID=12 SLURM_STEP_ID=3 timeout "$limit" "$helper" true >"$work/out" 2>"$work/err"
writes out '@r2 HOST PID o 0@.|' "is told by one rank"
SLURM_JOB_ID=12 PMIX_RANK=0 timeout "$limit" "$helper" true >"$work/out" 2>"$work/err"
writes out '@r0 HOST PID o 0@.|' "and only if there is one"
(unset PMIX_RANK && timeout "$limit" "$helper" true >"$work/out" 2>"$work/err")
writes out '@r0 HOST PID o 0@.|' "a rank without a number is the first"

# What the program has started and left.
gives 0 "a program that leaves another" sh -c 'sleep 300 >/dev/null 2>&1 & exit 0'
until_true 10 nothing_runs
result $? "does not leave it for long"
gives 0 "a program that leaves one with its output" sh -c 'sleep 300 & exit 0'
until_true 10 nothing_runs
result $? "neither"

# One that has become root's, under a nixlrun-rank that is not, cannot be killed.
cp "$(command -v setpriv)" "$work/rooted" && chmod 4755 "$work/rooted"
if [ "$(id -u)" = 0 ] && chmod 711 "$work" && mkfifo -m 666 "$work/pipe" &&
    [ "$(setpriv --reuid=65534 --clear-groups "$work/rooted" --reuid=0 id -u 2>/dev/null)" = 0 ]; then
    timeout -k 5 "$limit" setpriv --reuid=65534 --clear-groups "$helper" sh -c \
        '"$0/rooted" --reuid=0 sh -c "echo \$\$ >$0/pipe; exec sleep 300" & read -r pid <"$0/pipe"; echo "root $pid."' \
        "$work" >"$work/out" 2>"$work/err" </dev/null
    root=$(sed -n 's/.*root \([0-9]*\)\..*/\1/p' "$work/out")
    has "$work/err" "^.r2 $(uname -n) $root l 0" "a process that cannot be killed is reported"
    [ "${root:-0}" -gt 1 ] && kill -9 "$root"
    result $? "it ran on"
    until_true 10 nothing_runs
fi

# ends SIGNAL WANTED NAME: a signal to nixlrun-rank alone, in a group of its own, when it has begun
ends() {
    setsid "$helper" sh -c 'trap "exit 9" TERM; trap "exit 8" USR1; sleep 300 & echo ready; wait' \
        >"$work/out" 2>"$work/err" </dev/null &
    pid=$!
    until_true 60 grep -q ready "$work/out"
    kill -s "$1" "$pid"
    wait "$pid"
    rc=$?
    [ "$rc" = "$2" ]
    result $? "$3" "$work/err"
}
ends URG 9 "the request of nixlrun ends the program"
until_true 10 nothing_runs
result $? "and what it has started"

# A reader that has gone, and an engine that has died.
timeout "$limit" "$helper" yes 2>"$work/err" | head -c 1000 >/dev/null
has "$work/err" ' e 13' "a program without a reader gets what it would get without us"
sh -c '"$0" sh -c "echo ready; exec sleep 300" & wait' "$helper" >"$work/out" 2>/dev/null &
pid=$!
until_true 60 grep -q ready "$work/out"
kill -9 "$pid"
until_true 10 nothing_runs
result $? "the program dies with the engine"

gives 0 "--beat" --beat sleep 6
writes err '@r2 HOST PID s 0@.|@r2 HOST PID a 0@.|@r2 HOST PID e 0@.|' "is a sign of life every 5 s"
has "$work/err" '^.r2 .* w 0 [0-9a-f]*41(00){15}.\.$' "and that the program has not joined is told"
echo "1..$n_lines"
