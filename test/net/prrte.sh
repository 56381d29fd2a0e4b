#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs on three hosts through PRRTE, which Debian 12 does not have: prterun runs in a chroot of Debian
# sid. Not part of "make check"; by hand, as root, in the build tree:
#
#     make test-programs
#     debootstrap --variant=minbase --include=libprrte-bin,openssh-client,openssh-server sid SID \
#         http://deb.debian.org/debian
#     top_srcdir=SOURCE SOURCE/test/net/prrte.sh SID [PART...]
#
# A PART is a function of engines.sh, such as restarts; without any, all is tested.
# Only prterun and its daemons live in the chroot; ranks leave it, to find the libraries they were
# linked with. Hosts are reached by ssh if it is there, else by an agent of this script. What the hosts have
# in /proc, /dev, /run, /tmp and where the trees lie is seen in it.
sid=$(realpath "$1")
shift
parts=$*
top_builddir=${top_builddir:-.}
top_srcdir=${top_srcdir:-.}
engine=prrte
bed=nxprrte
needs=chroot
. "$top_srcdir/test/net/lib.sh"
. "$top_srcdir/test/net/engines.sh"
[ -x "$sid/usr/bin/prterun" ] || skip "$sid has no prterun"

trees=$(for dir in "$build" "$(realpath "$top_srcdir")"; do echo "$dir" | cut -d/ -f2; done | sort -u)
for host in $(on_hosts list); do
    for dir in proc dev sys run tmp $trees; do
        on_hosts on "$host" mkdir -p "$sid/$dir"
        on_hosts on "$host" mount --rbind "/$dir" "$sid/$dir"
    done
    on_hosts on "$host" touch "$sid/etc/hosts"
    on_hosts on "$host" mount --bind /etc/hosts "$sid/etc/hosts"
done

mkdir "$work/bin"
cat >"$work/bin/prterun" <<SCRIPT
#!/bin/sh
exec chroot $sid /usr/bin/prterun "\$@"
SCRIPT
# ssh as a user has it: a key of its own, and an sshd on each host.
start_sshd() {
    mkdir -p "$sid/root/.ssh"
    chmod 700 "$sid/root/.ssh"
    [ -e "$sid/root/.ssh/id_ed25519" ] || ssh-keygen -q -t ed25519 -N '' -f "$sid/root/.ssh/id_ed25519"
    cp "$sid/root/.ssh/id_ed25519.pub" "$sid/root/.ssh/authorized_keys"
    printf 'StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n' \
        >"$sid/root/.ssh/config"
    chroot "$sid" ssh-keygen -A >/dev/null
    mkdir -p /run/sshd
    for host in $(on_hosts list); do
        on_hosts on "$host" chroot "$sid" /usr/sbin/sshd -o PermitRootLogin=yes -o UsePAM=no -o PidFile=none
    done
}

# Our ssh: to another host, and into the chroot there.
write_agent() {
    cat >"$work/sidrsh" <<SCRIPT
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1
shift
exec $work/rsh "\$host" "chroot $sid sh -c '\$*'"
SCRIPT
    chmod +x "$work/sidrsh"
    PRTE_MCA_plm_ssh_agent=$work/sidrsh
    export PRTE_MCA_plm_ssh_agent
}

# The daemon on h1 dies, and its ranks with it.
daemon_of_h1() {
    for dir in $(grep -lx prted /proc/[0-9]*/comm 2>/dev/null | xargs -r -n1 dirname); do
        [ "$(readlink "$dir/ns/net")" != "$(readlink "/proc/$(cat "/run/nixlrun-hosts/$bed/pid-h1")/ns/net")" ] ||
            echo "${dir#/proc/}"
    done
}
lost_daemon() {
    start_job sh -c "echo runs; exec sleep $mark"
    kill_first "$(daemon_of_h1)"
    job_gives 1 "SIGKILL of a prted"
    has "$work/err" 'lost communication with a remote daemon' "is told"
    start_job --on-failure continue sh -c "echo runs; [ \$PMIX_RANK = 0 ] || exec sleep $mark
        sleep $mark & until [ -e /tmp/go ]; do sleep 0.1; done; kill \$!; echo on"
    kill_first "$(daemon_of_h1)"
    until_true 300 rank_runs 1
    on_hosts on h0 touch /tmp/go
    job_gives 1 "SIGKILL of a prted in a job that goes on"
    grep -qx on "$work/out"
    result $? "the rank on the other host has" "$work/out" "$work/err"
    has "$work/err" '^nixlrun: .*(how 2 ranks ended is unknown|has been silent for)' "the lost ones are told"
}

# The way out of the chroot for a rank: the mounts of its host.
for name in by_host out; do
    cat >"$work/$name" <<SCRIPT
#!/bin/sh
NIXLRUN_HOSTID=\$(uname -n)
export NIXLRUN_HOSTID
exec nsenter -t "\$(cat /run/nixlrun-hosts/$bed/pid-\$(uname -n))" -m --wdns="\$PWD" "\$@"
SCRIPT
done
chmod +x "$work/bin/prterun" "$work/by_host" "$work/out"
PATH=$work/bin:$PATH
export PATH
if [ -x "$sid/usr/sbin/sshd" ]; then start_sshd; else write_agent; fi

if [ -n "$parts" ]; then
    for part in $parts; do $part; done
    finish
    exit 0
fi
common
lost_daemon
on_hosts on h0 timeout -k 5 120 prterun --allow-run-as-root --host h0:2,h1:2 -np 4 \
    "$work/by_host" "$build/test/net/scope" 2 2 >"$work/out" 2>"$work/err" </dev/null
[ $? = 0 ] && [ "$(grep -c heard "$work/out")" = 4 ]
result $? "prterun without nixlrun" "$work/out" "$work/err"
finish
