/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of the example kv_transfer: one table drives parsing, checking and the messages.
 */
#include "kv_options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPTION_MODEL = 'm',
    OPTION_DTYPE = 't',
    OPTION_MEMORY = 'M',
    OPTION_TIER = 'T',
    OPTION_HELP = 'h',
    NUMBERS = 256
};

/* Options that take a number: where it goes in struct kv_options, and what is allowed. */
static const struct {
    const char *name;
    size_t field;
    uint32_t lowest, highest;
} numbers[] = {
    {"layers", offsetof(struct kv_options, shape.layers), 1, 1024},
    {"kv-heads", offsetof(struct kv_options, shape.kv_heads), 1, 1024},
    {"head-dim", offsetof(struct kv_options, shape.head_dim), 1, 16384},
    {"block-tokens", offsetof(struct kv_options, shape.block_tokens), 1, 4096},
    {"requests", offsetof(struct kv_options, requests), 1, 100000},
    {"prompt-tokens", offsetof(struct kv_options, prompt_tokens), 1, 4194304},
};
#define N_NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static const char help[] =
    "Usage: nixlrun -np N kv_transfer [options]\n"
    "Half of the ranks prefill KV caches and put them into the other half, which decodes.\n"
    "\n"
    "  --model NAME         llama3-8b (default), llama3-70b or deepseek-v3\n"
    "  --layers N           override the model's own: layers,\n"
    "  --kv-heads N           heads of keys and values,\n"
    "  --head-dim N           values per head,\n"
    "  --block-tokens N       tokens per block,\n"
    "  --dtype TYPE           bf16, fp16, fp32 or fp8\n"
    "  --requests N         requests per prefill rank (default 32)\n"
    "  --prompt-tokens N    tokens per request (default 256)\n"
    "  --memory KIND        memory of the caches: host (default), cuda or vulkan\n"
    "  --tier TIER          decode ranks keep the blocks in storage: file:FOLDER, s3://BUCKET/PATH "
    "or\n"
    "                         http[s]://HOST/BUCKET/PATH\n"
    "  --help               print this text\n"
    "\n"
    "The exit code is 1 if any byte is wrong on arrival, 2 for a bad option.\n";

/* One wrong option: say so in one line. */
static enum kv_parsed bad(bool speak, const char *option, const char *value, const char *allowed)
{
    if (speak) {
        fprintf(stderr, "kv_transfer: %s is '%s'; allowed: %s\n", option, value, allowed);
    }
    return KV_BAD;
}

static enum kv_parsed set_number(size_t index, const char *text, bool speak,
                                 struct kv_options *options)
{
    char option[32], allowed[48];
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || value < numbers[index].lowest ||
        value > numbers[index].highest) {
        snprintf(option, sizeof(option), "--%s", numbers[index].name);
        snprintf(allowed, sizeof(allowed), "%u to %u", numbers[index].lowest,
                 numbers[index].highest);
        return bad(speak, option, text, allowed);
    }
    *(uint32_t *)((char *)options + numbers[index].field) = (uint32_t)value;
    return KV_RUN;
}

static enum kv_parsed set_memory(const char *value, bool speak, struct kv_options *options)
{
    static const struct {
        const char *name;
        enum nixl_mem_kind kind;
    } kinds[] = {{"host", NIXL_MEM_HOST}, {"cuda", NIXL_MEM_CUDA}, {"vulkan", NIXL_MEM_VULKAN}};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(value, kinds[i].name) == 0) {
            options->memory = kinds[i].kind;
            return KV_RUN;
        }
    }
    return bad(speak, "--memory", value, "host, cuda, vulkan");
}

static enum kv_parsed set_tier(const char *value, bool speak, struct kv_options *options)
{
    static const char *const urls[] = {"s3://", "http://", "https://"};

    options->is_folder = strncmp(value, "file:", 5) == 0 && value[5] != '\0';
    options->tier = options->is_folder ? value + 5 : NULL;
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        if (strncmp(value, urls[i], strlen(urls[i])) == 0) {
            options->tier = value;
        }
    }
    return options->tier != NULL ? KV_RUN
                                 : bad(speak, "--tier", value,
                                       "file:FOLDER, s3://BUCKET/PATH, http[s]://HOST/BUCKET/PATH");
}

static enum kv_parsed set_option(int option, const char *value, bool speak,
                                 struct kv_options *options)
{
    switch (option) {
    case OPTION_MODEL:
        return KV_RUN; /* handled before, so that the other options override it */
    case OPTION_DTYPE:
        if (kv_dtype_nbytes(value) == 0) {
            return bad(speak, "--dtype", value, kv_dtype_names());
        }
        options->shape.dtype = value;
        return KV_RUN;
    case OPTION_MEMORY:
        return set_memory(value, speak, options);
    case OPTION_TIER:
        return set_tier(value, speak, options);
    case OPTION_HELP:
        if (speak) {
            fputs(help, stdout);
        }
        return KV_END;
    default:
        return set_number((size_t)option - NUMBERS, value, speak, options);
    }
}

/* The long options for getopt: the option words, and the numbers of the table above. */
static void list_options(struct option *list)
{
    static const struct option words[] = {
        {"model", required_argument, NULL, OPTION_MODEL},
        {"dtype", required_argument, NULL, OPTION_DTYPE},
        {"memory", required_argument, NULL, OPTION_MEMORY},
        {"tier", required_argument, NULL, OPTION_TIER},
        {"help", no_argument, NULL, OPTION_HELP},
    };
    const size_t n_words = sizeof(words) / sizeof(words[0]);

    memcpy(list, words, sizeof(words));
    for (size_t i = 0; i < N_NUMBERS; i++) {
        list[n_words + i] =
            (struct option){numbers[i].name, required_argument, NULL, NUMBERS + (int)i};
    }
    list[n_words + N_NUMBERS] = (struct option){0};
}

enum kv_parsed kv_options_parse(int argc, char **argv, bool speak, struct kv_options *options)
{
    struct kv_options parsed = {*kv_model("llama3-8b"), 32, 256, NIXL_MEM_HOST, NULL, false};
    struct option list[5 + N_NUMBERS + 1];
    enum kv_parsed outcome = KV_RUN;
    int option;

    list_options(list);
    opterr = 0;
    for (int pass = 0; pass < 2; pass++) {
        optind = 0; /* glibc: start over */
        while (outcome == KV_RUN && (option = getopt_long(argc, argv, ":h", list, NULL)) != -1) {
            if (option == '?') {
                char letter[] = {'-', (char)optopt, '\0'};

                return bad(speak, "option", optopt != 0 ? letter : argv[optind - 1],
                           "those of kv_transfer --help");
            }
            if (option == ':') {
                return bad(speak, argv[optind - 1], "", "a value after it");
            }
            if (pass == 1) {
                outcome = set_option(option, optarg, speak, &parsed);
            } else if (option == OPTION_MODEL) {
                if (kv_model(optarg) == NULL) {
                    return bad(speak, "--model", optarg, kv_model_names());
                }
                parsed.shape = *kv_model(optarg);
            }
        }
    }
    if (outcome == KV_RUN && optind < argc) {
        return bad(speak, "argument", argv[optind], "none, only options");
    }
    if (outcome == KV_RUN) {
        *options = parsed;
    }
    return outcome;
}
