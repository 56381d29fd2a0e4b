#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs that run: each option does what it says.
exec "$top_srcdir/test/launcher/transcript.sh" "$top_srcdir/test/launcher/effects.transcript"
