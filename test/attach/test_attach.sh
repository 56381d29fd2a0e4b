#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Processes that are started separately attach to each other: by hand, and two jobs of nixlrun. Refusals,
# deaths, and a thousand attachments. Usage: test_attach.sh; finds the trees by top_srcdir and
# top_builddir. Prints TAP.
# needs: test/attach/attach_end test/attach/attach_lend test/attach/attach_unread test/attach/hostile
set -u
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
. "${top_srcdir:-$(dirname "$0")/../..}/test/attach/lib.sh"
nixlrun=$build/launcher/nixlrun
dir=$scratch/names
mkdir "$dir"
where=file:$dir

left_over() { find "$dir" -mindepth 1; }

verdict "$(says 'mptest: passed' "$end" refusals "$where" r; left_over)" \
    "arguments that are not allowed are refused, and finalize removes what was published"

# ---- calls -----------------------------------------------------------------------------------------------

begin serve "$end" serve "$where" calls 3
verdict "$(says 'mptest: passed' "$end" visit "$where" calls 3; passed serve; left_over)" \
    "every call between two processes started by hand"

begin serve "$nixlrun" -np 2 "$end" serve "$where" jobs 4
verdict "$(says 'mptest: passed' "$nixlrun" -np 2 "$end" visit "$where" jobs 2; passed serve
    left_over)" "every call between ranks of two jobs of nixlrun"

begin serve "$end" serve "$where" mixed.0 1
verdict "$(says 'mptest: passed' "$nixlrun" -np 1 "$end" visit "$where" mixed 1; passed serve
    left_over)" "a rank of nixlrun attaches to a process started by hand"

begin serve env NIXLRUN_PROCESS_VM=0 "$end" serve "$where" bounce 2
verdict "$(says 'mptest: passed' "$end" visit "$where" bounce 2; passed serve; left_over)" \
    "every call where memory that was registered goes through a buffer"

# ---- names -----------------------------------------------------------------------------------------------

begin try "$end" awaited "$where" late "blocks of 64 KiB"
line try '^pid '
begin serve "$end" serve "$where" late 1
verdict "$(passed try; passed serve; grep -q NIXL_OK "$scratch/try" || cat "$scratch/try"
    left_over)" "a name is awaited that is published later"

begin first "$end" publish "$where" name "schema one"
line first '^published'
verdict "$(says "^name $(pid_in first) $(uname -n)" "$end" names "$where" x)" "names are listed with their publishers"
verdict "$(says "^-11: .*process $(pid_in first) has published the name and lives" \
    "$end" publish "$where" name "schema two")" "a second publisher is refused while the first lives"
verdict "$(says "^-1: .*its schema is 'schema one' (10 bytes), and this process asks for 'schema two'" \
    "$end" try "$where" name "schema two")" "another schema is refused, and both are quoted"
quotes="its schema is 'schema two' (10 bytes), and 'name' is published with 'schema one' (10 bytes)"
verdict "$(line first "by 'name' and is refused: $quotes")" \
    "the publisher logs who is refused, and quotes both"
verdict "$(says "^-6: nobody has published 'nam' .* published there: 'name'" \
    "$end" try "$where" nam "schema one")" "an unknown name is refused, and those there are listed"
verdict "$(says "^-12: .*NIXLRUN_TRANSPORTS of one of the two excludes shm; ucx: excluded" \
    env NIXLRUN_TRANSPORTS=self "$end" try "$where" name "schema one")" \
    "a process without shared memory is refused"
verdict "$(says "^-12: .*it is on another host; ucx: " \
    env NIXLRUN_HOSTID=elsewhere "$end" try "$where" name "schema one")" \
    "a process of another host is refused"
chmod 644 "$dir/name.secret"
verdict "$(says "^-21: .*name.secret' must be a file of mode 0600" "$end" try "$where" name "schema one")" \
    "a secret that others can read is refused"
chmod 600 "$dir/name.secret"
if [ "$(id -u)" = 0 ] && chown 65534 "$dir/name.secret" 2>/dev/null; then
    verdict "$(says "^-21: .*name.secret' belongs to user 65534, and this process runs as user 0" \
        "$end" try "$where" name "schema one")" "a secret of another user is refused"
    chown 0 "$dir/name.secret"
else
    echo "ok $((number += 1)) - a secret of another user is refused # SKIP only root gives files away"
fi
for attack in replay wrong_proof wrong_card out_of_turn garbage silence crowd; do
    verdict "$(says '^refused' "$hostile" $attack "$where" name "schema one")" "a process that attaches is refused: $attack"
done
verdict "$(says '^NIXL_OK' "$end" try "$where" name "schema one")" \
    "after all this the publisher takes whoever knows the secret"

kill -9 "$(pid_in first)"
ended first >"$scratch/code"
verdict "$(says "^-10: .*process .* has ended" "$end" try "$where" name "schema one")" \
    "what a killed publisher left attaches nobody"
cp "$dir/name.entry" "$scratch/old.entry"
begin serve "$end" serve "$where" name 1
line serve '^published'
cp "$dir/name.entry" "$scratch/new.entry"

