/* SPDX-License-Identifier: Apache-2.0 */
/* What srun says of tasks that have ended: which ranks, and with which code. */
#include "launcher/engine.h"

#include "test/unit/unit.h"
#include <malloc.h>
#include <stdio.h>
#include <string.h>

static char told[256];

static void ended(int rank, int code)
{
    size_t used = strlen(told);

    snprintf(told + used, sizeof(told) - used, "%d:%d ", rank, code);
}

static void says(const char *line, const char *wanted)
{
    struct launch_job job = {.np = 12};

    told[0] = '\0';
    engine_slurm.tell_ended(&job, line, strlen(line), ended);
    cr_expect_str_eq(told, wanted, "%s", line);
}

Test(engine_slurm, each_task_that_srun_names_has_ended)
{
    says("srun: error: h1: task 3: Killed", "3:137 ");
    says("srun: error: h1: task 0: Exited with exit code 127", "0:127 ");
    says("srun: error: h1: tasks 0,2-3,10: Exited with exit code 2", "0:2 2:2 3:2 10:2 ");
}

Test(engine_slurm, ranks_that_do_not_exist_are_left_out)
{
    says("srun: error: h1: tasks 11-13: Killed", "11:137 ");
    says("srun: error: h1: task 12: Killed", "");
    says("srun: error: h1: tasks -2-1: Killed", "");
    says("srun: error: h1: tasks 4,-1,5: Killed", "4:137 ");
}

Test(engine_slurm, other_lines_tell_of_no_rank)
{
    says("", "");
    says("srun: error: ", "");
    says("srun: error: Unable to create step", "");
    says("srun: error: h1: task : Killed", "");
    says("srun: error: h1: task x: Killed", "");
    says("h1: task 3: Killed", "");
}

Test(engine_slurm, a_command_is_given_back)
{
    struct engine_command command = {0};
    size_t used[3];

    for (int i = 0; i < 3; i++) {
        command_add(&command, "srun");
        command_add(&command, "-n%d", 12);
        engine_command_free(&command);
        used[i] = mallinfo2().uordblks;
    }
    cr_expect(eq(sz, used[2], used[1]));
}
