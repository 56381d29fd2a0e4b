#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nixlrun --explain and --info on hosts of their own, through Open MPI's mpirun: the routes between hosts,
# their rails, why a network is not taken, and which hosts the engine does not reach.
bed=nxwhy
needs="mpirun.openmpi jq nft"
hosts_options="-n 5 -r 2"
. "$top_srcdir/test/net/lib.sh"

# explain ARG...: by two ranks on h0 and one on h1; $rc, and JSON in $work/out
explain() {
    on_hosts on h0 timeout -k 5 240 "$nixlrun" --engine openmpi --explain --json \
        --host h0:2,h1:1 "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
}

# gives_json NAME: the explanation came, and nothing was said on stderr. mpirun may lose a harmless race
# with its own child on a busy machine, and says so.
gives_json() {
    [ "$rc" = 0 ] && jq -e . "$work/out" >"$work/jq" &&
        ! grep -qv 'plm:rsh: Warning: setpgid' "$work/err"
    result $? "$1" "$work/err" "$work/out"
}

# finds FILTER NAME: jq's filter is true for the JSON in $work/out (jq finds no fault in an empty file)
finds() {
    [ -s "$work/out" ] && jq -e "$1" "$work/out" >"$work/jq" 2>&1
    result $? "$2" "$work/jq" "$work/out"
}

# The routes of host memory, which all test machines have.
hosts_only='.routes[] | select(.source == "host" and (.target | test("^host")))'

# between FILTER: all routes between the two hosts, both ways, fulfil it
between() {
    finds "[$hosts_only | select(.from != .to)] | length == 4 and all($1)" "$2"
}

explain
gives_json "two hosts are explained"
finds '.hosts == [{"name": "h0", "ranks": "0-1"}, {"name": "h1", "ranks": "2"}]' "with their ranks"
finds "[$hosts_only | .from] | . == sort and length == 8" "in the order of hosts"
finds "[$hosts_only"' | select(.from == "h0" and .to == "h0") | .transport] == ["shm", "shm"]' \
    "shared memory within the first"
finds "[$hosts_only"' | select(.from == "h1" and .to == "h1") | .transport] == ["self", "self"]' \
    "one rank alone in the second"
between '.transport == "ofi" and .rails == 2' "libfabric between them, over both rails"
between '.latency_ns > 0 and .bandwidth_mb_s > 0 and .rails > 0 and .devices != ""' \
    "with what is expected of it"
between '.devices | split("; ") | map(test("^net on eth[01], 10\\.77\\.[01]\\.1[01]$")) == [true, true]' \
    "each of its devices can be told from the next"
finds '[.refused[] | select(.from == "h0" and .to == "h1" and .transport == "shm") | .why] ==
    ["reaches only other ranks of this host"]' "shared memory is refused with a reason"
finds '[.refused[] | select(.from != .to and (.transport | test("ucx|tcp"))) | .why] |
    length == 4 and all(test("^ofi has 2 rails to that host"))' "the other networks are refused with a reason"

for network in ucx ofi tcp; do
    explain -x NIXLRUN_TRANSPORTS="^$network"
    gives_json "without $network"
    between ".transport != \"$network\"" "another network is taken"
    finds '[.refused[] | select(.transport == "'$network'") | .why] |
        length == 4 and all(. == "excluded by NIXLRUN_TRANSPORTS")' "and the reason is told"
done

# The memory of a GPU, or of what stands for one, goes between hosts by one of the networks, too.
LP_NUM_THREADS=1
export LP_NUM_THREADS
explain -x NIXLRUN_VULKAN_CPU=1 -x LP_NUM_THREADS
finds '[.gpu_memory[] | .kind] | . == sort and index("cuda") != null and index("vulkan") != null' \
    "each kind of GPU memory is reported"
finds '([.gpu_memory[] | select(.kind == "vulkan" and .usable) | .hosts] | . == [] or . == ["h0, h1"])
    and ([.routes[] | select(.from != .to and .target == "vulkan" and .source == "vulkan") |
    .method != "" and .latency_ns > 0 and .bandwidth_mb_s > 0] | . == [] or . == [true, true])' \
    "and has its way between hosts"

explain -x NIXLRUN_NET_DEVICES=eth1
between '.transport == "tcp" and .rails == 1 and (.devices | test("eth1"))' "TCP over a single one"
finds '[.refused[] | select(.from != .to and (.transport | test("ucx|ofi"))) | .why] |
    length == 4 and all(test("^not opened: tcp is faster over one interface without RDMA adapters"))' \
    "the others are not even opened, and why"