ln -s "$dir" "$dir.link"
begin paths "$end" paths "$where" way
line paths '^published'
verdict "$(says "^-11: .*has published the name and lives" "$end" publish "$where" way ""
    echo >&8; passed paths; ls "$dir" | grep way)" \
    "a folder is one by all its paths, and what was published in it goes wherever the process is"

# ---- entries that somebody has changed -------------------------------------------------------------------

# changed WHAT: nobody attaches by the entry as it is now
changed() {
    verdict "$(says "^-10: .*$2" "$end" try "$where" name "blocks of 64 KiB")" "an entry is refused: $1"
}
cp "$scratch/old.entry" "$dir/name.entry"
changed "that of the former publisher" "was not made with the secret beside it"
head -c 100 "$scratch/new.entry" >"$dir/name.entry"
changed "truncated" "truncated, or no entry"
: >"$dir/name.entry"
changed "empty" "truncated, or no entry"
{ cat "$scratch/new.entry"; echo; } >"$dir/name.entry"
changed "longer than it should be" "truncated, or no entry"
{ head -c 24 "$scratch/new.entry"; printf '\001\002'; tail -c +27 "$scratch/new.entry"; } >"$dir/name.entry"
changed "with another socket" "was not made with the secret beside it"
rm "$dir/name.entry"
mkfifo "$dir/name.entry"
changed "a pipe" "cannot read"
rm "$dir/name.entry"
ln -s "$scratch/new.entry" "$dir/name.entry"
verdict "$(says "^-21: " "$end" try "$where" name "blocks of 64 KiB")" "an entry is refused: a link"
rm "$dir/name.entry"

# It is replaced in the middle of an attempt: the attempt goes on until the entry fits.
cp "$scratch/old.entry" "$dir/name.entry"
begin try "$end" awaited "$where" name "blocks of 64 KiB"
line try '^pid '
cp "$scratch/new.entry" "$dir/other"
mv "$dir/other" "$dir/name.entry"
verdict "$(passed try; grep -q NIXL_OK "$scratch/try" || cat "$scratch/try"; passed serve
    left_over)" "an entry that is replaced during the attempt is read again"

begin liar "$hostile" liar "$where" lie "blocks of 64 KiB"
line liar '^published'
verdict "$(says "^-21: .*does not know the secret" "$end" try "$where" lie "blocks of 64 KiB"
    passed liar; rm -f "$dir/lie.entry" "$dir/lie.secret")" \
    "a publisher without the secret learns nothing but a challenge"

begin frozen "$hostile" frozen "$where" ice "blocks of 64 KiB"
line frozen '^published'
verdict "$(says "^-1[01]*: .*was not connected in time" \
    env NIXLRUN_RESOLVE_TIMEOUT=inf "$end" brief "$where" ice "blocks of 64 KiB"
    passed frozen; rm -f "$dir/ice.entry" "$dir/ice.secret")" \
    "a publisher that stops before it is connected is waited for no longer than the timeout"

# ---- ends ------------------------------------------------------------------------------------------------

for round in 1 2 3; do
    begin serve "$end" serve "$where" fall 2
    begin stay "$end" stay "$where" fall
    line stay '^putting'
    killed stay
    verdict "$(line serve '^rank 1 lost'; says 'mptest: passed' "$end" cycle "$where" fall 1
        passed serve; left_over)" "round $round: an attached process is killed, and the next one comes"

    begin serve "$end" serve "$where" fall 1
    begin stay "$end" stay "$where" fall
    line stay '^putting'
    killed serve
    verdict "$(passed stay)" "round $round: a publisher is killed while data moves to it"
done
begin serve "$end" serve "$where" fall 1
verdict "$(says 'mptest: passed' "$end" cycle "$where" fall 1; passed serve; left_over)" \
    "the name of a killed publisher is published again"

begin serve "$end" serve "$where" leave 1
begin leave "$end" leave "$where" leave
line leave '^left'
verdict "$(line serve '^rank 1 left'; killed leave; passed serve; left_over)" \
    "an attached process that leaves, and lives on, has left at once"

begin serve "$end" serve "$where" stop 2
line serve '^published'
verdict "$(says 'another call has ended the wait' "$end" stopped "$where" stop "$(pid_in serve)"
    passed serve; left_over)" "a publisher that is stopped delays nobody, and goes on later"

begin take "$build/test/attach/attach_unread" take "$where" unread
verdict "$(line take '^published'
    says 'mptest: passed' "$build/test/attach/attach_unread" send "$where" unread
    passed take; left_over)" "nothing that was not received from a process is received once it is detached"

for what in grant pair; do
    begin lend "$build/test/attach/attach_lend" lend "$where" loan $what
    verdict "$(line lend '^published'
        says 'mptest: passed' "$build/test/attach/attach_lend" borrow "$where" loan $what
        passed lend; left_over)" "memory is not given back while a detached process is stopped in it: $what"
done

begin serve "$end" serve "$where" many 1500
verdict "$(says 'mptest: passed' "$end" cycle "$where" many 500; line serve '^settled'
    says 'mptest: passed' "$end" cycle "$where" many 1000; passed serve; left_over)" \
    "after 1,000 attachments the publisher has what it had before"
sed -n 's/^\(idle\|served\): /# &/p' "$scratch/serve"
echo "1..$number"
