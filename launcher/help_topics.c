/* SPDX-License-Identifier: Apache-2.0 */
/* What 'nixlrun --help TOPIC' says around the options of the topic. At most 80 columns. */
#include "launcher/help_topics.h"

const struct help_topic help_topics[] = {
    {
        "options",
        "Options precede the program's name; every word after it belongs to the program,\n"
        "up to a lone ':', which is followed by the options and name of the next program.\n"
        "-n, --wdir, -x and --env-file apply to the program that follows. All others\n"
        "apply to the whole job and precede the first program. If one is given twice, the\n"
        "last one counts. '--name value' and '--name=value' are the same, and so are\n"
        "-name and --name. '--' ends the options: the next word is a program.\n",
        "",
    },
    {
        "hosts",
        "nixlrun starts ranks on this host itself. For other hosts it is a front end to\n"
        "an engine that the site has. --engine auto uses srun or flux inside an\n"
        "allocation of Slurm or Flux, otherwise nixlrun itself if no other host is named,\n"
        "otherwise prterun or mpirun.\n",
        "Ranks are placed in order, host by host. Programs and nixlrun must be installed\n"
        "at the same path on all hosts. If the engine cannot do what is asked, nixlrun\n"
        "says so before anything starts.\n"
        "\n"
        "  nixlrun --host a:4,b:4 ./app              four ranks on each of two hosts\n"
        "  nixlrun -n 8 --hostfile hosts ./app       a file: NAME, NAME:N or NAME slots=N\n"
        "  nixlrun --host a,b --ppn 2 ./app          two ranks on each\n"
        "  nixlrun -n 64 --ppn 16 ./app              inside an allocation\n"
        "  nixlrun --host a:4,b:4 --dry-run ./app    only print the engine's command\n",
    },
    {
        "mapping",
        "By default ranks are not bound: the system may run them on every CPU that\n"
        "nixlrun may use, and there may be more ranks than cores.\n",
        "A core without a CPU that nixlrun may use (cgroup, taskset) is skipped. No core\n"
        "gets a second rank before each has one. With --map-by numa or socket, a node or\n"
        "socket whose cores all have a rank is skipped. A slot is a core here.\n"
        "\n"
        "  nixlrun -n 4 --map-by numa ./app      in turn over the NUMA nodes\n"
        "  nixlrun -n 4 --bind-to core ./app     core by core, bound to it\n"
        "  nixlrun -n 4 --map-by socket --bind-to core --dry-run ./app\n"
        "                                        in turn over sockets; only show it\n",
    },
    {
        "output",
        "Lines of ranks are never mixed: each comes out whole. Nothing is lost when a\n"
        "rank ends. A slow reader, such as a pager, holds up the output and nothing else,\n"
        "until the pipe of a rank is full.\n",
        "Programs buffer what they print into a pipe, and lose it when killed. At a\n"
        "terminal, or with --pty, each line comes out when it is complete.\n",
    },
    {
        "failure",
        "A rank has failed if it ended with an exit code other than 0, by a signal, or\n"
        "without nixl_finalize after nixl_init. nixlrun then prints which rank, host and\n"
        "process it was, and why.\n",
        "With --on-failure continue the others get an event: NIXL_EVENT_PEER_LOST from\n"
        "nixl_event_recv, and NIXL_E_PEER_LOST from calls that need the lost rank.\n"
        "Exit codes are the same with both: see 'nixlrun --help exit-codes'.\n"
        "With --on-failure restart a rank that has failed is started again, and the\n"
        "others get NIXL_EVENT_PEER_JOINED too. Failures after which a rank was started\n"
        "again do not count for the exit code; the last lines say how often that was.\n",
    },
    {
        "environment",
        "Ranks start with the environment of nixlrun. -x and --env-file add variables or\n"
        "replace their values, in the order of the command line.\n",
        "A line of an --env-file is NAME=VALUE; 'export NAME=VALUE' works too. Quotes\n"
        "around the whole value ('...' or \"...\") are removed. Nothing is expanded. Empty\n"
        "lines and lines that begin with # are ignored.\n"
        "\n"
        "Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_SIZE, LOCAL_WORLD_SIZE,\n"
        "MASTER_ADDR and MASTER_PORT, which PyTorch programs read. A value given by -x or\n"
        "--env-file takes precedence.\n"
        "\n"
        "The NIXLRUN_ variables configure the library and the launcher. 'nixlrun --env'\n"
        "prints all of them with value, default and meaning. nixlrun checks them before\n"
        "it starts anything, and warns about unknown names.\n",
    },
    {
        "signals",
        "What nixlrun does when it gets a signal:\n"
        "\n"
        "  SIGINT (Ctrl-C), SIGTERM,   forward it to every rank; SIGKILL those still\n"
        "  SIGHUP, SIGQUIT             alive after --kill-grace\n"
        "  a second one of these       kill every rank at once\n"
        "  SIGTSTP (Ctrl-Z), SIGCONT   stop and continue nixlrun and all ranks\n"
        "  SIGUSR1, SIGWINCH           forward it to every rank\n"
        "  SIGUSR2                     show who waits for whom, and forward it to the\n"
        "                              ranks of this host that catch it\n"
        "  Ctrl-\\                      show who waits for whom; twice in 2 s: SIGQUIT\n"
        "  SIGKILL                     the ranks, and all that they have started, are\n"
        "                              killed within a second\n",
        "",
    },
    {
        "jobs",
        "Three commands take the place of options and a program. A program of that name\n"
        "is started as ./ps, or behind an option.\n"
        "\n"
        "  nixlrun ps                  the jobs of this user on this host\n"
        "  nixlrun ps JOB              its ranks; - where an engine of the site has them;\n"
        "                              and processes of other jobs attached to them\n"
        "  nixlrun ps PID              those attached to a process started otherwise\n"
        "  nixlrun ps -w JOB           who waits for whom in it, see nixlrun-observe(7)\n"
        "  nixlrun top JOB             how much each rank moves and waits, each second;\n"
        "                              q quits, v: collectives, channels, rails;\n"
        "                              before JOB --once: so far, and exit; --items: as v\n"
        "  nixlrun ps file:DIR         the names that processes have published there,\n"
        "                              and which process has; etcd://HOST:PORT likewise\n"
        "  nixlrun kill JOB ...        end them, as Ctrl-C would\n"
        "  nixlrun kill -s SIGNAL JOB  what nixlrun does then: 'nixlrun --help signals'\n",
        "JOB is the pid of the job's nixlrun.\n",
    },
    {
        "exit-codes",
        "  0          every rank ended with 0\n"
        "  1 to 255   the code of the rank that failed first\n"
        "  128 + N    the rank that failed first was ended by signal N (137: SIGKILL)\n"
        "  1          nixlrun itself failed\n"
        "  2          a bad option, variable or file: nothing was started\n"
        "  124        --timeout expired\n"
        "  126        a program was found, but cannot be run\n"
        "  127        a program was not found\n",
        "",
    },
    {
        "examples",
        "  nixlrun -n 4 ./app                        four ranks on this host\n"
        "  nixlrun -n 4 --tag-output ./app           with [RANK] before each line\n"
        "  nixlrun -n 1 ./server : -n 3 ./client     two programs: rank 0, ranks 1 to 3\n"
        "  nixlrun -n 2 -x NIXLRUN_LOG=debug ./app   with a variable for the ranks\n"
        "  nixlrun -n 4 ./mpi_app                    an MPI program of Open MPI\n"
        "  nixlrun -n 2 --timeout 30 ./test          a test that must not hang\n"
        "  nixlrun -n 8 --output-dir out ./app       one file per rank and stream\n"
        "  nixlrun -n 2 --map-by core ./app          one rank per core, bound to it\n"
        "  nixlrun -n 3 --on-failure continue ./app  continue when a rank dies\n"
        "  nixlrun -n 2 --dry-run ./app              show what would be started\n"
        "  nixlrun -n 2 xterm -e gdb ./app           a debugger for each rank\n",
        "",
    },
};
const size_t help_topic_count = sizeof(help_topics) / sizeof(help_topics[0]);