explain -x NIXLRUN_NET_DEVICES=eth1 -x NIXLRUN_TRANSPORTS=self,shm,ucx,ofi,tcp
between '.transport == "tcp" and .rails == 1' "TCP is what is chosen then, too"
finds '[.refused[] | select(.from != .to and (.transport | test("ucx|ofi"))) | .why] |
    length == 4 and all(test("^tcp is expected to be faster"))' "where the user names the others"
explain -x NIXLRUN_TRANSPORTS=ofi,self,shm -x NIXLRUN_NET_DEVICES=eth1
between '.transport == "ofi" and .rails == 1 and (.devices | test("eth1"))' \
    "or the one that the user names"

# Libfabric's ports are closed: its two rails are not what the ranks talk by.
for host in h0 h1; do
    "$top_srcdir/test/net/links" -b "$bed" ports "$host" drop 20000 20999 9>&-
done
explain -x FI_NET_PORT_LOW_RANGE=20000 -x FI_NET_PORT_HIGH_RANGE=20999 \
    -x FI_TCP_PORT_LOW_RANGE=20000 -x FI_TCP_PORT_HIGH_RANGE=20999 -x NIXLRUN_TRANSPORTS=self,shm,ofi,tcp
[ "$rc" = 0 ] && grep -q 'is reached by tcp; ofi: no connection to it could be made in time' "$work/err"
result $? "a network that carries nothing is reported" "$work/err"
between '.transport == "tcp"' "the one that works is named"
finds '[.refused[] | select(.from != .to and .transport == "ofi") | .why] | length >= 2 and
    all(test("no connection to it could be made in time .*no answer"))' "and why not the preferred one"

explain -x NIXLRUN_TRANSPORTS=self,shm
gives_json "hosts that do not reach each other are explained"
finds '[.routes[] | select(.from != .to) | .transport] == ["none"]' "by the one that prints"

# Of four other hosts the link of the first is down, the second does not answer, the third has no
# nixlrun, and only the last can be explained.
on_hosts cut h2
on_hosts on h4 mount -t tmpfs tmpfs "$build/launcher"
cat >"$work/rsh.lost" <<SCRIPT
#!/bin/sh
case " \$* " in *" h3 "*) exec sleep 86397.$$ ;; esac
exec $work/rsh "\$@"
SCRIPT
chmod +x "$work/rsh.lost"
OMPI_MCA_plm_rsh_agent=$work/rsh.lost
explain --host h2:1,h3:2,h4:1
gives_json "hosts that cannot be reached do not keep the others from being explained"
finds '.hosts == [{"name": "h0", "ranks": "0-1"}, {"name": "h1", "ranks": "2"}]' "whose ranks are left"
finds '.unreached | map(.name) == ["h2", "h3", "h4"]' "each lost host is listed"
finds '.unreached[0].why | test("unable to complete a TCP connection.* h2")' "one has no network"
finds '.unreached[1].why == "nothing has been started there within 15 s"' "one does not answer"
finds '.unreached[2].why | test("did not start .*nixlrun must be installed at the same path")' \
    "one has no nixlrun"
finds '[.routes[] | select(.to == "h3") | [.from, .transport, .note]] ==
    [["h0", "none", "nothing has been started there within 15 s"],
     ["h1", "none", "nothing has been started there within 15 s"]]' "and so are the routes to it"
! grep -qsz -e '^86397' /proc/[0-9]*/cmdline
result $? "nothing is left of the attempts"
on_hosts on h0 timeout -k 5 60 "$nixlrun" --engine openmpi --explain --host h2,h4 \
    >"$work/out" 2>"$work/err" </dev/null
[ $? = 1 ] && [ ! -s "$work/out" ]
result $? "if no host is left, the explanation fails" "$work/err" "$work/out"
has "$work/err" '^nixlrun: --explain: no rank can be started on host h2: A process or daemon' "with the reasons"
OMPI_MCA_plm_rsh_agent=$work/rsh

on_hosts on h1 "$nixlrun" --info --json >"$work/out" 2>"$work/err" </dev/null
finds '.transports | map(select(.usable and (.name | test("_ipc$") | not)) | .name) ==
    ["self", "shm", "ucx", "ofi", "tcp"]' \
    "--info knows the networks of a host"
finds '[.devices[] | select(.transport == "ofi") | .device] | length == 2' "and its rails"
finds '[.interfaces[] | select(.name | test("eth")) | .addresses | split(" ")[0]] ==
    ["10.77.0.11", "10.77.1.11"]' "and its interfaces"
finish
