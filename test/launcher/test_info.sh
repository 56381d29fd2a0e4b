#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nixlrun --info and --explain on one host: text, JSON, reasons, and installations that lack something.
# needs: test/attach/confined
. "$top_srcdir/test/launcher/lib.sh"
inspect=$top_builddir/launcher/nixlrun-inspect

# finds FILTER NAME: jq's filter is true for the JSON in $work/out (jq finds no fault in an empty file)
finds() {
    [ -s "$work/out" ] && jq -e "$1" "$work/out" >"$work/jq" 2>&1
    result $? "$2" "$work/jq" "$work/out"
}

# asks ARG...: only these arguments, with the PATH in $search if set, and the tables as "TABLE: COLUMN COLUMN" with single blanks
asks() {
    env PATH="${search:-$PATH}" "$nixlrun" "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
    awk '!/^ / { table = $1; next } { gsub(/ +/, " "); print table ":" $0 }' "$work/out" >"$work/rows"
}

# ---- --info

asks --info
[ "$rc" = 0 ] && [ ! -s "$work/err" ]
result $? "--info" "$work/err"
has "$work/rows" '^transports: self yes [0-9]+ [0-9]+ 1$' "it knows the transport self"
has "$work/rows" '^transports: shm yes [0-9]+ [0-9]+ 1$' "it knows the transport shm"
for library in libnixlrun libpmix hwloc; do
    file=$(sed -nE "s/^libraries: $library (API )?[0-9.]+ (.*)/\2/p" "$work/rows")
    [ -f "$file" ]
    result $? "it knows version and file of $library" "$work/rows"
done
has "$work/rows" '^interfaces: lo yes .*127\.0\.0\.1' "it knows the loopback"
if unshare -n true 2>/dev/null; then
    unshare -n "$nixlrun" --info --json >"$work/out" 2>"$work/err"
    finds '.interfaces[] | select(.name == "lo") | .addresses == ""' \
        "an interface without addresses has none"
fi
has "$work/rows" '^engines: local yes [0-9.]+ nixlrun$' "it knows the engine local"
! grep -q '[[:blank:]]$' "$work/out"
result $? "it writes no blanks at ends of lines"

asks --info --json
[ "$rc" = 0 ] && [ ! -s "$work/err" ]
result $? "--info --json" "$work/err"
finds 'keys_unsorted == ["nixlrun", "transports", "devices", "libraries", "interfaces", "gpus",
    "gpu_memory", "sharing", "storage", "storage_figures", "engines", "missing"]' "JSON has every table"
finds '.transports[] | select(.name == "shm") | .usable and .latency_ns > 0 and .why_not == ""' \
    "JSON has numbers and truths as such"
finds '.interfaces[] | select(.name == "lo") | .up and .mtu > 0 and .numa_node == null' \
    "JSON has null for what is not known"

# etcd
if [ -e "$top_builddir/src/.libs/nixlrun/nixlrun_etcd.so" ]; then
    asks --info
    file=$(sed -nE "s/^libraries: libcurl [0-9.]+ (.*)/\1/p" "$work/rows")
    [ -f "$file" ]
    result $? "it knows version and file of libcurl, by which names are published in etcd" "$work/rows"
fi

# What a container forbids is tried, and what happens instead is told.
has "$work/rows" '^sharing: memfd_create yes' "shared memory is tried"
NIXLRUN_PROCESS_VM=0 NIXLRUN_SHARED_DIR=$work/none asks --info
has "$work/rows" '^sharing: process_vm_readv no NIXLRUN_PROCESS_VM is off: .* through a buffer' "a way that is off"
has "$work/rows" '^sharing: NIXLRUN_SHARED_DIR no .*/none: No such file' "a shared folder that is not there"
confined=$top_builddir/test/attach/confined
if [ -x "$confined" ] && "$confined" true; then
    free=$nixlrun
    nixlrun=$work/confined
    printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$confined" "$free" >"$nixlrun"
    chmod +x "$nixlrun"
    NIXLRUN_SHARED_DIR=$work asks --info
    nixlrun=$free
    has "$work/rows" '^sharing: process_vm_readv no Operation not permitted: .*allow process_vm_readv' "a call that is forbidden"
    has "$work/rows" '^sharing: pidfd_open no Operation not permitted: deaths are seen by' "and what serves without it"
    has "$work/rows" "^sharing: NIXLRUN_SHARED_DIR yes $work: containers that have it" "a shared folder"
fi

