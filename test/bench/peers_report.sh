# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What came of the turns of turns.sh: tables, goals, JSON. A line of $lines is
# NAME,OPERATION,BYTES,MEDIAN,MIN,P99,STATE; a figure here is the median of the turns' medians, of
# turns in which the cores lay the same before and after.

# shellcheck disable=SC2016 # awk's dollars
functions='
    function median(list, n, array, i, j, t) {
        n = split(list, array, " ")
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && array[j - 1] + 0 > array[j] + 0; j--) {
                t = array[j]; array[j] = array[j - 1]; array[j - 1] = t
            }
        return array[int((n + 1) / 2)]
    }
    # two digits at least, as people read it
    function show(ns, micro, value, unit) {
        value = ns < 1000 ? ns : ns < 1e6 ? ns / 1e3 : ns < 1e9 ? ns / 1e6 : ns / 1e9
        unit = ns < 1000 ? "ns" : ns < 1e6 ? micro : ns < 1e9 ? "ms" : "s"
        return sprintf(value < 9.95 ? "%.1f %s" : "%.0f %s", value, unit)
    }
'

# The states of the lines, the one in which the most peers were measured first; mixed only if there
# is no other.
states() {
    awk -F, '{ n[$7]++; if (!(($1, $7) in seen)) { seen[$1, $7] = 1; peers[$7]++ } }
        END {
            for (state in n) if (state != "mixed") { print peers[state], n[state], state; is_pure = 1 }
            if (!is_pure && "mixed" in n) print peers["mixed"], n["mixed"], "mixed"
        }' "$lines" | sort -k1,1rn -k2,2rn | cut -d' ' -f3
}

# Which peers have no figure in states, a regular expression.
say_gaps() { # STATES
    local names
    names=$(awk -F, -v states="^($1)$" '{ all[$1] = 1 } $7 ~ states { has[$1] = 1 }
        END { for (name in all) if (!(name in has)) printf "%s ", name }' "$lines")
    [ -z "$names" ] || echo "# the cores lay otherwise in every turn of: $names(more turns: --repeat)" >&2
}

state_words() {
    case $1 in
    near) echo "near: the cores share a cache" ;;
    far) echo "far: the cores share no cache" ;;
    same-core) echo "same-core: two threads of one core" ;;
    *) echo "mixed: the cores lay otherwise after each run than before, so figures compare poorly" ;;
    esac
}

# A table with a row per operation and size, and a column per peer.
print_table() {
    echo
    echo "Median of $repeat turns, one operation one way; cores $(state_words "$1")"
    awk -F, -v state="$1" "$functions"'
        BEGIN { peers["nixlrun"] = n_peers = 1; columns[1] = "nixlrun" }
        $7 == state {
            row = $2 " " $3
            if (!(row in rows)) { rows[row] = ++n_rows; names[n_rows] = row }
            if (!($1 in peers)) { peers[$1] = ++n_peers; columns[n_peers] = $1 }
            values[row, $1] = values[row, $1] " " $4
        }
        END {
            printf "%-24s", "operation, bytes"
            for (p = 1; p <= n_peers; p++) printf "%16s", columns[p]
            print ""
            for (r = 1; r <= n_rows; r++) {
                printf "%-24s", names[r]
                for (p = 1; p <= n_peers; p++) {
                    v = values[names[r], columns[p]]
                    printf "%16s", v == "" ? "-" : show(median(v), "us")
                }
                print ""
            }
        }' "$lines"
}

print_tables() {
    local state
    for state in $(states); do
        print_table "$state"
    done
    say_gaps "$(states | paste -s -d '|')"
    [ -s "$lines" ] || echo "no peer has given a figure" >&2
}

