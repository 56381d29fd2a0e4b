/* SPDX-License-Identifier: Apache-2.0 */
/* Which of two ways is taken, by times that are made up. */
#include "memory/file/file_trial.h"
#include "test/unit/unit.h"

TestSuite(file_trial, .timeout = 120);

enum { MIB = 1 << 20, US = 1000 };

/* A program that has so many operations under way, whose times depend on the way. */
struct program {
    struct nxr_file_trial trial;
    int64_t now, took_ns[NXR_FILE_BYS]; /* of one operation, if it were alone */
    uint64_t nbytes;
    unsigned depth;
};

static enum nxr_file_by begin(struct program *program)
{
    enum nxr_file_by by = nxr_file_trial_next(&program->trial);

    nxr_file_trial_begin(&program->trial, by, program->now);
    return by;
}

/* Operations end in turn, one after the other: how many until the trial was over. */
static unsigned run(struct program *program, unsigned at_most)
{
    enum nxr_file_by flying[64];
    unsigned n = 0;
    bool is_over = false;

    program->now = program->now != 0 ? program->now : 1;
    for (unsigned i = 0; i < program->depth; i++) {
        flying[i] = begin(program);
    }
    for (; !is_over && n < at_most; n++) {
        enum nxr_file_by *oldest = &flying[n % program->depth];

        program->now += program->took_ns[*oldest];
        is_over = nxr_file_trial_end(&program->trial, *oldest, program->nbytes, program->now);
        *oldest = begin(program);
    }
    return n;
}

static void expect_choice(struct program program, enum nxr_file_by by)
{
    unsigned n = run(&program, 100000);

    cr_expect(nxr_file_trial_is_over(&program.trial));
    cr_expect(n < 1000);
    cr_expect(nxr_file_trial_next(&program.trial) == by);
    for (int i = 0; i < NXR_FILE_BYS; i++) {
        double right = (double)program.nbytes / (double)program.took_ns[i];

        cr_expect(program.trial.rates[i] <= right * 1.001, "%d: %g", i, program.trial.rates[i]);
        cr_expect(program.trial.rates[i] >= right * 0.9, "%d: %g", i, program.trial.rates[i]);
    }
}

Test(file_trial, the_faster_way_is_taken)
{
    for (unsigned depth = 1; depth <= 64; depth *= 4) {
        expect_choice(
            (struct program){.depth = depth, .nbytes = MIB, .took_ns = {500 * US, 300 * US}},
            NXR_FILE_BY_CUFILE);
        expect_choice(
            (struct program){.depth = depth, .nbytes = MIB, .took_ns = {300 * US, 500 * US}},
            NXR_FILE_STAGED);
        expect_choice(
            (struct program){.depth = depth, .nbytes = 4096, .took_ns = {20 * US, 9 * US}},
            NXR_FILE_BY_CUFILE);
    }
}

Test(file_trial, a_tie_is_staged)
{
    expect_choice((struct program){.depth = 1, .nbytes = MIB, .took_ns = {301 * US, 300 * US}},
                  NXR_FILE_STAGED);
}

Test(file_trial, the_ways_take_turns_until_the_end)
{
    struct program program = {.depth = 1, .nbytes = 4 * MIB, .took_ns = {US, US}};
    unsigned n_changes = 0;

    for (unsigned i = 0; !nxr_file_trial_is_over(&program.trial) && i < 1000; i++) {
        enum nxr_file_by before = nxr_file_trial_next(&program.trial);

        cr_expect(run(&program, 1) == 1);
        n_changes += nxr_file_trial_next(&program.trial) != before;
        /* The one that run() has begun anew ends before it is called again. */
        program.now += US;
        (void)nxr_file_trial_end(&program.trial, before, 0, program.now);
    }
    cr_expect(n_changes == NXR_FILE_TURNS - 1 || n_changes == NXR_FILE_TURNS);
}

/* A huge operation by one way ends while one by the other has just begun: it is not measured. */
Test(file_trial, what_overlaps_is_not_counted)
{
    struct nxr_file_trial trial = {.n_turns = 1};

    nxr_file_trial_begin(&trial, NXR_FILE_STAGED, 1000);
    nxr_file_trial_begin(&trial, NXR_FILE_BY_CUFILE, 2000);
    cr_expect(false == nxr_file_trial_end(&trial, NXR_FILE_STAGED, 1 << 30, 9000));
    cr_expect(false == nxr_file_trial_end(&trial, NXR_FILE_BY_CUFILE, 1 << 30, 9001));
    cr_expect(eq(u32, trial.n_turns, 1));
    cr_expect(eq(u64, trial.nbytes[NXR_FILE_BY_CUFILE], 0));
    nxr_file_trial_begin(&trial, NXR_FILE_BY_CUFILE, 10000);
    cr_expect(false == nxr_file_trial_end(&trial, NXR_FILE_BY_CUFILE, 1 << 30, 11000));
    cr_expect(eq(u32, trial.n_turns, 2));
}

/* Failed operations, of no bytes, end a turn, too. */
Test(file_trial, a_way_that_fails_is_not_taken)
{
    struct nxr_file_trial trial = {0};
    int64_t now = 1;

    for (int i = 0; !nxr_file_trial_is_over(&trial) && i < 1000; i++) {
        enum nxr_file_by by = nxr_file_trial_next(&trial);

        nxr_file_trial_begin(&trial, by, now);
        now += US;
        (void)nxr_file_trial_end(&trial, by, by == NXR_FILE_STAGED ? MIB : 0, now);
    }
    cr_expect(nxr_file_trial_is_over(&trial));
    cr_expect(nxr_file_trial_next(&trial) == NXR_FILE_STAGED);
}