# Without UCX and libfabric: TCP serves, and it is told what these would bring.
mkdir "$work/modules"
ln -s "$top_builddir/src/.libs/nixlrun/nixlrun_tcp.so" "$work/modules/"
NIXLRUN_MODULE_DIR=$work/modules asks --info
has "$work/rows" '^transports: tcp yes [0-9]+ [0-9]+ 1' "TCP needs no library"
has "$work/rows" '^missing: names in etcd the module for etcd is not available: not built' "without etcd"
for network in ucx ofi; do
    has "$work/rows" "^transports: $network no .*not built, or not installed as" "without $network"
    has "$work/rows" "^missing: transport $network for .*Debian packages" "it is told what that would bring"
done
! grep '^missing: transport tcp' "$work/rows"
result $? "and nothing is missing of TCP" "$work/rows"

has "$work/rows" '^storage: objects objects need the module for S3, which is built with libcurl' "and of S3"

# Files: by io_uring where it is there and permitted, else by threads, and why.
has "$work/rows" '^storage: files (io_uring|threads) .+$' "it says by what files are read and written"
has "$work/rows" '^storage: directories (io_uring|threads) as files; up to 32 threads' "and by what those of a directory"
has "$work/rows" '^storage: GPU memory (staged through page-locked host memory: no libcufile.so.0|measured .*)$' \
    "and how from GPUs"
LD_LIBRARY_PATH=$top_builddir/test/cuda/.libs:$top_builddir/test/cufile/.libs asks --info
has "$work/rows" '^storage: GPU memory measured files with .* by the faster of host memory and cuFile 1\.13( \(no .*\))?$' "by cuFile, too"
NIXLRUN_CUFILE=never asks --info
has "$work/rows" '^storage: GPU memory staged .*: NIXLRUN_CUFILE is never$' "and where that is forbidden"
NIXLRUN_STORAGE=threads asks --info
has "$work/rows" '^storage: files threads NIXLRUN_STORAGE is threads$' "and why by that"
has "$work/rows" '^storage: directories threads as files' "and directories by the same"

# GPU memory, where the drivers are and where they are not; and a build, or a machine, without Vulkan.
left_out='this build of nixlrun has no Vulkan|no Vulkan loader'
mkdir "$work/broken_loader"
: >"$work/broken_loader/libvulkan.so.1"
LD_LIBRARY_PATH=$work/broken_loader asks --info
has "$work/rows" "^gpu_memory: vulkan no (no Vulkan loader .*libvulkan1|$left_out)" "a missing Vulkan loader is reported"
VK_DRIVER_FILES=/dev/null VK_ICD_FILENAMES=/dev/null asks --info
has "$work/rows" "^gpu_memory: vulkan no (Vulkan has no driver .*mesa-vulkan-drivers|$left_out)" "so is a driver"
has "$work/rows" '^gpu_memory: cuda (no .*|[0-9]+ yes GPU-[0-9a-f-]*)$' "CUDA is reported"
has "$work/rows" "^transports: vulkan_ipc no .*(Vulkan has no driver|$left_out)" \
    "a transport is not usable where its memory is not, for the same reason"
LP_NUM_THREADS=1 asks --info --json
finds '([.gpu_memory[] | select(.usable) | .kind + "_ipc"] | unique) ==
    [.transports[] | select(.usable and (.name | test("_ipc$"))) | .name]' "and is where there is some"
finds '.gpu_memory[] | select(.kind == "vulkan") | (.usable and .device == 0 and (.uuid | startswith("GPU-")))
    or (.why_not | test("^(Vulkan has no driver|'"$left_out"')"))' \
    "memory that can be had has a number and a UUID"

NIXLRUN_TRANSPORTS=^shm asks --info
has "$work/rows" '^transports: shm no .*excluded by NIXLRUN_TRANSPORTS$' "it says why a transport is left out"
NIXLRUN_OP_TIMEOUT=never asks --info
[ "$rc" = 0 ]
result $? "a library that does not start is reported"
has "$work/rows" "^missing: libnixlrun .*NIXLRUN_OP_TIMEOUT.*never" "with the reason"

if [ -e "$top_builddir/transports/ofi/.libs/nixlrun_ofi.so" ]; then
    NIXLRUN_NET_DEVICES=nonic0 asks --info
    has "$work/rows" '^transports: ofi no .*has none of the devices NIXLRUN_NET_DEVICES=nonic0' \
        "a network without its devices is not usable"
fi

