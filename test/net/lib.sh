# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# What the tests on several hosts share; read by `.`. The test has set $bed, a word of its own, and may
# have set $needs, programs without which it is skipped, and $hosts_options for "hosts up". The hosts h0, h1, ... are up from here to the test's end, also
# after a signal. In $work are `by_host` (the words after it run with the host's own NIXLRUN_HOSTID) and
# `rsh`, by which mpirun and prterun started on a host reach the others.
set -u
hosts=$top_srcdir/test/net/hosts
# Absolute, and not where a host has a file system of its own.
build=$(cd "$top_builddir" && pwd)
nixlrun=$build/launcher/nixlrun
clients=$build/test/launcher
work=$build/test/net/work.$bed
. "$top_srcdir/test/launcher/steps.sh"

skip() {
    echo "1..0 # SKIP $1"
    exit 0
}

end() {
    on_hosts down
    rm -rf "$work"
}

finish() {
    echo "1..$n_lines"
}

[ "$(id -u)" = 0 ] || skip "needs root"
for tool in ip nsenter unshare ${needs:-}; do
    command -v "$tool" >/dev/null || skip "$tool is not installed"
done
unshare --net --uts --mount true 2>/dev/null || skip "no namespaces here"
# One user of these hosts at a time; what runs on them does not inherit the lock.
exec 9>"/run/lock/nixlrun-hosts.$bed"
"$top_srcdir/test/limited" --lock "/run/lock/nixlrun-hosts.$bed" 9 || exit 99
on_hosts() {
    "$hosts" -b "$bed" "$@" 9>&-
}
rm -rf "$work"
mkdir -p "$work"
trap end EXIT
trap 'exit 1' INT TERM HUP
# shellcheck disable=SC2086  # words
on_hosts up ${hosts_options:-} || exit 99

# Test hosts share a kernel: what tells them apart is set on each.
cat >"$work/by_host" <<'SCRIPT'
#!/bin/sh
NIXLRUN_HOSTID=$(uname -n)
export NIXLRUN_HOSTID
exec "$@"
SCRIPT
cat >"$work/rsh" <<SCRIPT
#!/bin/sh
exec $(realpath "$hosts") -b $bed rsh "\$@"
SCRIPT
chmod +x "$work/by_host" "$work/rsh"
OMPI_MCA_plm_rsh_agent=$work/rsh
export OMPI_MCA_plm_rsh_agent
