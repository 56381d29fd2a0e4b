#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nixl_bench peers: what it refuses, which peers it names as missing and how to get them, and that
# it measures Open MPI beside nixlrun, in each form of output. Its figures are not looked at: the
# machine is busy with other tests.
# needs: test/bench/nixl_bench launcher/nixlrun
set -eu
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
bench=$build/test/bench/nixl_bench

# refuses TEXT OPTION...
refuses() {
    text=$1
    shift
    code=0
    "$bench" peers "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
    [ "$code" = 2 ] || echo "$*: code $code"
    grep -qF -- "nixl_bench peers: $text" "$scratch/err" || { echo "$*:"; cat "$scratch/err"; }
}

verdict "$(refuses "unknown option '--frob'; see --help" --frob
    refuses "'put' is no option" put
    refuses "option '--repeat' needs a value" --repeat
    refuses "--repeat is '0'; allowed: a number from 1" --repeat 0
    refuses "--budget is 'x'; allowed: milliseconds" --budget x
    refuses "--sizes is '8,,9'; allowed: bytes" --sizes 8,,9
    refuses "--ranks is '1'; allowed: numbers from 2" --ranks 1
    refuses "--state is 'here'; allowed: near, far or any" --state here
    refuses "--only has 'all'; allowed: peers,collectives,own" --only all
    refuses "--peers has 'gpi'; allowed: ucx,ofi,openmpi,oshmem,mpich,nixl,mooncake" --peers gpi
    refuses "--json '/nowhere/x': No such file or directory" --json /nowhere/x
    refuses "--build: there is no folder '/nowhere'" --build /nowhere
    refuses "there is no nixlrun in '/usr'; name the build folder by --build" --build /usr)" "bad options are refused, in words"
verdict "$(refuses "--only has 'nosuch'; allowed: peers,collectives,own,rails" --network --only nosuch
    refuses "--peers has 'nixl'; allowed: ucx,ofi,openmpi,mpich" --network --peers nixl
    refuses "--repeat is '0'" --repeat 0 --network
    [ "$(id -u)" = 0 ] || refuses "--network needs root" --network)" "... and those between hosts"
verdict "$("$bench" peers --help >"$scratch/out" 2>&1 || echo "code $?"
    for option in list only peers ranks sizes budget repeat markdown json goals state patience keep python build; do
        grep -q -- "--$option" "$scratch/out" || echo "--$option is not in --help"
        grep -q -- "^\.BR* \\\\-\\\\-$option\|^\.BR* .*\\\\-\\\\-$option" "$src/man/nixl_bench.1" || echo "--$option is not in the manual"
    done)" "--help and the manual have every option"

# A host without any peer but what the compiler finds, and with a python that lacks NIXL.
mkdir "$scratch/bin"
for tool in bash sh env awk sed grep cat head tail cut tr sort mktemp rm dirname nproc id date uname timeout sleep chmod kill ls; do
    ln -s "$(command -v $tool)" "$scratch/bin/$tool"
done
printf '#!/bin/sh\nPATH=%s exec gcc "$@"\n' "$PATH" >"$scratch/bin/gcc"
printf '#!/bin/sh\necho "ModuleNotFoundError: none" >&2\nexit 1\n' >"$scratch/bin/python3"
chmod +x "$scratch/bin/gcc" "$scratch/bin/python3"
verdict "$(PATH=$scratch/bin "$bench" peers --list --python "$scratch/bin/python3" >"$scratch/out" 2>"$scratch/err" </dev/null || echo "code $?"
    for line in 'missing  Open MPI: no mpicc.openmpi (Debian: apt-get install openmpi-bin libopenmpi-dev)' \
        'missing  OpenSHMEM: no oshcc (Debian: apt-get install openmpi-bin libopenmpi-dev)' \
        'missing  MPICH: no mpicc.mpich (Debian: apt-get install mpich libmpich-dev)' \
        "missing  NVIDIA NIXL: $scratch/bin/python3: ModuleNotFoundError: none (pip install nixl, and name its python by --python)" \
        "missing  Mooncake: $scratch/bin/python3: ModuleNotFoundError: none (pip install mooncake-transfer-engine-non-cuda, and name its python by --python)"; do
        grep -qxF "$line" "$scratch/out" || { echo "no '$line'"; cat "$scratch/out" "$scratch/err"; }
    done)" "what is missing is named, with what installs it"

