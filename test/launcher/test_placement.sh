#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Mapping and binding on recorded machines.
exec "$top_srcdir/test/launcher/transcript.sh" "$top_srcdir/test/launcher/placement.transcript"
