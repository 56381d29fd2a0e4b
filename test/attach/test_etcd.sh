#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Processes attach to those that have published a name in a real etcd: deaths, leases, an etcd that is started
# again or loses its data, users, TLS, and what is no etcd. Usage: test_etcd.sh; finds the trees by top_srcdir
# and top_builddir. Prints TAP.
# needs: test/attach/attach_end test/bench/nixl_bench
# shellcheck disable=SC2086  # settings and commands of etcdctl are words
set -u
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
. "${top_srcdir:-$(dirname "$0")/../..}/test/attach/lib.sh"
[ -e "$build/src/etcd/.libs/nixlrun_etcd.so" ] || { echo "1..0 # SKIP the module for etcd is not built"; exit 0; }
for program in etcd etcdctl openssl python3; do
    command -v $program >/dev/null || { echo "1..0 # SKIP there is no $program"; exit 0; }
done
NIXLRUN_TOKEN_FILE=$scratch/token
ETCDCTL_API=3
export NIXLRUN_TOKEN_FILE ETCDCTL_API
(umask 077; echo "the token of this test" >"$NIXLRUN_TOKEN_FILE")
trap 'stop_all; rm -rf "$scratch"' EXIT

# ---- etcd and what stands for it -------------------------------------------------------------------------

# A port that nobody has, below those that the kernel gives away.
free_port() {
    python3 -c '
import random, socket
while True:
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", random.randrange(15000, 32000)))
        except OSError:
            continue
        print(s.getsockname()[1])
        break'
}

# etcd_start NAME PORT [OPTION...]: an etcd with its data in scratch/NAME; waits until it answers
etcd_start() {
    name=$1 client=$2 scheme=http
    shift 2
    case "$*" in *--cert-file*) scheme=https ;; esac
    [ -e "$scratch/$name.peer" ] || free_port >"$scratch/$name.peer"
    peer=http://127.0.0.1:$(cat "$scratch/$name.peer")
    etcd --name "$name" --data-dir "$scratch/$name.data" --log-level error --unsafe-no-fsync \
        --listen-client-urls "$scheme://127.0.0.1:$client" \
        --advertise-client-urls "$scheme://127.0.0.1:$client" --listen-peer-urls "$peer" \
        --initial-advertise-peer-urls "$peer" --initial-cluster "$name=$peer" "$@" \
        >>"$scratch/$name.etcd" 2>&1 </dev/null &
    echo $! >"$scratch/$name.etcd.pid"
    until_true 500 python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])))' "$client"
}

etcd_kill() { kill -9 "$(cat "$scratch/$1.etcd.pid")" && wait "$(cat "$scratch/$1.etcd.pid")" 2>/dev/null; }

