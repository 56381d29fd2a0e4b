#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Processes on different hosts attach to each other by names in a folder that the hosts share. Usage:
# test_shared.sh. Prints TAP.
# needs: test/attach/attach_end
bed=nxshared
hosts_options="-n 2"
. "$top_srcdir/test/attach/beds.sh"
dir=$work/names
mkdir "$dir"
where=file:$dir

left_over() { find "$dir" -mindepth 1; }
on_h0() { on="$hosts -b $bed on h0 $work/by_host"; }
on_h1() { on="$hosts -b $bed on h1 $work/by_host"; }
killed() {
    kill -9 "$(pid_in "$1")"
    ended "$1" >"$work/code"
}

NIXLRUN_PEER_TIMEOUT=2s
NIXLRUN_TRANSPORTS=self,shm,tcp
export NIXLRUN_PEER_TIMEOUT NIXLRUN_TRANSPORTS
listen="env NIXLRUN_PUBLISH_LISTEN=10.77.0.10:0"
by_tcp="env ATTACH_OVER=tcp NIXLRUN_LOG=info"

on_h0
# shellcheck disable=SC2086  # words
begin serve $listen ATTACH_OVER=tcp "$end" serve "$where" calls 3
line serve '^published'
on_h1
# shellcheck disable=SC2086
verdict "$(says "'calls' in $where is process $(pid_in serve) on another host, 'h0'; it is attached by tcp" \
    $by_tcp "$end" visit "$where" calls 3; grep -q 'mptest: passed' "$scratch/says" || cat "$scratch/says"
    passed serve; left_over)" "every call between two hosts, and a line says by which network"

on_h0
begin serve env NIXLRUN_PUBLISH_LISTEN=0.0.0.0:0 "$end" serve "$where" calls 2
line serve '^published'
verdict "$(says 'mptest: passed' "$end" visit "$where" calls 2; passed serve; left_over)" \
    "on one host shared memory serves, though the publisher listens"

# Without shared memory it listens by itself.
begin serve env NIXLRUN_TRANSPORTS=self,tcp ATTACH_OVER=tcp "$end" serve "$where" calls 1
line serve '^published'
on_h1
# shellcheck disable=SC2086
verdict "$(says 'mptest: passed' $by_tcp "$end" visit "$where" calls 1; passed serve; left_over)" \
    "a publisher that may not use shared memory listens for other hosts"

on_h0
begin first "$end" publish "$where" name "schema one"
line first '^published'
on_h1
verdict "$(says "^-10: .*process $(pid_in first), .*is on another host, 'h0', and does not listen for other hosts: set NIXLRUN_PUBLISH_LISTEN" \
    "$end" try "$where" name "schema one")" "a publisher that does not listen is named, and what helps"
verdict "$(says "^-11: .*process $(pid_in first) has published the name and lives, on host 'h0'" \
    "$end" publish "$where" name "schema one")" "a second publisher on another host is refused"
killed first
verdict "$(says "^-10: .*on another host, 'h0', and does not listen" "$end" try "$where" name "schema one")" \
    "what it has left attaches nobody"

# ---- names, secrets and refusals -------------------------------------------------------------------------

on_h0
begin several env NIXLRUN_PUBLISH_LISTEN=10.77.0.10:7311 "$end" several "$where" one
line several "^published"
on_h1
verdict "$(says '^NIXL_OK' "$end" try "$where" one first; says '^NIXL_OK' "$end" try "$where" second "other schema")" \
    "names of one process share a port, each with its secret"
verdict "$(says "^-1: .*its schema is 'first'" "$end" try "$where" one other)" "another schema is refused"
cp "$dir/one.secret" "$work/secret"
cp "$dir/second.secret" "$dir/one.secret"
verdict "$(says "^-10: .*was not made with the secret beside it" "$end" try "$where" one first)" \
    "an entry that does not fit its secret is refused"
cp "$work/secret" "$dir/one.secret"
chmod 640 "$dir/one.secret"
verdict "$(says "^-21: .*must be a file of mode 0600" "$end" try "$where" one first)" \
    "a secret that others can read is refused"
chmod 600 "$dir/one.secret"
verdict "$(says "^-11: .*NIXLRUN_PUBLISH_LISTEN: port 7311 is in use" "$hosts" -b $bed on h0 \
    env NIXLRUN_PUBLISH_LISTEN=10.77.0.10:7311 "$end" publish "$where" three "")" "a port in use is refused"
verdict "$(says "^-1: .*NIXLRUN_PUBLISH_LISTEN is 'here'; allowed: HOST:PORT" \
    env NIXLRUN_PUBLISH_LISTEN=here "$end" publish "$where" three "")" "what is no address is refused"
verdict "$(find "$dir" -name 'three.*')" "... and leaves nothing"

# ---- ends ------------------------------------------------------------------------------------------------

killed several
verdict "$(says "^-10: .*on another host, 'h0', which has published it, is not at tcp://10.77.0.10:7311: nobody listens there .*it has ended" \
    "$end" try "$where" one first)" "a killed publisher on another host attaches nobody, and is said to have ended"
on_h0
begin other env NIXLRUN_PUBLISH_LISTEN=10.77.0.10:7311 "$end" publish "$where" other "schema one"
line other '^published'
on_h1
verdict "$(says "^-10: .*has ended: another process has its port" "$end" try "$where" one first)" \
    "an entry whose port another process has attaches nobody"
begin try "$end" awaited "$where" one "blocks of 64 KiB"
line try '^pid '
begin serve env NIXLRUN_PUBLISH_LISTEN=10.77.0.11:0 "$end" serve "$where" one 1
verdict "$(passed try; grep -q NIXL_OK "$scratch/try" || cat "$scratch/try"; passed serve)" \
    "the next publisher, on another host, replaces the entry"
on_hosts cut h1
verdict "$(says "^-10: .*on another host, 'h0', .*is not at tcp://10.77.0.10:7311: it is not reached" \
    "$end" try "$where" other "schema one")" "a publisher behind a cut cable is awaited"
on_hosts join h1
killed other

for round in 1 2; do
    on_h0
    # shellcheck disable=SC2086
    begin serve $listen ATTACH_OVER=tcp "$end" serve "$where" fall 2
    line serve '^published'
    on_h1
    # shellcheck disable=SC2086
    begin stay $by_tcp "$end" stay "$where" fall
    line stay '^putting'
    kill -9 "$(pid_in stay)"
    # shellcheck disable=SC2086
    verdict "$(line serve '^rank 1 lost'; says 'mptest: passed' $by_tcp "$end" cycle "$where" fall 1; passed serve)" \
        "round $round: an attached process is killed, and the next one comes"
done
finish
