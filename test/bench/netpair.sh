# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Two hosts on one machine for measuring: network and UTS namespaces joined by veth, as many rails as
# wanted, with cubic. Their names carry the process's number, so that two runs do not meet. Needs
# root and iproute2. Source it; call netpair_down at exit.

netpair=nxb$$
hosts=("$netpair-a" "$netpair-b")

# netpair_up DIR [N]: both hosts, rail i with the addresses 10.(80 + i).0.1 and .2 on veth<i>. DIR
# keeps their names alive. Sets $enter, the words that run a command on the first host.
netpair_up() {
    local directory=$1 n=${2:-1} host rail end before
    netpair_directory=$directory
    # shellcheck disable=SC2034 # for the caller
    enter=(nsenter "--uts=$directory/${hosts[0]}" ip netns exec "${hosts[0]}"
        env "NIXLRUN_HOSTID=${hosts[0]}")
    # A new namespace takes its congestion control from the first one, and may not choose itself.
    before=$(sysctl -n net.ipv4.tcp_congestion_control)
    sysctl -qw net.ipv4.tcp_congestion_control=cubic || return 1
    for host in "${hosts[@]}"; do
        ip netns add "$host" || break
    done
    sysctl -qw "net.ipv4.tcp_congestion_control=$before"
    for ((rail = 0; rail < n; rail++)); do
        ip link add "veth$rail" netns "${hosts[0]}" type veth peer name "veth$rail" \
            netns "${hosts[1]}" || return 1
        for end in 0 1; do
            ip -n "${hosts[end]}" addr add "10.$((80 + rail)).0.$((end + 1))/24" dev "veth$rail"
            ip -n "${hosts[end]}" link set "veth$rail" up || return 1
        done
    done
    for host in "${hosts[@]}"; do
        ip -n "$host" link set lo up
        touch "$directory/$host"
        unshare --uts="$directory/$host" hostname "$host" || return 1
        netpair_await_links "$host" "$n" || return 1
    done
}

# netpair_await_links HOST N: a new link is down for a moment, and libraries pass over it then.
netpair_await_links() {
    local deadline=$((SECONDS + 10))
    until [ "$(ip -n "$1" -br link show type veth | awk '$2 == "UP"' | wc -l)" = "$2" ]; do
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.05
    done
}

# netpair_limit RATE: every rail sends at most so fast, as 1gbit.
netpair_limit() {
    local host device
    for host in "${hosts[@]}"; do
        for device in $(ip -n "$host" -br link show type veth | cut -d@ -f1); do
            tc -n "$host" qdisc replace dev "$device" root tbf rate "$1" burst 256kb latency 20ms ||
                return 1
        done
    done
}

netpair_down() {
    local host
    for host in "${hosts[@]}"; do
        umount "$netpair_directory/$host" 2>/dev/null
        ip netns del "$host" 2>/dev/null
    done
    return 0
}

# netpair_agent FILE: write what a launcher starts its remote side by, called as ssh is. Each host
# has its NIXLRUN_HOSTID, since both are on one kernel.
netpair_agent() {
    cat >"$1" <<AGENT
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
case \$1 in
10.80.0.1 | ${hosts[0]}) host=${hosts[0]} ;;
10.80.0.2 | ${hosts[1]}) host=${hosts[1]} ;;
*) echo "there is no host '\$1'" >&2; exit 1 ;;
esac
shift
exec nsenter --uts="$netpair_directory/\$host" ip netns exec "\$host" \\
    env "NIXLRUN_HOSTID=\$host" sh -c "\$*"
AGENT
    chmod +x "$1"
}
