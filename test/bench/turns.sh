# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What peers.sh and peers_net.sh share: options, where things lie, which peers are there, and their
# turns with the state of the cores. What came of it: peers_report.sh. The script that sources
# this says usage(), and sets $choices, $all_peers, $default_only and $default_ranks.
#
# They run from a build folder, where nixl_bench-peers has peers.sh and all that it sources and lies
# beside a link to the sources of the peers, and as installed. The peers are compiled when they are
# to be measured, against what is installed.

here=$(cd "$(dirname "$0")" && pwd)
program_name="nixl_bench peers"
limit_s=120 # of a run
child=''      # the process of a run that is under way
is_turning=no # turns are under way
ended=0       # by which code an interrupt has ended them

fail() {
    echo "$program_name: $*" >&2
    exit 2
}

# ---- options ----

is_number() { case $1 in '' | *[!0-9]*) return 1 ;; esac; }

check_options() {
    local part
    case $want in near | far | any) ;; *) fail "--state is '$want'; allowed: near, far or any" ;; esac
    is_number "$repeat" && [ "$repeat" -gt 0 ] || fail "--repeat is '$repeat'; allowed: a number from 1"
    is_number "$patience" || fail "--patience is '$patience'; allowed: seconds"
    is_number "$budget" && [ "$budget" -gt 0 ] || fail "--budget is '$budget'; allowed: milliseconds from 1"
    case ,$ranks, in
    *[!0-9,]* | *,,* | *,0* | *,1,*) fail "--ranks is '$ranks'; allowed: numbers from 2, such as 2,4" ;;
    esac
    case ,$sizes, in
    ,,) ;;
    *[!0-9,]* | *,,* | *,0*) fail "--sizes is '$sizes'; allowed: bytes, such as 8,1048576" ;;
    esac
    for part in ${only//,/ }; do
        [[ ,$choices, = *,$part,* ]] || fail "--only has '$part'; allowed: $choices"
    done
    for part in ${chosen_peers//,/ }; do
        # shellcheck disable=SC2154 # of the caller
        [[ ,$all_peers, = *,$part,* ]] || fail "--peers has '$part'; allowed: $all_peers"
    done
    [ -n "$only" ] || fail "--only is ''; allowed: $choices"
}

# Sets what the options say, and from it $nixlrun, $peers and $work.
parse_options() {
    # shellcheck disable=SC2154 # of the caller
    build='' repeat=3 want=any patience=60 only=$default_only keep='' ranks=$default_ranks
    sizes='' budget=${default_budget:-100} chosen_peers=$all_peers json='' python='' is_list=no is_markdown=no are_goals=no
    while [ $# -gt 0 ]; do
        case $1 in
        -h | --help) usage; exit 0 ;;
        --network) shift ;; # peers.sh has started peers_net.sh
        --list) is_list=yes; shift ;;
        --markdown) is_markdown=yes; shift ;;
        --goals) are_goals=yes; shift ;;
        --build | --repeat | --state | --patience | --only | --keep | --ranks | --sizes | --budget | --json | --peers | --python)
            [ $# -ge 2 ] || fail "option '$1' needs a value; see --help"
            case $1 in
            --build) build=$2 ;;
            --repeat) repeat=$2 ;;
            --state) want=$2 ;;
            --patience) patience=$2 ;;
            --only) only=$2 ;;
            --keep) keep=$2 ;;
            --ranks) ranks=$2 ;;
            --sizes) sizes=$2 ;;
            --budget) budget=$2 ;;
            --json) json=$2 ;;
            --peers) chosen_peers=$2 ;;
            --python) python=$2 ;;
            esac
            shift 2
            ;;
        -*) fail "unknown option '$1'; see --help" ;;
        *) fail "'$1' is no option; see --help" ;;
        esac
    done
    check_options
    find_peers
    find_own
    work=$(mktemp -d) || fail "no folder for temporary files"
    trap leave EXIT
    trap 'interrupt 130' INT
    trap 'interrupt 143' TERM HUP
    lines=${keep:-$work/lines.csv}
    { : >"$lines"; } 2>"$work/errors" || fail "--keep '$lines': $(sed 's/.*: //' "$work/errors")"
    if [ -n "$json" ]; then
        { : >"$json"; } 2>"$work/errors" || fail "--json '$json': $(sed 's/.*: //' "$work/errors")"
    fi
    export PEER_BUDGET=$budget
    [ -z "$sizes" ] || export PEER_SIZES=$sizes
}

# shellcheck disable=SC2317 # at exit
leave() {
    progress_end
    [ -z "$child" ] || { kill "$child" && wait "$child"; } 2>/dev/null
    at_exit
    rm -rf "$work"
}

# The first interrupt of turns ends them, and what was measured until then is reported; the second
# ends all.
interrupt() { # CODE
    [ $is_turning = yes ] && [ $ended = 0 ] || exit "$1"
    ended=$1
    [ -z "$child" ] || kill "$child" 2>/dev/null
    progress_end
    echo "$program_name: interrupted; this is what was measured until now" >&2
}

