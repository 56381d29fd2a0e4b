#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Processes on this host attach to one that listens at a TCP port: by shared memory, and by the networks tcp, ofi
# and ucx. Tokens, refusals, hostile processes, deaths. Usage: test_port.sh; finds the trees by top_srcdir and
# top_builddir. Prints TAP.
# needs: test/attach/attach_end test/attach/hostile
set -u
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
. "${top_srcdir:-$(dirname "$0")/../..}/test/attach/lib.sh"
nixlrun=$build/launcher/nixlrun
NIXLRUN_TOKEN_FILE=$scratch/token
export NIXLRUN_TOKEN_FILE
(umask 077; echo "the token of this test" >"$NIXLRUN_TOKEN_FILE")
any=tcp://127.0.0.1:0 # any port that is free

# at LOG: where others attach to what that program has published

verdict "$(says 'mptest: passed' "$end" refusals "file:$scratch" r)" \
    "forms of where that are not allowed are refused"

# ---- calls -----------------------------------------------------------------------------------------------

begin serve "$end" serve "$any" calls 3
verdict "$(says 'mptest: passed' "$end" visit "$(at serve)" calls 3; passed serve)" \
    "every call by shared memory"
begin serve "$end" serve tcp://[::1]:0 calls 1
if grep -q '^cannot\|not an address' "$scratch/serve" || ! [ -e /proc/net/if_inet6 ]; then
    echo "ok $((number += 1)) - by IPv6 # SKIP there is none here"
else
    verdict "$(says 'mptest: passed' "$end" visit "$(at serve)" calls 1; passed serve)" "by IPv6"
fi
begin serve "$end" serve tcp://localhost:0 calls 1
verdict "$(says 'mptest: passed' "$end" visit "$(at serve)" calls 1; passed serve)" "by the name of a host"

# As if it were another host, whose processes share no memory.
far="env NIXLRUN_HOSTID=elsewhere"
begin serve $far "$end" serve "$any" beside 1
verdict "$(says 'mptest: passed' "$end" beside "$(at serve)" beside; passed serve)" \
    "calls go on while the first attachment to another host opens the networks"
sed -n 's/^attached in/# &/p' "$scratch/says"
for network in tcp ofi ucx; do
    if [ ! -e "$build/transports/$network/.libs/nixlrun_$network.so" ]; then
        echo "ok $((number += 1)) - every call by $network # SKIP it is not built"
        continue
    fi
    by="env ATTACH_OVER=$network NIXLRUN_TRANSPORTS=self,shm,$network"
    begin serve $by "$end" serve "$any" far 3
    verdict "$(says 'mptest: passed' $far $by "$end" visit "$(at serve)" far 3; passed serve)" \
        "every call by $network"
done
by="env ATTACH_OVER=tcp NIXLRUN_TRANSPORTS=self,shm,tcp"
begin serve $by "$end" serve "$any" mixed.0 1
verdict "$(says 'mptest: passed' $far $by "$nixlrun" -np 1 "$end" visit "$(at serve)" mixed 1; passed serve)" \
    "a rank of nixlrun attaches to a process on another host"

# ---- names, tokens and refusals --------------------------------------------------------------------------

