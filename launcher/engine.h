/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines start the ranks of a job: nixlrun itself on this host, or a program of the site that
 * speaks PMIx and reaches other hosts (srun, prterun, mpirun, flux). One table describes these
 * programs; they differ in data and in one function that writes the command line.
 */
#ifndef NIXLRUN_LAUNCHER_ENGINE_H
#define NIXLRUN_LAUNCHER_ENGINE_H

#include "launcher/envlist.h"
#include "launcher/job.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- the local engine ------------------------------------------------------------------------ */

/*
 * Start the job and wait for its end; then the process exits with nixlrun's exit code. `places` has
 * job->np entries. It exits by fflush(NULL) and _exit(), since threads of PMIx still run.
 */
void engine_local_run(const struct launch_job *job, const struct launch_place *places)
    __attribute__((noreturn));

/* ---- engines of the site --------------------------------------------------------------------- */

/* How an engine marks the rank that a line of output is from. */
enum engine_tags {
    TAGS_LABEL,        /* "3: text" */
    TAGS_BRACKET,      /* "[1,3]<stdout>:text", also inside a line when the writer changes */
    TAGS_BRACKET_BLANK /* "[1,3]<stdout>: text" */
};

/* A command: words, and variables that override our own environment. */
struct engine_command {
    char **words; /* NULL-terminated */
    size_t n_words;
    struct envlist env;
};

/* What to start, and the program that starts it. */
struct engine_task {
    const struct launch_job *job;
    const struct engine *engine; /* NULL: nixlrun itself, on this host */
    char path[PATH_MAX];         /* the engine's program */
    char rank_program[PATH_MAX]; /* nixlrun-rank, which runs the user's program */
    char version[16];            /* the engine's */
    int major;
};

/* `code`: as a shell reports it; 128 + SIGKILL if it is not known. */
typedef void engine_ended_fn(int rank, int code);

struct engine {
    enum launch_engine id;
    const char *title;    /* for people: "PRRTE's prterun" */
    const char *programs; /* names to look for in PATH; the first with the right answer is used */
    const char *mark;     /* what its answer to --version must contain */
    const char *start_advice; /* what to check when ranks do not start */
    const char *package;      /* how to install it, with the Debian package */
    const char *error_mark;   /* how its answer begins if it cannot work, or NULL */
    const char *error_advice; /* and what to do then */
    const char *pmix_arg;     /* an argument that makes it list its PMIx, or NULL */
    const char *maps;         /* the words of --map-by that it supports */
    const char *binds;        /* the words of --bind-to that it supports */
    int continue_since;       /* first major version with --on-failure continue */
    int pmix_since;           /* first that then serves PMIx even after a death; 0: none does */
    int leaves_since;         /* first that exits by itself when a job that lost a rank is over */
    int counts_since;         /* first that counts a failure during the start only once */
    int stdin_all_since;      /* first that gives stdin for all to ranks on its own host, too */
    bool is_left_to_us;       /* it continues after a failure, and nixlrun ends the job */
    bool has_programs;        /* supports several programs in one job */
    bool has_uneven;          /* hosts with different numbers of ranks */
    bool has_rest;            /* --ppn without hosts, with a last host that gets fewer */
    bool has_report;          /* --report-bindings */
    bool has_cores_only;      /* --oversubscribe only if the number of ranks per host is known */
    int oldest_major;         /* older versions are refused */
    const char *own_mark;     /* marks its own lines that it tags as a rank's, or NULL */
    /* Does this line of its own concern nobody, or what we asked for, not the user? NULL: never. */
    bool (*is_needless)(const struct launch_job *job, const char *line, size_t nbytes);
    /* Report each rank that has ended according to this line of its own, with its code. Or NULL. */
    void (*tell_ended)(const struct launch_job *job, const char *line, size_t nbytes,
                       engine_ended_fn *ended_fn);
    enum engine_tags (*tags)(const struct engine_task *task);
    void (*build)(const struct engine_task *task, struct engine_command *command);
    int end_signal; /* makes it end its job and exit; SIGINT is sent twice */
    /* Does it pass on RANK_END_SIGNAL to nixlrun-rank? NULL: no. */
    bool (*passes_end_signal)(const struct engine_task *task);
    const char *signal_program; /* signals ranks; used with build_signal */
    void (*build_signal)(struct engine_command *command, int signal,
                         const char *step); /* or NULL */
};

extern const struct engine engine_slurm, engine_prrte, engine_openmpi, engine_flux;

enum { ENGINE_NAME_NBYTES = 24 };

/*
 * Choose the engine for a job: by --engine, else by the allocation that we are in, else by what the
 * hosts need. Runs engines with --version. `is_recorded`: the job is placed on a recorded machine.
 * Returns 0, or -1 and one line in `why`: no engine is suitable, or the job wants what the engine
 * does not support.
 */
int engine_choose(const struct launch_job *job, bool is_recorded, struct engine_task *task,
                  char *why, size_t why_nbytes);

/* Its name for --engine. */
void engine_name(enum launch_engine id, char name[ENGINE_NAME_NBYTES]);

/* The command that starts the job. */
void engine_build(const struct engine_task *task, struct engine_command *command);
void engine_command_free(struct engine_command *command);

/*
 * Look for engine number `index` of the table. `name` is its name for --engine; path and version in
 * *task are "" if it was not found; `why` says why it cannot be used, "" if it can. Returns false
 * after the last.
 */
bool engine_look(size_t index, struct engine_task *task, char name[ENGINE_NAME_NBYTES], char *why,
                 size_t why_nbytes);

/* Run the engine, wait for its end and return the exit code of nixlrun. */
int engine_foreign_run(const struct engine_task *task, const struct engine_command *command);

/* ---- for the functions that write command lines ---------------------------------------------- */

/* Add a word to the command. */
void command_add(struct engine_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Add nixlrun-rank, its directory, the program and its arguments. */
void command_add_program(struct engine_command *command, const struct engine_task *task,
                         const struct launch_app *app);

/* Set the program's variables, for engines that pass on their own environment. */
void command_set_variables(struct engine_command *command, const struct engine_task *task);

/* The value of --stdin: a rank, "all" or "none". In a static buffer. */
const char *command_stdin(const struct launch_job *job);

/* Add -np, --host, -x and the program, in the syntax of mpirun and prterun. */
void command_add_mpirun_app(struct engine_command *command, const struct engine_task *task,
                            int app_num);

/* Add --map-by and --bind-to for mpirun and prterun, which name the levels differently. */
void command_add_mpirun_places(struct engine_command *command, const struct launch_job *job,
                               const char *socket_word);

/* Its daemons are started by ssh, and call back. */
#define PRRTE_START_ADVICE                                                                         \
    "check that ssh connects without a prompt and that no firewall blocks TCP between the "        \
    "hosts, on any port in either direction"

/* The command lines of PRRTE, which is inside Open MPI since 5. */
void prrte_build(const struct engine_task *task, struct engine_command *command);

/* Report which rank was killed, from a line of mpirun or prterun. */
void prrte_tell_ended(const struct launch_job *job, const char *line, size_t nbytes,
                      engine_ended_fn *ended_fn);

/* Is this a warning of mpirun or prterun that concerns no user? */
bool prrte_is_needless(const struct launch_job *job, const char *line, size_t nbytes);

/*
 * Would mpirun or prterun put the ranks of this host first, although it is not the first host? If
 * so, the hosts are written rank by rank, for --map-by seq.
 */
bool command_is_by_rank(const struct launch_job *job);

#endif