stop_all() {
    for pid in "$scratch"/*.etcd.pid "$scratch"/*.proxy.pid; do
        [ ! -e "$pid" ] || kill -9 "$(cat "$pid")" 2>/dev/null
    done
}

# until_true TRIES COMMAND...: repeat it until it passes; each try waits a moment
until_true() {
    tries=$1
    shift
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || { echo "never passes: $*"; return 1; }
        sleep 0.05
    done
}

# proxy NAME WHAT [HOST:PORT]: run etcd_proxy.py beside; prints its port
proxy() {
    log=$1
    shift
    : >"$scratch/$log"
    python3 "$src/test/attach/etcd_proxy.py" "$@" >"$scratch/$log" 2>&1 </dev/null &
    echo $! >"$scratch/$log.proxy.pid"
    line "$log" '^port'
    sed -n 's/^port //p' "$scratch/$log"
}

ctl() { etcdctl --endpoints "127.0.0.1:$port" "$@"; }
has() { [ -n "$(ctl get --print-value-only "$1")" ]; }
has_not() { ! has "$1"; }
lease_of() { ctl get -w json "$1" | sed -n 's/.*"lease":\([0-9]*\).*/\1/p'; }
watches() {
    python3 -c '
import sys, urllib.request
for line in urllib.request.urlopen("http://127.0.0.1:%s/metrics" % sys.argv[1]):
    if line.startswith(b"etcd_debugging_mvcc_watcher_total "):
        sys.exit(float(line.split()[1]) < 1)' "$port"
}

port=$(free_port)
etcd_start one "$port"
etcd=etcd://127.0.0.1:$port

# ---- calls -----------------------------------------------------------------------------------------------

begin serve "$end" serve "$etcd/a/b" calls 2
line serve '^published'
verdict "$(until_true 1 has /a/b/calls; says 'mptest: passed' "$end" visit "$etcd/a/b/" calls 2; passed serve)" \
    "every call, by a prefix of the user"
verdict "$(until_true 1 has_not /a/b/calls)" "a process that ends withdraws its entry"
by="env ATTACH_OVER=tcp NIXLRUN_TRANSPORTS=self,shm,tcp"
begin serve $by "$end" serve "$etcd" far 1
line serve '^published'
verdict "$(says 'mptest: passed' $by NIXLRUN_HOSTID=elsewhere "$end" visit "$etcd" far 1; passed serve)" "every call by a network"
begin serve "$build/launcher/nixlrun" -np 2 "$end" serve "$etcd" jobs 2
line serve '^published'
verdict "$(until_true 200 has /nixlrun/jobs.1; says 'mptest: passed' "$build/launcher/nixlrun" -np 2 "$end" visit "$etcd" jobs 1
    until_true 400 test -s "$scratch/serve.code"; grep -q '^0' "$scratch/serve.code" || cat "$scratch/serve")" \
    "ranks of two jobs attach to each other"

# ---- awaiting a name -------------------------------------------------------------------------------------

begin try "$end" awaited "$etcd" late "blocks of 64 KiB"
until_true 200 watches
ctl put /other value >/dev/null
ctl compact "$(ctl get -w json /other | sed -n 's/.*"mod_revision":\([0-9]*\).*/\1/p')" >/dev/null
begin serve "$end" serve "$etcd" late 1
verdict "$(passed try; passed serve; grep -q NIXL_OK "$scratch/try" || cat "$scratch/try")" \
    "a name is awaited before it is published, over a compaction"
before=$(proxy compact compact "127.0.0.1:$port")
begin try "$end" awaited "etcd://127.0.0.1:$before" late "blocks of 64 KiB"
line compact '^watches again'
begin serve "$end" serve "$etcd" late 1
verdict "$(line compact '^canceled'; passed try; passed serve; grep -q NIXL_OK "$scratch/try" || cat "$scratch/try")" \
    "a watch that etcd cancels, since it was compacted, is begun again"

# ---- names and refusals ----------------------------------------------------------------------------------

begin first "$end" publish "$etcd" name "schema one"
line first '^published'
verdict "$(says "^-1: .*its schema is 'schema one' (10 bytes), and this process asks for 'schema two'" \
    "$end" awaited "$etcd" name "schema two")" "another schema is refused, and both are quoted"
verdict "$(says "^-6: nobody has published 'nam' in $etcd within .*; published there: 'name'" \
    "$end" try "$etcd" nam "schema one")" "an unknown name is awaited, and the message lists names"
verdict "$(says "^-11: .*process $(pid_in first) on '.*' has published the name and lives" \
    "$end" publish "$etcd" name "schema one")" "a second publisher is refused while the first one lives"
verdict "$(says "^-11: .*has published the name and lives" env NIXLRUN_TOKEN_FILE= \
    NIXLRUN_TOKEN=another_token_of_16 "$end" publish "$etcd" name "")" "... also one with another token"
verdict "$(says "^-21: .*made with another token" env NIXLRUN_TOKEN_FILE= NIXLRUN_TOKEN=another_token_of_16 \
    "$end" awaited "$etcd" name "schema one")" "another token is refused"
verdict "$(says "^-21: .*there is no token: set NIXLRUN_TOKEN_FILE" env NIXLRUN_TOKEN_FILE= \
    "$end" publish "$etcd" other "")" "a publisher without a token is refused"
