#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --on-failure restart: what is started again, when, how often, and what ends the job meanwhile.
# shellcheck disable=SC1091,SC2016 # $RANK is for the ranks' shells
. "$top_srcdir/test/launcher/lib.sh"

# once COMMAND: a rank's script that runs COMMAND in the first process of rank 1 only
once() {
    echo 'if [ "$RANK" = 1 ] && mkdir '"$work"'/first 2>/dev/null; then '"$1"'; fi;'
}

gives 0 "a failure after which the rank ended well does not count" -np 2 --on-failure restart \
    sh -c "$(once 'exit 3') echo done"
[ "$(cat "$work/out")" = "done
done" ]
result $? "all ranks come to their end" "$work/out"
has "$work/err" 'rank 1 on host .* exited with code 3; it is started again \(1 of 3\)$' "it is told"
has "$work/err" '^nixlrun: rank 1 was started again 1 time$' "and at the end how often"
[ "$(wc -l <"$work/err")" = 2 ]
result $? "and nothing else" "$work/err"
rmdir "$work/first"

gives 3 "a failure beyond the number ends the job" -np 2 --on-failure restart=2 \
    sh -c '[ "$RANK" = 0 ] && exec sleep 600; echo "$NIXLRUN_INCARNATION"; exit 3'
[ "$(wc -l <"$work/out")" = 3 ]
result $? "after as many processes more" "$work/out"
has "$work/err" 'started again 2 times, as often as --on-failure restart=2 allows: the job ends$' "and is told"
gives 137 "restart=0 starts nothing again" -np 1 --on-failure restart=0 sh -c 'kill -KILL $$'
gives 0 "a signal is a failure" -np 2 --on-failure restart=1 sh -c "$(once 'kill -KILL $$') true"
rmdir "$work/first"

begin=$(date +%s%N)
gives 0 "the delay is waited for" -np 2 --on-failure restart=1,400ms sh -c "$(once 'exit 3') true"
[ $(($(date +%s%N) - begin)) -ge 400000000 ]
result $? "all of it"
rmdir "$work/first"

gives 0 "no two processes of a rank at once" -np 2 --on-failure restart=1 sh -c "$(once \
    "sleep 600 & echo \$! >$work/child; exit 3") [ \"\$RANK\" = 0 ] || ! kill -0 \$(cat $work/child) 2>/dev/null"
rmdir "$work/first"

# A child leaves the group and never reaps its own child, which does not.
gives 0 "a zombie that stays in the group holds nothing back" -np 2 --timeout 20s --on-failure restart=1 sh -c "$(once \
    "sh -c 'sleep 600 & exec perl -e \"setpgrp; open F, q(>$work/left); close F; sleep 600\"' &
    while [ ! -e $work/left ]; do sleep 0.01; done; exit 3") true"
rmdir "$work/first"
rm -f "$work/left"

gives 0 "output goes on behind the former one's" -np 2 --output-dir "$work/files" --on-failure restart=1 \
    sh -c "echo begun; $(once 'exit 3') echo done"
[ "$(tr '\n' ' ' <"$work/files/rank.1.out")" = "begun begun done " ]
result $? "in its file" "$work/files/rank.1.out"
rmdir "$work/first"
rm -r "$work/files"
gives 0 "with tags, too" -np 2 --tag-output --output-dir "$work/files" --on-failure restart=1 \
    sh -c "echo begun; $(once 'exit 3') echo done"
[ "$(tr '\n' ' ' <"$work/files/rank.1.out")" = "[1] begun [1] begun [1] done " ]
result $? "in its file" "$work/files/rank.1.out"
rmdir "$work/first"

gives 124 "--timeout ends a job in which a rank waits" -np 1 --timeout 0.5 --on-failure restart=1,600 \
    sh -c 'exit 3'
has "$work/err" 'rank 0 .*: ended with code 3, waits to be started again$' "and says that it does"

for signal in TERM INT HUP; do
    : >"$work/err" # what the last one wrote must not be taken for this one's
    "$nixlrun" --oversubscribe -np 2 --on-failure restart=1,600 sh -c 'exit 3' >"$work/out" 2>"$work/err" </dev/null &
    pid=$!
    until [ "$(grep -c 'it is started again' "$work/err")" = 2 ]; do sleep 0.02; done
    kill -s "$signal" "$pid"
    wait "$pid"
    rc=$?
    [ "$rc" != 0 ]
    result $? "SIG$signal while all ranks wait (exit code $rc)" "$work/err"
done

gives 127 "a program that has gone ends the job" -np 1 --on-failure restart=1,100ms sh -c \
    'cp /bin/sh '"$work"'/program; exec '"$nixlrun"' --oversubscribe -np 1 --on-failure restart=5,100ms '"$work"'/program -c "rm '"$work"'/program; exit 3"'
has "$work/err" "cannot run '.*/program': No such file or directory" "and is named"

finish
