#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Mapping and binding on recorded machines.
root=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
exec "$root/test/launcher/transcript.sh" placement
