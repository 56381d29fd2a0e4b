# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# What an engine's tests on several hosts share; read by `.` behind lib.sh, with the name in $engine.
# shellcheck disable=SC2154  # variables of lib.sh

three=h0:2,h1:2,h2:1 # where most jobs run
run() {
    on_hosts on h0 timeout -k 5 240 "$nixlrun" --engine "$engine" "$@" \
        >"$work/out" 2>"$work/err" </dev/null
    rc=$?
}

# Set if there is a transport between hosts: deaths are then heard of on all of them.
network=$(ls "$build"/src/.libs/nixlrun/nixlrun_*.so 2>/dev/null)

# What marks the processes of a job that is to be looked for: a number of seconds nobody else sleeps.
mark=86399.$$
nothing_runs() {
    ! grep -qsz -e "^$mark" /proc/[0-9]*/cmdline
}
rank_runs() {
    [ "$(grep -lsz -e "^$mark" /proc/[0-9]*/cmdline | xargs -r -n1 dirname |
        while read -r dir; do cat "$dir/comm"; done | grep -cx sleep)" = "$1" ]
}

# The nixlrun-rank of each, whose child is the sleeping program itself.
rank_watchers() {
    grep -lsz -e "^$mark" /proc/[0-9]*/cmdline | xargs -r -n1 dirname | while read -r dir; do
        [ "$(cat "$dir/comm")" != sleep ] || awk '$1 == "PPid:" { print $2 }' "$dir/status"
    done
}

# kill_first PIDS: SIGKILL to the first of these
kill_first() {
    # shellcheck disable=SC2086  # words
    set -- $1
    [ "${1:-0}" -gt 1 ] && kill -KILL "$1"
}

# Do three ranks run, and does nixlrun know? What a rank writes comes after all reports of its start.
all_run() {
    [ "$(grep -c 'runs$' "$work/out")" = 3 ] && rank_runs 3
}

# start_job ARG...: start nixlrun on h0 with three ranks that say "runs" and have a process "sleep $mark"
# each; $pid
start_job() {
    "$hosts" -b "$bed" on h0 "$nixlrun" --engine "$engine" --host h0:1,h1:2 "$@" \
        >"$work/out" 2>"$work/err" </dev/null 9>&- &
    pid=$!
    until_true 300 all_run
    result $? "three ranks run" "$work/err"
}

# job_gives_alone RC NAME: the job that was started ends with this code
job_gives_alone() {
    wait "$pid" 2>/dev/null
    rc=$?
    [ "$rc" = "$1" ] || echo "exit code $rc instead of $1" >>"$work/err"
    [ "$rc" = "$1" ]
    result $? "$2" "$work/err" "$work/out"
}

# job_gives RC NAME: and nothing of it is left
job_gives() {
    job_gives_alone "$@"
    until_true 300 nothing_runs
    result $? "nothing runs on any host then" "$work/err"
}

# Signals to nixlrun. The shells are signalled with their children, which may be faster.
signals() {
    start_job --kill-grace 60 -l sh -c "trap 'echo bye; exit 0' TERM; echo runs; while :; do sleep $mark & wait; done"
    kill -TERM "$pid"
    job_gives 0 "SIGTERM asks the ranks, which end in order"
    [ "$(grep bye "$work/out" | sort | tr '\n' '|')" = "[0] bye|[1] bye|[2] bye|" ]
    result $? "each of them was asked" "$work/out" "$work/err"
    start_job sh -c "echo runs; exec sleep $mark"
    kill -INT "$pid"
    job_gives 130 "SIGINT ends the job"
    start_job --kill-grace 0.5 sh -c "trap '' TERM HUP; echo runs; exec sleep $mark"
    kill -HUP "$pid"
    job_gives 129 "SIGHUP kills those that do not listen when the grace is over"
    start_job --kill-grace 60 -l sh -c "trap 'kill \$!; echo bye; exit 0' USR1; echo runs; while :; do sleep $mark & wait; done"
    kill -USR1 "$pid"
    job_gives 0 "SIGUSR1 is passed on"
    [ "$(grep bye "$work/out" | sort | tr '\n' '|')" = "[0] bye|[1] bye|[2] bye|" ]
    result $? "to each of them" "$work/out" "$work/err"
    start_job sh -c "echo runs; exec sleep $mark"
    kill -KILL "$pid"
    job_gives 137 "SIGKILL of nixlrun"
    start_job sh -c "echo runs; exec sleep $mark"
    kill_first "$(cat "/proc/$pid/task/$pid/children")"
    job_gives 1 "SIGKILL of the guardian"
    has "$work/err" '^nixlrun: the guardian process has died; killing the job$' "is told"
    start_job sh -c "echo runs; exec sleep $mark"
    kill_first "$(rank_watchers)"
    job_gives 137 "SIGKILL of a nixlrun-rank"
    has "$work/err" '^nixlrun: rank [0-2] on host h[01] \(pid [0-9]+\) was ' "a rank is told"
}

