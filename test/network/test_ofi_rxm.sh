#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The libfabric module over a provider whose messages are put together by another one. Prints TAP.
# needs: test/network/network_test
set -eu
. "${top_srcdir:-$(dirname "$0")/../..}/test/network/module.sh"
module ofi 'tcp;ofi_rxm'
