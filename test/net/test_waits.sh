#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Who waits for whom on several hosts, through Slurm's srun, which starts ranks that nixlrun cannot look
# at: a job that is stuck in each way, and one sentence must name it. All jobs run at the same time.
# needs: test/mp/stuck
bed=nxwaits
needs="munged slurmctld slurmd srun"
. "$top_srcdir/test/net/lib.sh"
on_hosts slurm || exit 99

# begin KIND HOSTS OPTION...: start a job that gets stuck; its pid is in $work/KIND.pid
begin() {
    kind=$1 on=$2
    shift 2
    "$hosts" -b "$bed" on h0 "$nixlrun" --engine slurm --kill-grace 0 --host "$on" "$@" \
        "$work/by_host" "$build/test/mp/stuck" "$kind" >"$work/$kind.out" 2>&1 </dev/null 9>&- &
    echo $! >"$work/$kind.pid"
}

is_shown() {
    on_hosts on h0 "$nixlrun" ps -w "$(cat "$work/$1.pid")" >"$work/$1.ps" 2>&1 && grep -qE -e "$2" "$work/$1.ps"
}

# named KIND SENTENCE: nixlrun ps -w says so, and SIGUSR2 to nixlrun
named() {
    until_true 60 is_shown "$1" "^$2$"
    result $? "$1 is named in one sentence" "$work/$1.ps" "$work/$1.out"
    kill -USR2 "$(cat "$work/$1.pid")"
    until_true 60 grep -qE -e "^nixlrun: $2$" "$work/$1.out"
    result $? "SIGUSR2 shows it" "$work/$1.out"
}

begin missing h0:1,h1:1
begin wrong_tag h0:1,h1:1
begin ring h0:1,h1:2
begin stopped_peer h0:1,h1:1
begin dead_peer h0:1,h1:1 --on-failure continue
begin init h0:1,h1:1
begin outside h0:1,h1:1 --timeout 8s
named missing 'rank 0 waits in nixl_notify_recv for tag 42 from rank 1, which waits in nixl_barrier for rank 0'
named wrong_tag 'rank 0 waits in nixl_notify_recv for tag 42 from rank 1 \(queued unmatched: tag 41 from rank 1\), which waits in nixl_barrier for rank 0'
named ring 'rank 0 waits in nixl_notify_recv for tag 42 from rank 1, which waits in nixl_notify_recv for tag 42 from rank 2, which waits in nixl_notify_recv for tag 42 from rank 0'
named stopped_peer 'rank 0 waits in nixl_notify_recv for tag 42 from rank 1, which is stopped \(by a signal or a debugger\)'
named dead_peer "rank 0 waits in nixl_signal_wait until the word at offset 0 of region 'words' is 5 \(it is 0\), and no rank is left that could end this wait: rank 1 has died"
named init 'rank 0 waits in nixl_init for rank 1, which has not called nixl_init'
# A rank of another host that waits for nothing is not known better than that.
until_true 60 grep -qE '^nixlrun: rank 0 waits in nixl_barrier for rank 1, which is in no wait of a second or more$' \
    "$work/outside.out"
result $? "--timeout shows what each waits for" "$work/outside.out"
finish
