#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A process in a network of its own, of which the host forwards some ports, as to a container, is attached to
# from other hosts by the address that NIXLRUN_ANNOUNCE tells them. Usage: test_nat.sh. Prints TAP.
# needs: test/attach/attach_end
bed=nxnat
needs=nft
hosts_options="-n 2"
. "$top_srcdir/test/attach/beds.sh"

on_inside() { on=$work/inside; }
on_h1() { on="$hosts -b $bed on h1 $work/by_host"; }

# "inside" is behind h0: its packets leave by h0's address, and some ports of h0 are its. No other host has a
# route to it.
inside=$bed-inside
cat >"$work/inside" <<SCRIPT
#!/bin/sh
exec ip netns exec $inside env NIXLRUN_HOSTID=inside "\$@"
SCRIPT
chmod +x "$work/inside"
cat >"$work/rules" <<'RULES'
table ip nxnat {
    chain in {
        type nat hook prerouting priority -100
        ip daddr 10.77.0.10 tcp dport 30300 dnat to 172.29.0.2:7300
        ip daddr 10.77.0.10 tcp dport 7301-7302 dnat to 172.29.0.2
    }
    chain out {
        type nat hook postrouting priority 100
        ip saddr 172.29.0.0/24 masquerade
    }
}
RULES
make_inside() {
    ip netns del "$inside" 2>/dev/null
    ip netns add "$inside" &&
        ip link add eth0 netns "$inside" type veth peer name inner netns "$bed-h0" &&
        ip -n "$bed-h0" addr add 172.29.0.1/24 dev inner &&
        ip -n "$bed-h0" link set inner up &&
        ip -n "$inside" link set lo up &&
        ip -n "$inside" addr add 172.29.0.2/24 dev eth0 &&
        ip -n "$inside" link set eth0 up &&
        ip -n "$inside" route add default via 172.29.0.1 &&
        ip netns exec "$bed-h0" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward' &&
        ip netns exec "$bed-h0" nft -f "$work/rules"
}
leave() {
    ip netns del "$inside" 2>/dev/null
    end
}
trap leave EXIT
if ! make_inside >"$work/made" 2>&1; then
    sed 's/^/# /' "$work/made"
    skip "no NAT here"
fi

NIXLRUN_TOKEN=the_token_of_this_test
NIXLRUN_PEER_TIMEOUT=2s
NIXLRUN_TRANSPORTS=self,shm,tcp
ATTACH_OVER=tcp
export NIXLRUN_TOKEN NIXLRUN_PEER_TIMEOUT NIXLRUN_TRANSPORTS ATTACH_OVER
announce="env NIXLRUN_ANNOUNCE=10.77.0.10,7300:30300 NIXLRUN_TCP_PORTS=7301-7302"

# shellcheck disable=SC2086  # words
on_inside
begin serve $announce "$end" serve tcp://0.0.0.0:7300 calls 2
where=$(at serve)
verdict "$([ "$where" = tcp://10.77.0.10:30300 ] || echo "others are told $where")" \
    "nixl_publish_query() tells the announced address"
on_h1
verdict "$(says 'mptest: passed' "$end" visit "$where" calls 2; passed serve)" "every call to a process behind a NAT"

# The attacher's host accepts no connection: the forwarded port alone makes one.
on_inside
# shellcheck disable=SC2086
begin serve $announce "$end" serve tcp://0.0.0.0:7300 calls 1
where=$(at serve)
ip netns exec "$bed-h1" nft -f - <<'RULES'
table ip nxnat {
    chain in {
        type filter hook input priority 0
        ip saddr 10.77.0.10 tcp flags & (syn | ack) == syn drop
    }
}
RULES
on_h1
verdict "$(says 'mptest: passed' "$end" visit "$where" calls 1; passed serve)" \
    "every call where the attacher accepts no connections"

# The same through a folder that the two share: the entry names the announced address.
mkdir "$work/names"
on_inside
# shellcheck disable=SC2086
begin serve $announce NIXLRUN_PUBLISH_LISTEN=0.0.0.0:7300 "$end" serve "file:$work/names" calls 1
line serve '^published'
on_h1
verdict "$(says 'mptest: passed' "$end" visit "file:$work/names" calls 1; passed serve)" \
    "every call where the entry of a folder names the announced address"

on_inside
# shellcheck disable=SC2086
begin serve $announce "$end" serve tcp://0.0.0.0:7300 fall 1
where=$(at serve)
on_h1
begin stay "$end" stay "$where" fall
line stay '^putting'
kill -9 "$(pid_in serve)"
verdict "$(passed stay)" "a publisher behind a NAT is killed while data moves to it"

on_inside
verdict "$(says "^-1: .*NIXLRUN_ANNOUNCE is 'here'; allowed: an IP address" env NIXLRUN_ANNOUNCE=here \
    "$end" publish tcp://0.0.0.0:7300 name "")" "what is no address is refused"
verdict "$(says "NIXLRUN_TCP_PORTS is '80-70'; allowed: PORT or FIRST-LAST" env NIXLRUN_TCP_PORTS=80-70 \
    "$end" publish tcp://0.0.0.0:7300 name "" </dev/null)" "ports that are no range are refused"
finish
