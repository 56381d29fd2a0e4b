#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs that run: each option does what it says.
root=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
exec "$root/test/launcher/transcript.sh" effects
