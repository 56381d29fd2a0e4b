#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does test/net/links do to the links what it says? Seen by ping between two hosts.
# needs: test/net/relay
bed=nxlinks
needs='ping nft tc'
hosts_options='-n 2 -r 2'
. "$top_srcdir/test/net/lib.sh"
NIXLRUN_TEST_RELAY=$build/test/net/relay
export NIXLRUN_TEST_RELAY

links() {
    "$top_srcdir/test/net/links" -b "$bed" "$@" >"$work/out" 2>"$work/err" 9>&-
}

# ping_h1 RAIL ARG...: from h0; how many of the packets came back in $came, in how many ms in $took
ping_h1() {
    rail=$1
    shift
    on_hosts on h0 ping -q "$@" "10.77.$rail.11" >"$work/ping" 2>&1
    came=$(sed -n 's/.* \([0-9]*\) received.*/\1/p' "$work/ping")
    took=$(sed -n 's/.* time \([0-9]*\)ms$/\1/p' "$work/ping")
}

# says TEST NAME: the shell's test holds
says() {
    [ $1 ]
    result $? "$2" "$work/ping" "$work/out" "$work/err"
}

# until_says TEST RAIL ARG...: ping again until the test holds, a few times. Ping does not wait for an
# answer that is late on a busy machine, is slow there, and takes a neighbour that it could not find for
# an answer: what is true without that is seen sooner or later, and what is not never.
until_says() {
    wanted=$1
    shift
    for try in 1 2 3 4 5 6 7 8 9 10; do
        ping_h1 "$@"
        eval "[ $wanted ]" && break
    done
}

until_says '$came -eq 200' 0 -i 0.002 -c 200 -W 1
says "$came -eq 200" "a link loses nothing at first"
links lose h1 10
until_says '$came -ge 130 -a $came -le 190' 0 -i 0.002 -c 200 -W 1
says "$came -ge 130 -a $came -le 190" "a tenth is lost each way"
links lose h1 0
until_says '$came -eq 200' 0 -i 0.002 -c 200 -W 1
says "$came -eq 200" "and nothing after that"

links rate h1 1mbit
ping_h1 0 -f -s 1400 -c 400
says "$took -ge 2500" "a rate is kept"
links rate h1 1gbit
until_says '$took -lt 2500' 0 -f -s 1400 -c 400
says "$took -lt 2500" "and can be raised"

links cut h1 1
ping_h1 1 -i 0.05 -c 4 -w 1
says "$came -eq 0" "nothing passes a link that is cut"
on_hosts on h1 ip -br link show dev eth1 >"$work/out"
has "$work/out" ' UP ' "which is up for its host"
until_says '$came -ge 1' 0 -c 1 -w 10
says "$came -ge 1" "the other link is whole"
links join h1 1
until_says '$came -ge 1' 1 -c 1 -w 10
says "$came -ge 1" "a link is joined again"

links hole h1 1000 1
until_says '$came -ge 1' 1 -c 1 -s 100 -w 10
says "$came -ge 1" "short packets pass a hole"
ping_h1 1 -i 0.05 -c 4 -s 1200 -w 1
says "$came -eq 0" "and long ones do not"
links hole h1 0 1
until_says '$came -ge 1' 1 -c 1 -s 1200 -w 10
says "$came -ge 1" "a hole is closed again"
! links freeze h1 1
result $? "what has no connection cannot be frozen" "$work/err"
has "$work/err" '^links: no TCP connection of h1 goes over its link 1$' "in words"
for wall in 'drop exit.124' 'reject Connection.refused' 'forbid No.route.to.host'; do
    links wall h1 "${wall% *}" 1
    on_hosts on h0 timeout 2 bash -c 'exec 3<>/dev/tcp/10.77.1.11/7' >"$work/ping" 2>&1
    echo "exit $?" >>"$work/ping" # 124: nothing was said in that time
    grep -q "${wall#* }" "$work/ping"
    result $? "a wall: ${wall% *}" "$work/ping" "$work/err"
done

links relay h1 delay=2ms seed=9
has "$work/out" '^ok seed=9 ' "a relay stands in the link"
until_says '$came -eq 20' 0 -i 0.01 -c 20 -W 1
[ "$came" = 20 ] && awk -F'[ /]' '/^rtt/ { exit !($7 >= 4) }' "$work/ping"
result $? "and delays what passes, each way" "$work/ping"
links tell h1 stall
ping_h1 0 -i 0.05 -c 4 -w 1
says "$came -eq 0" "nothing passes while it is stalled"
links tell h1 resume
until_says '$came -ge 1' 0 -c 1 -w 10
says "$came -ge 1" "it can be resumed"
! links tell h1 delay=-1
result $? "a bad order is refused" "$work/out"
has "$work/out" '^error .delay=-1.: allowed: a time' "in words"
! links lose h2 1
result $? "so is a host that is not there" "$work/err"
has "$work/err" '^links: no host h2 in nxlinks$' "in words"
finish
