#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Exit codes and the line that says why; what ends a job and what does not.
# needs: test/launcher/pmix_events test/mp/hello
# shellcheck disable=SC1091,SC2016 # $PMIX_RANK is for the ranks' shells
. "$top_srcdir/test/launcher/lib.sh"

host=$(uname -n)
events=$clients/pmix_events

gives 0 "all ranks end with 0" -np 4 true
[ ! -s "$work/err" ]
result $? "and nothing is said" "$work/err"

gives 3 "the code of the rank that failed" -np 4 sh -c 'test "$PMIX_RANK" != 2 || exit 3'
has "$work/err" "^nixlrun: rank 2 on host $host \(pid [0-9]+\) exited with code 3$" \
    "the line has rank, host, pid and cause"
[ "$(wc -l <"$work/err")" = 1 ]
result $? "and is one line" "$work/err"

gives 139 "128 + signal" -np 2 sh -c 'kill -SEGV $$'
has "$work/err" 'killed by signal 11 \(Segmentation fault\)' "the signal has a name"
gives 7 "the first failure decides, not that of those who are ended for it" \
    -np 3 sh -c 'trap "exit 9" TERM; [ "$PMIX_RANK" = 1 ] && exit 7; while :; do sleep 0.05; done'

timeout -k 5 "$limit" prlimit --nofile=64 "$nixlrun" -np 16 true >"$work/out" 2>"$work/err" </dev/null
[ $? = 1 ]
result $? "too few descriptors for the ranks: nothing starts" "$work/out" "$work/err"
has "$work/err" '^nixlrun: 16 ranks need [0-9]+ file descriptors of nixlrun, the limit is 64' "and is told"
[ "$(wc -l <"$work/err")" = 1 ]
result $? "in one line" "$work/err"
timeout -k 5 "$limit" prlimit --nofile=64 "$nixlrun" -np 8 "$events" quick >"$work/out" 2>"$work/err" </dev/null
result $? "as few as are enough" "$work/out" "$work/err"
limited() {
    timeout -k 5 60 prlimit --nofile="$1" "$nixlrun" --timeout 30 -np 8 -l \
        --output-dir "$work/limited" "$events" quick >"$work/out" 2>"$work/err" </dev/null
}
limited 79
[ $? = 1 ]
result $? "files that nixlrun writes need more" "$work/out" "$work/err"
has "$work/err" '^nixlrun: 8 ranks need 80 file descriptors' "which is told"
limited 80
result $? "with these the job runs" "$work/out" "$work/err"
# With an engine, too. The guardian starts it, and is a child of nixlrun.
mkdir "$work/bin"
ln -s "$(realpath "$top_srcdir")/test/launcher/engines/fake" "$work/bin/mpirun"
# engine LIMITS: the engine says how many descriptors nixlrun may have, and fails
engine() {
    FAKE_MPIRUN='mpirun (Open MPI) 4.1.4' PATH="$work/bin:$PATH" \
        FAKE_ACT='set -- $(grep PPid "/proc/$PPID/status"); grep "Max open files" "/proc/$2/limits"; exit 9' \
        timeout -k 5 60 prlimit --nofile="$1" "$nixlrun" --engine openmpi -np 2 true >"$work/out" 2>"$work/err" </dev/null
}
engine 80:80
has "$work/err" '^nixlrun: 2 ranks need 130 file descriptors of nixlrun, the limit is 80' "an engine needs some, too"
engine 80:130
has "$work/err" '^Max open files +130 +130' "which nixlrun allows itself"


# Memory files count against the limit of file sizes, too; its signal would end nixlrun or a rank.
timeout -k 5 "$limit" prlimit --fsize=1000000:1000000 "$nixlrun" -np 2 true >"$work/out" 2>"$work/err" </dev/null
[ $? = 1 ]
result $? "too small files for PMIx: nothing starts" "$work/out" "$work/err"
has "$work/err" '^nixlrun: PMIx makes files of 4194304 bytes, the limit is 1000000: raise it' "and is told"
timeout -k 5 "$limit" prlimit --fsize=65536:8000000 "$nixlrun" -np 2 "$clients/../mp/hello" >"$work/out" 2>"$work/err" </dev/null
[ $? = 1 ]
result $? "ranks with small files fail in words" "$work/out" "$work/err"
has "$work/err" "ulimit -f is set and counts here" "which name the limit"
timeout -k 5 "$limit" prlimit --fsize=4194304:4194304 "$nixlrun" -np 2 "$clients/../mp/hello" >"$work/out" 2>"$work/err" </dev/null
result $? "files as large as are enough" "$work/out" "$work/err"