# markdown_table COLUMNS ROWS: a table as README.md has it, of the first state. COLUMNS: lines
# TITLE|LANE LANE..., of which the fastest counts; ROWS: lines TEXT|OPERATION|BYTES[|LANE...], where
# LANE... replace the lanes of the columns, one each. A column without a figure is left out. A figure that
# exists only of turns in which the cores moved is marked.
markdown_table() {
    local state
    state=$(states | head -n 1)
    say_gaps "$state|mixed"
    printf '%s\n' "$1" >"$work/columns"
    printf '%s\n' "$2" >"$work/rows"
    awk -F, -v state="$state" "$functions"'
        function best(values, lanes, key, n, list, i, value, least) {
            n = split(lanes, list, " ")
            least = ""
            for (i = 1; i <= n; i++)
                if ((list[i], key) in values) {
                    value = median(values[list[i], key])
                    if (least == "" || value < least) least = value
                }
            return least
        }
        FILENAME ~ /columns$/ { split($0, part, "|"); title[++n_columns] = part[1]; lanes[n_columns] = part[2]; next }
        FILENAME ~ /rows$/ { row[++n_rows] = $0; next }
        $7 == state { steady[$1, $2 "|" $3] = steady[$1, $2 "|" $3] " " $4 }
        $7 == "mixed" { moved[$1, $2 "|" $3] = moved[$1, $2 "|" $3] " " $4 }
        END {
            for (r = 1; r <= n_rows; r++) {
                n = split(row[r], part, "|")
                for (c = 1; c <= n_columns; c++) {
                    which = n < 4 ? lanes[c] : part[3 + c]
                    time = best(steady, which, part[2] "|" part[3])
                    mark = ""
                    if (time == "") { time = best(moved, which, part[2] "|" part[3]); mark = "\\*" }
                    if (time == "") continue
                    cell[r, c] = show(time, "µs") mark
                    is_shown[c] = has[r] = 1
                    is_marked = is_marked || (mark != "" && state != "mixed")
                }
            }
            head = "| operation |"; rule = "|---|"
            for (c = 1; c <= n_columns; c++)
                if (is_shown[c]) { head = head " " title[c] " |"; rule = rule "---|" }
            print head; print rule
            for (r = 1; r <= n_rows; r++) {
                if (!has[r]) continue
                split(row[r], part, "|")
                line = "| " part[1] " |"
                for (c = 1; c <= n_columns; c++)
                    if (is_shown[c]) line = line (cell[r, c] == "" ? " |" : " " cell[r, c] " |")
                print line
            }
            if (is_marked) print "\n\\*: the cores lay otherwise after each run than before, so that it compares poorly."
        }' "$work/columns" "$work/rows" "$lines"
}

# What was measured on, before a table.
markdown_head() {
    local machine
    machine=$(sed -n 's/^model name[[:space:]]*: *//p' /proc/cpuinfo | head -n 1)
    printf '%s, %s cores (%s), %s; medians of %s turn%s.\n\n' "${machine:-$(uname -m)}" "$(nproc)" \
        "$(state_words "$(states | head -n 1)")" "$(IFS=,; echo "${found[*]}" | sed 's/,/, /g')" "$repeat" "$([ "$repeat" = 1 ] || echo s)"
}

# report COLUMNS ROWS TITLE GOALS...: what came of turns, in the form that is wanted; with --goals,
# under a title, what the command GOALS says
report() {
    if [ "$is_markdown" = yes ]; then
        markdown_table "$1" "$2"
        echo
    else
        print_tables
    fi
    if [ "$are_goals" = yes ]; then
        echo
        echo "$3 (ratio of times; less is better)"
        "${@:4}"
    fi
}

# goal OPERATION BYTES OURS FACTOR PEER[:OPERATION]...: our time <= FACTOR x the fastest of these,
# in each state that has ours and one of them
goal() {
    local op=$1 size=$2 ours=$3 factor=$4
    shift 4
    awk -F, -v op="$op" -v size="$size" -v ours="$ours" -v factor="$factor" -v peers="$*" "$functions"'
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

json_string() { printf '%s' "$1" | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g; s/^/"/; s/$/"/'; }

json_strings() {
    local text separator=''
    printf '['
    for text in "$@"; do
        printf '%s%s' "$separator" "$(json_string "$text")"
        separator=', '
    done
    printf ']'
}

# write_json NETWORK: all lines, for --json: {machine, date, peers, missing, rows}
write_json() {
    [ -n "$json" ] || return 0
    {
        printf '{"machine": {"processor": %s, "cores": %d, "kernel": %s}, "date": "%s",\n' \
            "$(json_string "$(sed -n 's/^model name[[:space:]]*: *//p' /proc/cpuinfo | head -n 1)")" \
            "$(nproc)" "$(json_string "$(uname -r)")" "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
        printf ' "version": %s, "network": %s, "turns": %d,\n' \
            "$(json_string "$("$nixlrun" --version | sed 's/^[^0-9]*//; q')")" "$1" "$repeat"
        printf ' "peers": %s,\n "missing": %s,\n "rows": [' "$(json_strings "${found[@]}")" "$(json_strings "${missing[@]}")"
        awk -F, "$functions"'
            {
                key = $1 "," $2 "," $3 "," $7
                if (!(key in medians)) { order[++n] = key; least[key] = $5 }
                medians[key] = medians[key] " " $4; count[key]++
                least[key] = $5 < least[key] ? $5 : least[key]
                most[key] = $6 > most[key] ? $6 : most[key]
            }
            END {
                for (i = 1; i <= n; i++) {
                    split(order[i], part, ",")
                    ranks = 2; op = part[2]
                    if (split(op, pair, "/") == 2) { op = pair[1]; ranks = pair[2] }
                    printf "%s\n  {\"peer\": \"%s\", \"operation\": \"%s\", \"bytes\": %d, \"ranks\": %d, \"cores\": \"%s\", \"turns\": %d, " \
                           "\"median_ns\": %.2f, \"min_ns\": %.2f, \"p99_ns\": %.2f}", (i > 1 ? "," : ""), part[1], op, part[3],
                           ranks, part[4], count[order[i]], median(medians[order[i]]), least[order[i]], most[order[i]]
                }
                print "\n]}"
            }' "$lines"
    } >"$json" || fail "--json '$json': it cannot be written"
}
