#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nixlrun --stats, top and --metrics: what ranks count is read from outside, also of one that was killed, and
# adds up. Usage: test_stats.sh; finds the trees by top_srcdir and top_builddir. Prints TAP.
# needs: test/mp/stats test/mp/stuck
set -u
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
nixlrun=$build/launcher/nixlrun
program=$build/test/mp/stats
unset NO_COLOR

# until_is FILE PATTERN [N]: wait for N lines of it
until_is() {
    tries=0
    until n=$(grep -cs -e "$2" "$1"); [ "${n:-0}" -ge "${3:-1}" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 1500 ] || { echo "no line '$2' in $1"; cat "$1"; return 1; }
        sleep 0.02
    done
}

# begin ARG...: start a job beside, until all its 2 ranks stay; $job is its pid
begin() {
    rm -f "$scratch/code" "$scratch/pid" "$scratch/job"
    { "$nixlrun" "$@" "$program" stay >"$scratch/job" 2>"$scratch/job.err" & echo $! >"$scratch/pid"
        wait $!
        echo $? >"$scratch/code"; } </dev/null &
    until_is "$scratch/pid" .
    job=$(cat "$scratch/pid")
    until_is "$scratch/job" 'stays' 2
}

# ends CODE: the job ends with that code
ends() {
    until_is "$scratch/code" . && grep -vx "$1" "$scratch/code"
}

# refused CODE PATTERN ARG...: ends with that code and such a line on stderr
refused() {
    code=$1 pattern=$2
    shift 2
    timeout 60 "$nixlrun" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    got=$?
    if [ "$got" != "$code" ] || ! grep -q -e "$pattern" "$scratch/err"; then
        echo "code $got"
        cat "$scratch/out" "$scratch/err"
    fi
}

# wants FILE PATTERN...: each is in the file
wants() {
    file=$1
    shift
    for pattern; do
        grep -qE -e "$pattern" "$file" || { echo "no '$pattern' in:"; cat "$file"; return; }
    done
}

# fetch PATH [ACCEPT]: the body in $scratch/body, the type in $scratch/type, the code printed
fetch() {
    python3 - "http://127.0.0.1:$port$1" "${2:-*/*}" "$scratch" <<'TEXT'
import sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1], headers={"Accept": sys.argv[2]})
try:
    answer = urllib.request.urlopen(request, timeout=30)
except urllib.error.HTTPError as error:
    answer = error
open(sys.argv[3] + "/body", "wb").write(answer.read())
open(sys.argv[3] + "/type", "w").write(answer.headers["Content-Type"] + "\n")
print(answer.status)
TEXT
}

# scrape_among_idle N: beside N clients that never ask or never end to ask, ask three times
scrape_among_idle() {
    python3 - "$port" "$1" <<'TEXT' 2>&1
import socket, sys, urllib.request
port, clients = int(sys.argv[1]), []
for i in range(int(sys.argv[2])):
    clients.append(socket.create_connection(("127.0.0.1", port), timeout=20))
    if i % 2:
        clients[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: slow\r\n")
for _ in range(3):
    answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=15)
    if answer.status != 200 or b"nixlrun_job_ranks 2" not in answer.read():
        print("no metrics")
TEXT
}

# ---- --stats ---------------------------------------------------------------------------------------------

verdict "$("$nixlrun" -np 2 --stats "$program" >"$scratch/out" 2>"$scratch/err" </dev/null || echo "code $?"
    wants "$scratch/err" 'statistics of 2 ranks: .* moved in 80.*k puts and [0-9]+ gets; .* atomics, [0-9]+ collectives, [0-9]+ waits' \
        '^ +2 +[0-9]+ .*% +barrier$' '^ +1 +[0-9]+ .*% +barrier$' \
        '^ +0 +1 +20 +200 B +[1-9][0-9]* +[0-9.]+ ms +[1-9][0-9]* +[0-9.]+ ms +counted$' \
        '^ +0 +- +40\.. MiB$' '^ +0 +1 +40\.. MiB +50\.0% .* shm/memcpy' 'longest waits' \
        'ms  nixl_')" "--stats prints totals, matrix, routes and waits"
