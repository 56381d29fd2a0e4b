/* SPDX-License-Identifier: Apache-2.0 */
/* Names, values and help of every option, in the order in which help shows them. */
#include "launcher/option_table.h"
#include "launcher/job.h"
#include "util/trace_page.h"

#include <string.h>

const struct option option_table[] = {
    {
        .id = OPTION_NP,
        .scope = SCOPE_PROGRAM,
        .value = VALUE_NEEDED,
        .names = "n np ntasks",
        .arg = "N",
        .allowed = "a whole number from 1 to 65536",
        .topic = "job",
        .brief = "number of ranks (default 1)",
        .help = "Start N ranks of the program that follows. Default: as many as fit into the slots "
                "of --host, --hostfile, --ppn or an allocation of Slurm, where a host without a "
                "number has one slot; otherwise 1.",
    },
    {
        .id = OPTION_HOST,
        .scope = SCOPE_JOB,
        .value = VALUE_NEEDED,
        .names = "H host hosts w nodelist",
        .arg = "HOST[:N],...",
        .allowed = "a comma-separated list of hosts, each NAME or NAME:SLOTS",
        .topic = "hosts",
        .brief = "start ranks on these hosts",
        .help = "Start the ranks on these hosts, in this order: N on each, or equal shares if "
                "no host has a number.",
    },
    {
        .id = OPTION_HOSTFILE,
        .scope = SCOPE_JOB,
        .value = VALUE_NEEDED,
        .names = "hostfile machinefile f",
        .arg = "FILE",
        .complete = "file",
        .allowed = "a text file with one host per line: NAME, NAME:SLOTS or NAME slots=SLOTS",
        .topic = "hosts",
        .help = "Like --host, from a file with one host per line: NAME, NAME:N or NAME slots=N "
                "max_slots=N. Text after # is ignored.",
    },
    {
        .id = OPTION_PPN,
        .scope = SCOPE_JOB,
        .value = VALUE_NEEDED,
        .names = "ppn npernode ntasks-per-node",
        .arg = "N",
        .allowed = "a whole number from 1 to 65536",
        .topic = "hosts",
        .help = "Start N ranks on each host, regardless of its slots.",
    },
    {
        .id = OPTION_ENGINE,
        .scope = SCOPE_JOB,
        .value = VALUE_NEEDED,
        .names = "engine",
        .arg = "ENGINE",
        .words = LAUNCH_ENGINE_WORDS,
        .topic = "hosts",
        .brief = "what starts the ranks (default auto)",
        .help = "What starts the ranks: nixlrun itself, on this host (local), or srun (slurm), "
                "prterun (prrte), mpirun (openmpi) or 'flux run' (flux). Default: auto.",
    },
    {
        .id = OPTION_WDIR,
        .scope = SCOPE_PROGRAM,
        .value = VALUE_NEEDED,
        .names = "wdir chdir",
        .arg = "DIR",
        .complete = "dir",
        .allowed = "a directory that can be entered",
        .topic = "job",
        .brief = "start the program in this directory",
        .help =
            "Start the program that follows in this directory. Default: the directory of nixlrun.",
    },
    {
        .id = OPTION_EXPORT,
        .scope = SCOPE_PROGRAM,
        .value = VALUE_NEEDED,
        .names = "x",
        .arg = "NAME[=VALUE]",
        .complete = "variable",
        .allowed = "NAME, NAME=VALUE or 'PREFIX*'",
        .topic = "environment",
        .brief = "set or pass a variable, or pass 'PREFIX*'",
        .help = "Set a variable for the program that follows: to VALUE or, without =VALUE, to the "
                "value that nixlrun has. 'PREFIX*' passes every variable whose name starts with "
                "PREFIX.",
    },
    {
        .id = OPTION_ENV_FILE,
        .scope = SCOPE_PROGRAM,
        .value = VALUE_NEEDED,
        .names = "env-file",
        .arg = "FILE",
        .complete = "file",
        .allowed = "a text file of NAME=VALUE lines",
        .topic = "environment",
        .help = "Set the variables in a file of NAME=VALUE lines for the program that follows.",
    },
    {
        .id = OPTION_TAG_OUTPUT,
        .scope = SCOPE_JOB,
        .names = "tag-output l label",
        .topic = "output",
        .brief = "[RANK] before each line of output",
        .help = "Write [RANK] before each line of output.",
    },
    {
        .id = OPTION_TIMESTAMP_OUTPUT,
        .scope = SCOPE_JOB,
        .names = "timestamp-output",
        .topic = "output",
        .brief = "the time before each line of output",
        .help = "Write the time before each line of output.",
    },
    {
        .id = OPTION_OUTPUT_DIR,
        .scope = SCOPE_JOB,
        .value = VALUE_NEEDED,
        .names = "output-dir",
        .arg = "DIR",
        .complete = "dir",
        .allowed = "a directory that is writable or can be created",
        .topic = "output",
        .brief = "one file per rank and stream in DIR",
        .help = "Write the output to files, DIR/rank.0.out, DIR/rank.0.err and so on, instead of "
                "to the output of nixlrun. DIR is created if it does not exist.",
    },
    {
        .id = OPTION_PTY,
        .scope = SCOPE_JOB,
        .names = "pty",
        .topic = "output",
        .help = "Give each rank a pseudo-terminal as standard output, so that its lines appear one "
                "by one and none is lost if the rank is killed. Default: if the standard output of "
                "nixlrun is a terminal.",
    },
    {
        .id = OPTION_NO_PTY,
        .scope = SCOPE_JOB,
        .names = "no-pty",
        .topic = "output",
        .help = "Give each rank a pipe as standard output, even if that of nixlrun is a terminal.",
    },
    {
        .id = OPTION_STDIN,
        .scope = SCOPE_JOB,
        .value = VALUE_NEEDED,
        .names = "stdin input i",
        .arg = "RANK|all|none",
        .words = "all none",
        .allowed = "a rank of the job, all or none",
        .topic = "output",
        .brief = "which rank reads standard input (default 0)",
        .help = "Which ranks get what nixlrun reads from its standard input: one rank, all or "
                "none. The others see end of file at once. Default: 0.",
    },
    {
        .id = OPTION_TIMEOUT,
        .scope = SCOPE_JOB,
        .value = VALUE_NEEDED,
        .names = "timeout",
        .arg = "TIME",
        .allowed = "a time above 0 such as 10, 1.5, 250ms, 2m or 1h (a bare number is seconds)",
        .topic = "failure",
        .brief = "kill the job after TIME (10, 1.5, 2m)",
        .help = "Kill the job after TIME, print the state of each rank and exit with 124. "
                "10, 1.5, 250ms, 2m and 1h are times; a bare number is seconds. Default: no limit.",
    },
    {
        .id = OPTION_ON_FAILURE,
        .scope = SCOPE_JOB,
        .value = VALUE_NEEDED,
        .names = "on-failure",
        .arg = "POLICY",
        .words = "abort continue restart",
        .allowed = "abort, continue, restart or restart=N[,DELAY] with N from 0 to 1000000 and a "
                   "time such as 0, 1.5 or 250ms",
        .topic = "failure",
        .brief = "abort, continue or restart=N if a rank fails",
        .help = "When a rank fails, end the others too (abort); leave them running and notify each "
                "of them (continue); or do so and start the rank again (restart=N,DELAY), each "
                "rank N times at most and DELAY after its end. A failure beyond that ends the "
                "job. Default: abort; N: 3; DELAY: 0.",
    },
    {
        .id = OPTION_ELASTIC,
        .scope = SCOPE_JOB,
        .names = "elastic",
        .topic = "failure",
        .help = "Ranks may leave one by one: nixl_finalize() waits for no other rank, and waits "
                "for any rank go on when one has left, until nobody is left.",
    },
    {
        .id = OPTION_KILL_GRACE,
        .scope = SCOPE_JOB,
        .value = VALUE_NEEDED,
        .names = "kill-grace",
        .arg = "TIME",
        .allowed = "a time such as 0, 1.5, 250ms or 2m (a bare number is seconds)",
        .topic = "failure",
        .help = "How long ranks have between the signal that asks them to end and SIGKILL. 0 kills "
                "at once. Default: 2 seconds.",
    },
    {
        .id = OPTION_BIND_TO,
        .scope = SCOPE_JOB,
        .value = VALUE_NEEDED,
        .names = "bind-to",
        .arg = "none|core|numa|socket",
        .words = "none core numa socket package",
        .topic = "mapping",
        .brief = "what each rank is bound to (default none)",
        .help = "Bind each rank to all CPUs of the core, NUMA node or socket that it is mapped to. "
                "package means socket. Default: as --map-by implies, otherwise none.",
    },
    {
        .id = OPTION_MAP_BY,
        .scope = SCOPE_JOB,
        .value = VALUE_NEEDED,
        .names = "map-by",
        .arg = "slot|core|numa|socket",
        .words = "slot core numa socket package",
        .topic = "mapping",
        .brief = "what ranks are spread over (default slot)",
        .help = "Place rank after rank on the next core (slot, core), or on the next NUMA node or "
                "socket in turn. core, numa and socket also bind to it, unless --bind-to is given. "
                "Default: slot.",
    },
    {
        .id = OPTION_OVERSUBSCRIBE,
        .scope = SCOPE_JOB,
        .names = "oversubscribe",
        .topic = "mapping",
        .help = "Allow more ranks than cores even when ranks are bound.",
    },
    {
        .id = OPTION_NO_OVERSUBSCRIBE,
        .scope = SCOPE_JOB,
        .names = "no-oversubscribe nooversubscribe",
        .topic = "mapping",
        .help =
            "Refuse more ranks than cores. Default: refused if ranks are bound, allowed if not.",
    },
    {
        .id = OPTION_REPORT_BINDINGS,
        .scope = SCOPE_JOB,
        .names = "report-bindings",
        .topic = "mapping",
        .brief = "print where each rank runs",
        .help = "Print on standard error where each rank runs.",
    },
    {
        .id = OPTION_NO_MPI_HINTS,
        .scope = SCOPE_JOB,
        .names = "no-mpi-hints",
        .topic = "environment",
        .help = "Do not set JSM_JSRUN_PORT, the variable that tells programs of Open MPI 4 that a "
                "launcher started them.",
    },
    {
        .id = OPTION_DRY_RUN,
        .scope = SCOPE_JOB,
        .names = "dry-run",
        .topic = "information",
        .brief = "print what would be started",
        .help = "Print what would be started and where, and start nothing.",
    },
    {
        .id = OPTION_TOPOLOGY,
        .scope = SCOPE_JOB,
        .value = VALUE_NEEDED,
        .names = "topology",
        .arg = "FILE",
        .complete = "file",
        .allowed = "an XML file that lstopo wrote, together with --dry-run",
        .topic = "mapping",
        .help =
            "With --dry-run: place the ranks on the machine that lstopo recorded in this XML file.",
    },
    {
        .id = OPTION_STATS,
        .scope = SCOPE_JOB,
        .value = VALUE_ATTACHED,
        .names = "stats",
        .arg = "[=json|FILE]",
        .words = "json",
        .complete = "file",
        .allowed = "nothing, json, or a file that can be written",
        .topic = "information",
        .brief = "print how much went where at the end",
        .help = "When the job has ended, print on standard error how many bytes went from rank to "
                "rank, by which route, and the longest waits, also of ranks that were killed. "
                "--stats=json prints one JSON object; --stats=FILE writes to a file, as JSON if "
                "its name ends in .json.",
    },
    {
        .id = OPTION_METRICS,
        .scope = SCOPE_JOB,
        .value = VALUE_NEEDED,
        .names = "metrics",
        .arg = "[ADDR:]PORT",
        .allowed = "a port from 1 to 65535, or an address of this host, ':' and a port",
        .topic = "information",
        .help = "While the job runs, serve what its ranks count as OpenMetrics, for Prometheus: "
                "http://ADDR:PORT/metrics. Without ADDR only this host can read it (127.0.0.1).",
    },
    {
        .id = OPTION_TRACE,
        .scope = SCOPE_JOB,
        .value = VALUE_NEEDED,
        .names = "trace",
        .arg = "FILE",
        .complete = "file",
        .allowed = "a file that can be written",
        .topic = "information",
        .brief = "write when what happened, for Perfetto",
        .help = "Record the calls, waits and messages of every thread of every rank, and write "
                "them to FILE when the job ends. https://ui.perfetto.dev opens it. What killed "
                "ranks recorded is included.",
    },
    {
        .id = OPTION_TRACE_KINDS,
        .scope = SCOPE_JOB,
        .value = VALUE_NEEDED,
        .names = "trace-kinds",
        .arg = "LIST",
        .allowed = NXR_TRACE_WORDS "; a list of these, all, or such a list after ^ for all others",
        .topic = "information",
        .help = "With --trace: record these kinds of events only, such as put,note, or ^wait for "
                "all others: " NXR_TRACE_WORDS ".",
    },
    {
        .id = OPTION_TRACE_EVENTS,
        .scope = SCOPE_JOB,
        .value = VALUE_NEEDED,
        .names = "trace-events",
        .arg = "N",
        .allowed = "64 to 16777216",
        .topic = "information",
        .help = "With --trace: keep the last N events of each thread, of 64 bytes each; rounded up "
                "to a power of two. Default: 65536.",
    },
    {
        .id = OPTION_EXPLAIN,
        .scope = SCOPE_JOB,
        .value = VALUE_ATTACHED,
        .names = "explain",
        .arg = "[=JOB]",
        .allowed = "nothing, or the pid of a job or process that runs here",
        .topic = "information",
        .brief = "print how the ranks would reach each other",
        .help = "Start the ranks with a program of nixlrun instead of yours, and print how each "
                "host reaches every other: transport, method, expected latency and bandwidth, "
                "rails, and why each other transport is not used. Without -n and hosts: 2 ranks. "
                "With the pid of a job or process that runs here: how the processes of other jobs "
                "that are attached to it are reached, and why by no better way.",
    },
    {
        .id = OPTION_INFO,
        .scope = SCOPE_JOB,
        .names = "info",
        .topic = "information",
        .brief = "print what is installed here",
        .help = "Print which transports, libraries, networks, GPUs and engines this host has, and "
                "what is missing, and exit.",
    },
    {
        .id = OPTION_JSON,
        .scope = SCOPE_JOB,
        .names = "json",
        .topic = "information",
        .help = "With --explain or --info: write one JSON object instead of text.",
    },
    {
        .id = OPTION_ENV,
        .scope = SCOPE_JOB,
        .names = "env",
        .topic = "information",
        .help = "Print every NIXLRUN_ variable with its value, default and origin, and exit.",
    },
    {
        .id = OPTION_VERBOSE,
        .scope = SCOPE_JOB,
        .names = "v verbose",
        .topic = "information",
        .brief = "print when each rank starts and ends",
        .help = "Print on standard error when each rank starts and ends.",
    },
    {
        .id = OPTION_VERSION,
        .scope = SCOPE_JOB,
        .names = "V version",
        .topic = "information",
        .brief = "print the version",
        .help = "Print the version and exit.",
    },
    {
        .id = OPTION_HELP,
        .scope = SCOPE_JOB,
        .value = VALUE_OPTIONAL,
        .names = "h help",
        .arg = "[TOPIC]",
        .topic = "information",
        .brief = "this help, or the help on a topic",
        .help = "Print a short help, or the help on a topic, and exit.",
    },
};
const size_t option_count = sizeof(option_table) / sizeof(option_table[0]);

const char *option_dashes(const char *name, size_t name_nbytes)
{
    return name_nbytes == 1 || (name_nbytes == 2 && memcmp(name, "np", 2) == 0) ? "-" : "--";
}

const struct foreign_option foreign_table[] = {
    {"N nodes", "use --host, or --ppn inside an allocation"},
    {"ppr", "give --ppn N"},
    {"allow-run-as-root", "omit it: root needs no option here"},
    {"mca gmca omca", "use -x OMPI_MCA_name=value"},
    {"genv env-var", "use -x NAME=VALUE"},
    {"genvall genvlist", "omit it, or use -x NAME: ranks inherit the environment of nixlrun"},
    {"cpu-bind", "use --bind-to none, core, numa or socket"},
    {"prepend-rank", "give --tag-output"},
    {"c", "give -n N"},
    {"m", "to run a Python module, give python3 -m NAME"},
    {"output-filename outfile-pattern", "give --output-dir DIR"},
    {"enable-recovery continuous disable-auto-cleanup", "use --on-failure continue"},
};
const size_t foreign_count = sizeof(foreign_table) / sizeof(foreign_table[0]);
