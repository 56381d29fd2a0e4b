#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# The command nixlrun of a wheel: starts the launcher that lies in the package, without importing it.
import importlib.util
import os
import sys

package = importlib.util.find_spec("nixlrun")
if package is None:
    sys.exit(f"nixlrun: {sys.executable} does not find the package nixlrun")
program = os.path.join(list(package.submodule_search_locations)[0], "bin", "nixlrun")
os.execv(program, ["nixlrun", *sys.argv[1:]])
