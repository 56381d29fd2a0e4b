#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Python package: built as a wheel against this build tree, installed into the environment that
# ./quickstart made, its tests under nixlrun, its examples, its types. Prints TAP.
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"
package=$src/bindings/python
python=$build/python/bin/python3
nixlrun=$build/launcher/nixlrun
sanitizers=$(sed -n 's/^SAN_CFLAGS = //p' "$build/Makefile")

# skip_all WHY
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}
[ -x "$python" ] || skip_all "there is no $build/python; ./quickstart packages check makes it"
[ -e "$build/src/.libs/libnixlrun.so" ] && [ -z "$sanitizers" ] ||
    skip_all "no shared library was built, or one with a sanitizer"
command -v cmake >/dev/null || skip_all "CMake is not installed"

LD_LIBRARY_PATH=$build/src/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
NIXLRUN=$nixlrun
PYTHONDONTWRITEBYTECODE=1
# A rank needs no threads of numpy's BLAS, whose start is a third of the time of an import.
OPENBLAS_NUM_THREADS=1
export LD_LIBRARY_PATH NIXLRUN PYTHONDONTWRITEBYTECODE OPENBLAS_NUM_THREADS
PATH=$build/python/bin:$PATH

# try COMMAND...: its output if it fails, nothing if it does not.
try() {
    "$@" >"$scratch/try" 2>&1 </dev/null || { cat "$scratch/try"; echo "failed: $*"; }
}

in_tree() {
    try env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$build" "$1" PYTHON="$python" \
        WHEEL_FLAGS=--no-build-isolation
}
# install PYTHON: the wheel of this Python's version, and nothing from elsewhere.
install() {
    try "$1" -m pip install -q --disable-pip-version-check --no-deps --no-index --force-reinstall \
        "$build"/wheel/nixlrun-*"-$tag"-*.whl
}
tag=$("$python" -c 'import sys; print("cp%d%d" % min(sys.version_info[:2], (3, 12)))')
rm -f "$build"/wheel/nixlrun-*-"$tag"-*.whl "$build"/wheel/nixlrun-*.tar.gz
verdict "$(in_tree wheel; install "$python")" "make wheel, and pip installs it"
cd "$scratch"

verdict "$(try "$python" -W error -c "import nixlrun, nixlrun.aio
want = '$(sed -n 's/^#define NIXLRUN_VERSION "\(.*\)"/\1/p' "$build/include/nixlrun_version.h")'
assert nixlrun.__version__ == nixlrun.library_version() == want, (nixlrun.__version__, want)
for name in nixlrun.__all__:
    assert getattr(nixlrun, name).__doc__ or name.isupper() or name[0] == '_', name
assert 'numpy' not in __import__('sys').modules"
    try "$python" -S -c "import sys; sys.path += [sys.argv[1]]; import nixlrun
assert not {'typing', 're', 'asyncio', 'logging'} & set(sys.modules)" \
        "$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')")" \
    "it has the version of the library, texts for all names, and imports no numpy, nor typing"

verdict "$(try "$python" -m mypy --config-file "$package/pyproject.toml" --cache-dir "$scratch/mypy" \
    "$package/nixlrun")" "mypy --strict finds nothing"

verdict "$(try "$python" -c "import ast, glob
for name in glob.glob('$package/nixlrun/*.py') + glob.glob('$src/examples/python/*.py'):
    ast.parse(open(name).read(), name, feature_version=(3, 9))")" "it is written in Python 3.9"

verdict "$(for wheel in "$build"/wheel/nixlrun-*-"$tag"-*.whl; do
        case $wheel in *-manylinux_*) ;; *) echo "$wheel has no tag of manylinux" ;; esac
    done)" "auditwheel gives the wheel a tag of manylinux"

# A user's environment, with nothing but the wheel: the launcher, its helpers, the library and what
# it loads come from there, with a library of another place in the environment, too.
alone() {
    env -i HOME="$scratch" PATH="$scratch/user/bin:/usr/bin:/bin" LD_LIBRARY_PATH="$build/src/.libs" \
        timeout 60 "$@"
}
verdict "$(try "$python" -m venv "$scratch/user"
    install "$scratch/user/bin/python3"
    try alone nixlrun --timeout 40s -np 2 python3 "$src/examples/python/hello.py"
    grep -q 'rank 1: hello from rank 0' "$scratch/try" || cat "$scratch/try"
    try alone nixlrun -np 1 python3 -c "import nixlrun, sys