if ! command -v mpicc.openmpi >/dev/null || ! command -v jq >/dev/null; then
    verdict "" "measuring # SKIP needs Open MPI and jq (Debian: openmpi-bin libopenmpi-dev jq)"
    echo "1..$number"
    exit
fi

mkdir "$scratch/tmp"
export TMPDIR="$scratch/tmp" NIXLRUN_RESOLVE_TIMEOUT=60s NIXLRUN_FINALIZE_TIMEOUT=60s
quick="--peers openmpi --budget 1 --repeat 1 --sizes 8 --patience 0"

# measures OPTION...
measures() {
    # shellcheck disable=SC2086 # several words
    timeout 280 "$bench" peers $quick "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || { echo "code $?"; cat "$scratch/err"; }
}

verdict "$(measures --json "$scratch/json" --keep "$scratch/lines"
    grep -q '^found    Open MPI [0-9]' "$scratch/err" || cat "$scratch/err"
    grep -q '^put 8 ' "$scratch/out" || cat "$scratch/out"
    grep -q '^nixlrun,put,8,[0-9.]*,[0-9.]*,[0-9.]*,[a-z-]*$' "$scratch/lines" || cat "$scratch/lines")" "Open MPI is measured beside nixlrun"
verdict "$(jq -e '.network == false and .turns == 1 and (.machine.cores > 0) and (.peers[0] | test("^Open MPI")) and
    ([.rows[] | select(.median_ns > 0 and .bytes == 8 and .ranks == 2) | .peer] | unique |
        contains(["nixlrun", "openmpi"]))' "$scratch/json" >/dev/null || cat "$scratch/json")" "--json has all of it"
verdict "$(measures --markdown
    grep -q '^| operation |.* |$' "$scratch/out" && grep -q '^| put 8 B, visible at the target |.* ns |' "$scratch/out" || cat "$scratch/out")" \
    "--markdown prints a table for a README"
verdict "$(measures --only collectives --ranks 2 --goals
    grep -q '^allreduce/2 8 ' "$scratch/out" && grep -q '^Goals of collectives of 2 ranks' "$scratch/out" || cat "$scratch/out")" \
    "collectives are measured, and held against goals"

# tables COMMAND: what peers_report.sh says of these turns: in those of ofi the cores moved, in those of
# mpich they lay otherwise than in the rest.
printf '%s,9,8,12,%s\n' nixlrun,put,8 near ucx,put,8 near ofi,put,8 mixed mpich,put,8 far >"$scratch/turns"
tables() {
    # shellcheck disable=SC2016
    bash -c 'work=$2 lines=$2/turns repeat=1; . "$1/test/bench/peers_report.sh"; '"$1" - "$src" "$scratch" >"$scratch/out" 2>"$scratch/err" ||
        echo "code $?"
}
columns="nixlrun|nixlrun
UCX|ucx
libfabric|ofi
MPICH|mpich"
export columns
verdict "$(tables 'markdown_table "$columns" "put 8 B|put|8"'
    for line in '| operation | nixlrun | UCX | libfabric |' '| put 8 B | 9.0 ns | 9.0 ns | 9.0 ns\* |'; do
        grep -qxF "$line" "$scratch/out" || cat "$scratch/out"
    done
    grep -q '^\\\*: the cores lay otherwise after' "$scratch/out" || echo "the mark is not explained"
    [ "$(cat "$scratch/err")" = "# the cores lay otherwise in every turn of: mpich (more turns: --repeat)" ] || cat "$scratch/err"
    tables 'print_tables'
    [ "$(cat "$scratch/err")" = "# the cores lay otherwise in every turn of: ofi (more turns: --repeat)" ] || cat "$scratch/err")" \
    "what was measured while the cores moved is marked, and what has no figure is named"

