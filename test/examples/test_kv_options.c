/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of the example kv_transfer. */
#include "examples/kv_options.h"

#include "test/unit/unit.h"
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#define ARGS_MAX 8

static enum kv_parsed parse(const char *const *args, struct kv_options *options)
{
    char *argv[ARGS_MAX + 1] = {(char *)"kv_transfer"};
    int argc = 1;

    for (; args[argc - 1] != NULL; argc++) {
        argv[argc] = (char *)args[argc - 1];
    }
    return kv_options_parse(argc, argv, true, options);
}

#define PARSE(_options, ...) parse((const char *const[]){__VA_ARGS__, NULL}, _options)

Test(kv_options, numbers_go_over_the_model_in_any_order, .timeout = 120)
{
    struct kv_options options;

    cr_assert_eq(PARSE(&options, "--layers", "3", "--model=llama3-70b", "--block-tokens=32"),
                 KV_RUN);
    cr_assert_eq(options.shape.layers, 3);
    cr_assert_eq(options.shape.block_tokens, 32);
    cr_assert_eq(options.shape.kv_heads, 8);
    cr_assert_str_eq(options.shape.model, "llama3-70b");
    cr_assert_eq(PARSE(&options, "--requests", "5", "--prompt-tokens", "100", "--dtype", "fp8"),
                 KV_RUN);
    cr_assert_eq(options.requests, 5);
    cr_assert_eq(options.prompt_tokens, 100);
    cr_assert_str_eq(options.shape.dtype, "fp8");
    cr_assert_eq(options.memory, NIXL_MEM_HOST);
    cr_assert_eq(PARSE(&options, "--memory", "cuda"), KV_RUN);
    cr_assert_eq(options.memory, NIXL_MEM_CUDA);
    cr_assert_eq(PARSE(&options, "--memory=vulkan"), KV_RUN);
    cr_assert_eq(options.memory, NIXL_MEM_VULKAN);
    cr_assert_null(options.tier);
    cr_assert_eq(PARSE(&options, "--tier", "file:/var/tmp"), KV_RUN);
    cr_assert_str_eq(options.tier, "/var/tmp");
    cr_assert(options.is_folder);
    cr_assert_eq(PARSE(&options, "--tier=s3://bucket/cache"), KV_RUN);
    cr_assert_str_eq(options.tier, "s3://bucket/cache");
    cr_assert_not(options.is_folder);
}

Test(kv_options, bad_ones_leave_the_options_alone, .timeout = 120)
{
    static const char *const bad[][2] = {
        {"--layers", "0"},        {"--layers", "1025"},  {"--layers", "-1"},
        {"--layers", "3x"},       {"--layers", ""},      {"--model", "gpt"},
        {"--dtype", "int3"},      {"--memory", "gpu"},   {"--tier", "file:"},
        {"--tier", "ftp://host"}, {"--requests", "1e9"}, {"--nonsense", "1"},
        {"stray", "words"},       {"-x", "-y"},          {"--head-dim", "18446744073709551617"},
    };
    struct kv_options options, before;

    cr_redirect_stderr();
    memset(&options, 0x5a, sizeof(options));
    before = options;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(PARSE(&options, bad[i][0], bad[i][1]), KV_BAD, "%s %s", bad[i][0], bad[i][1]);
        cr_assert_eq(memcmp(&options, &before, sizeof(options)), 0);
    }
    cr_assert_eq(PARSE(&options, "--layers"), KV_BAD);
}

Test(kv_options, a_bad_one_is_named_with_what_is_allowed, .timeout = 120)
{
    struct kv_options options;

    cr_redirect_stderr();
    cr_assert_eq(PARSE(&options, "--block-tokens", "9999"), KV_BAD);
    fflush(stderr);
    cr_assert_stderr_eq_str("kv_transfer: --block-tokens is '9999'; allowed: 1 to 4096\n");
}

Test(kv_options, help_ends_the_program, .timeout = 120)
{
    struct kv_options options;

    cr_redirect_stdout();
    cr_assert_eq(PARSE(&options, "--help"), KV_END);
}