verdict "$(ctl get --prefix / | grep -c 'the token of this test' | grep -v '^0')" "the token is not in etcd"
ctl get --print-value-only /nixlrun/name | tr -d '\n' >"$scratch/entry"
ctl put /nixlrun/copy <"$scratch/entry" >/dev/null
verdict "$(says "^-10: .*it is that of another name" "$end" try "$etcd" copy "schema one")" \
    "an entry that was copied to another name attaches nobody"
ctl put /elsewhere/name <"$scratch/entry" >/dev/null
verdict "$(says "^-21: .*made with another token.*or was changed" "$end" awaited "$etcd/elsewhere" name "schema one")" \
    "... nor to another prefix"
sed 's/"name":"name"/"name":"copy"/' "$scratch/entry" | ctl put /nixlrun/copy >/dev/null
verdict "$(says "^-21: .*made with another token.*or was changed" "$end" awaited "$etcd" copy "schema one")" \
    "an entry that was changed attaches nobody"
for value in '' 'text' '{}' '[]' '{"nixlrun":2}' '{"nixlrun":1,"name":"copy"}'; do
    ctl put -- /nixlrun/copy "$value" >/dev/null
    verdict "$(says "^-10: .*the key '/nixlrun/copy' in etcd has no entry of that name" "$end" try "$etcd" copy "")" \
        "a value that is no entry attaches nobody: $value"
done
head -c 100000 /dev/zero | tr '\0' 'x' | ctl put /nixlrun/copy >/dev/null
verdict "$(says "^-10: .*it is larger than an entry" "$end" try "$etcd" copy "")" "a value that is too large attaches nobody"
verdict "$(says "^-11: .*the key '/nixlrun/copy' of etcd has something else (it is larger.*remove it" \
    "$end" publish "$etcd" copy "")" "a key with something else is not overwritten"
verdict "$(says "^name $(pid_in first) $(uname -n)" "$end" names "$etcd" x; [ "$(grep -c '^copy' "$scratch/says")" = 0 ] ||
    cat "$scratch/says")" "names are listed, and what is no entry is not"
verdict "$(says "^name  *$(pid_in first) on $(uname -n)" "$build/launcher/nixlrun" ps "$etcd")" "nixlrun ps lists them"
verdict "$("$build/launcher/nixlrun" ps etcd://127.0.0.1:1 >"$scratch/ps" 2>&1; [ $? = 1 ] &&
    grep -q "^nixlrun: ps: .*127.0.0.1:1: Connection refused" "$scratch/ps" || cat "$scratch/ps")" "... and says why it cannot"
verdict "$("$build/launcher/nixlrun" ps etcd://x >"$scratch/ps" 2>&1; [ $? = 2 ] &&
    grep -q "^nixlrun: ps: where is 'etcd://x'; allowed" "$scratch/ps" || cat "$scratch/ps")" "... or where"
verdict "$(says '^NIXL_OK' "$end" awaited "$etcd" name "schema one")" "the publisher takes whoever knows the token"

# ---- deaths ----------------------------------------------------------------------------------------------

killed first
verdict "$(until_true 1 has /nixlrun/name; says "^-10: .*which has published it, is not at tcp://.*nobody listens there" \
    "$end" try "$etcd" name "schema one")" "a killed publisher attaches nobody, and its entry stays for a while"
begin first "$end" publish "$etcd" name "schema one"
line first '^published'
verdict "$(says '^NIXL_OK' "$end" awaited "$etcd" name "schema one")" "the next publisher replaces the entry of a killed one at once"
killed first
verdict "$(until_true 300 has_not /nixlrun/name)" "the entry of a killed publisher goes with its lease"
own=$(free_port)
begin first env NIXLRUN_PUBLISH_LISTEN="127.0.0.1:$own" "$end" publish "$etcd" name "schema one"
line first '^published'
verdict "$(ctl get --print-value-only /nixlrun/name | grep -q "\"tcp://127.0.0.1:$own\"" || ctl get /nixlrun/name)" \
    "a publisher listens where NIXLRUN_PUBLISH_LISTEN says"