# Mooncake's calls are looked at with a stand-in for its wheel, which has them, and copies with
# process_vm; or fails. The wheel itself: pip install mooncake-transfer-engine-non-cuda.
python=$build/python/bin/python3
if [ -x "$python" ]; then
    mkdir -p "$scratch/wheels/mooncake" "$scratch/wheels/mooncake_transfer_engine_stand_in-1.2.dist-info"
    printf 'Metadata-Version: 2.1\nName: mooncake-transfer-engine-stand-in\nVersion: 1.2\n' \
        >"$scratch/wheels/mooncake_transfer_engine_stand_in-1.2.dist-info/METADATA"
    cat >"$scratch/wheels/mooncake/engine.py" <<'TEXT'
import ctypes, os

class Extent(ctypes.Structure):
    _fields_ = [("base", ctypes.c_size_t), ("nbytes", ctypes.c_size_t)]

libc = ctypes.CDLL(None, use_errno=True)

class TransferEngine:
    def initialize(self, *name):
        return 0 if name == ("127.0.0.1", "P2PHANDSHAKE", "tcp", "") else -1
    def register_memory(self, address, nbytes):
        return 0
    def get_rpc_port(self):
        return os.getpid()
    def copy(self, call, other, here, there, nbytes):
        if os.environ.get("STAND_IN_FAILS") and nbytes > 8:
            return -5
        near, far = ctypes.byref(Extent(here, nbytes)), ctypes.byref(Extent(there, nbytes))
        n = getattr(libc, call)(int(other.split(":")[1]), near, 1, far, 1, 0)
        return 0 if n == nbytes else -1
    def transfer_sync_write(self, *what):
        return self.copy("process_vm_writev", *what)
    def transfer_sync_read(self, *what):
        return self.copy("process_vm_readv", *what)
    def batch_transfer_sync_write(self, other, *lists):
        return min(self.transfer_sync_write(other, *what) for what in zip(*lists))
    def batch_transfer_sync_read(self, other, *lists):
        return min(self.transfer_sync_read(other, *what) for what in zip(*lists))
TEXT
    export PYTHONPATH="$scratch/wheels"
    verdict "$(measures --peers mooncake --python "$python" --sizes 4096 --keep "$scratch/lines"
        grep -qx 'found    Mooncake 1.2' "$scratch/err" || cat "$scratch/err"
        for op in put get put_window get_window put_notify put_read fresh_put_read; do
            grep -q "^mooncake,$op,4096,[0-9.]*,[0-9.]*,[0-9.]*,[a-z-]*$" "$scratch/lines" || { cat "$scratch/lines" "$scratch/err"; break; }
        done)" "Mooncake is measured beside nixlrun"
    verdict "$(STAND_IN_FAILS=1 measures --peers mooncake --python "$python" --sizes 4096
        grep -q '^# mooncake gave nothing: .*\(write: error -5\|the other rank has ended\)' "$scratch/err" || cat "$scratch/err")" \
        "... and if a transfer fails, that is told"
else
    verdict "" "Mooncake is measured beside nixlrun # SKIP there is no $build/python; ./quickstart packages check makes it"
fi

rm -f "$scratch/lines"
# shellcheck disable=SC2086
"$bench" peers $quick --budget 500 --peers openmpi --keep "$scratch/lines" --json "$scratch/json" \
    >"$scratch/out" 2>"$scratch/err" </dev/null &
pid=$!
verdict "$(tries=0
    until grep -q '^nixlrun,' "$scratch/lines"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { echo "no run has ended"; break; }
        sleep 0.1
    done 2>/dev/null
    kill -TERM $pid)" "a run ends"
code=0
wait $pid || code=$?
verdict "$([ $code = 143 ] || echo "code $code"
    ls "$scratch/tmp"
    pgrep -f "$scratch/tmp/" || :)" "what is interrupted leaves no file and no process"
verdict "$(grep -q 'interrupted; this is what was measured' "$scratch/err" || cat "$scratch/err"
    grep -q '^put ' "$scratch/out" || cat "$scratch/out"
    python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["rows"]' "$scratch/json" 2>&1)" \
    "... and reports what was measured until then"
echo "1..$number"