verdict "$("$nixlrun" -np 2 --stats="$scratch/counts.json" "$program" >"$scratch/out" 2>"$scratch/err" </dev/null ||
    cat "$scratch/err"
    jq -e '.ranks | length == 2 and all(.state == "finished")' "$scratch/counts.json" >/dev/null || echo "ranks"
    jq -e '([.pairs[].bytes] | add) == ([.counters[] | select(.operation == "put" or .operation == "get").bytes] | add)' \
        "$scratch/counts.json" >/dev/null || echo "the bytes of pairs and of counters differ"
    jq -e '[.collectives[] | select(.collective == "barrier" and .members == 2)] | length == 2 and
        all(.calls > 0 and .timed > 0 and .complete_ns >= .max_complete_ns)' "$scratch/counts.json" >/dev/null || echo "collectives"
    jq -e '[.channels[] | select(.channel == "counted")] | length == 2 and all(.items == 20 and .bytes == 200 and .stalls > 0)' \
        "$scratch/counts.json" >/dev/null || echo "channels"
    jq -e '.rails == []' "$scratch/counts.json" >/dev/null || echo "rails of a job without a network"
    jq -e '[.counters[] | select(.operation == "collective")] == []' "$scratch/counts.json" >/dev/null || echo "counted twice"
    jq -e '.longest_waits | length > 0 and length <= 10' "$scratch/counts.json" >/dev/null || echo "waits"
    [ -s "$scratch/err" ] && cat "$scratch/err")" "--stats=FILE.json writes JSON that adds up, and nothing else"
mkfifo "$scratch/pipe"
verdict "$(timeout 60 "$nixlrun" -np 1 --stats="$scratch/pipe" "$program" >"$scratch/out" 2>"$scratch/err" </dev/null
    code=$?
    [ $code = 1 ] || echo "code $code"
    grep -q "^nixlrun: --stats '.*/pipe': cannot write it: Broken pipe" "$scratch/err" || cat "$scratch/err")" \
    "--stats to a pipe that nobody reads fails"
verdict "$(timeout 60 cat "$scratch/pipe" >"$scratch/piped" &
    timeout 60 "$nixlrun" -np 1 --stats="$scratch/pipe" "$program" >"$scratch/out" 2>"$scratch/err" </dev/null || cat "$scratch/err"
    wait $!
    grep -q "statistics of 1 rank" "$scratch/piped" || echo "the reader has got nothing")" "and to one with a reader goes there"
verdict "$("$nixlrun" -np 1 --stats=json "$program" 2>&1 >/dev/null </dev/null | jq -e '.ranks[0].rank == 0' >/dev/null ||
    echo "no JSON")" "--stats=json prints JSON"
verdict "$("$nixlrun" -np 20 --oversubscribe --stats "$program" >"$scratch/out" 2>"$scratch/err" </dev/null ||
    cat "$scratch/err"
    wants "$scratch/err" '^ +0-1 +2-3 +4-5' '^ +18-19 ')" "above 16 ranks the matrix is condensed"
verdict "$(NIXLRUN_TRANSPORTS=tcp "$nixlrun" -np 2 --stats="$scratch/tcp.json" "$program" >"$scratch/out" 2>&1 </dev/null || cat "$scratch/out"
    jq -e '[.rails[] | select(.transport == "tcp" and .rail != "" and .bytes > 40000000)] | length == 4' \
        "$scratch/tcp.json" >/dev/null || jq -c '.rails' "$scratch/tcp.json")" "rails of a network are counted, both ways"
verdict "$(refused 2 "--stats '/nowhere/x': .*No such file" -np 1 --stats=/nowhere/x true
    refused 2 "allowed: nothing, json" -np 1 --stats= true)" "a file that cannot be written is refused before the start"
verdict "$(refused 0 'no statistics: no rank of this job has called nixl_init' -np 1 --stats true)" \
    "a job that counts nothing says so"
verdict "$("$nixlrun" -np 2 --stats "$program" >"$scratch/out" 2>/dev/full </dev/null
    [ $? = 1 ] || echo "it did not exit with 1")" "statistics that stderr does not take are a failure"

# 8 MiB at least are put in the part that is done twice.
verdict "$("$nixlrun" -np 2 --stats="$scratch/again.json" "$program" again >"$scratch/out" 2>&1 </dev/null || cat "$scratch/out"
    jq -e '(.ranks | length == 4 and all(.state == "finished")) and ([.ranks[] | select(.rank == 0).put_bytes] | sort | .[0] > 8000000)' \
        "$scratch/again.json" >/dev/null || jq -c '.ranks' "$scratch/again.json")" "what was counted before a rank joined again is there"