verdict "$(says "^-11: .*NIXLRUN_PUBLISH_LISTEN: port $own is in use" env NIXLRUN_PUBLISH_LISTEN="127.0.0.1:$own" \
    "$end" publish "$etcd" second "")" "... and is refused where another process does"
verdict "$(says "^-1: .*NIXLRUN_PUBLISH_LISTEN is 'here'; allowed: HOST:PORT" env NIXLRUN_PUBLISH_LISTEN=here \
    "$end" publish "$etcd" second "")" "... and where it names no address"
killed first
begin second env NIXLRUN_PUBLISH_LISTEN="127.0.0.1:$own" "$end" publish "$etcd" second "schema one"
line second '^published'
verdict "$(says "^-10: .*has ended: another process has its port" "$end" try "$etcd" name "schema one")" \
    "an entry whose port another publisher has attaches nobody"
killed second
begin first env NIXLRUN_PUBLISH_LISTEN="127.0.0.1:$own" "$end" publish "$etcd" unreached "schema one"
line first '^published'
ctl get --print-value-only /nixlrun/unreached >"$scratch/entry"
verdict "$(says "^-11: .*process $(pid_in first) on .*its lease has not ended, but it does not answer" \
    env LD_PRELOAD="$build/test/attach/.libs/lost_port.so" LOST_PORT="$own" SILENT_PORT="$(proxy silent nothing)" \
    "$end" publish "$etcd" unreached "schema one"
    ctl get --print-value-only /nixlrun/unreached | cmp - "$scratch/entry")" \
    "a publisher that cannot be reached keeps its entry while it renews its lease"
killed first

# ---- an etcd that goes and comes -------------------------------------------------------------------------

begin serve env NIXLRUN_LOG=info "$end" serve "$etcd" hold 100
line serve '^published'
begin stay "$end" stay "$etcd" hold
line stay '^putting'
ctl lease revoke "$(printf %x "$(lease_of /nixlrun/hold)")" >/dev/null
verdict "$(until_true 200 has /nixlrun/hold)" "a lease that was revoked is granted again, and the entry is put again"
ctl del /nixlrun/hold >/dev/null
verdict "$(until_true 200 has /nixlrun/hold)" "an entry that was removed is put again"
etcd_kill one
verdict "$(says "^-10: cannot attach to 'hold' .*127.0.0.1:$port: Connection refused" "$end" try "$etcd" hold "blocks of 64 KiB"
    grep -q "nixl_attach waits for etcd to find 'hold'" "$scratch/says" || cat "$scratch/says")" \
    "without etcd nobody attaches, and the message says why"
begin try "$end" awaited "$etcd" hold "blocks of 64 KiB"
line try 'nixl_attach waits for etcd'
line serve "'hold' may not be found in"
etcd_start one "$port"
verdict "$(line serve "'hold' is found in .* again"; passed try; grep -q NIXL_OK "$scratch/try" || cat "$scratch/try")" \
    "etcd comes back, and who has waited attaches"
etcd_kill one
rm -rf "$scratch/one.data"
etcd_start one "$port"
verdict "$(until_true 200 has /nixlrun/hold; says '^NIXL_OK' "$end" awaited "$etcd" hold "blocks of 64 KiB")" \
    "etcd has lost its data, and the entry comes back"
verdict "$([ ! -s "$scratch/stay.code" ] || cat "$scratch/stay")" "who was attached has noticed nothing"
killed serve
verdict "$(passed stay)" "... and notices the death of the publisher"

# ---- endpoints -------------------------------------------------------------------------------------------

two=etcd://127.0.0.1:1,127.0.0.1:$port
begin serve "$end" serve "$two" two 1
line serve '^published'
verdict "$(says 'mptest: passed' "$end" visit "$two" two 1; passed serve)" "the first endpoint is away, and the second one serves"
verdict "$(says "^-6: nobody has published 'name'" \
    "$end" try "etcd://127.0.0.1:$(proxy gateway gateway),127.0.0.1:$port/gateway" name "")" \
    "the first endpoint is a gateway without etcd, and the second one is asked"