begin first "$end" publish "$any" name "schema one"
where=$(at first)
port=${where##*:}
verdict "$(says "^-1: .*its schema is 'schema one' (10 bytes), and this process asks for 'schema two'" \
    "$end" try "$where" name "schema two")" "another schema is refused, and both are quoted"
verdict "$(says "^-6: nobody has published 'nam' at $where within .*: the process there has not published" \
    "$end" try "$where" nam "schema one")" "an unknown name is awaited, and the message says why"
verdict "$(says "^-6: nobody has published 'name' at tcp://127.0.0.1:1 .*nobody listens there" \
    "$end" try tcp://127.0.0.1:1 name "schema one")" "a port where nobody listens is awaited"
verdict "$(says "^-6: .*the host 'no-such-host.invalid' is not known" \
    "$end" try tcp://no-such-host.invalid:1 name "")" "a host that is not known is awaited"
verdict "$(says "^-21: .*another token, or none" \
    env NIXLRUN_TOKEN_FILE= NIXLRUN_TOKEN=another_token_of_16 "$end" try "$where" name "schema one")" \
    "another token is refused"
verdict "$(says "^-21: .*there is no token: set NIXLRUN_TOKEN_FILE" \
    env NIXLRUN_TOKEN_FILE= "$end" try "$where" name "schema one")" "no token is refused"
verdict "$(says "^-21: .*there is no token: set NIXLRUN_TOKEN_FILE" \
    env NIXLRUN_TOKEN_FILE= "$end" publish "$any" other "")" "a publisher without a token is refused"
verdict "$(says "^-1: .*the token has 5 bytes; allowed: 16 to 1024" \
    env NIXLRUN_TOKEN_FILE= NIXLRUN_TOKEN=short "$end" publish "$any" other "")" "a short token is refused"
verdict "$(says "^-1: .*both set" env NIXLRUN_TOKEN=another_token_of_16 "$end" publish "$any" other "")" \
    "two tokens are refused"
chmod 644 "$NIXLRUN_TOKEN_FILE"
verdict "$(says "^-21: .*must be a file of mode 0600 or 0640.*its mode is 0644" \
    "$end" try "$where" name "schema one")" "a token that others can read is refused"
chmod 600 "$NIXLRUN_TOKEN_FILE"
verdict "$(says "^-6: .*cannot open '$scratch/none'" \
    env NIXLRUN_TOKEN_FILE="$scratch/none" "$end" try "$where" name "")" "a token file that is not there is refused"
verdict "$(says "^-11: .*port $port is in use by another process" "$end" publish "$where" other "")" \
    "a port in use is refused"
verdict "$(says "^-6: .*'192.0.2.1' is not an address of this host" "$end" publish tcp://192.0.2.1:0 other "")" \
    "an address of another host is refused"
verdict "$(says "^-12: .*nothing reaches it" env NIXLRUN_TRANSPORTS=self "$end" try "$where" name "schema one")" \
    "a process that no transport reaches is refused"
for attack in replay wrong_proof wrong_card out_of_turn garbage half silence crowd other_name other_version; do
    verdict "$(says '^refused' "$hostile" $attack "$where" name "schema one")" \
        "a process that attaches is refused: $attack"
done
verdict "$(says '^NIXL_OK' "$end" try "$where" name "schema one")" \
    "after all this the publisher takes whoever knows the token"
kill -9 "$(pid_in first)"
ended first >"$scratch/code"
verdict "$(says "^-6: .*nobody listens there" "$end" try "$where" name "schema one")" \
    "a killed publisher attaches nobody"

begin try "$end" awaited "$where" late "blocks of 64 KiB"
line try '^pid '
begin serve "$end" serve "$where" late 1
verdict "$(passed try; passed serve; grep -q NIXL_OK "$scratch/try" || cat "$scratch/try")" \
    "a publisher is awaited that comes later, at the port of one that was killed"

mkfifo "$scratch/say"
exec 7<>"$scratch/say"
: >"$scratch/several"
timeout 60 "$end" several "$any" first <&7 >"$scratch/several" 2>&1 &
where=$(at several)
verdict "$(says '^NIXL_OK' "$end" try "$where" first first; says '^NIXL_OK' "$end" try "$where" second "other schema"
    sed -n 's/^at //p' "$scratch/several" | uniq | sed 1d)" "one port serves several names"
echo >&7
line several '^unpublished'
verdict "$(says "^-6: .*has not published the name" "$end" try "$where" first first
    says '^NIXL_OK' "$end" try "$where" second "other schema")" "one of them ends, and the others stay"
echo >&7
wait $!

# ---- many ------------------------------------------------------------------------------------------------

# crowd N WORD...: so many processes, started by these words, are attached at once
crowd() {
    n=$1
    shift
    begin gather "$@" "$end" gather "$any" crowd "$n"
    place=$(at gather)
    for i in $(seq "$n"); do begin "member$i" env "$far_host" "$@" "$end" member "$place" crowd; done
    passed gather
    for i in $(seq "$n"); do passed "member$i"; done
}
far_host=NIXLRUN_HOSTID=
verdict "$(crowd 64)" "64 processes are attached at once by shared memory"
far_host=NIXLRUN_HOSTID=elsewhere
verdict "$(crowd 64 env NIXLRUN_TRANSPORTS=self,shm,tcp)" "64 processes are attached at once by tcp"

# ---- ends ------------------------------------------------------------------------------------------------

for round in 1 2 3; do
    begin serve $by "$end" serve "$any" fall 2
    where=$(at serve)
    begin stay $far $by "$end" stay "$where" fall
    line stay '^putting'
    kill -9 "$(pid_in stay)"
    verdict "$(line serve '^rank 1 lost'; says 'mptest: passed' $far $by "$end" cycle "$where" fall 1
        passed serve)" "round $round: an attached process is killed, and the next one comes"

    begin serve $by "$end" serve "$any" fall 1
    begin stay $far $by "$end" stay "$(at serve)" fall
    line stay '^putting'
    kill -9 "$(pid_in serve)"
    verdict "$(passed stay)" "round $round: a publisher is killed while data moves to it"
done
begin serve $by "$end" serve "$any" stop 2
verdict "$(says 'process .* does not answer' $far $by "$end" stopped "$(at serve)" stop "$(pid_in serve)"
    passed serve)" "a publisher that is stopped delays nobody, and goes on later"
begin serve $by "$end" serve "$any" many 1500
where=$(at serve)
verdict "$(says 'mptest: passed' $far $by "$end" cycle "$where" many 500; line serve '^settled'
    says 'mptest: passed' $far $by "$end" cycle "$where" many 1000; passed serve)" \
    "after 1,000 attachments the publisher has what it had before"
sed -n 's/^\(idle\|served\): /# &/p' "$scratch/serve"
echo "1..$number"
