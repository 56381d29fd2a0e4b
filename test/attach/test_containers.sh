#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs in containers of one host attach to each other. The containers are made by unshare: namespaces of
# their own of each kind and of all kinds, a root that is read-only, no /dev/shm, and system calls that are
# forbidden; what they share is one folder. Usage: test_containers.sh; finds the trees by top_srcdir and
# top_builddir. Prints TAP.
# needs: test/attach/attach_end test/attach/attach_gpu test/attach/confined
# shellcheck disable=SC2086 # containers are words
set -u
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
. "$src/test/attach/lib.sh"
confined=$build/test/attach/confined
shared=$scratch/shared
mkdir "$shared"
where=file:$shared
NIXLRUN_SHARED_DIR=$shared
export NIXLRUN_SHARED_DIR

[ "$(id -u)" = 0 ] || { echo "1..0 # SKIP needs root"; exit 0; }
unshare --net --pid --fork --ipc --uts --mount true 2>/dev/null || { echo "1..0 # SKIP no namespaces here"; exit 0; }

# What a container runtime makes of the file systems: only the shared folder can be written to.
cat >"$scratch/inside" <<'SCRIPT'
#!/bin/sh
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
umount -l /dev/shm 2>/dev/null || true
mount -t tmpfs -o ro none /dev/shm
mount -o remount,bind,ro /
shift
exec "$@"
SCRIPT
chmod +x "$scratch/inside"

net="unshare --net"
pid="unshare --pid --fork --kill-child --mount-proc"
ipc="unshare --ipc"
user="unshare --user --map-root-user"
all="unshare --net --pid --fork --kill-child --mount-proc --ipc --uts --mount $scratch/inside $shared"
none='env'

left_over() { find "$shared" -mindepth 1; }

# meet WHAT SERVER VISITOR: every call between the two
meet() {
    begin serve $2 "$end" serve "$where" meet 2
    begin visit $3 "$end" visit "$where" meet 2
    verdict "$(passed visit; passed serve; left_over)" "every call: $1"
}

meet "network namespaces" "$net" "$net"
meet "a network namespace and the host" "$net" "$none"
meet "the host and a network namespace" "$none" "$net"
meet "PID namespaces" "$pid" "$pid"
meet "a PID namespace and the host" "$pid" "$none"
meet "the host and a PID namespace" "$none" "$pid"
meet "IPC namespaces" "$ipc" "$ipc"
meet "user namespaces of one user" "$user" "$user"
meet "a user namespace and the host" "$user" "$none"
meet "all namespaces, a root that is read-only, no /dev/shm" "$all" "$all"
meet "the same and the host" "$all" "$none"
meet "the same, and calls on others forbidden" "$all $confined" "$all $confined"
meet "calls on others forbidden to one" "$none" "$all $confined"

# kill_in LOG: kill the program at the end of what has been begun, by its pid here, and wait until nothing
# writes into LOG and LOG.code, which the next one may have
kill_in() {
    child=$(cat "$scratch/$1.pid")
    while [ -n "$child" ]; do
        leaf=${child%% *}
        child=$(cat "/proc/$leaf/task/$leaf/children")
    done
    [ "$leaf" -gt 1 ] && kill -9 "$leaf" && ended "$1" >"$scratch/code"
}

# fall WHAT CONTAINER CONTAINER: who is attached is killed, then, with the next one, who has published
fall() {
    begin serve $2 "$end" serve "$where" fall 1
    begin stay $3 "$end" stay "$where" fall
    line stay '^putting'
    kill_in stay
    verdict "$(line serve '^rank 1 lost'; passed serve)" "who is attached is killed: $1"
    begin serve $2 "$end" serve "$where" fall 1
    begin stay $3 "$end" stay "$where" fall
    line stay '^putting'
    kill_in serve
    verdict "$(passed stay)" "who has published is killed: $1"
}
fall "network namespaces" "$net" "$net"
fall "all namespaces" "$all" "$all"
fall "all namespaces, calls on others forbidden" "$all $confined" "$all $confined"

# The sockets that killed ones have left go with the next ones.
rm -f "$shared"/fall.*
meet "after those that were killed" "$all" "$all"

# ---- memory of GPUs --------------------------------------------------------------------------------------

# gpu WHAT OWNER TAKER METHOD METHOD PATTERN: memory of nixl_region_alloc() and of cuMemAlloc() moves by these
# methods, with the stand-in for the driver; what the taker prints has PATTERN
gpu() {
    begin give $2 "$src/test/cuda/with" "$build/test/attach/attach_gpu" give "$where"
    begin take $3 "$src/test/cuda/with" "$build/test/attach/attach_gpu" take "$where" "$4" "$5"
    verdict "$(passed take; line take "$6"; passed give; left_over)" "memory of GPUs: $1"
}
pid_why='^cuMemAlloc: .* memory of cudaMalloc() in another PID namespace: share one, or .* use nixl_region_alloc()'
gpu "network namespaces" "$net" "$net" device device '^cuMemAlloc: cuda_ipc, device'
gpu "a PID namespace and the host" "$pid" "$none" device bounce "$pid_why"
gpu "the host and a PID namespace" "$none" "$pid" device bounce "$pid_why"
gpu "all namespaces" "$all" "$all" device bounce "$pid_why"
gpu "all namespaces, calls on others forbidden" "$all $confined" "$all $confined" device bounce "$pid_why"

# ---- folders ---------------------------------------------------------------------------------------------

verdict "$(NIXLRUN_SHARED_DIR=$shared/none timeout 60 "$end" try "$where" x x >"$scratch/says" 2>&1
    grep -q "NIXLRUN_SHARED_DIR, '$shared/none': No such file.*; allowed: " "$scratch/says" || cat "$scratch/says")" \
    "a folder that is not there is named"
echo "1..$number"
