#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests of the package with ThreadSanitizer in the extension module; options are pytest's.
#
#     cd build; PKG_CONFIG_PATH=... ../bindings/python/thread_sanitizer.sh [OPTION...]
#
# By default test_threads.py, under $PYTHON and the libnixlrun that pkg-config finds, both without
# ThreadSanitizer: it sees their locks, such as the GIL, but not what they read and write, so that
# no list of what Python does is needed. The library has a run of its own, .ci/run tsan. The
# environment, build/python-tsan, gets what is missing from PyPI. Without libtsan: exit code 77.
set -eu
source=$(cd "$(dirname "$0")" && pwd)
made=$PWD/python-tsan
python=${PYTHON:-python3}
launcher=$(command -v "${NIXLRUN:-nixlrun}") || { echo "thread_sanitizer.sh: no nixlrun"; exit 1; }
tsan=$(g++ -print-file-name=libtsan.so)
[ -e "$tsan" ] || { echo "skipped: g++ has no libtsan"; exit 77; }

[ -x "$made/bin/python" ] || "$python" -m venv "$made"
pip="$made/bin/python -m pip install -q --disable-pip-version-check"
$pip 'nanobind>=2.8,<4' 'scikit-build-core>=0.10' numpy pytest anyio trio
PATH=$made/bin:$PATH CXXFLAGS='-fsanitize=thread -g -O1' LDFLAGS=-fsanitize=thread \
    $pip --no-build-isolation --no-deps --force-reinstall "$source"

# The launcher runs without it, the ranks with it; a data race ends a rank with 66. What starts the
# launcher is Python, since a shell crashes with it.
cat >"$made/nixlrun" <<END
#!$made/bin/python
import os, sys
os.environ.pop("LD_PRELOAD", None)
os.execv("$launcher", ["nixlrun", "-x", "LD_PRELOAD=$tsan", *sys.argv[1:]])
END
chmod +x "$made/nixlrun"
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 exitcode=66"
under_tsan() {
    NIXLRUN=$made/nixlrun LD_PRELOAD=$tsan PYTHONDONTWRITEBYTECODE=1 \
        setarch -R "$made/bin/python" "$@"
}

# Does it find a race in a module of Python? The calls are so long that they overlap: one behind the
# other, the GIL would order them.
echo 'volatile int n; extern "C" void race() { for (int i = 0; i < 3000000; i++) n++; }' |
    g++ -x c++ - -shared -fPIC -g -O0 -fsanitize=thread -o "$made/race.so"
rc=0
under_tsan -c "import ctypes, sys, threading
race = ctypes.CDLL(sys.argv[1]).race
threads = [threading.Thread(target=race) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()" "$made/race.so" 2>"$made/race.log" || rc=$?
if [ $rc -ne 66 ] || ! grep -q 'data race' "$made/race.log"; then
    cat "$made/race.log"
    echo "thread_sanitizer.sh: it does not find a race that is there"
    exit 1
fi

[ $# -gt 0 ] || set -- test_threads.py
cd "$source/tests"
under_tsan -m pytest -q -p no:cacheprovider "$@"
