/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that nixlrun gets and passes on to its ranks. */
#ifndef NIXLRUN_LAUNCHER_SIGNALS_H
#define NIXLRUN_LAUNCHER_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* What the running engine does on signals that end the job. */
struct signals_actions {
    bool (*is_running)(void);       /* does a rank live? */
    void (*end)(int signal);        /* the first signal: ask the ranks to end */
    void (*abandon)(int exit_code); /* a later one: exit at once */
    void (*resize)(void);           /* the terminal has another size; NULL: not needed */
    void (*pass_on)(int signal);    /* to those ranks that catch it; NULL: that is not known */
};

/*
 * Block the signals that we serve, before any thread exists. `before_p` gets the previous mask,
 * which ranks inherit.
 */
void signals_block(sigset_t *before_p);

/* Serve signals from the event loop. Returns 0 or -errno. */
int signals_listen(const struct signals_actions *wanted);

#endif