at_exit() { :; } # the script's own, if it has anything to undo

# What an interrupt has ended begins nothing more.
is_chosen() { [ "$ended" = 0 ] && [[ ,$only, = *,$1,* ]]; }
is_peer() { [[ ,$chosen_peers, = *,$1,* ]]; }

# ---- where things lie ----

find_peers() {
    local folder
    for folder in "$here/nixl_bench-peers.src" "$here/../../share/nixlrun/peers" '@pkgdatadir@/peers'; do
        if [ -e "$folder/peer.h" ]; then
            peers=$(cd "$folder" && pwd -P)
            return
        fi
    done
    fail "the sources of the peers are missing: there is no '$folder'; install nixlrun again"
}

# nixlrun itself, of a build folder or as installed: how it is started and what a program links.
find_own() {
    local folder source tree=$build
    [ -n "$tree" ] || [ ! -e "$here/../../src/libnixlrun.la" ] || tree=$here/../..
    if [ -n "$tree" ]; then
        build=$(cd "$tree" 2>/dev/null && pwd) || fail "--build: there is no folder '$tree'"
        nixlrun=$build/launcher/nixlrun bench_program=$build/test/bench/nixl_bench
        [ -x "$nixlrun" ] || fail "there is no nixlrun in '$build'; name the build folder by --build"
        source=$(sed -n 's/^abs_top_srcdir = //p' "$build/Makefile")
        own_compiler=(gcc "-I$source/include" "-I$build/include")
        own_libraries=("-L$build/src/.libs" -lnixlrun "-Wl,-rpath,$build/src/.libs")
        return
    fi
    for folder in "$here/../../bin" '@bindir@'; do
        if [ -x "$folder/nixlrun" ]; then
            nixlrun=$folder/nixlrun bench_program=$folder/nixl_bench
            own_compiler=("$folder/nixlcc") own_libraries=()
            return
        fi
    done
    fail "there is no '$folder/nixlrun'; name a build folder by --build"
}

# ---- which peers are there ----

found=() missing=() # in words

compile_flags=(-O2 -g -std=gnu11 -D_GNU_SOURCE -Wno-stringop-overflow)

# compile COMPILER SOURCE PROGRAM FLAG...
compile() {
    local compiler=$1 file=$2 program=$3
    shift 3
    "$compiler" "${compile_flags[@]}" "$peers/$file.c" -o "$work/$program" "$@" 2>"$work/$program.log" </dev/null
}

# compile_own SOURCE PROGRAM: what cannot be left out
compile_own() {
    command -v "${own_compiler[0]}" >/dev/null ||
        fail "no ${own_compiler[0]}, which compiles the measuring programs (Debian: apt-get install gcc)"
    compile "${own_compiler[0]}" "$1" "$2" "${own_compiler[@]:1}" "${own_libraries[@]}" ||
        fail "cannot compile $1.c: $(first_error "$2")"
}

first_error() { grep -m 1 -E 'error|No such|cannot find' "$work/$1.log" || head -n 1 "$work/$1.log"; }

lacks() { # TITLE WHY PACKAGES
    missing+=("$1: $2 (Debian: apt-get install $3)")
}

# offer TITLE VERSION COMPILER SOURCE PROGRAM PACKAGES FLAG...: a peer, if it can be compiled here
offer() {
    local title=$1 version=$2 compiler=$3 file=$4 program=$5 packages=$6
    shift 6
    if ! is_peer "${program#coll-}"; then
        return
    elif ! command -v "$compiler" >/dev/null; then
        lacks "$title" "no $compiler" "$packages"
    elif ! compile "$compiler" "$file" "$program" "$@"; then
        lacks "$title" "$(first_error "$program")" "$packages"
        rm -f "$work/$program"
    else
        found+=("$title${version:+ $version}")
    fi
}

version_by_package() { pkg-config --modversion "$1" 2>/dev/null; }
version_of() { "$@" 2>/dev/null </dev/null | grep -o -m 1 -E '[0-9]+\.[0-9]+(\.[0-9]+)*' | head -n 1; }

# The names that Debian gives the programs of several MPIs, else their own, if they are that MPI's.
find_mpi() {
    openmpi_cc=mpicc.openmpi openmpi_run=mpirun.openmpi mpich_cc=mpicc.mpich mpich_run=mpiexec.hydra
    if ! command -v mpicc.openmpi >/dev/null && mpicc --showme:version 2>/dev/null | grep -q 'Open MPI'; then
        openmpi_cc=mpicc openmpi_run=mpirun
    fi
    if ! command -v mpicc.mpich >/dev/null && mpicc -show 2>/dev/null | grep -q -- '-lmpi' &&
        mpiexec --version 2>/dev/null | grep -q -i hydra; then
        mpich_cc=mpicc mpich_run=mpiexec
    fi
}

