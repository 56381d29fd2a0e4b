#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The UCX module where the kernel knows adapters and has none: /sys/class/infiniband is an empty folder,
# and UCX has TCP only. UCX was set up for RDMA there, and newer ones (1.22) never sent bulk. Prints TAP.
# needs: test/network/network_test
set -eu
. "${top_srcdir:-$(dirname "$0")/../..}/test/network/module.sh"
if [ "${1:-}" != here ]; then
    # shellcheck disable=SC2016 # for the other shell
    script='mount --bind /sys/class/net "$1" && mount -t tmpfs tmpfs /sys/class &&
        mkdir /sys/class/net /sys/class/infiniband && mount --bind "$1" /sys/class/net &&
        umount -l "$1" && shift && exec "$@"'
    folder=$(mktemp -d)
    trap 'rmdir "$folder"' EXIT
    if ! unshare --mount sh -c "$script" sh "$folder" true 2>/dev/null; then
        echo "1..0 # SKIP /sys/class cannot be changed in a namespace of its own (needs root)"
        exit 0
    fi
    unshare --mount sh -c "$script" sh "$folder" "$0" here
    exit
fi
module ucx
