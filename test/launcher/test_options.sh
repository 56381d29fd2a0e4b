#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Command lines, good and bad: what is understood, and the one line that each mistake gets.
exec "$top_srcdir/test/launcher/transcript.sh" "$top_srcdir/test/launcher/options.transcript"