# A library of another version than nixlrun.
LD_PRELOAD=$top_builddir/test/launcher/.libs/other_version.so asks --info
has "$work/rows" '^libraries: libnixlrun 99\.98\.97 ' "the version is that of the library which is loaded"
has "$work/rows" '^missing: libnixlrun [0-9.]+ version 99\.98\.97 is loaded, but nixlrun is [0-9.]+: install both' \
    "a library of another version is reported"

# A user who may not lower nice values.
plain="setpriv --inh-caps=-sys_nice --bounding-set=-sys_nice prlimit --nice=0"
$plain true 2>/dev/null || plain='prlimit --nice=0'
if $plain nice -n -1 true 2>&1 | grep -q cannot; then
    # shellcheck disable=SC2086 # several words
    $plain "$nixlrun" --info >"$work/rows" 2>&1
    has "$work/rows" '^ *priority for other hosts +lowering nice by 20 is not permitted' "what is not permitted is told"
    # shellcheck disable=SC2086
    NIXLRUN_SERVICE_PRIORITY=0 $plain "$nixlrun" --info >"$work/rows" 2>&1
    ! grep 'priority for other hosts' "$work/rows"
    result $? "unless it is not wanted" "$work/rows"
fi

# Engines that are fakes, by a PATH in which there are no others.
mkdir "$work/none" "$work/some"
ln -s "$top_srcdir/test/launcher/engines/fake" "$work/some/mpirun"
ln -s "$top_srcdir/test/launcher/engines/fake" "$work/some/srun"
for tool in sh cat sed dirname basename; do
    ln -s "$(command -v "$tool")" "$work/none/$tool"
done
search=$work/none asks --info
has "$work/rows" '^engines: openmpi no$' "an engine that is not there is not usable"
has "$work/rows" '^missing: Open MPI.s mpirun not in PATH; .*openmpi-bin' "its package is named"
FAKE_MPIRUN='mpirun (Open MPI) 5.0.7' FAKE_SRUN='slurm-wlm 22.05.8' FAKE_PMIX=none \
    search=$work/some:$work/none asks --info
has "$work/rows" "^engines: openmpi yes 5\.0\.7 $work/some/mpirun$" "an engine that is there has its version"
has "$work/rows" "^engines: slurm no 22\.05\.8 $work/some/srun$" "one without PMIx is not usable"
has "$work/rows" "^missing: Slurm.s srun .*has no PMIx" "and the reason is told"

# A nixlrun whose helper dies, or is not there.
mkdir "$work/broken"
cp "$nixlrun" "$work/broken/nixlrun"
cat >"$work/broken/nixlrun-inspect" <<'SCRIPT'
#!/bin/sh
printf 'transports\tself\tyes\t1\t2\t3\tlibrary\t\n'
echo 'a warning'
kill -SEGV $$
SCRIPT
chmod +x "$work/broken/nixlrun-inspect"
nixlrun=$work/broken/nixlrun
asks --info
[ "$rc" = 0 ]
result $? "a library that crashes does not keep the rest from being told" "$work/err"
has "$work/rows" '^transports: self yes 1 2 3 library$' "what it said before is there"
has "$work/rows" '^missing: libnixlrun .*did not finish$' "that it crashed is told"
has "$work/err" '^a warning$' "what it logged is passed on"
has "$work/rows" '^engines: local yes' "engines are told"
nixlrun=$top_builddir/launcher/nixlrun

# ---- --explain

asks --explain
[ "$rc" = 0 ] && [ ! -s "$work/err" ]
result $? "--explain" "$work/err"
host=$(uname -n)
has "$work/rows" "^hosts: $host 0-1$" "two ranks are explained"
has "$work/rows" "^routes: $host $host host host, allocated shm memcpy [0-9]+ [0-9]+ 1$" \
    "allocated memory is copied to"
has "$work/rows" "^routes: $host $host host host, registered shm (process_vm|bounce) [0-9]+ [0-9]+ 1" \
    "registered memory is reached otherwise"
has "$work/rows" "^refused: $host $host any any self reaches only the rank itself$" "a transport is refused in words"

asks --explain --json -np 3
[ "$rc" = 0 ] && [ ! -s "$work/err" ]
result $? "--explain --json" "$work/err"
finds 'keys_unsorted == ["nixlrun", "hosts", "unreached", "gpu_memory", "storage", "storage_figures", "routes",
    "refused"]' "JSON has every table"
finds '.hosts == [{"name": "'"$host"'", "ranks": "0-2"}]' "JSON has the host"
finds '.routes | map(select(.source == "host" and (.target | test("^host")))) |
    length == 2 and .[0].transport == "shm" and .[0].rails == 1' "JSON has the routes"