gives 127 "a program that is not there" -np 2 /nowhere/program
has "$work/err" "^nixlrun: cannot run '/nowhere/program': No such file or directory$" "is named"
gives 127 "a name that PATH does not have" -np 2 no-such-program
has "$work/err" "not found in PATH" "is told so"
gives 126 "a file that is no program" -np 2 "$top_srcdir/test/launcher/lib.sh"
has "$work/err" "Permission denied" "is told so"
printf 'not a program\n' >"$work/text"
chmod +x "$work/text"
gives 126 "a file that cannot be executed" -np 2 "$work/text"
has "$work/err" "Exec format error" "is told so"
printf '#!/nowhere/sh\n' >"$work/script"
chmod +x "$work/script"
gives 127 "a script whose interpreter is not there" -np 2 "$work/script"
has "$work/err" "^nixlrun: cannot run '$work/script': its interpreter '/nowhere/sh' does not exist$" "is told so"
gives 127 "such a script in PATH" -np 2 -x "PATH=$work:$PATH" script
has "$work/err" "its interpreter '/nowhere/sh' does not exist" "is told so"
printf '#!/bin/sh\r\ntrue\r\n' >"$work/script"
gives 127 "a script with lines as on Windows" -np 2 "$work/script"
has "$work/err" "ends as on Windows, so the name of the interpreter '/bin/sh' ends with a carriage return; convert it" "is told so"
mkdir "$work/dir"
printf '#!/bin/sh\npwd\n' >"$work/dir/where"
chmod +x "$work/dir/where"
gives 0 "a program relative to --wdir" -np 1 --wdir "$work/dir" ./where
[ "$(cat "$work/out")" = "$work/dir" ]
result $? "runs there" "$work/out"

gives 7 "PMIx_Abort gives its code" -np 3 "$events" abort 7
has "$work/err" '^nixlrun: rank 1 on host .* \(pid [0-9]+\) aborts the job with code 7: had enough$' "and its message"
gives 1 "PMIx_Abort with 0 is a failure too" -np 3 "$events" abort 0
gives 1 "exit 0 without PMIx_Finalize is a failure" -np 3 "$events" nofinalize
has "$work/err" 'rank 1 .*without nixl_finalize or PMIx_Finalize' "and says so"
gives 0 "never having called PMIx_Init is none" -np 2 true : -np 2 "$events" alone

# How far the ranks are after a time is the machine's affair: more time until they wait.
for seconds in 0.3 3 30; do
    run -np 2 --timeout $seconds "$events" wait
    grep -q 'rank 1 .*: sleeping, initialized$' "$work/err" && break
done
[ "$rc" = 124 ]
result $? "--timeout" "$work/err" "$work/out"
has "$work/err" '^nixlrun: +rank 1 \(pid [0-9]+\): sleeping, initialized$' "tells each rank's state"
gives 124 "--timeout and ranks that ignore SIGTERM" -np 2 --timeout 0.3 --kill-grace 0.2 \
    sh -c 'trap "" TERM; while :; do sleep 0.05; done'

gives 124 "--timeout after a rank has failed" -np 2 --timeout 0.5 --kill-grace 0.2 --on-failure continue \
    sh -c 'test "$PMIX_RANK" != 0 || exit 5; exec sleep 300'
has "$work/err" 'rank 0 .* exited with code 5; the other ranks continue' "and the failure was told"
has "$work/err" '^nixlrun: +rank 1 \(pid [0-9]+\): sleeping' "as is who was still there"

