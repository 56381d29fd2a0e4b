#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Teams whose members are of two jobs, on one host by shared memory and between two hosts by TCP: every collective,
# with every byte verified, and a member that dies or leaves. Usage: test_team.sh; needs top_srcdir. Prints TAP.
# needs: test/attach/attach_team
bed=nxteam
hosts_options="-n 2"
. "$top_srcdir/test/attach/beds.sh"
team=$build/test/attach/attach_team
dir=$scratch/names
mkdir "$dir"

# survived LOG N: it ended with the death of a rank, and N ranks passed
survived() {
    ended "$1" >"$scratch/code"
    [ "$(grep -c 'mptest: passed' "$scratch/$1")" = "$2" ] || cat "$scratch/$1"
}

for sizes in "1 1" "2 1" "1 3" "2 2"; do
    begin serve "$nixlrun" -np "${sizes% *}" --oversubscribe "$team" serve "file:$dir" t "${sizes#* }" 2
    begin visit "$nixlrun" -np "${sizes#* }" --oversubscribe "$team" visit "file:$dir" t "${sizes% *}" 2
    verdict "$(passed serve; passed visit)" "jobs of $sizes ranks: every collective of a team of both"
done

begin serve "$nixlrun" -np 2 --oversubscribe "$team" serve "file:$dir" k 2 1 kill
begin visit "$nixlrun" -np 2 --oversubscribe --on-failure continue "$team" visit "file:$dir" k 2 1 kill
verdict "$(passed serve; survived visit 1)" "a member of the other job dies: all lose it, and go on without it"

begin serve "$nixlrun" -np 2 --oversubscribe "$team" serve "file:$dir" s 2 1 split
begin visit "$nixlrun" -np 2 --oversubscribe --on-failure continue "$team" visit "file:$dir" s 2 1 split
verdict "$(passed serve; survived visit 1)" "a member of the other job dies while the others split the team: all lose it"

begin serve "$nixlrun" -np 1 --oversubscribe "$team" serve "file:$dir" l 2 1 leave
begin visit "$nixlrun" -np 2 --oversubscribe "$team" visit "file:$dir" l 1 1 leave
verdict "$(passed serve; passed visit)" "a member leaves behind its part of a call: the others complete it, and no later one"

NIXLRUN_TOKEN=the_token_of_this_test
NIXLRUN_TRANSPORTS=self,shm,tcp
export NIXLRUN_TOKEN NIXLRUN_TRANSPORTS
on_h0() { on="$hosts -b $bed on h0 $work/by_host"; }
on_h1() { on="$hosts -b $bed on h1 $work/by_host"; }

# far HOW: one server and two visitors, on different hosts
far() {
    on_h0
    begin serve "$nixlrun" -np 1 --oversubscribe "$team" serve tcp://10.77.0.10:7700 far 2 1 "$1"
    on_h1
    begin visit "$nixlrun" -np 2 --oversubscribe --on-failure continue "$team" visit tcp://10.77.0.10:7700 far 1 1 "$1"
}

far ""
verdict "$(passed serve; passed visit)" "jobs on two hosts: every collective of a team of both"
far kill
verdict "$(passed serve; survived visit 1)" "jobs on two hosts: a member dies, and the others go on"
far leave
verdict "$(passed serve; passed visit)" "jobs on two hosts: a member leaves behind its part of a call"
finish
