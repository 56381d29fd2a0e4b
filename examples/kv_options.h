/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of the example kv_transfer. */
#ifndef EXAMPLE_KV_OPTIONS_H
#define EXAMPLE_KV_OPTIONS_H

#include "kv_cache.h"
#include "nixlrun.h"

#include <stdbool.h>

struct kv_options {
    struct kv_shape shape;
    uint32_t requests; /* per prefill rank */
    uint32_t prompt_tokens;
    enum nixl_mem_kind memory; /* where the caches lie, at both ends */
    const char *tier; /* where those of the decode ranks lie instead: a URL of an S3 store, or */
    bool is_folder;   /* ... a folder for a file of each; NULL: in memory */
};

enum kv_parsed { KV_RUN, KV_END, KV_BAD };

/*
 * Fill *options. KV_END: help was asked for; KV_BAD: an option is wrong. With `speak` the help or
 * the one line about the bad option is printed: one rank speaks for all.
 */
enum kv_parsed kv_options_parse(int argc, char **argv, bool speak, struct kv_options *options);

#endif
