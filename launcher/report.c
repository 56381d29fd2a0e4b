/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a job and its places. The text is the same for the same job on the same machine, one
 * subject per line, so that people and tests can compare it. Words are quoted so that a shell reads
 * them back.
 */
#include "launcher/report.h"

#include <ctype.h>
#include <string.h>

/* A word as bash reads it back: plain, in '...', or in $'...' if it has control characters. */
static void print_word(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "%+,-./:=@_^";
    bool has_control = false;

    for (const char *c = word; *c != '\0'; c++) {
        has_control = has_control || iscntrl((unsigned char)*c);
    }
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        fputs(word, out);
        return;
    }
    fputs(has_control ? "$'" : "'", out);
    for (const char *c = word; *c != '\0'; c++) {
        if (iscntrl((unsigned char)*c)) {
            fprintf(out, "\\%03o", (unsigned char)*c);
        } else if (has_control && (*c == '\'' || *c == '\\')) {
            fprintf(out, "\\%c", *c);
        } else if (*c == '\'') {
            fputs("'\\''", out);
        } else {
            fputc(*c, out);
        }
    }
    fputc('\'', out);
}

static void print_program(FILE *out, const struct launch_app *app, int number, int first_rank)
{
    if (app->np == 1) {
        fprintf(out, "program %d: rank %d:", number, first_rank);
    } else {
        fprintf(out, "program %d: ranks %d-%d:", number, first_rank, first_rank + app->np - 1);
    }
    for (char **word = app->argv; *word != NULL; word++) {
        fputc(' ', out);
        print_word(out, *word);
    }
    fputc('\n', out);
    if (app->wdir != NULL) {
        fputs("  directory ", out);
        print_word(out, app->wdir);
        fputc('\n', out);
    }
    for (char **var = app->env; *var != NULL; var++) {
        fputs("  variable ", out);
        print_word(out, *var);
        fputc('\n', out);
    }
}

/* "host node1, cpus 0,2 (socket 0 numa 0 core 0)" */
static void print_place(FILE *out, const struct launch_place *place, const char *host)
{
    if (place->cpu_list != NULL) {
        fprintf(out, "host %s, cpus %s (%s)\n", host, place->cpu_list, place->where);
    } else {
        fprintf(out, "host %s, %s\n", host, place->where);
    }
}

void report_command(FILE *out, char *const *env, char *const *words)
{
    if (env != NULL && *env != NULL) {
        fputs("env ", out);
    }
    for (; env != NULL && *env != NULL; env++) {
        print_word(out, *env);
        fputc(' ', out);
    }
    for (; *words != NULL; words++) {
        print_word(out, *words);
        fputc(words[1] != NULL ? ' ' : '\n', out);
    }
}

void report_dry_run(FILE *out, const struct launch_job *job, const struct launch_place *places,
                    const char *host)
{
    int first_rank = 0;

    for (int i = 0; i < job->n_apps; i++) {
        print_program(out, &job->apps[i], i, first_rank);
        first_rank += job->apps[i].np;
    }
    for (int i = 0, rank = 0; i < job->n_apps; i++) {
        for (int end = rank + job->apps[i].np; rank < end; rank++) {
            fprintf(out, "rank %d: program %d, ", rank, i);
            print_place(out, &places[rank], host);
        }
    }
}

void report_bindings(FILE *out, const struct launch_job *job, const struct launch_place *places,
                     const char *host)
{
    for (int rank = 0; rank < job->np; rank++) {
        fprintf(out, "nixlrun: rank %d: ", rank);
        print_place(out, &places[rank], host);
    }
}
