#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Is a test cut when its time is over, with a word of where it stood, and what else "limited" promises?
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"

# A tree with a copy of it, and tests of its own.
mkdir -p "$scratch/test"
cp "$src/test/limited" "$src/test/stacks" "$scratch/test"
cat >"$scratch/test/limits" <<'TEXT'
test/hangs.sh 2
test/deaf.sh 2
test/waits.sh 3
test/first.sh 60 alone
test/second.sh 60 alone
test/install.sh 60 alone
test/last.sh 60 alone
TEXT

# a_test NAME <SCRIPT
a_test() {
    { echo '#!/bin/bash'; cat; } >"$scratch/test/$1.sh"
    chmod +x "$scratch/test/$1.sh"
}
# limited NAME: run it by the copy, which must not hear what "repeat" says to the test around it
limited() {
    env -u NXR_TEST_LOCK -u NXR_TEST_SLACK -u NXR_TEST_TIMES top_builddir="$scratch" \
        "$scratch/test/limited" "$scratch/test/$1.sh" >"$scratch/$1.out" 2>&1
}
# said NAME PATTERN: its output has such a line
said() { grep -qE -e "$2" "$scratch/$1.out" || { echo "no line '$2' in:"; cat "$scratch/$1.out"; }; }
# until_true COMMAND...: for 20 s at most
until_true() {
    tries=400
    until "$@" || [ "$tries" = 0 ]; do
        tries=$((tries - 1))
        sleep 0.05
    done
}
# gone SECONDS: nobody sleeps for so long
gone() { if grep -lsz -e "^$1\$" /proc/[0-9]*/cmdline; then echo "a process is left"; fi; }

echo 1..10
mark=86390.$$
a_test passes <<'TEXT'
echo "ok 1 - all is well"
exit 3
TEXT
verdict "$(status=0; limited passes || status=$?
    [ "$status" = 3 ] || echo "exit code $status"
    said passes '^ok 1 - all is well$')" "output and exit code are those of the test"

a_test hangs <<TEXT
trap 'echo cleaned up' EXIT
setsid sleep $mark &
timeout 300 sleep $mark
TEXT
verdict "$(limited hangs && echo "it has passed"
    said hangs '^Bail out! test/hangs.sh was cut: not done in 2 s'
    said hangs "^# process [0-9]+ \\(sleep $mark \\), state S"
    said hangs '^cleaned up$'
    gone "$mark")" "a test that hangs is cut and described, and cleans up"

a_test deaf <<TEXT
trap '' TERM
sleep 20 &
while :; do sleep 0.1; done
TEXT
sed 's/all_gone 15/all_gone 1/' "$src/test/limited" >"$scratch/test/limited"
verdict "$(limited deaf && echo "it has passed"
    said deaf '^Bail out! .* was cut')" "one that does not listen is killed"

sed 's/^patience=.*/patience=1/' "$src/test/limited" >"$scratch/test/limited"
a_test leaves <<TEXT
setsid sleep $mark &
echo "ok 1 - done"
TEXT
verdict "$(limited leaves && echo "it has passed"
    said leaves '^Bail out! test/leaves.sh has left processes behind'
    gone "$mark")" "a test that leaves a process has failed"
cp "$src/test/limited" "$src/test/stacks" "$scratch/test"

a_test signals <<'TEXT'
for name in HUP INT QUIT TERM PIPE; do
    trap "echo heard $name" "$name"
    kill -"$name" $$
done
TEXT
verdict "$( (trap '' HUP INT QUIT TERM PIPE; limited signals) || echo "exit code $?"
    for name in HUP INT QUIT TERM PIPE; do said signals "^heard $name\$"; done)" \
    "signals that were ignored, as by nohup, are not for the test"

a_test waits <<'TEXT'
exec 9>"$top_builddir/lock"
"$top_builddir/test/limited" --lock "$top_builddir/lock" 9 && echo locked
sleep 1
TEXT
verdict "$(exec 8>"$scratch/lock"
    flock 8
    limited waits 8>&- &
    sleep 4 # longer than the limit
    flock -u 8
    wait $! || echo "exit code $?"
    said waits '^locked$')" "time spent waiting for a lock is not the test's"

# Each looks for the other while it runs.
for name in first second; do
    a_test $name <<TEXT
mkdir "$scratch/running" || echo "another test runs"
sleep 0.5
rmdir "$scratch/running"
TEXT
done
verdict "$(limited first & limited second
    wait
    cat "$scratch/first.out" "$scratch/second.out")" "tests that judge by clocks run alone"

# One is alone until it says that it need not be.
a_test install <<TEXT
: >"$scratch/installs"
sleep 0.5
[ ! -e "$scratch/beside" ] || echo "another test runs"
"$scratch/test/limited" --beside
for ((i = 0; i < 400; i++)); do
    [ ! -e "$scratch/beside" ] || exit 0
    sleep 0.05
done
echo "no other test runs"
TEXT
a_test beside <<TEXT
: >"$scratch/beside"
TEXT
verdict "$(limited install &
    until_true [ -e "$scratch/installs" ]
    limited beside
    wait
    cat "$scratch/install.out" "$scratch/beside.out")" "one that needs no longer be alone lets others begin"

# Tests that others follow without a gap do not keep it waiting.
a_test early <<TEXT
: >"$scratch/early"
for ((i = 0; i < 400; i++)); do
    [ ! -e "$scratch/late_comes" ] || break
    sleep 0.05
done
sleep 0.5
TEXT
a_test last <<TEXT
[ ! -e "$scratch/late" ] || echo "one that came later began before"
TEXT
a_test late <<TEXT
: >"$scratch/late"
TEXT
one_waits() { grep -q -e "-> FLOCK .*:$(stat -c %i "$scratch/test/limited.lock") " /proc/locks; }
verdict "$(limited early &
    until_true [ -e "$scratch/early" ]
    limited last &
    until_true one_waits
    : >"$scratch/late_comes"
    limited late
    wait
    cat "$scratch/last.out")" "tests that come after one that waits to be alone wait behind it"

a_test symbols <<'TEXT'
! grep -m 1 . /proc/kallsyms
TEXT
if [ -e /sys/class/infiniband ] || ! unshare --mount true 2>/dev/null; then
    number=$((number + 1))
    echo "ok $number - a test sees no symbols of the kernel # SKIP RDMA devices, or no namespaces here"
else
    verdict "$(limited symbols || echo "exit code $?"
        cat "$scratch/symbols.out")" "a test sees no symbols of the kernel, which libfabric looks through"
fi