# A nixlrun-rank that is killed, or cannot run, before its first report: only the engine knows.
early() {
    mkdir "$work/early"
    cp "$nixlrun" "$work/early/nixlrun"
    cat >"$work/early/nixlrun-rank" <<SCRIPT
#!/bin/sh
[ "\$PMIX_RANK" != 2 ] || [ "\$NXR_EARLY" != kill ] || kill -KILL \$\$
[ "\$PMIX_RANK" != 2 ] || exit 127
exec $build/launcher/nixlrun-rank "\$@"
SCRIPT
    chmod +x "$work/early/nixlrun-rank"
    whole=$nixlrun
    nixlrun=$work/early/nixlrun
    gives 137 "a rank that is lost before it has started" --host h0:1,h1:2 -x NXR_EARLY=kill \
        sleep "$mark"
    has "$work/err" '^nixlrun: rank 2 on host h1 was lost: its nixlrun-rank was killed$' "is told"
    until_true 300 nothing_runs
    result $? "and the others end" "$work/err"
    gives 127 "a nixlrun-rank that cannot run" --host h0:1,h1:2 -x NXR_EARLY=code sleep "$mark"
    has "$work/err" '^nixlrun: (rank 2 on host h1 did not start \(code 127\): is .*/nixlrun-rank on that host|.* has ended the job with code 127$)' "is told"
    until_true 300 nothing_runs
    result $? "and the others end" "$work/err"
    # Some engines say nothing of it then, and stay; Open MPI 4 may end neighbours that start, and lose
    # what they have reported.
    run --host h0:1,h1:2 -x NXR_EARLY=kill --on-failure continue true
    [ "$rc" = 137 ] || [ "$rc" = 1 ]
    result $? "a job that goes on without it ends" "$work/err"
    has "$work/err" '^nixlrun: (rank 2 on host h1 (was lost|has not started within 30 s of)|.*; how (1 rank|[23] ranks) ended is unknown|mpirun exited with code 0 before any rank started)' "with a word of it"
    nixlrun=$whole
}

