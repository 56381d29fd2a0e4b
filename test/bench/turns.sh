# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What compare and compare_net share: options, building peers, turns with the state of the cores,
# the table of medians, goals. The script that sources it says usage(), and sets $choices
# and $default_ranks.

fail() {
    echo "${0##*/}: $*" >&2
    exit 2
}

# Sets build, repeat, want, patience, only, keep and ranks, and from them nixlrun, source, work and lines.
parse_options() {
    # shellcheck disable=SC2154 # of the caller
    build=. repeat=3 want=any patience=60 only=$choices keep= ranks=$default_ranks
    while [ $# -gt 0 ]; do
        case $1 in
        --help) usage; exit 0 ;;
        --build | --repeat | --state | --patience | --only | --keep | --ranks)
            [ $# -ge 2 ] || fail "option '$1' needs a value; see --help"
            case $1 in
            --build) build=$2 ;;
            --repeat) repeat=$2 ;;
            --state) want=$2 ;;
            --patience) patience=$2 ;;
            --only) only=$2 ;;
            --keep) keep=$2 ;;
            --ranks) ranks=$2 ;;
            esac
            shift 2
            ;;
        *) fail "unknown option '$1'; see --help" ;;
        esac
    done
    case $want in near | far | any) ;; *) fail "--state is '$want'; allowed: near or far" ;; esac
    case $repeat in '' | *[!0-9]* | 0) fail "--repeat is '$repeat'; allowed: a number from 1" ;; esac
    case $patience in '' | *[!0-9]*) fail "--patience is '$patience'; allowed: seconds" ;; esac
    case ,$ranks, in
    *[!0-9,]* | *,,* | *,0* | *,1,*) fail "--ranks is '$ranks'; allowed: numbers from 2, such as 2,4" ;;
    esac
    local part
    for part in ${only//,/ }; do
        [[ ,$choices, = *,$part,* ]] || fail "--only has '$part'; allowed: $choices"
    done
    build=$(cd "$build" && pwd) || fail "--build: no such directory"
    source=$(cd "$(dirname "$0")/../.." && pwd)
    nixlrun=$build/launcher/nixlrun
    [ -x "$nixlrun" ] || fail "no nixlrun in '$build'; name the build tree with --build"
    work=$(mktemp -d) || exit 1
    lines=${keep:-$work/lines.csv}
    : >"$lines"
}

is_chosen() { [[ ,$only, = *,$1,* ]]; }

# ---- build the peers ----

# compile COMPILER SOURCE PROGRAM FLAG...
compile() {
    local compiler=$1 file=$2 program=$3
    shift 3
    command -v "$compiler" >/dev/null &&
        "$compiler" -O2 -g -std=gnu11 -D_GNU_SOURCE -Wno-stringop-overflow \
            "-I$source/include" "-I$build/include" \
            "$source/test/bench/peers/$file.c" -o "$work/$program" "$@" 2>"$work/$program.log"
}

# What cannot be left out.
compile_own() {
    compile gcc sentinel sentinel || fail "cannot compile: $(cat "$work/sentinel.log")"
    compile gcc peer_nixlrun nixlrun "-L$build/src/.libs" -lnixlrun "-Wl,-rpath,$build/src/.libs" ||
        fail "cannot compile: $(cat "$work/nixlrun.log")"
}

compile_own_collectives() {
    compile gcc collective_nixlrun coll-nixlrun "-L$build/src/.libs" -lnixlrun \
        "-Wl,-rpath,$build/src/.libs" || fail "cannot compile: $(cat "$work/coll-nixlrun.log")"
}

# ---- run them in turns ----

state_of() { # of a flag's nanoseconds
    awk -v ns="$1" 'BEGIN { print ns < 45 ? "same-core" : ns < 180 ? "near" : "far" }'
}

# wait until the cores lie as wanted, at most --patience seconds; sets $flag and $state
await_state() {
    local deadline=$((SECONDS + patience))
    while :; do
        flag=$(env -u PEER_NETNS "$work/sentinel")
        state=$(state_of "$flag")
        [ "$want" = any ] || [ "$state" = "$want" ] || [ $SECONDS -ge $deadline ] && return
    done
}

