# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Read by `.`: module NAME [PROVIDER] runs the test of networks on a module as it lies in the build tree, or skips.
module() {
    build=${top_builddir:-$PWD}
    folder=$build/transports/$1/.libs
    if [ ! -e "$folder/nixlrun_$1.so" ]; then
        echo "1..0 # SKIP the module $1 was not built; see configure's --with-$1"
        exit 0
    fi
    exec "$build/test/network/network_test" "$1" "$folder" ${2:+"$2"}
}
