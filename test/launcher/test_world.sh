#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks find their place in variables that programs without PMIx read, as those of torch do.
# needs: test/mp/odd_process test/mp/second_program
# shellcheck disable=SC1091,SC2016 # the variables are for the ranks' shells
. "$top_srcdir/test/launcher/lib.sh"
odd=$top_builddir/test/mp/odd_process
names='RANK WORLD_SIZE LOCAL_RANK LOCAL_SIZE LOCAL_WORLD_SIZE MASTER_ADDR'
show='for name in RANK WORLD_SIZE LOCAL_RANK LOCAL_SIZE LOCAL_WORLD_SIZE MASTER_ADDR; do
    eval "printf \"%s \" \"\${$name-none}\""; done; echo'

# says TEXT NAME: what the ranks have written, sorted, is this
says() {
    [ "$(sort "$work/out" | tr '\n' '|')" = "$1" ]
    result $? "$2" "$work/out" "$work/err"
}

# What an outer launcher has set is of another rank.
for name in $names MASTER_PORT; do
    export "$name=77"
done
gives 0 "ranks of this host" -np 3 sh -c "$show"
says '0 3 0 3 3 127.0.0.1 |1 3 1 3 3 127.0.0.1 |2 3 2 3 3 127.0.0.1 |' "know their place"
gives 0 "two programs" -np 1 sh -c "$show" : -np 2 sh -c "$show"
says '0 3 0 3 3 127.0.0.1 |1 3 1 3 3 127.0.0.1 |2 3 2 3 3 127.0.0.1 |' "have one order"
gives 0 "what the user sets" -np 1 -x RANK=5 -x LOCAL_SIZE -x MASTER_ADDR=host sh -c "$show"
says '5 1 0 77 1 host |' "stays"
gives 0 "a port" -np 4 sh -c 'echo "$MASTER_PORT"'
[ "$(sort -u "$work/out" | wc -l)" = 1 ] && [ "$(sort -u "$work/out")" -gt 1023 ] &&
    [ "$(sort -u "$work/out")" -lt 65536 ]
result $? "is the same for all ranks" "$work/out"
gives 0 "a job in a job" -np 1 "$nixlrun" --oversubscribe -np 2 sh -c "$show"
says '0 2 0 2 2 127.0.0.1 |1 2 1 2 2 127.0.0.1 |' "has a world of its own"

gives 0 "ranks of two programs that ask the library" -np 1 "$odd" program 0 : -np 2 "$odd" program 1

if command -v mpirun.openmpi >/dev/null; then
    PATH=$work/bin:$PATH
    mkdir "$work/bin"
    ln -s "$(command -v mpirun.openmpi)" "$work/bin/mpirun"
    gives 0 "ranks of an engine" --engine openmpi -np 2 sh -c "$show" : -np 1 -x RANK=5 \
        -x MASTER_ADDR=host sh -c "$show"
    says '0 3 0 3 3 127.0.0.1 |1 3 1 3 3 127.0.0.1 |5 3 2 3 3 host |' "know their place, too"
    gives 0 "and by the library" --engine openmpi -np 2 "$odd" program 0 : -np 1 "$odd" program 1
    gives 0 "a port of an engine's job" --engine openmpi -np 2 sh -c 'echo "$MASTER_PORT"'
    [ "$(sort -u "$work/out" | wc -l)" = 1 ] && [ "$(sort -u "$work/out")" != 77 ]
    result $? "is the same for its ranks" "$work/out"

    gives 0 "programs one after the other" --engine openmpi -np 2 sh -c \
        '"$1" first "$2" && exec "$1" second "$2"' sh "$top_builddir/test/mp/second_program" "$work/mark"

    mkdir -p "$work/logs/rank.1.out"
    gives 1 "an output file of a rank of an engine that cannot be opened" --engine openmpi -np 2 \
        --output-dir "$work/logs" sh -c 'echo a; echo b'
    [ "$(grep -c 'cannot open .*/rank.1.out: Is a directory' "$work/err")" = 1 ]
    result $? "is told once" "$work/err"
    has "$work/err" 'the output of rank 1 to stdout is lost' "with what is lost"
    [ "$(tr '\n' '|' <"$work/logs/rank.0.out")" = 'a|b|' ]
    result $? "the others have theirs" "$work/logs/rank.0.out"
    timeout -k 5 60 prlimit --nofile=133:133 "$nixlrun" --oversubscribe --engine openmpi -np 2 \
        --output-dir "$work/few" true >"$work/out" 2>"$work/err" </dev/null
    [ $? = 1 ]
    result $? "too few descriptors for its files" "$work/err"
    has "$work/err" '^nixlrun: 2 ranks need 134 file descriptors' "are refused"
fi
finish