# Ranks that fail are started again by their nixlrun-rank, and the engine does not see it.
restarts() {
    gives 0 "--on-failure restart" --host "$three" --on-failure restart=3,100ms --tag-output \
        sh -c 'echo "$PMIX_RANK is here"
            if [ "$PMIX_RANK" = 4 ] && mkdir '"$work"'/was 2>/dev/null; then kill -9 $$; fi'
    [ "$(sort "$work/out" | uniq -c | tr -s ' ' | tr '\n' '|')" = \
        "$(for i in 0 1 2 3; do printf ' 1 [%d] %d is here|' "$i" "$i"; done; echo ' 2 [4] 4 is here|')" ]
    result $? "starts a rank again on its host, and its output goes on" "$work/out" "$work/err"
    has "$work/err" '^nixlrun: rank 4 on host h2 \(pid [0-9]+\) was killed by signal 9 \(Killed\); it is started again \(1 of 3\)$' "is told"
    has "$work/err" '^nixlrun: rank 4 was started again 1 time$' "and at the end how often"
    [ "$(grep -c '^nixlrun:' "$work/err")" = 2 ]
    result $? "and nothing else" "$work/err"
    gives 3 "a failure beyond the number" --host "$three" --on-failure restart=2 \
        sh -c '[ "$PMIX_RANK" = 2 ] || exec sleep 300; exit 3'
    has "$work/err" '^nixlrun: rank 2 on host h1 \(pid [0-9]+\) exited with code 3; it was started again 2 times, as often as --on-failure restart=2 allows: the job ends$' "ends the job, and is told"
    [ -n "$network" ] || return 0
    gives 0 "ranks that are killed at random on three hosts" --host "$three" --on-failure restart=1000 \
        "$work/by_host" "$build/test/mp/restart" 20
    [ "$(grep -c 'is started again (' "$work/err")" = 20 ]
    result $? "come back, and every byte is right" "$work/out" "$work/err"
    gives 0 "their channels" --host "$three" --on-failure restart=1000 \
        "$work/by_host" "$build/test/mp/channel_return" 20
    gives 0 "all but one are killed at once" --host "$three" --on-failure restart=5 \
        "$work/by_host" "$build/test/mp/restart_cases" both
    gives 0 "one that fails before all have met" --host h0:1,h1:1 --on-failure restart=5,200ms \
        "$work/by_host" "$build/test/mp/restart_cases" early
    gives 1 "one that exits with 0 but owes nixl_finalize, again and again" --host "$three" --on-failure restart=5 \
        "$work/by_host" "$build/test/mp/abort" 0 owes
    start_job --on-failure restart=5 --kill-grace 60 sh -c "echo runs; exec sleep $mark"
    kill -TERM "$pid"
    job_gives 143 "SIGTERM ends a job whose ranks would be started again"
    ! grep -q 'started again' "$work/err"
    result $? "and none is" "$work/err"
    start_job --on-failure restart=5 sh -c "echo runs; exec sleep $mark"
    kill_first "$(rank_watchers)"
    job_gives 137 "SIGKILL of a nixlrun-rank that would start its rank again"
    start_job --on-failure restart=5 sh -c "echo runs; exec sleep $mark"
    kill -KILL "$pid"
    job_gives 137 "SIGKILL of nixlrun while ranks may be started again"
}

# whose_host NAME: does each rank know who shares its host, and do neighbours hear each other?
whose_host() {
    gives 0 "$1: which ranks share a host" --host "$three" "$build/test/net/nodes"
    [ "$(sort "$work/out" | tr '\n' '|')" = \
        "$(for i in 0 1 2 3 4; do printf "$i of 3 hosts: 0 0 1 1 2|"; done)" ]
    result $? "is known to all" "$work/out" "$work/err"
    gives 0 "$1: nixl_init to nixl_finalize" --host "$three" "$work/by_address" "$build/test/net/scope" 2 2 1
    [ "$(sort "$work/out" | cut -d' ' -f2,6,7 | tr '\n' '|')" = \
        "0 rank 1|1 rank 0|2 rank 3|3 rank 2|4 rank 4|" ]
    result $? "scopes are right, and neighbours of a host hear each other" "$work/out" "$work/err"
}

# Hosts that call themselves otherwise than the job does, which PMIx's server takes for others.
names() {
    cat >"$work/by_address" <<'SCRIPT'
#!/bin/sh
NIXLRUN_HOSTID=$(ip -4 -br addr show dev eth0 | tr -s ' ' | cut -d' ' -f3)
export NIXLRUN_HOSTID
exec "$@"
SCRIPT
    chmod +x "$work/by_address"
    whose_host "hosts of a name of their own"
    [ "$engine" != prrte ] || return 0 # its own daemons do not find each other then
    for host in $(on_hosts list); do on_hosts on "$host" hostname box; done
    whose_host "hosts that have one name"
    for host in $(on_hosts list); do on_hosts on "$host" hostname "x$host"; done
    whose_host "hosts that the job calls otherwise"
    for host in $(on_hosts list); do on_hosts on "$host" hostname "$host"; done
}

