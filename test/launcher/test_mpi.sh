#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An Open MPI program of the system runs as it is, without any option or variable.
# shellcheck disable=SC1091,SC2016 # $PMIX_RANK is for the ranks' shells
. "$top_srcdir/test/launcher/lib.sh"

mpicc=$(command -v mpicc.openmpi || command -v mpicc)
if [ -z "$mpicc" ] || ! "$mpicc" -o "$work/mpi" "$top_srcdir/test/launcher/mpi_program.c" \
    >"$work/err" 2>&1 || ! ldd "$work/mpi" | grep -q libmpi.so.40; then
    echo "1..0 # SKIP no Open MPI to compile with"
    exit 0
fi
gives 0 "MPI_Allreduce and MPI_Put on 4 ranks" -np 4 "$work/mpi"
[ "$(sort "$work/out" | tr '\n' '|')" = \
    "rank 0 of 4: sum 10, got 3|rank 1 of 4: sum 10, got 0|rank 2 of 4: sum 10, got 1|rank 3 of 4: sum 10, got 2|" ]
result $? "each rank has the right sum and its neighbour's number" "$work/out" "$work/err"
gives 0 "--no-mpi-hints" -np 1 --no-mpi-hints sh -c 'test -z "${JSM_JSRUN_PORT-}"'
gives 9 "MPI_Abort gives its code" -np 2 "$work/mpi" 9

finish