begin -np 2 --stats="$scratch/killed.json"
victim=$("$nixlrun" ps "$job" | awk '$1 == 1 { print $2 }')
verdict "$([ "${victim:-0}" -gt 1 ] && kill -9 "$victim"
    ends 137
    jq -e '[.counters[] | select(.rank == 1 and .operation == "put").operations] | add > 40000' \
        "$scratch/killed.json" >/dev/null || jq -c '.ranks' "$scratch/killed.json"
    jq -e '.ranks[1].state == "ended"' "$scratch/killed.json" >/dev/null || echo "state")" \
    "what a killed rank has counted is there"

# of_killed FILTER: an expression of jq that holds for what rank 1 has left behind
of_killed() {
    jq -e "$1" "$scratch/killed.json" >/dev/null || { echo "not $1:"; jq -c '.ranks, .collectives, .channels, .rails' "$scratch/killed.json"; }
}
for transports in shm tcp; do
    verdict "$(NIXLRUN_TRANSPORTS=$transports "$nixlrun" -np 2 --on-failure continue --stats="$scratch/killed.json" "$program" die \
        >"$scratch/out" 2>&1 </dev/null; [ $? = 137 ] || cat "$scratch/out"
        of_killed '[.ranks[] | .state] == ["finished", "ended"]'
        of_killed '[.collectives[] | select(.rank == 1 and .members == 2 and .calls > 0)] | length >= 3'
        of_killed '[.channels[] | select(.rank == 1)] | length == 1 and all(.channel == "counted" and .items == 20 and .bytes == 200)'
        of_killed '[.rails[] | select(.rank == 1 and .bytes > 40000000)] | length == if "'"$transports"'" == "tcp" then 2 else 0 end'
        )" "collectives, channels and rails of a rank killed are there, by $transports"
done

# counted_of FILE: how many items each process has sent or received by a channel
counted_of() {
    python3 - "$1" <<'TEXT'
import json, sys
counts = json.load(open(sys.argv[1]))
print([(rank["rank"], rank["state"]) for rank in counts["ranks"]],
      [(channel["rank"], channel["items"]) for channel in counts["channels"]])
TEXT
}

if command -v mpirun >/dev/null && mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
    verdict "$("$nixlrun" --engine openmpi --oversubscribe -np 2 --stats="$scratch/counts.json" \
        sh -c '"$1"; exec "$@"' sh "$program" again >"$scratch/out" 2>&1 </dev/null || cat "$scratch/out"
        counted_of "$scratch/counts.json" >"$scratch/counts"
        wants "$scratch/counts" "^\[(\(0, 'finished'\), ){3}(\(1, 'finished'\)(, )?){3}\] \[(\(0, 20\), ){2}\(1, 20\), \(1, 20\)\]$")" \
        "under an engine each program of a rank has its counters, and each time that it joins"
else
    verdict "" "programs of a rank under an engine # SKIP no Open MPI"
fi

# ---- top -------------------------------------------------------------------------------------------------

begin -np 2
victim=$("$nixlrun" ps "$job" | awk '$1 == 1 { print $2 }')
verdict "$("$nixlrun" top --once "$job" >"$scratch/top" 2>&1 || echo "code $?"
    wants "$scratch/top" "nixlrun top  job $job  ranks 2 .* in all" '^ +0 runs +40\.. MiB' '^ +1 runs .*#'
    grep -q "$(printf '\033')" "$scratch/top" && echo "it is colored")" "top --once prints what was counted so far"
verdict "$("$nixlrun" top --items --once "$job" >"$scratch/top" 2>&1 || echo "code $?"
    wants "$scratch/top" 'waited  collective, channel or rail' '  barrier of 2$' '  channel counted, 0 to 1$')" \
    "top --items prints collectives and channels"
verdict "$(halt "${victim:-0}"
    "$nixlrun" top "$job" 2>&1 </dev/null | grep -q '^ *1 stopped' || echo "nothing of a stopped rank")" \
    "without a terminal top prints once, and that a rank is stopped"
[ "${victim:-0}" -gt 1 ] && kill -CONT "$victim"
verdict "$(refused 2 'which job' top; refused 2 "'1' is no job" top 1; refused 2 "'-x' is not known; allowed: --help, --once, --items" top -x
    refused 2 'which job' top --once)" "bad command lines of top are refused"