# What both engines must do.
common() {
    gives 0 "five ranks on three hosts" --host "$three" --tag-output \
        sh -c 'echo "$PMIX_RANK $(uname -n)"; echo "error $PMIX_RANK" >&2'
    [ "$(sort "$work/out" | tr '\n' '|')" = "[0] 0 h0|[1] 1 h0|[2] 2 h1|[3] 3 h1|[4] 4 h2|" ]
    result $? "each is where it belongs, and has its tag" "$work/out"
    [ "$(grep -c '^\[[0-4]\] error [0-4]$' "$work/err")" = 5 ]
    result $? "so has standard error" "$work/err"
    gives 0 "the variables of a place" --host h1:1,h2:2 -x RANK=7 -x A=1 \
        sh -c 'echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR $(uname -n)"'
    [ "$(sort "$work/out" | tr '\n' '|')" = "7 3 0 1 1 h1 h1|7 3 0 2 2 h1 h2|7 3 1 2 2 h1 h2|" ]
    result $? "are those of each host, and what the user sets stays" "$work/out"
    printf 'h2 slots=1\nh0:2\n' >"$work/hostfile"
    gives 0 "hosts of a file, in its order" --hostfile "$work/hostfile" -l uname -n
    [ "$(sort "$work/out" | tr '\n' '|')" = "[0] h2|[1] h0|[2] h0|" ]
    result $? "rank 0 is on the first one" "$work/out"
    gives 0 "variables and a directory" --host h0:1,h1:1 -x 'NXR_A=b;c,d e' --wdir /usr \
        sh -c 'echo "$NXR_A $PWD"'
    [ "$(sort -u "$work/out")" = "b;c,d e /usr" ]
    result $? "are on every host" "$work/out"
    on_hosts on h0 mkdir -p /tmp/only.h0
    gives 1 "a directory that one host does not have" --host h0:1,h1:1 --wdir /tmp/only.h0 \
        sleep 300
    has "$work/err" "^nixlrun: cannot change to directory '/tmp/only.h0' on host h1: No such file" "is told"
    [ "$(wc -l <"$work/err")" = 1 ]
    result $? "and nothing else is" "$work/err"
    gives 0 "PMIx: fence and get" --host "$three" "$clients/pmix_events" quick
    names
    gives 7 "PMIx_Abort gives its code" --host "$three" "$clients/pmix_events" abort 7
    ! grep -q 'rank . on host' "$work/err"
    result $? "and no rank is blamed for being killed then" "$work/err"
    gives 3 "the code of the first rank that fails" --host "$three" \
        sh -c '[ "$PMIX_RANK" != 2 ] || exit 3; sleep 300'
    has "$work/err" '^nixlrun: rank 2 on host h1 \(pid [0-9]+\) exited with code 3$' "is told by nixlrun"
    ! grep -qiE 'primary job|mpirun detected|srun: error|slurmstepd' "$work/err"
    result $? "and not by the engine too" "$work/err"
    gives 137 "a killed rank" --host "$three" sh -c '[ "$PMIX_RANK" != 4 ] || kill -9 $$; sleep 300'
    has "$work/err" 'rank 4 on host h2 .* was killed by signal 9 \(Killed\)$' "is told"
    gives 127 "a program that is not there" --host "$three" /nowhere/program
    has "$work/err" "^nixlrun: cannot run '/nowhere/program' on host h[012]: No such file" "is told"
    printf '#!/nowhere/sh\n' >"$work/script"
    chmod +x "$work/script"
    gives 127 "a script without its interpreter" --host "$three" "$work/script"
    has "$work/err" "^nixlrun: cannot run '$work/script' on host h[012]: its interpreter does not exist$" "is told"
    # How far the ranks are after a time is the machine's affair: more time until all run.
    for seconds in 8 30 90; do
        run --host "$three" --timeout $seconds sleep 300
        [ "$(grep -c '^nixlrun:   rank [0-4] .*: running$' "$work/err")" = 5 ] && break
    done
    [ "$rc" = 124 ]
    result $? "--timeout" "$work/err" "$work/out"
    has "$work/err" '^nixlrun:   rank 4 on host h2 \(pid [0-9]+\): running$' "tells the state of each rank"
    gives 0 "--output-dir" --host "$three" --output-dir "$work/files" \
        sh -c 'seq 1 5000; printf partial >&2'
    seq 1 5000 | cmp - "$work/files/rank.4.out" && seq 1 5000 | cmp - "$work/files/rank.0.out" &&
        [ "$(cat "$work/files/rank.3.err")" = partial ]
    result $? "has every byte of every rank" "$work/err"
    # Engines break lines of several MB; each rank has a letter, and its last line no newline.
    gives 0 "lines of 10 MB" --host h0:1,h1:1,h2:1 sh -c \
        'c=$(echo $PMIX_RANK | tr 012 abc); head -c 10000000 /dev/zero | tr "\0" $c; printf "\nend$c"'
    for letter in a b c; do
        head -c 10000000 /dev/zero | tr '\0' $letter
        printf '\nend%s\n' $letter
    done | sort >"$work/lines"
    sort "$work/out" | cmp - "$work/lines"
    result $? "are whole, and so is a last line that has no newline" "$work/err"
    gives 0 "--pty" --host "$three" --pty --tag-output sh -c 'test -t 1 && seq 3000 && printf end'
    [ "$(grep -c '^\[4\] ' "$work/out")" = 3001 ] && [ "$(grep -c '^\[[0-4]\] end$' "$work/out")" = 5 ]
    result $? "has every line" "$work/out"
    gives 137 "--on-failure continue after a kill" --host "$three" --on-failure continue \
        "$work/by_host" "$build/test/net/survive" 2 ${network:+all}
    [ "$(sort "$work/out" | tr '\n' '|')" = \
        "$(for i in 0 1 3 4; do printf 'rank %d went on|' "$i"; done)" ]
    result $? "all others go on, its neighbour too" "$work/out" "$work/err"
    has "$work/err" 'rank 2 on host h1 .* signal 9 \(Killed\); the other ranks continue$' "which is told"
    [ "$(grep -c '^nixlrun:' "$work/err")" = 1 ]
    result $? "and nothing else is" "$work/err"
    gives 3 "--on-failure continue after a code" --host "$three" --on-failure continue \
        sh -c '[ "$PMIX_RANK" != 0 ] || exit 3; sleep 2; echo "$PMIX_RANK"'
    [ "$(sort "$work/out" | tr '\n' '|')" = "1|2|3|4|" ]
    result $? "lets the others go on, too" "$work/out" "$work/err"
    on_three="$work/by_host $build/test/mp/abort"
    for how in abort continue; do
        # shellcheck disable=SC2086  # words
        gives 1 "--on-failure $how and a rank that exits with 0 but owes nixl_finalize" --host "$three" \
            --on-failure $how $on_three 0 owes
        has "$work/err" 'rank 4 on host h2 .* exited with code 0 but without nixl_finalize' "is told"
        # shellcheck disable=SC2086
        gives 0 "nixl_job_end with 0 and --on-failure $how" --host "$three" --on-failure $how $on_three 0 end
        ! grep -q '^nixlrun:' "$work/err" # mpirun may speak of its own start
        result $? "says nothing" "$work/err"
    done
    # Open MPI 4 counts a rank of another host that ends before its daemon has reported the start twice
    # or three times: seen in two of three rounds.
    n=0
    for round in 1 2 3 4 5 6; do
        run --host h0:1,h1:3 --on-failure continue sh -c '[ "$PMIX_RANK" = 0 ] || exit 3; sleep 1; echo on'
        [ "$rc" = 3 ] && [ "$(cat "$work/out")" = on ] && n=$((n + 1))
    done
    [ "$n" = "$round" ]
    result $? "ranks that fail at once do not end the last one" "$work/out" "$work/err"
    on_hosts on h0 "$nixlrun" --engine "$engine" --host h0:1,h2:1 -l --stdin 1 cat \
        >"$work/out" 2>"$work/err" <"$work/hostfile"
    [ "$(cat "$work/out")" = "$(sed 's/^/[1] /' "$work/hostfile")" ]
    result $? "--stdin 1" "$work/out" "$work/err"
    signals
    early
    restarts
}