job = nixlrun.Job()
for line in open('/proc/self/maps'):
    file = line.split(None, 5)[-1].strip()
    if any('lib' + name in file for name in ('nixlrun', 'pmix', 'hwloc', 'event', 'nettle')):
        assert file.startswith('$scratch/user/lib'), file"
    try alone nixlrun --info
    for row in "libnixlrun .* $scratch/user/lib.*/nixlrun/lib/libnixlrun.so" '^  tcp  *yes'; do
        grep -Eq "$row" "$scratch/try" || cat "$scratch/try"
    done
    alone sh -c 'cd "$0" && man -w nixlrun' "$scratch" >"$scratch/try" 2>&1 || :
    ! command -v man >/dev/null || grep -qx "$scratch/user/share/man/man1/nixlrun.1" "$scratch/try" ||
        cat "$scratch/try")" "the wheel alone runs a job, with its own launcher, library and manual"

verdict "$(mkdir sdist
    in_tree sdist
    tar -xzf "$build"/wheel/nixlrun-*.tar.gz -C sdist --strip-components=1
    for part in CMakeLists.txt README.md core launcher.py nixlrun pyproject.toml; do
        diff -r "$package/$part" "sdist/$part"
    done)" "make sdist has all that pip compiles"

# Each call of the library is used by the package, or nixlrun-python(7) says that it is not.
verdict "$(sed '1,/^\.SH NOT REACHABLE/d; /^\.SH SEE ALSO/,$d; s/\\-/-/g' "$src/man/nixlrun-python.7" >absent
    for name in $(sed -nE 's/^ +(nixl_\w+);$/\1/p' "$src/src/libnixlrun.map"); do
        grep -qwE "$name(_x)?" "$package"/core/*.cpp "$package"/core/*.h && used=yes || used=no
        grep -qw "$name" absent && told=yes || told=no
        [ "$used" != "$told" ] || echo "$name: used: $used, in the manual as not reachable: $told"
    done)" "each call of the library is reachable, or the manual says why not"

# The tests, one TAP line for each, beside an S3 server if there is one.
S3_TEST_PYTHON=$build/python "$src/test/storage/with-s3" moto \
    "$python" -m pytest -q -rA --tb=short -p no:cacheprovider "$package/tests" >tests 2>&1 </dev/null || :
sed -nE 's/^(PASSED|FAILED|ERROR|SKIPPED) (\[[0-9]+\] )?([^ ]+)( - (.*)|: (.*))?$/\1 \3 \5\6/p' tests |
    sed 's|[^ ]*tests/||' | sort >results
while read -r outcome name why; do
    number=$((number + 1))
    case $outcome in
        PASSED) echo "ok $number - $name" ;;
        SKIPPED) echo "ok $number - $name # SKIP $why" ;;
        *) echo "not ok $number - $name" ;;
    esac
done <results
verdict "$(grep -q '^PASSED' results && ! grep -qE '^(FAILED|ERROR)' results || cat tests)" \
    "pytest ran its tests"

# example NAME RANKS PATTERN: it ends well and says so.
example() {
    verdict "$(try timeout 50 "$nixlrun" --timeout 40s -np "$2" "$python" "$src/examples/python/$1.py"
        grep -qE "$3" "$scratch/try" || { echo "not found: $3"; cat "$scratch/try"; })" "example $1"
}
example hello 3 'rank 1: hello from rank 0'
example ring 4 'right'
example stencil 3 'right'
example parameter_server 3 '400 gradients of 2 workers'
example work_queue 3 '2000 items of 2 ranks, each in order'
example server 3 'served 2 clients'
# Processes without a launcher; the server is there first or last.
mkdir "$scratch/attach"
verdict "$(timeout 50 "$python" "$src/examples/python/attach.py" serve "$scratch/attach" >"$scratch/served" 2>&1 &
    server=$!
    try timeout 50 "$python" "$src/examples/python/attach.py" work "$scratch/attach"
    try timeout 50 "$python" "$src/examples/python/attach.py" work "$scratch/attach"
    wait "$server" || echo "the server failed"
    grep -qx '2 of 2 workers have filled their parts' "$scratch/served" || cat "$scratch/served")" "example attach"
status=0
timeout 50 "$nixlrun" --timeout 40s -np 1 "$python" "$src/examples/python/torch_tensors.py" >try 2>&1 </dev/null ||
    status=$?
if [ "$status" = 77 ]; then
    number=$((number + 1))
    echo "ok $number - example torch_tensors # SKIP $(sed -n 's/^skipped: //p' try | head -n 1)"
else
    verdict "$([ "$status" = 0 ] || cat try)" "example torch_tensors"
fi
echo "1..$number"
