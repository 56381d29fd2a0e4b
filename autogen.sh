#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make configure and the Makefile.in files from a git checkout.
set -eu
cd "$(dirname "$0")"
mkdir -p build-aux m4
exec autoreconf --install --force "$@"