finds '.storage | length == 2 and .[0].what == "file" and .[0].by != "" and .[0].why != "" and .[1].what == "objects"' \
    "JSON has what reads and writes storage"
finds '(.storage[0].by) as $by | .routes[] | select(.target == "file" and .source == "host") |
    .transport == "shm" and .latency_ns == null and .note == "this rank reads it by " + $by + ", its owner writes it by " + $by' "and the routes to it"
asks --explain -x NIXLRUN_STORAGE=threads
has "$work/rows" "^storage: file $host threads NIXLRUN_STORAGE is threads$" "it says why threads read and write files"
has "$work/rows" "^routes: $host $host host file shm bounce 1 this rank reads it by threads, its owner writes it by threads$" "and that they do"

asks --explain -x NIXLRUN_PROCESS_VM=0
has "$work/rows" "^routes: $host $host host host, registered shm bounce .*NIXLRUN_PROCESS_VM is off$" \
    "it says why a method is not the best"
printf '%s\n' '# route other shm 1 2' '# route same shm 1 1' '# route same shm 4321 8765' '# route same tcp 5 6' '# route same shm x' \
    >"$work/measured"
NIXLRUN_COLL_TABLE_FILE=$work/measured asks --explain
[ "$rc" = 0 ] && [ ! -s "$work/err" ]
result $? "--explain with a file of nixl_bench tune" "$work/err"
has "$work/rows" "^routes: $host $host host host, allocated shm memcpy 4321 8765 1 .*measured by nixl_bench tune" \
    "shows the figures that were measured last"
{
    printf '# storage threads 1 2 3 4 /mnt/a b\n# storage io_uring 5 6 7 8 /mnt/a b\n'
    printf '# storage threads 9 10 11 12 /mnt/a b\n# storage threads 1 2 3 /mnt/c\n# storage threads 1 2 3 4 \n'
    printf '# storage threads 1 2 3 4 /%0130d\n' 0
} >"$work/measured"
for action in --info --explain; do
    NIXLRUN_COLL_TABLE_FILE=$work/measured asks $action --json
    finds '.storage_figures | length == 2 and (.[0] | .directory == "/mnt/a b" and .by == "threads" and .read_mb_s == 9 and
        .write_mb_s == 10 and .reads_per_s == 11 and .writes_per_s == 12) and .[1].by == "io_uring"' \
        "$action shows what was measured of files last, and no bad line"
done
finds ".storage_figures[].host == \"$host\"" "of which host"
asks --info
has "$work/rows" '^storage_figures: none: nixl_bench tune --storage measures some$' "--info says what measures files"
asks --explain -x NIXLRUN_TRANSPORTS=self
[ "$rc" = 0 ]
result $? "ranks that do not reach each other are explained" "$work/err"
has "$work/rows" "^hosts: $host 0-1$" "they are on one host"
has "$work/rows" "^routes: $host $host host host none no transport reaches it$" "they have no route"
has "$work/rows" "^refused: $host $host any any shm excluded by NIXLRUN_TRANSPORTS$" "the reason is told"

# Hosts by NIXLRUN_HOSTID: ranks of one name share memory, others do not.
on() {
    "$nixlrun" --oversubscribe -n 2 -x NIXLRUN_HOSTID=a "$inspect" --explain : \
        -n 1 -x NIXLRUN_HOSTID=b "$inspect" --explain : \
        -n 1 -x NIXLRUN_HOSTID=a "$inspect" --explain >"$work/out" 2>"$work/err" </dev/null
    rc=$?
    awk '!/^ / { table = $1; next } { gsub(/ +/, " "); print table ":" $0 }' "$work/out" >"$work/rows"
}
NIXLRUN_TRANSPORTS=self,shm
export NIXLRUN_TRANSPORTS
on
[ "$rc" = 0 ]
result $? "two hosts are explained" "$work/err"
has "$work/rows" "^hosts: a 0-1,3$" "ranks of the first one"
has "$work/rows" "^hosts: b 2$" "ranks of the second one"
has "$work/rows" "^routes: a b host host none no transport reaches it$" "there is no route between them"
has "$work/rows" "^refused: a b any any shm reaches only other ranks of this host$" "and why"
unset NIXLRUN_TRANSPORTS

# Memory of GPUs: none, by the stand-in for NVIDIA's driver, and on lavapipe.
VK_DRIVER_FILES=/dev/null VK_ICD_FILENAMES=/dev/null asks --explain
has "$work/rows" "^gpu_memory: vulkan $host no (Vulkan has no driver .*mesa-vulkan-drivers|$left_out)" "a missing kind is reported in one line"
! grep -qE "^(routes|refused): .* vulkan " "$work/rows"
result $? "and nowhere else" "$work/rows"

