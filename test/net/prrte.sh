#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs on three hosts through PRRTE, which Debian 12 does not have: prterun runs in a chroot of Debian
# sid. Not part of "make check"; by hand, as root, in the build tree:
#
#     make check TESTS=
#     debootstrap --variant=minbase --include=libprrte-bin sid SID http://deb.debian.org/debian
#     top_srcdir=SOURCE SOURCE/test/net/prrte.sh SID
#
# Only prterun and its daemons live in the chroot; ranks leave it, to find the libraries they were
# linked with. What the hosts have in /proc, /dev, /run, /tmp and where the trees lie is seen in it.
sid=$(realpath "$1")
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
# Its ssh: to another host, and into the chroot there.
cat >"$work/sidrsh" <<SCRIPT
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1
shift
exec $work/rsh "\$host" "chroot $sid sh -c '\$*'"
SCRIPT
# The way out of the chroot for a rank: the mounts of its host.
for name in by_host out; do
    cat >"$work/$name" <<SCRIPT
#!/bin/sh
NIXLRUN_HOSTID=\$(uname -n)
export NIXLRUN_HOSTID
exec nsenter -t "\$(cat /run/nixlrun-hosts/$bed/pid-\$(uname -n))" -m --wdns="\$PWD" "\$@"
SCRIPT
done
chmod +x "$work/bin/prterun" "$work/sidrsh" "$work/by_host" "$work/out"
PATH=$work/bin:$PATH
PRTE_MCA_plm_ssh_agent=$work/sidrsh
export PATH PRTE_MCA_plm_ssh_agent

common
on_hosts on h0 timeout -k 5 120 prterun --allow-run-as-root --host h0:2,h1:2 -np 4 \
    "$work/by_host" "$build/test/net/scope" 2 2 >"$work/out" 2>"$work/err" </dev/null
[ $? = 0 ] && [ "$(grep -c heard "$work/out")" = 4 ]
result $? "prterun without nixlrun" "$work/out" "$work/err"
finish
