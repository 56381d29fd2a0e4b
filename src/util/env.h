/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Environment variables: parsed once from the list in env.def into one struct. Only env.c calls
 * getenv for NIXLRUN_* names.
 */
#ifndef NXR_UTIL_ENV_H
#define NXR_UTIL_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NXR_ENV_TYPE_time   int64_t /* nanoseconds, INT64_MAX for inf */
#define NXR_ENV_TYPE_bytes  uint64_t
#define NXR_ENV_TYPE_count  uint64_t
#define NXR_ENV_TYPE_flag   bool
#define NXR_ENV_TYPE_text   const char * /* owned by the process environment or constant */
#define NXR_ENV_TYPE_word   const char * /* likewise, and so are those below */
#define NXR_ENV_TYPE_names  const char *
#define NXR_ENV_TYPE_levels const char *
#define NXR_ENV_TYPE_limits const char *
#define NXR_ENV_TYPE_secret const char *

struct nxr_env {
#define NXR_ENV(_field, _name, _kind, _default, _lowest, _highest, _help)                          \
    NXR_ENV_TYPE_##_kind _field;
#include "env.def"
#include "util/symbol.h"
#undef NXR_ENV
};

/*
 * Fill *env from the process environment. On a bad value returns NIXL_E_INVALID_ARG and writes
 * one line into `why` that names the variable, its value and what is allowed; *env is then
 * untouched.
 */
int nxr_env_parse(struct nxr_env *env, char *why, size_t why_nbytes);

/* The parsed environment of this process; all zeros until nxr_env_parse() has filled it. */
extern NXR_HIDDEN struct nxr_env nxr_env;

/*
 * Check one NAME=VALUE that a process is going to have in its environment, with the same messages.
 * Anything that is not a known NIXLRUN_* variable passes.
 */
int nxr_env_check(const char *assignment, char *why, size_t why_nbytes);

/*
 * Log a warning for every NIXLRUN_* variable of `vars` that is not in the list, with the nearest
 * known name. `vars` is NULL for the environment itself, or a similar vector that will override it;
 * variables that the environment also has are then skipped.
 */
void nxr_env_warn_unknown(char *const *vars);

/*
 * Write into `list` all names that a variable of the kind names may have, as a value of it.
 * Returns false, and an empty list, if it is no such variable or the list does not fit.
 */
bool nxr_env_all_names(const char *name, char *list, size_t list_nbytes);

/* Print name, value, default, origin and help of every variable (`nixlrun --env`). */
void nxr_env_print(FILE *out);

/* Parse one value of the kind. Returns 0, or -1 if it is not a value of that kind. */
int nxr_env_parse_time(const char *text, int64_t *ns_p);
int nxr_env_parse_bytes(const char *text, uint64_t *nbytes_p);

#endif
