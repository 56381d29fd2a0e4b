/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the user asked for: the job, as options.c fills it from the command line and as the engines
 * read it. Plain data; it does not change after parsing. Everything it points to lives until exit.
 */
#ifndef NIXLRUN_LAUNCHER_JOB_H
#define NIXLRUN_LAUNCHER_JOB_H

#include <stdbool.h>
#include <stdint.h>

/* Exit codes of nixlrun itself; a rank's own code or 128 + signal otherwise. */
enum launch_exit {
    LAUNCH_EXIT_FAILED = 1,     /* nixlrun could not do its work */
    LAUNCH_EXIT_USAGE = 2,      /* a bad option or file: nothing was started */
    LAUNCH_EXIT_TIMEOUT = 124,  /* --timeout is over */
    LAUNCH_EXIT_NOT_EXEC = 126, /* a program is there but cannot be run */
    LAUNCH_EXIT_NO_PROGRAM = 127,
};

enum launch_stdin { STDIN_RANK, STDIN_ALL, STDIN_NONE };
enum launch_bind { BIND_NONE, BIND_CORE, BIND_NUMA, BIND_SOCKET };
enum launch_map { MAP_SLOT, MAP_CORE, MAP_NUMA, MAP_SOCKET };
/* In the order of LAUNCH_ENGINE_WORDS. */
enum launch_engine {
    ENGINE_AUTO,
    ENGINE_LOCAL,
    ENGINE_SLURM,
    ENGINE_PRRTE,
    ENGINE_OPENMPI,
    ENGINE_FLUX,
};
#define LAUNCH_ENGINE_WORDS "auto local slurm prrte openmpi flux" /* the values of --engine */
enum launch_pty { PTY_AUTO, PTY_YES, PTY_NO };
enum launch_on_failure { ON_FAILURE_ABORT, ON_FAILURE_CONTINUE, ON_FAILURE_RESTART };
#define LAUNCH_RESTARTS_DEFAULT 3
#define LAUNCH_RESTARTS_MAX     1000000

/* One program of the job (`:` separates several). Its ranks follow those of the app before it. */
struct launch_app {
    int np;
    char **argv;      /* NULL-terminated; argv[0] as the user wrote it */
    char **env;       /* NULL-terminated NAME=VALUE from -x and --env-file, over nixlrun's own */
    const char *wdir; /* NULL: nixlrun's */
};

/* A host of --host or --hostfile. */
struct launch_host {
    char *name;
    int n_slots; /* 0: not said */
    int n_most;  /* most ranks, even if oversubscribed; 0: no limit */
    int n_ranks; /* how many ranks it gets: assigned in order, host by host */
};

struct launch_job {
    struct launch_app *apps;
    int n_apps;
    int np; /* sum over the apps */
    enum launch_engine engine;
    struct launch_host *hosts;
    int n_hosts;
    int ppn; /* ranks per host, 0: not given */
    enum launch_stdin stdin_mode;
    int stdin_rank;  /* for STDIN_RANK */
    bool tag_output; /* "[rank] " before each line */
    bool timestamp_output;
    const char *output_dir; /* NULL: to our own stdout and stderr */
    enum launch_pty pty;    /* do ranks write to a terminal? auto: if we do */
    int64_t timeout_ns;     /* INT64_MAX: none */
    int64_t grace_ns;       /* between the polite signal and SIGKILL */
    enum launch_map map;
    enum launch_bind bind;
    bool report_bindings;
    bool oversubscribe;
    bool is_oversubscribe_given; /* by the user, not by default */
    bool is_elastic;             /* ranks may leave one by one */
    bool mpi_hints;
    bool dry_run;
    enum launch_on_failure on_failure;
    int most_restarts;        /* of each rank, with ON_FAILURE_RESTART */
    int64_t restart_delay_ns; /* from the end of a process to the start of the next one */
    const char *stats;        /* --stats: "" for a table, "json", or a file; NULL: not asked for */
    const char *trace;        /* --trace: the file; NULL: not asked for */
    const char *trace_kinds;  /* NULL: all, or as NIXLRUN_TRACE says */
    int trace_events;         /* of each thread; 0: as NIXLRUN_TRACE_EVENTS says */
    int verbose;              /* how often -v was given */
    const char *metrics;      /* --metrics: "[ADDR:]PORT"; NULL: not asked for */
};

/* Where a rank runs: made by placement.c from the topology. */
struct launch_place {
    char *cpu_list; /* "0-3,8" for sched_setaffinity and PMIX_CPUSET, or NULL: not bound */
    char *where;    /* for people: "socket 0 numa 1 core 3", or "not bound" */
};

#endif