# A peer whose program is Python: a script that starts it.
# -B: what the peers import lies where nixlrun is installed, and nothing is written there.
offer_python() { # TITLE FILE PROGRAM MODULE
    local interpreter version
    is_peer "$3" || return
    for interpreter in ${python:+"$python"} python3 /usr/bin/python3; do
        if version=$("$interpreter" -B "$peers/$2" --version 2>"$work/$3.log" </dev/null); then
            printf '#!/bin/sh\nexec "%s" -B "%s"\n' "$interpreter" "$peers/$2" >"$work/$3"
            chmod +x "$work/$3"
            found+=("$1 $version")
            return
        fi
        [ -z "$python" ] || break
    done
    missing+=("$1: ${python:-python3}: $(tail -n 1 "$work/$3.log") (pip install $4, and name its python by --python)")
}

say_peers() {
    local line
    for line in "${found[@]}"; do
        echo "found    $line"
    done
    for line in "${missing[@]}"; do
        echo "missing  $line"
    done
}

# ---- run them in turns ----

state_of() { # of a flag's nanoseconds
    awk -v ns="$1" 'BEGIN { print ns < 45 ? "same-core" : ns < 180 ? "near" : "far" }'
}

# wait until the cores lie as wanted, at most --patience seconds; sets $flag and $state
await_state() {
    local deadline=$((SECONDS + patience))
    while [ $ended = 0 ]; do
        flag=$(env -u PEER_NETNS "$work/sentinel")
        state=$(state_of "$flag")
        [ "$want" = any ] || [ "$state" = "$want" ] || [ $SECONDS -ge $deadline ] && return
    done
}

# A line that is written over, on a terminal; elsewhere a line for each turn.
progress() { # NAME
    local left=''
    n_run=$((n_run + 1))
    [ -t 2 ] || return 0
    if [ $n_run -gt 2 ]; then
        left=$(((SECONDS - began) * (n_runs - n_run + 1) / (n_run - 1)))
        left=", about $((left / 60)) min $((left % 60)) s left"
    fi
    printf '\r\033[K%s: %d of %d: %s, turn %d of %d%s' "$program_name" $n_run $n_runs "$1" $turn "$repeat" "$left" >&2
}

progress_end() { [ ! -t 2 ] || [ "${n_run:-0}" = 0 ] || printf '\r\033[K' >&2; }

# run NAME SETTINGS PROGRAM COMMAND...: one turn of one peer, again if the cores moved meanwhile
run() {
    local name=$1 program=$3 attempt words
    read -ra words <<<"$2"
    shift 3
    [ -x "$work/$program" ] && [ $ended = 0 ] || return 0
    if [ $is_counting = yes ]; then
        n_runs=$((n_runs + repeat))
        return 0
    fi
    progress "$name"
    for attempt in 1 2 3; do
        run_once "$name" "$@" "$work/$program"
        [ $ended = 0 ] || return 0 # half of a run compares with none
        if [ "$state" != mixed ] || [ ! -s "$work/out" ]; then
            break
        fi
    done
    awk -v state="$state" -F, 'NF == 6 { print $0 "," state }' "$work/out" >>"$lines"
}

# run_once NAME COMMAND...: its lines in $work/out, and how the cores lay in $state. Uses $words.
run_once() {
    local name=$1 before status=0
    shift
    await_state
    [ $ended = 0 ] || return
    before=$state
    env PEER_NAME="$name" "${words[@]}" timeout -k 10 $limit_s "$@" >"$work/out" 2>"$work/errors" </dev/null &
    child=$!
    wait $child || status=$?
    if [ $ended != 0 ]; then
        wait $child # the signal has ended the first wait, not the run
        child=''
        return
    fi
    child=''
    # Debian's OpenSHMEM crashes when it ends, after its last line: its exit code says nothing.
    if [ $status = 124 ]; then
        progress_end
        echo "# $name was ended after $limit_s s" >&2
    elif [ ! -s "$work/out" ]; then
        progress_end
        echo "# $name gave nothing: $(grep -m 1 '[a-z]' "$work/errors")" >&2
    fi
    flag=$(env -u PEER_NETNS "$work/sentinel")
    state=$(state_of "$flag")
    [ "$before" = "$state" ] || state=mixed
}

is_counting=no what="two ranks"

# run_turns [COMMAND...]: every peer once, as often as wanted; peer_turn is the caller's.
run_turns() {
    [ $# -gt 0 ] || set -- peer_turn
    is_turning=yes
    n_runs=0 n_run=0 is_counting=yes turn=0
    "$@"
    is_counting=no began=$SECONDS
    for ((turn = 1; turn <= repeat && ended == 0; turn++)); do
        [ -t 2 ] || echo "$program_name: $what: turn $turn of $repeat, of $((n_runs / repeat)) runs" >&2
        "$@"
    done
    progress_end
    n_run=0 is_turning=no
}

# run_apart NAME COMMAND...: turns with lines and tables of their own, for goal; then run_joined
run_apart() {
    all_lines=$lines lines=$work/$1.csv what=$1
    : >"$lines"
    run_turns "${@:2}"
}

run_joined() {
    cat "$lines" >>"$all_lines"
    lines=$all_lines
}