# run NAME SETTINGS PROGRAM COMMAND...: one turn of one peer
run() {
    local name=$1 program=$3 before out words
    read -ra words <<<"$2"
    shift 3
    [ -x "$work/$program" ] || return 0
    await_state
    before=$state
    # Debian's OpenSHMEM crashes when it ends, after its last line: its exit code says nothing.
    out=$(env PEER_NAME="$name" "${words[@]}" timeout 120 "$@" "$work/$program" 2>"$work/errors")
    if [ -z "$out" ]; then
        echo "# $name gave nothing: $(grep -m 1 '[a-z]' "$work/errors")"
    fi
    flag=$(env -u PEER_NETNS "$work/sentinel")
    [ "$before" = "$(state_of "$flag")" ] || before=mixed
    printf '%s\n' "$out" | awk -v state="$before" -F, 'NF == 6 { print $0 "," state }' >>"$lines"
}

# run_turns [COMMAND...]: every peer once, as often as wanted; peer_turn is the caller's.
run_turns() {
    local turn
    [ $# -gt 0 ] || set -- peer_turn
    for ((turn = 1; turn <= repeat; turn++)); do
        echo "# $*: turn $turn of $repeat" >&2
        "$@"
    done
}

# run_apart NAME COMMAND...: turns with lines and tables of their own, for goal; then run_joined
run_apart() {
    all_lines=$lines lines=$work/$1.csv
    : >"$lines"
    run_turns "${@:2}"
    print_tables
}

run_joined() {
    cat "$lines" >>"$all_lines"
    lines=$all_lines
}

# ---- what came of it ----

# shellcheck disable=SC2016 # awk's dollars
median='
    function median(list, n, array, i, j, t) {
        n = split(list, array, " ")
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && array[j - 1] + 0 > array[j] + 0; j--) {
                t = array[j]; array[j] = array[j - 1]; array[j - 1] = t
            }
        return array[int((n + 1) / 2)]
    }
'

# A table with a row per operation and size, and a column per peer: the median of the medians.
print_table() {
    echo
    echo "Median of $repeat turns, one operation one way, state $1"
    awk -F, -v state="$1" "$median"'
        function show(ns) {
            if (ns < 1000) return sprintf("%.1f ns", ns)
            return ns < 1e6 ? sprintf("%.1f us", ns / 1e3) : sprintf("%.2f ms", ns / 1e6)
        }
        $7 == state {
            row = $2 " " $3
            if (!(row in rows)) { rows[row] = ++n_rows; names[n_rows] = row }
            if (!($1 in peers)) { peers[$1] = ++n_peers; columns[n_peers] = $1 }
            values[row, $1] = values[row, $1] " " $4
        }
        END {
            printf "%-22s", "operation, bytes"
            for (p = 1; p <= n_peers; p++) printf "%16s", columns[p]
            print ""
            for (r = 1; r <= n_rows; r++) {
                printf "%-22s", names[r]
                for (p = 1; p <= n_peers; p++) {
                    v = values[names[r], columns[p]]
                    printf "%16s", v == "" ? "-" : show(median(v))
                }
                print ""
            }
        }' "$lines"
}

print_tables() {
    local state
    for state in near far same-core; do
        if grep -q ",$state\$" "$lines"; then
            print_table $state
        fi
    done
}

# goal OPERATION BYTES OURS FACTOR PEER[:OPERATION]...: our time <= FACTOR x the fastest of these,
# in each state that has ours and one of them
goal() {
    local op=$1 size=$2 ours=$3 factor=$4
    shift 4
    awk -F, -v op="$op" -v size="$size" -v ours="$ours" -v factor="$factor" -v peers="$*" "$median"'
        BEGIN {
            n = split(peers, peer, " ")
            for (i = 1; i <= n; i++) {
                split(peer[i], part, ":")
                wanted[part[1], part[2] == "" ? op : part[2]] = peer[i]
            }
        }
        $3 != size { next }
        $1 == ours && $2 == op { own[$7] = own[$7] " " $4 }
        ($1, $2) in wanted {
            who = wanted[$1, $2]
            values[$7, who] = values[$7, who] " " $4
        }
        END {
            for (state in own) {
                best = ""
                for (i = 1; i <= n; i++) {
                    if ((state, peer[i]) in values) {
                        time = median(values[state, peer[i]])
                        if (best == "" || time < least) { best = peer[i]; least = time }
                    }
                }
                if (state == "mixed" || best == "") continue
                ratio = median(own[state]) / least
                printf "%-6s %-12s %9d bytes  %-15s / %-18s %6.2f  allowed %.2f  (%s)\n",
                       ratio <= factor ? "PASS" : "FAIL", op, size, ours, best, ratio, factor, state
                found = 1
            }
            if (!found)
                printf "%-6s %-12s %9d bytes  %-15s / %s: not measured\n", "-", op, size, ours, peers
        }' "$lines"
}