# A shell with job control: top is suspended and continued in a terminal of 3 rows.
cat >"$scratch/suspend.py" <<'TEXT'
import fcntl, os, pty, select, signal, struct, sys, termios
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"

def shell():
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 3, 20, 0, 0))
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    top = os.fork()
    if top == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(sys.argv[1], [sys.argv[1], "top", sys.argv[2]])
    status = os.waitpid(top, os.WUNTRACED)[1]
    echoes = termios.tcgetattr(0)[3] & termios.ECHO
    print("suspended" if os.WIFSTOPPED(status) and echoes else f"status {status}, echo {echoes}", flush=True)
    os.kill(top, signal.SIGCONT)
    print("code", os.waitstatus_to_exitcode(os.waitpid(top, 0)[1]), flush=True)
    os._exit(0)

os.environ["TERM"] = "xterm"
pid, fd = pty.fork()
if pid == 0:
    shell()
text, n_sent = b"", 0
keys = [(1, ENTER, b"\x1a"), (2, ENTER, b"q")]
while select.select([fd], [], [], 30)[0]:
    try:
        read = os.read(fd, 65536)
    except OSError:
        read = b""
    if read == b"":
        break
    text += read
    if n_sent < len(keys) and text.count(keys[n_sent][1]) == keys[n_sent][0]:
        os.write(fd, keys[n_sent][2])
        n_sent += 1
if text.count(LEAVE) != 2 or b"suspended" not in text or b"code 0" not in text:
    print(text)
first = text.split(b"\x1b[H")[1].split(b"\x1b[J")[0]
if first.count(b"\n") > 2:
    print("more lines than the terminal has:", first)
os.kill(pid, signal.SIGKILL)
TEXT
verdict "$(timeout 120 python3 "$scratch/suspend.py" "$nixlrun" "$job" 2>&1)" "Ctrl-Z suspends top, which fits into any terminal"
if command -v script >/dev/null; then
    verdict "$( (sleep 2.5; printf v; sleep 1.5; printf q) | TERM=xterm timeout 60 script -qec "stty rows 24 cols 80; $nixlrun top $job" \
        "$scratch/typescript" >/dev/null 2>&1 || echo "code $?"
        tr '\033' 'E' <"$scratch/typescript" >"$scratch/screen"
        wants "$scratch/screen" 'E\[\?1049h' 'q quits, v: collectives, rails' 'q quits, v: ranks' 'E\[\?1049l' '/s' 'barrier of 2')" "top shows rates in a terminal, q quits"
    verdict "$( (sleep 1.5; printf q) | NO_COLOR=1 TERM=xterm timeout 60 script -qec "$nixlrun top $job" \
        "$scratch/typescript" >/dev/null 2>&1
        tr '\033' 'E' <"$scratch/typescript" | grep -E 'E\[(31|32|1)m')" "NO_COLOR is obeyed"
fi
verdict "$("$nixlrun" kill "$job"; ends 143)" "the job did not notice"

begin -np 2 sh -c 'exec "$1" hang' sh
verdict "$(tries=0
    until "$nixlrun" top --once "$job" >"$scratch/top" 2>&1 && grep -qE '^ +0 runs .* [0-9.]+ s ' "$scratch/top"; do
        tries=$((tries + 1))
        [ "$tries" -lt 1500 ] || { cat "$scratch/top"; break; }
        sleep 0.02
    done)" "waits that have not ended count as time waited"
verdict "$("$nixlrun" kill "$job"; ends 143)" "in a job that hangs"
"$nixlrun" -np 2 "$build/test/mp/stuck" full_channel >"$scratch/job" 2>&1 </dev/null &
job=$!
verdict "$(tries=0
    until "$nixlrun" top --once --items "$job" >"$scratch/top" 2>&1
        grep -qE '^ +[0-9]+ .* [0-9.]+ m?s  barrier of 2$' "$scratch/top" && grep -qE ' [1-9][0-9.]* m?s  channel items, 0 to 1$' "$scratch/top"; do
        tries=$((tries + 1))
        [ "$tries" -lt 1500 ] || { cat "$scratch/top"; break; }
        sleep 0.02
    done)" "and those in collectives and channels as theirs"
"$nixlrun" kill "$job"
wait "$job"

# ---- --metrics -------------------------------------------------------------------------------------------

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
verdict "$(ldd "$nixlrun" | grep -E 'microhttpd|gnutls')" "nixlrun starts without the HTTP server's libraries"
if "$nixlrun" -np 1 --metrics "$port" true 2>&1 </dev/null | grep -q 'built without libmicrohttpd'; then
    verdict "" "--metrics # SKIP built without libmicrohttpd"
