/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlrun ps and nixlrun --explain of a job or process: the processes of other jobs that are
 * attached to it, as its observation page lists them. No state.
 */
#include "config.h"

#include "launcher/jobs_attached.h"
#include "launcher/pages.h"
#include "nixlrun.h"
#include "util/clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* "350 ms", "12 s", "3 min", "5 h" */
static void attached_age(int64_t ns, char text[16])
{
    long long seconds = (long long)(ns / NXR_S);

    if (ns < NXR_S) {
        snprintf(text, 16, "%lld ms", (long long)(ns > 0 ? ns / NXR_MS : 0));
    } else if (seconds < 600) {
        snprintf(text, 16, "%lld s", seconds);
    } else if (seconds < 60 * 600) {
        snprintf(text, 16, "%lld min", seconds / 60);
    } else {
        snprintf(text, 16, "%lld h", seconds / 3600);
    }
}

/* Texts of a page may lack an end, or hold anything. */
static void attached_clean(char *text, size_t nbytes)
{
    text[nbytes - 1] = '\0';
    for (; *text != '\0'; text++) {
        *text = (char)((unsigned char)*text < ' ' || *text == 127 ? '?' : *text);
    }
}

static void attached_print_head(void)
{
    printf("\n%-5s %-8s %-26s %-9s %-8s %-16s %s\n", "RANK", "ATTACHED", "PROCESS", "SINCE", "BY",
           "NAME", "HOST");
}

/* "1 of job 7f3a0c52", and if that rank was started again, how often */
static void attached_process(const struct nxr_attached_record *record, char text[48])
{
    int used = snprintf(text, 48, "%d of job %08x", record->rank, (unsigned)(record->job >> 32));

    if (record->incarnation > 0) {
        snprintf(text + used, 48 - (size_t)used, " (%u)", record->incarnation);
    }
}

void attached_show(void *arg, int owner, const struct nxr_attached_record *record)
{
    bool *has_head = arg;
    char process[48], age[16];

    if (!*has_head) {
        attached_print_head();
        *has_head = true;
    }
    if (record->is_used == 0) {
        printf("%-5d %s\n", owner, record->note);
        return;
    }
    attached_process(record, process);
    attached_age(nxr_now_ns() - record->since_ns, age);
    printf("%-5d %-8d %-26s %-9s %-8s %-16s %s\n", owner, record->number, process, age,
           record->transport, record->name, record->host);
    if (record->note[0] != '\0') {
        printf("      %-8s %s\n", "", record->note);
    }
}

/* Those beyond what a page lists. */
static void attached_take_rest(int owner, uint32_t n, attached_fn *each, void *arg)
{
    struct nxr_attached_record rest = {.number = -1};

    snprintf(rest.note, sizeof(rest.note), "and %u more", n);
    each(arg, owner, &rest);
}

bool attached_take(pid_t pid, attached_fn *each, void *arg)
{
    const struct nxr_observe_attached *attached;
    struct nxr_observe_page page;
    int fd = pages_open_own(pid);
    uint32_t n_listed = 0, n;

    if (fd < 0 || !nxr_observe_map(fd, &page)) {
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    attached = nxr_observe_find(&page, NXR_OBSERVE_ATTACHED, NXR_OBSERVE_ATTACHED_VERSION,
                                sizeof(*attached));
    for (int i = 0; attached != NULL && i < NXR_OBSERVE_N_ATTACHED; i++) {
        struct nxr_attached_record record;

        if (nxr_observe_read(&record, &attached->records[i], sizeof(record)) &&
            record.is_used != 0) {
            attached_clean(record.name, sizeof(record.name));
            attached_clean(record.host, sizeof(record.host));
            attached_clean(record.transport, sizeof(record.transport));
            attached_clean(record.note, sizeof(record.note));
            each(arg, page.head->rank, &record);
            n_listed++;
        }
    }
    n = attached != NULL ? atomic_load(&attached->n) : 0;
    if (n_listed == NXR_OBSERVE_N_ATTACHED && n > n_listed) {
        attached_take_rest(page.head->rank, n - n_listed, each, arg);
    }
    nxr_observe_unmap(&page);
    close(fd);
    return true;
}

int attached_show_process(pid_t pid)
{
    bool has_head = false;

    if (!attached_take(pid, attached_show, &has_head)) {
        return -1;
    }
    if (!has_head) {
        puts("no process of another job is attached to it");
    }
    return 0;
}

/* ---- as a table ------------------------------------------------------------------------------ */

static const struct table_column attached_columns[] = {
    {"rank", "rank", TABLE_NUMBER},     {"number", "number", TABLE_NUMBER},
    {"process", "process", TABLE_TEXT}, {"name", "name", TABLE_TEXT},
    {"host", "host", TABLE_TEXT},       {"transport", "transport", TABLE_TEXT},
    {"note", "note", TABLE_TEXT},       {NULL, NULL, TABLE_TEXT},
};

struct table attached_table(void)
{
    return (struct table){.name = "attached", .columns = attached_columns};
}

void attached_tabulate(void *arg, int owner, const struct nxr_attached_record *record)
{
    char rank[TABLE_NUMBER_NBYTES], number[TABLE_NUMBER_NBYTES] = "", process[48] = "";

    snprintf(rank, sizeof(rank), "%d", owner);
    if (record->is_used != 0) {
        snprintf(number, sizeof(number), "%d", record->number);
        attached_process(record, process);
    }
    table_add(arg, (const char *const[]){rank, number, process, record->name, record->host,
                                         record->transport, record->note});
}

void attached_write(const struct table *table, bool is_json)
{
    struct table_writer writer = {.out = stdout, .is_json = is_json};

    table_begin(&writer, "nixlrun", NIXLRUN_VERSION);
    table_write(&writer, table, "none");
    table_end(&writer);
}