verdict "$(says "^-10: .*127.0.0.1:1: Connection refused" "$end" try etcd://127.0.0.1:1 name "")" "an etcd that is away is awaited"
verdict "$(says "^-10: .*no-such-host.invalid:2379: the host is not known" "$end" try etcd://no-such-host.invalid:2379 name "")" \
    "a host that is not known is awaited"
verdict "$(says "^-18: .*HTTP status 200, is no JSON: '<html>It works!</html>" \
    "$end" awaited "etcd://127.0.0.1:$(proxy page page)" name "")" "a server of pages is refused"
verdict "$(says "^-18: .*is JSON, but not that of an etcd" "$end" awaited "etcd://127.0.0.1:$(proxy other other)" name "")" \
    "a server of something else is refused"
verdict "$(says "^-18: .*its answer is larger than" "$end" awaited "etcd://127.0.0.1:$(proxy endless endless)" name "")" \
    "an answer without end is refused"
verdict "$(says "^-10: .*does not answer" "$end" try "etcd://127.0.0.1:$(proxy nothing nothing)" name "")" \
    "an etcd that does not answer is awaited"
verdict "$(says "^-12: .*the module for etcd is not available: not built, or not installed" \
    env NIXLRUN_MODULE_DIR="$scratch" "$end" awaited "$etcd" name "")" "without the module the message says what it needs"

# ---- users -----------------------------------------------------------------------------------------------

port=$(free_port)
etcd_start users "$port"
etcd=etcd://127.0.0.1:$port
for command in "user add root:top" "user grant-role root root" "user add app:pass word" "role add app" \
    "role grant-permission --prefix app readwrite /app/" "user grant-role app app" "auth enable"; do
    case $command in
        "user add app"*) ctl user add "app:pass word" ;;
        "role add app" | "user grant-role root"*) ctl $command ;;
        *) ctl $command ;;
    esac >/dev/null
done
password=$scratch/password
(umask 077; echo "pass word" >"$password")
by="env NIXLRUN_ETCD_PASSWORD_FILE=$password"
app=etcd://app@127.0.0.1:$port
begin serve $by "$end" serve "$app/app" user 2
line serve '^published'
verdict "$(says 'mptest: passed' $by "$end" visit "$app/app" user 1)" "a user with a password"
verdict "$(says 'mptest: passed' env NIXLRUN_ETCD_USER=app "NIXLRUN_ETCD_PASSWORD=pass word" \
    "$end" visit "$etcd/app" user 1; passed serve)" "... both of variables"
verdict "$(says "^-21: .*authentication failed.*: the user or the password is wrong" env NIXLRUN_ETCD_PASSWORD=wrong \
    "$end" awaited "$app/app" name "")" "a wrong password is refused"
verdict "$(says "^-21: .*the user or the password is wrong" env NIXLRUN_ETCD_PASSWORD=wrong \
    "$end" publish "$app/app" name "")" "... to a publisher likewise"
verdict "$(says "^-21: .*this etcd wants a user and a password: set NIXLRUN_ETCD_USER" "$end" awaited "$etcd/app" name "")" \
    "no user is refused"
verdict "$(says "^-21: .*there is no password for etcd's user 'app'" "$end" awaited "$app/app" name "")" "no password is refused"
verdict "$(says "^-21: .*permission denied.*no right to this prefix" $by "$end" publish "$app/other" name "")" \
    "a prefix that is another user's is refused"
verdict "$(says "^-1: where is 'etcd://...@127.0.0.1:$port'; allowed" \
    "$end" awaited "etcd://app:secret@127.0.0.1:$port" name "")" "a password in the address is refused, and not shown"
chmod 644 "$password"
verdict "$(says "^-21: .*NIXLRUN_ETCD_PASSWORD_FILE: .*must be a file of mode 0600" $by "$end" awaited "$app/app" name "")" \
    "a password that others can read is refused"
chmod 600 "$password"
begin serve $by NIXLRUN_LOG=info "$end" serve "$app/app" again 2
line serve '^published'
etcd_kill users
etcd_start users "$port"
verdict "$(says 'mptest: passed' $by "$end" visit "$app/app" again 1)" "etcd has forgotten who had logged in"
killed serve
etcd_kill users

