#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Engines of the site: hosts, choice, command lines and what is refused. The engines are fakes that
# answer --version; nothing is started on other hosts.
root=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
nixlrun=$(cd "${top_builddir:-$PWD}" && pwd)/launcher/nixlrun
fakes=$(mktemp -d "${TMPDIR:-/tmp}/engines.XXXXXX") || exit 99
trap 'rm -rf "$fakes"' EXIT
for name in mpirun prterun srun flux; do
    mkdir "$fakes/$name"
    ln -s "$root/test/launcher/engines/fake" "$fakes/$name/$name"
    ln -s "$nixlrun" "$fakes/$name/nixlrun"
done
ln -s "$root/test/launcher/engines/fake" "$fakes/srun/scancel"
ln -s "$nixlrun" "$fakes/nixlrun"
FAKES=$fakes
# Takes out of a command what depends on who runs the test, and where.
SHOW='sed -e s,--allow-run-as-root.,, -e s,-x.PATH.,,g -e s,/[[:graph:]]*/nixlrun-rank,nixlrun-rank,g'
FAKE_MPIRUN='mpirun (Open MPI) 4.1.4'
FAKE_PRTERUN='prterun (PRRTE) 3.0.8'
FAKE_SRUN='slurm-wlm 22.05.8'
FAKE_FLUX='commands:    \t0.66.0\nlibflux-core:\t0.66.0\nflux-core:\t0.66.0'
export FAKES SHOW FAKE_MPIRUN FAKE_PRTERUN FAKE_SRUN FAKE_FLUX
unset SLURM_JOB_ID FLUX_URI PMIX_NAMESPACE LD_LIBRARY_PATH NIXLRUN_MODULE_DIR
unset SLURM_NTASKS SLURM_JOB_NUM_NODES
"$root/test/launcher/transcript.sh" engines
