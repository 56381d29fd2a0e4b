/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists and files of hosts, and the dealing of ranks to hosts. nixlrun deals, not the engine, so
 * that a rank is on the same host whichever engine starts it. Each name is in the job once, in the
 * order in which it was first given.
 */
#include "config.h"

#include "launcher/hosts.h"
#include "launcher/here.h"
#include "launcher/values.h"
#include "launcher/xalloc.h"

#include <limits.h>

static const char name_bytes[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

/* ---- reading --------------------------------------------------------------------------------- */

static int hosts_fail(char cause[HOSTS_CAUSE_NBYTES], const char *text, const char *what)
{
    char shown[VALUE_SHOWN_NBYTES];

    snprintf(cause, HOSTS_CAUSE_NBYTES, "%s %s", value_show(text, shown), what);
    return -1;
}

/* The sum of two numbers of slots; 0 means "not given", and counts as one. */
static int add_slots(int a, int b)
{
    int sum = (a > 0 ? a : 1) + (b > 0 ? b : 1);

    return sum < HOSTS_MAX_SLOTS ? sum : HOSTS_MAX_SLOTS;
}

/* Add a host, or more slots for a known one. */
static void hosts_add_host(struct launch_job *job, const struct launch_host *host)
{
    for (int i = 0; i < job->n_hosts; i++) {
        struct launch_host *old = &job->hosts[i];

        if (strcmp(old->name, host->name) == 0) {
            old->n_slots = add_slots(old->n_slots, host->n_slots);
            old->n_most =
                old->n_most > 0 && host->n_most > 0 ? add_slots(old->n_most, host->n_most) : 0;
            return;
        }
    }
    job->hosts = x_array(job->hosts, (size_t)job->n_hosts + 1, sizeof(*job->hosts));
    job->hosts[job->n_hosts] = *host;
    job->hosts[job->n_hosts++].name = x_strdup(host->name);
}

/*
 * For a host in the syntax of another program, what to write instead. NULL: it is no such syntax.
 */
static const char *foreign_form(const char *word)
{
    if (strstr(word, "::") != NULL || (word[0] == '[' && strchr(word, ':') != NULL)) {
        return "is an IPv6 address, which engines do not accept; use a host name";
    }
    if (strpbrk(word, "[]") != NULL) {
        return "has brackets; list each host, for example n1,n2";
    }
    if (strchr(word, '@') != NULL) {
        return "has a user name; write only the host, and set the user in ~/.ssh/config";
    }
    return NULL;
}

/* Read NAME or NAME:SLOTS; `word` is cut at the colon. */
static int parse_word(char *word, struct launch_host *host, char cause[HOSTS_CAUSE_NBYTES])
{
    const char *form = foreign_form(word);
    char *colon = strchr(word, ':');

    if (form != NULL) {
        return hosts_fail(cause, word, form);
    }

    if (colon != NULL) {
        *colon = '\0';
        if (value_count(colon + 1, 1, HOSTS_MAX_SLOTS, &host->n_slots) != 0) {
            return hosts_fail(cause, colon + 1, "is not a number of slots from 1 to 65536");
        }
    }
    if (word[0] == '\0') {
        snprintf(cause, HOSTS_CAUSE_NBYTES, "a host name is missing");
        return -1;
    }
    if (word[0] == '-' || word[strspn(word, name_bytes)] != '\0') {
        return hosts_fail(cause, word, "is not a host name (letters, digits, '.', '-' and '_')");
    }
    host->name = word;
    return 0;
}

int hosts_parse_list(const char *text, struct launch_job *job, char cause[HOSTS_CAUSE_NBYTES])
{
    char *copy = x_strdup(text), *word = copy, *next;
    int status = 0;

    for (; status == 0 && word != NULL; word = next) {
        struct launch_host host = {0};

        next = strchr(word, ',');
        if (next != NULL) {
            *next++ = '\0';
        }
        status = parse_word(word, &host, cause);
        if (status == 0) {
            hosts_add_host(job, &host);
        }
    }
    free(copy);
    return status;
}

/* The file being read: where its hosts go, and room for the error in a line. */
struct reading {
    struct launch_job *job;
    char wrong[HOSTS_CAUSE_NBYTES - 32];
};

/* Read "slots=4" or "max_slots=8". Returns -1 if it is neither. */
static int parse_key(const char *word, struct launch_host *host)
{
    static const char *const most_keys[] = {"max_slots=", "max-slots="};

    if (strncmp(word, "slots=", 6) == 0) {
        return host->n_slots == 0 ? value_count(word + 6, 1, HOSTS_MAX_SLOTS, &host->n_slots) : -1;
    }
    for (size_t i = 0; i < sizeof(most_keys) / sizeof(most_keys[0]); i++) {
        if (strncmp(word, most_keys[i], strlen(most_keys[i])) == 0) {
            return value_count(word + strlen(most_keys[i]), 1, HOSTS_MAX_SLOTS, &host->n_most);
        }
    }
    return -1;
}

static const char *hosts_parse_line(char *line, void *arg)
{
    static const char blanks[] = " \t\r\v\f";
    struct reading *reading = arg;
    struct launch_host host = {0};
    char cause[HOSTS_CAUSE_NBYTES], shown[VALUE_SHOWN_NBYTES];
    char *rest = NULL, *word;

    line[strcspn(line, "#")] = '\0';
    word = strtok_r(line, blanks, &rest);
    if (word == NULL) {
        return NULL;
    }
    if (parse_word(word, &host, cause) != 0) {
        snprintf(reading->wrong, sizeof(reading->wrong), "is wrong: %.140s", cause);
        return reading->wrong;
    }
    while ((word = strtok_r(NULL, blanks, &rest)) != NULL) {
        if (parse_key(word, &host) != 0) {
            snprintf(reading->wrong, sizeof(reading->wrong),
                     "has %s after the host, where only slots=N and max_slots=N may stand",
                     value_show(word, shown));
            return reading->wrong;
        }
    }
    if (host.n_most > 0 && host.n_most < host.n_slots) {
        return "has fewer max_slots than slots";
    }
    hosts_add_host(reading->job, &host);
    return NULL;
}

/* A file without a host is a mistake too. */
static int check_read(int status, const struct launch_job *job, char cause[HOSTS_CAUSE_NBYTES])
{
    if (status == 0 && job->n_hosts == 0) {
        snprintf(cause, HOSTS_CAUSE_NBYTES, "it names no host");
        return -1;
    }
    return status;
}

int hosts_parse_file(char *text, size_t nbytes, struct launch_job *job,
                     char cause[HOSTS_CAUSE_NBYTES])
{
    struct reading reading = {.job = job};

    return check_read(textfile_parse(text, nbytes, hosts_parse_line, &reading, cause), job, cause);
}

int hosts_read_file(const char *path, struct launch_job *job, char cause[HOSTS_CAUSE_NBYTES])
{
    struct reading reading = {.job = job};

    return check_read(textfile_read(path, hosts_parse_line, &reading, cause), job, cause);
}

/* ---- dealing --------------------------------------------------------------------------------- */

static bool has_slots(const struct launch_job *job)
{
    for (int i = 0; i < job->n_hosts; i++) {
        if (job->hosts[i].n_slots > 0) {
            return true;
        }
    }
    return false;
}

/* The number of ranks that a host takes before it is oversubscribed. */
static int slots_of(const struct launch_job *job, const struct launch_host *host)
{
    return job->ppn > 0 ? job->ppn : host->n_slots > 0 ? host->n_slots : 1;
}

int hosts_capacity(const struct launch_job *job)
{
    long sum = 0;

    for (int i = 0; i < job->n_hosts; i++) {
        sum += slots_of(job, &job->hosts[i]);
    }
    return sum < INT_MAX ? (int)sum : INT_MAX;
}

/* Give full hosts `left` more ranks, one each in turn. Returns how many found no place. */
static int deal_extra(struct launch_job *job, int left)
{
    bool is_dealt = true;

    while (left > 0 && is_dealt) {
        is_dealt = false;
        for (int i = 0; i < job->n_hosts && left > 0; i++) {
            struct launch_host *host = &job->hosts[i];

            if (host->n_most == 0 || host->n_ranks < host->n_most) {
                host->n_ranks++;
                left--;
                is_dealt = true;
            }
        }
    }
    return left;
}

int hosts_deal(struct launch_job *job, char *why, size_t why_nbytes)
{
    bool is_even = job->ppn == 0 && !has_slots(job);
    int left = job->np;

    for (int i = 0; i < job->n_hosts; i++) {
        struct launch_host *host = &job->hosts[i];
        int share =
            is_even ? job->np / job->n_hosts + (i < job->np % job->n_hosts) : slots_of(job, host);

        host->n_ranks = share < left ? share : left;
        left -= host->n_ranks;
    }
    if (left > 0 && job->ppn > 0 && job->n_hosts > 0) {
        snprintf(why, why_nbytes,
                 "-np %d: --ppn %d on %d host%s has room for %d; lower -np or name more hosts",
                 job->np, job->ppn, job->n_hosts, job->n_hosts == 1 ? "" : "s", job->np - left);
        return -1;
    }
    if (left > 0 && job->n_hosts > 0 && !job->is_oversubscribe_given) {
        snprintf(why, why_nbytes,
                 "-np %d: the hosts have %d slot%s; give --oversubscribe to start more", job->np,
                 job->np - left, job->np - left == 1 ? "" : "s");
        return -1;
    }
    if (job->n_hosts > 0 && deal_extra(job, left) > 0) {
        snprintf(why, why_nbytes, "-np %d: more than the max_slots of all hosts", job->np);
        return -1;
    }
    return 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

bool hosts_are_here(const struct launch_job *job)
{
    for (int i = 0; i < job->n_hosts; i++) {
        if (!here_is(job->hosts[i].name)) {
            return false;
        }
    }
    return true;
}

bool hosts_have_here_late(const struct launch_job *job)
{
    for (int i = 1; i < job->n_hosts; i++) {
        if (here_is(job->hosts[i].name)) {
            return true;
        }
    }
    return false;
}

void hosts_free(struct launch_job *job)
{
    for (int i = 0; i < job->n_hosts; i++) {
        free(job->hosts[i].name);
    }
    free(job->hosts);
    job->hosts = NULL;
    job->n_hosts = 0;
}
