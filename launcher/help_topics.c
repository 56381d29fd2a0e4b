/* SPDX-License-Identifier: Apache-2.0 */
/* What 'nixlrun --help TOPIC' says around the options of the topic. At most 80 columns.
 */
#include "launcher/help_topics.h"

const struct help_topic help_topics[] = {
    {
        "options",
        "Options stand before the program's name; every word behind it belongs to the\n"
        "program, up to a lone ':'. Then options and the name of the next program follow.\n"
        "-n, --wdir, -x and --env-file are for the program that comes next. All others\n"
        "are for the whole job and stand before the first program. If one is given twice,\n"
        "the last one counts. '--name value' and '--name=value' are the same, and so are\n"
        "-name and --name. '--' ends the options: the next word is a program.\n",
        "",
    },
    {
        "hosts",
        "nixlrun starts ranks on this host itself. For others it is a front end to an\n"
        "engine that the site has. --engine auto takes srun or flux inside an allocation\n"
        "of Slurm or Flux; else nixlrun itself if no other host is named; else prterun or\n"
        "mpirun.\n",
        "Ranks go in order, host by host. Programs and nixlrun must be in the same place\n"
        "on all hosts. What an engine cannot do is said before anything starts.\n"
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
        "A core without a CPU that nixlrun may use (cgroup, taskset) is left out. No core\n"
        "gets a second rank before each has one. With --map-by numa or socket, a node or\n"
        "socket whose cores all have a rank is skipped. A slot is a core here.\n"
        "\n"
        "  nixlrun -n 4 --map-by numa ./app      around the NUMA nodes, bound to them\n"
        "  nixlrun -n 4 --bind-to core ./app     core by core, bound to it\n"
        "  nixlrun -n 4 --map-by socket --bind-to core --dry-run ./app\n"
        "                                        around the sockets; only show it\n",
    },
    {
        "output",
        "Lines of ranks are never mixed: a line comes out whole. Nothing is lost when a\n"
        "rank ends. A slow reader, such as a pager, holds up the output and nothing else,\n"
        "until the pipe of a rank is full.\n",
        "Programs hold back what they print into a pipe, and lose it when killed. At a\n"
        "terminal, or with --pty, each line comes out when it is whole.\n",
    },
    {
        "failure",
        "A rank has failed if it ended with another exit code than 0, by a signal, or\n"
        "without nixl_finalize after it had called nixl_init. nixlrun then tells which\n"
        "rank, host and process it was, and why.\n",
        "With --on-failure continue the others get an event: NIXL_EVENT_PEER_LOST from\n"
        "nixl_event_recv, and NIXL_ERR_PEER_LOST from calls that need the lost rank.\n"
        "Exit codes are the same with both: see 'nixlrun --help exit-codes'.\n",
    },
    {
        "environment",
        "Ranks start with the environment of nixlrun. -x and --env-file add to it or\n"
        "replace in it, in the order of the command line.\n",
        "A line of an --env-file is NAME=VALUE; 'export NAME=VALUE' works too. A value in\n"
        "one pair of quotes ('...' or \"...\") loses them. Nothing is expanded. Empty lines\n"
        "and lines that begin with # are ignored.\n"
        "\n"
        "Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_SIZE, LOCAL_WORLD_SIZE,\n"
        "MASTER_ADDR and MASTER_PORT, as programs of torch read them; what -x or\n"
        "--env-file sets of these stays as it is set.\n"
        "\n"
        "The NIXLRUN_ variables set up the library and the launcher. 'nixlrun --env'\n"
        "prints all of them with value, default and meaning. nixlrun checks them before\n"
        "it starts anything, and warns of a name that it does not know.\n",
    },
    {
        "signals",
        "What nixlrun does when it gets a signal:\n"
        "\n"
        "  SIGINT (Ctrl-C), SIGTERM,   pass it to every rank; SIGKILL for those that are\n"
        "  SIGHUP, SIGQUIT             still there after --kill-grace\n"
        "  a second one of these       kill every rank at once\n"
        "  SIGTSTP (Ctrl-Z), SIGCONT   stop and go on, the ranks too\n"
        "  SIGUSR1, SIGUSR2, SIGWINCH  pass it to every rank\n"
        "  SIGKILL                     the ranks, and all that they have started, are\n"
        "                              killed within a second\n",
        "",
    },
    {
        "exit-codes",
        "  0          every rank ended with 0\n"
        "  1 to 255   the code of the rank that failed first\n"
        "  128 + N    the rank that failed first was ended by signal N (137: SIGKILL)\n"
        "  1          nixlrun itself could not do its work\n"
        "  2          a bad option, variable or file: nothing was started\n"
        "  124        --timeout expired\n"
        "  126        a program is there, but cannot be run\n"
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
        "  nixlrun -n 3 --on-failure continue ./app  go on when a rank dies\n"
        "  nixlrun -n 2 --dry-run ./app              show what would be started\n"
        "  nixlrun -n 2 xterm -e gdb ./app           a debugger for each rank\n",
        "",
    },
};
const size_t help_topic_count = sizeof(help_topics) / sizeof(help_topics[0]);