# with_gpu HOST:RANKS...: hosts by NIXLRUN_HOSTID, of which "gpu" has the stand-in for NVIDIA's driver
with_gpu() {
    colon=
    set -- "$@" --
    while [ "$1" != -- ]; do
        # shellcheck disable=SC2046,SC2086  # words, or none
        set -- "$@" $colon -n "${1#*:}" -x "NIXLRUN_HOSTID=${1%:*}" -x VK_DRIVER_FILES=/dev/null -x VK_ICD_FILENAMES=/dev/null \
            $(if [ "${1%:*}" = gpu ]; then echo "-x LD_LIBRARY_PATH=$stand_in:${LD_LIBRARY_PATH-}"
            else echo "-x CUDA_VISIBLE_DEVICES="; fi) "$inspect" --explain --json
        colon=:
        shift
    done
    shift
    env NIXLRUN_CUDA_KERNEL=0 "$nixlrun" --oversubscribe "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
}
stand_in=$(cd "$top_builddir" && pwd)/test/cuda/.libs
with_gpu gpu:2
[ "$rc" = 0 ] && [ ! -s "$work/err" ]
result $? "a GPU is explained" "$work/err"
finds '.gpu_memory[] | select(.kind == "cuda") | .usable and .hosts == "gpu" and (.uuid | startswith("GPU-"))' "the host has it"
finds '[.routes[] | select((.source != "host" or .target != "host, registered") and .target != "file") |
    [.source, .target, .transport, .method]] == [["host", "host, allocated", "shm", "memcpy"], ["host", "cuda", "cuda_ipc", "device"],
    ["cuda", "host, allocated", "shm", "device"], ["cuda", "host, registered", "shm", "staged"],
    ["cuda", "cuda", "cuda_ipc", "device"]]' "each pair of memories has its way"
finds '.routes | map(select(.target != "file")) | all(.latency_ns > 0 and .bandwidth_mb_s > 0 and .rails > 0)' "and what is expected of it"
finds '[.routes[] | select(.source == "cuda" and .target == "file")] | length == 1 and .[0].method == "staged"' "files are staged"
finds '.routes[] | select(.method == "staged" and .target != "file") | .note == "shm does not move cuda memory by itself"' \
    "pieces through host memory have their reason"
finds '[.refused[] | select(.transport == "shm") | [.source, .target, .why]] ==
    [["any", "cuda", "reaches only host memory"]]' "a transport is refused for one kind"
finds '[.refused[] | select(.transport == "cuda_ipc") | [.source, .target]] == [["any", "host"]]' "another for the other"
finds '[.refused[] | select(.transport == "self") | [.source, .target]] == [["any", "any"]]' \
    "and what holds for all is said once"
with_gpu gpu:1
finds '[.routes[] | select(.target == "cuda") | .transport] == ["device", "device"]' "a rank reaches its own"
if ls "$top_builddir"/src/.libs/nixlrun/nixlrun_*.so >/dev/null 2>&1; then
    with_gpu gpu:1 b:1 c:1
    finds '[.gpu_memory[] | select(.usable | not) | [.kind, .hosts]] == [["cuda", "b, c"], ["vulkan", "gpu, b, c"]]' \
        "hosts without share a line"
    finds '[.routes[] | select(.from != .to and (.source == "cuda" or .target == "cuda") and .target != "file") | [.from, .to, .method]] ==
        [["gpu", "b", "staged"], ["gpu", "b", "staged"], ["gpu", "c", "staged"], ["gpu", "c", "staged"],
        ["b", "gpu", "staged"], ["c", "gpu", "staged"]]' "between hosts it is staged"
    finds '[.routes[] | select(.method == "staged" and .target != "file") | .note] | all(test("^cuda memory goes through host memory"))' \
        "and the reason is told"
fi
LP_NUM_THREADS=1 NIXLRUN_VULKAN_CPU=1 asks --explain --json
finds '(.gpu_memory[] | select(.kind == "vulkan") | .usable | not) or
    ([.routes[] | select(.source == "vulkan" and .target == "vulkan") | [.transport, .method]] == [["vulkan_ipc", "device"]])' \
    "Vulkan memory is explained"

run --explain --dry-run -np 2
[ "$rc" = 0 ]
result $? "--explain --dry-run"
has "$work/out" 'ranks 0-1: .*nixlrun-inspect --explain$' "it shows the program"
finish