else
    begin -np 2 --on-failure continue --metrics "$port"
    verdict "$(fetch /metrics | grep -vx 200
        grep -q 'text/plain; version=0.0.4' "$scratch/type" || cat "$scratch/type"
        wants "$scratch/body" '^nixlrun_job_ranks 2$' '^# TYPE nixlrun_moved_bytes_total counter$' \
            '^nixlrun_moved_bytes_total\{rank="0",incarnation="0",host="[^"]*",peer="1",operation="put",transport="shm",method="memcpy"\} 42[0-9]*$' \
            '^nixlrun_collectives_total\{rank="0",incarnation="0",host="[^"]*",collective="barrier",members="2"\} [0-9]+$' \
            '^nixlrun_channel_items_total\{.*,peer="1",channel="counted",direction="send"\} 20$' \
            '^nixlrun_channel_wait_seconds_count\{.*direction="receive"\} [1-9]' \
            '^nixlrun_collective_seconds_bucket\{.*collective="allreduce",members="2",le="\+Inf"\} 2$' \
            '^nixlrun_rank_joined\{rank="1".*\} 1$' '^nixlrun_complete_seconds_bucket\{.*le="\+Inf"\} [0-9]+$')" \
        "--metrics serves what the ranks count"
    if command -v promtool >/dev/null; then
        verdict "$(promtool check metrics <"$scratch/body" 2>&1)" "promtool check metrics finds nothing"
    else
        verdict "" "promtool check metrics # SKIP promtool is not installed"
    fi
    verdict "$(fetch /metrics 'application/openmetrics-text;version=1.0.0,text/plain;q=0.5' | grep -vx 200
        grep -q 'application/openmetrics-text; version=1.0.0' "$scratch/type" || cat "$scratch/type"
        wants "$scratch/body" '^# TYPE nixlrun_moved_bytes counter$' '^# UNIT nixlrun_moved_bytes bytes$' '^nixlrun_moved_bytes_total\{'
        [ "$(tail -n 1 "$scratch/body")" = '# EOF' ] || echo "no end")" "OpenMetrics is served to who asks for it"
    verdict "$(fetch / | grep -vx 404)" "other pages do not exist"
    verdict "$(scrape_among_idle 100)" "clients that ask nothing, or too slowly, delay no other"
    victim=$("$nixlrun" ps "$job" | awk '$1 == 1 { print $2 }')
    verdict "$([ "${victim:-0}" -gt 1 ] && kill -9 "$victim"
        until_is "$scratch/job.err" 'the other ranks continue'
        fetch /metrics | grep -vx 200
        wants "$scratch/body" '^nixlrun_rank_joined\{rank="0".*\} 1$' '^nixlrun_rank_joined\{rank="1".*\} 0$')" \
        "a rank that was killed is no longer joined"
    verdict "$(refused 2 "metrics '$port': cannot listen there: the port is in use" -np 1 --metrics "$port" true
        refused 2 "cannot listen there: this host has no such address" -np 1 --metrics "192.0.2.1:$port" true
        refused 2 "allowed: a port from 1 to 65535" -np 1 --metrics 0 true
        refused 2 "allowed: a port from 1 to 65535" -np 1 --metrics a:b:1 true
        refused 2 "allowed: a port from 1 to 65535" -np 1 --metrics :80 true)" "bad addresses and ports are refused"
    verdict "$("$nixlrun" kill "$job"; ends 137)" "the job ends as without it"
    # Of a script that runs the program twice both processes are the same incarnation of the rank.
    begin -np 2 --metrics "$port" sh -c '"$1"; exec "$@"' sh
    verdict "$(fetch /metrics | grep -vx 200
        grep -v '^#' "$scratch/body" | sed 's/ [^ ]*$//' | sort | uniq -d
        wants "$scratch/body" '^nixlrun_channel_items_total\{rank="0",.*direction="send"\} 40$' '^nixlrun_rank_joined\{rank="0".*\} 1$'
        "$nixlrun" top --once "$job" >"$scratch/top"
        wants "$scratch/top" '^ +0 runs ' '^ +1 runs ')" "programs that a rank runs one after another are added up"
    verdict "$("$nixlrun" kill "$job"; ends 143)" "and end"
fi
echo "1..$number"