# ---- TLS -------------------------------------------------------------------------------------------------

# authority NAME: make a CA; certificate NAME AUTHORITY: make one for 127.0.0.1 that it has signed
authority() {
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$1" -keyout "$scratch/$1.key" \
        -out "$scratch/$1.pem" 2>/dev/null
}
certificate() {
    openssl req -newkey rsa:2048 -nodes -subj "/CN=$1" -keyout "$scratch/$1.key" -out "$scratch/$1.csr" 2>/dev/null
    printf 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n' >"$scratch/$1.ext"
    openssl x509 -req -in "$scratch/$1.csr" -days 2 -CA "$scratch/$2.pem" -CAkey "$scratch/$2.key" \
        -CAcreateserial -extfile "$scratch/$1.ext" -out "$scratch/$1.pem" 2>/dev/null
}
authority ca
authority stranger
certificate server ca
certificate client ca
plain=$(free_port)
etcd_start plain "$plain"
port=$(free_port)
etcd_start tls "$port" --cert-file "$scratch/server.pem" --key-file "$scratch/server.key"
by="env NIXLRUN_ETCD_CA_FILE=$scratch/ca.pem"
etcd=etcds://127.0.0.1:$port
begin serve $by "$end" serve "$etcd" tls 1
line serve '^published'
verdict "$(says 'mptest: passed' $by "$end" visit "$etcd" tls 1; passed serve)" "by TLS with a CA of one's own"
verdict "$(says "^-21: .*its certificate is refused: .*NIXLRUN_ETCD_CA_FILE" "$end" awaited "$etcd" name "")" \
    "a certificate of a CA that is not known is refused"
verdict "$(says "^-21: .*its certificate is refused" env NIXLRUN_ETCD_CA_FILE="$scratch/stranger.pem" \
    "$end" awaited "$etcd" name "")" "a certificate of another CA is refused"
verdict "$(says "^-21: .*NIXLRUN_ETCD_CA_FILE: cannot use" env NIXLRUN_ETCD_CA_FILE="$scratch/none" \
    "$end" awaited "$etcd" name "")" "a CA whose file is not there is refused"
verdict "$(says "^-10: .*speaks TLS only, use etcds://" "$end" try "etcd://127.0.0.1:$port" name "")" \
    "etcd:// to one that wants TLS: the message says what to use"
verdict "$(says "^-10: .*speaks no TLS, use etcd://" $by "$end" try "etcds://127.0.0.1:$plain" name "")" \
    "... and etcds:// to one without TLS"
etcd_kill tls
etcd_start tls "$port" --cert-file "$scratch/server.pem" --key-file "$scratch/server.key" \
    --client-cert-auth --trusted-ca-file "$scratch/ca.pem"
verdict "$(says "^-21: .*NIXLRUN_ETCD_CERT_FILE" $by "$end" awaited "$etcd" name "")" "no certificate of this side is refused"
by="$by NIXLRUN_ETCD_CERT_FILE=$scratch/client.pem NIXLRUN_ETCD_KEY_FILE=$scratch/client.key"
begin serve $by "$end" serve "$etcd" tls 1
line serve '^published'
verdict "$(says 'mptest: passed' $by "$end" visit "$etcd" tls 1; passed serve)" "a certificate of this side"

# ---- many ------------------------------------------------------------------------------------------------

etcd=etcd://127.0.0.1:$plain
begin serve "$end" serve "$etcd" many 800
line serve '^published'
verdict "$(says 'mptest: passed' "$end" cycle "$etcd" many 500; line serve '^settled'
    says 'mptest: passed' "$end" cycle "$etcd" many 300; passed serve)" \
    "after 300 attachments the publisher has what it had before"
bench=$build/test/bench/nixl_bench
verdict "$(timeout 100 "$bench" attach --iters 20 --csv --etcd "$etcd" >"$scratch/bench" 2>&1
    grep -q '^attach,"*by etcd' "$scratch/bench" || cat "$scratch/bench")" "nixl_bench times attaching by etcd"
echo "1..$number"