# A reader that never reads: what is not out when the time and the grace are over is dropped.
mkfifo "$work/unread"
exec 7<>"$work/unread"
limit=60
for program in yes 'head -c 1000000 /dev/zero'; do
    # shellcheck disable=SC2086
    timeout -k 5 "$limit" "$nixlrun" -np 1 --timeout 0.5 --kill-grace 0.2 $program \
        >"$work/unread" 2>"$work/err" </dev/null
    rc=$?
    grep -Eq '^nixlrun: the timeout of 0.5 s (has )?expired' "$work/err" &&
        grep -Eq '^nixlrun: no process reads the output: dropped its last [0-9]+ bytes$' "$work/err" &&
        [ "$rc" = 124 ]
    result $? "--timeout and a reader that never reads ${program%% *} (exit code $rc)" "$work/err"
done
exec 7<&-
limit=300

gives 5 "--on-failure continue lets the others finish" -np 3 --on-failure continue \
    sh -c 'test "$PMIX_RANK" != 0 || exit 5; sleep 0.3; echo "done $PMIX_RANK"'
[ "$(sort "$work/out" | tr '\n' ' ')" = "done 1 done 2 " ]
result $? "to their end" "$work/out"
has "$work/err" 'rank 0 .* exited with code 5; the other ranks continue' "and says so"

gives 0 "two programs are one job" -np 1 sh -c 'echo "a $PMIX_RANK"' : -np 2 \
    sh -c 'echo "b $PMIX_RANK"'
[ "$(sort "$work/out" | tr '\n' ' ')" = "a 0 b 1 b 2 " ]
result $? "with ranks in order" "$work/out"

gives 0 "an outer job is not taken for ours" -np 1 -x PMIX_MCA_gds=hash \
    "$nixlrun" --oversubscribe -np 2 "$events" quick

# A launcher around us that is not nixlrun: what it says of a rank is not for ours.
OMPI_COMM_WORLD_RANK=9 OMPI_COMM_WORLD_SIZE=10 PMI_FD=5 OMPI_MCA_orte_outer=1 OMPI_MCA_btl=self \
    gives 0 "variables of another launcher" -np 1 sh -c 'env; echo "rank $PMIX_RANK"'
has "$work/out" '^rank 0$' "do not change our rank"
! grep -E '^(OMPI_COMM_WORLD_|PMI_FD|OMPI_MCA_orte_)' "$work/out"
result $? "do not reach it" "$work/out"
has "$work/out" '^OMPI_MCA_btl=self$' "a setting of MPI does"

# Each rank needs descriptors of nixlrun: it takes as many as it may have.
prlimit --nofile=40:4096 "$nixlrun" --oversubscribe -np 8 true >"$work/out" 2>"$work/err"
result $? "a low limit of descriptors is raised" "$work/err"

# PMIx serves nobody but the user who started the job.
ring=$(realpath "$top_builddir/examples/ring")
if [ "$(id -u)" = 0 ] && setpriv --reuid=65534 --clear-groups test -x "$ring" 2>/dev/null; then
    gives 1 "a rank that runs as another user" -np 2 sh -c \
        'if [ "$PMIX_RANK" = 1 ]; then exec setpriv --reuid=65534 --clear-groups "$1"; else exec "$1"; fi' sh "$ring"
    has "$work/err" "runs as another user or group than this rank, which is user 65534, group 0;" "is told so"
    gives 1 "a rank that runs as another group" -np 2 sh -c \
        'if [ "$PMIX_RANK" = 1 ]; then exec setpriv --regid=65534 --clear-groups "$1"; else exec "$1"; fi' sh "$ring"
    has "$work/err" "runs as another user or group than this rank, which is user 0, group 65534;" "is told so"
    # PMIx serves them if it is told not to look: the ranks do not.
    PMIX_MCA_psec=none PMIX_MCA_gds=hash gives 1 "ranks of two users" -np 2 sh -c \
        'if [ "$PMIX_RANK" = 1 ]; then exec setpriv --reuid=65534 --clear-groups "$1"; else exec "$1"; fi' sh "$ring"
    has "$work/err" "it runs as user (0|65534), this rank as user (0|65534): start all ranks as one user" \
        "are told so"
fi
finish
