#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The libfabric module against the interface of networks. Prints TAP.
# needs: test/network/network_test
set -eu
. "${top_srcdir:-$(dirname "$0")/../..}/test/network/module.sh"
module ofi
