#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Command lines, good and bad: what is understood, and the one line that each mistake gets.
root=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
exec "$root/test/launcher/transcript.sh" options
