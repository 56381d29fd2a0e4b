/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlrun top: what the ranks of a job move each second, and how much of the time they wait. It
 * reads their pages only, once a second, so it costs the job nothing. No state but its own.
 */
#include "config.h"

#include "launcher/processes.h"
#include "launcher/stats.h"
#include "launcher/top_screen.h"
#include "util/clock.h"
#include "util/observe.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EVERY_NS  (1 * NXR_S)
#define HEAD_ROWS 4
#define BAR_ROOM  16
#define RED       "\033[31m"
#define BOLD      "\033[1m"
#define GREEN     "\033[32m"
#define PLAIN     "\033[0m"

/* What one rank did between two readings, each second; without an earlier one: in all. */
struct top_rates {
    double put, get, ops, notes, waits;
    double waiting; /* seconds, by all threads together: a rate of 1 is one thread always */
    bool is_rate;
};

static const struct stats_rank *top_find(const struct stats_job *job, const struct stats_rank *of)
{
    for (size_t i = 0; i < job->n; i++) {
        const struct stats_rank *rank = &job->ranks[i];

        if (rank->job == of->job && rank->rank == of->rank &&
            rank->incarnation == of->incarnation && rank->pid == of->pid) {
            return rank;
        }
    }
    return NULL;
}

static double top_more(uint64_t now, uint64_t before, double seconds)
{
    return now > before ? (double)(now - before) / seconds : 0;
}

/* `seconds` 0: there is no earlier reading. */
static struct top_rates top_rates_of(const struct stats_rank *rank, const struct stats_rank *before,
                                     double seconds)
{
    static const struct nxr_stats_totals none;
    const struct nxr_stats_totals *now = &rank->totals;
    const struct nxr_stats_totals *then = before != NULL ? &before->totals : &none;
    bool is_rate = seconds > 0;

    seconds = is_rate ? seconds : 1;
    return (struct top_rates){
        .is_rate = is_rate,
        .put = top_more(now->nbytes[NXR_STATS_PUT], then->nbytes[NXR_STATS_PUT], seconds),
        .get = top_more(now->nbytes[NXR_STATS_GET], then->nbytes[NXR_STATS_GET], seconds),
        .ops = top_more(
            now->nops[NXR_STATS_PUT] + now->nops[NXR_STATS_GET] + now->nops[NXR_STATS_ATOMIC],
            then->nops[NXR_STATS_PUT] + then->nops[NXR_STATS_GET] + then->nops[NXR_STATS_ATOMIC],
            seconds),
        .notes = top_more(now->nops[NXR_STATS_NOTIFY], then->nops[NXR_STATS_NOTIFY], seconds),
        .waits = top_more(now->nops[NXR_STATS_WAIT], then->nops[NXR_STATS_WAIT], seconds),
        .waiting = top_more(now->waited_ns, then->waited_ns, seconds) / 1e9,
    };
}

/* What /proc does not show may be a process of somebody else. */
static char top_letter(const struct stats_rank *rank)
{
    char letter = rank->letter != 0 ? rank->letter : process_letter(rank->pid);

    return letter == '?' && kill(rank->pid, 0) != 0 && errno == ESRCH ? 'X' : letter;
}

/* Has the process with this letter of /proc ended? */
static bool is_ended(char letter)
{
    return letter == 'X' || letter == 'Z';
}

const char *top_state(const struct stats_rank *rank)
{
    char letter;

    if (rank->life == NXR_OBSERVE_LEFT) {
        return "left";
    }
    letter = top_letter(rank);
    if (is_ended(letter)) {
        return "ended";
    }
    if (letter == 'T' || letter == 't') {
        return "stopped";
    }
    return rank->life == NXR_OBSERVE_JOINING   ? "joining"
           : rank->life == NXR_OBSERVE_LEAVING ? "leaving"
                                               : "runs";
}

bool stats_is_alive(const struct stats_rank *rank)
{
    return rank->life != NXR_OBSERVE_LEFT && !is_ended(top_letter(rank));
}

static void top_bar(FILE *out, double part, bool has_color)
{
    int n = (int)(part * BAR_ROOM + 0.5);

    n = n < 0 ? 0 : n > BAR_ROOM ? BAR_ROOM : n;
    fprintf(out, "%s%.*s%s", has_color && n > 0 ? GREEN : "", n, "################",
            has_color && n > 0 ? PLAIN : "");
}

/* As a part of the time, or in all. */
static const char *top_waiting(const struct top_rates *rates, char text[STATS_TEXT_NBYTES])
{
    if (!rates->is_rate) {
        return stats_time_text(1e9 * rates->waiting, text);
    }
    snprintf(text, STATS_TEXT_NBYTES, "%.0f%%", 100 * rates->waiting);
    return text;
}

static void top_rank(FILE *out, const struct stats_rank *rank, const struct top_rates *rates,
                     double most, bool has_color)
{
    char put[STATS_TEXT_NBYTES], get[STATS_TEXT_NBYTES], ops[STATS_TEXT_NBYTES];
    char notes[STATS_TEXT_NBYTES], waits[STATS_TEXT_NBYTES], waiting[STATS_TEXT_NBYTES];
    const char *state = top_state(rank);
    bool is_bad = strcmp(state, "ended") == 0 || strcmp(state, "stopped") == 0;

    fprintf(out, "%5d %s%-7s%s %9s %9s %6s %6s %6s %7s  ", rank->rank,
            is_bad && has_color ? RED : "", state, is_bad && has_color ? PLAIN : "",
            stats_bytes_text(rates->put, put), stats_bytes_text(rates->get, get),
            stats_count_text(rates->ops, ops), stats_count_text(rates->notes, notes),
            stats_count_text(rates->waits, waits), top_waiting(rates, waiting));
    top_bar(out, most > 0 ? (rates->put + rates->get) / most : 0, has_color);
    fputc('\n', out);
}

/* What is shown, from which reading to which. */
struct top {
    pid_t nixlrun;
    struct stats_job before, now;
    size_t first; /* line at the top, by index */
    bool has_before;
    bool shows_items; /* collectives, channels and rails in place of ranks */
};

static double top_seconds(const struct top *top)
{
    return top->has_before ? (double)(top->now.read_ns - top->before.read_ns) / 1e9 : 0;
}

static void top_head(FILE *out, const struct top *top, const struct top_rates *all, bool has_color)
{
    char put[STATS_TEXT_NBYTES], get[STATS_TEXT_NBYTES], ops[STATS_TEXT_NBYTES];
    char notes[STATS_TEXT_NBYTES], clock[16] = "";
    const char *per = top->has_before ? "/s" : "";
    const char *keys = !top->has_before   ? "in all"
                       : top->shows_items ? "q quits, v: ranks"
                                          : "q quits, v: collectives, rails";
    time_t now = time(NULL);
    struct tm parts;

    if (localtime_r(&now, &parts) != NULL) {
        strftime(clock, sizeof(clock), "%H:%M:%S", &parts);
    }
    fprintf(out, "%snixlrun top%s  job %d  ranks %d  %s  %s\n", has_color ? BOLD : "",
            has_color ? PLAIN : "", (int)top->nixlrun, top->now.n > 0 ? top->now.ranks[0].size : 0,
            clock, keys);
    fprintf(out, "put %s%s  get %s%s  operations %s%s  notifications %s%s\n\n",
            stats_bytes_text(all->put, put), per, stats_bytes_text(all->get, get), per,
            stats_count_text(all->ops, ops), per, stats_count_text(all->notes, notes), per);
    if (top->shows_items) {
        fprintf(out, "%9s %7s%-2s %4s%-2s %7s  %s\n", "operations", "bytes", per, "stall", per,
                top->has_before ? "waiting" : "waited", "collective, channel or rail");
        return;
    }
    fprintf(out, "%5s %-7s %7s%-2s %7s%-2s %4s%-2s %4s%-2s %4s%-2s %7s\n", "rank", "state", "put",
            per, "get", per, "ops", per, "note", per, "wait", per,
            top->has_before ? "waiting" : "waited");
}

/* ---- what has a name ------------------------------------------------------------------------- */

/* Both sides together, since `then`, each second; without an earlier reading in all. */
static void top_item(FILE *out, const struct stats_item *item, const struct stats_item *then,
                     double seconds)
{
    static const struct stats_item none;
    const struct stats_item *before = then != NULL ? then : &none;
    double per = seconds > 0 ? seconds : 1;
    double nops = top_more(item->out.n + item->in.n, before->out.n + before->in.n, per);
    double nbytes =
        top_more(item->out.nbytes + item->in.nbytes, before->out.nbytes + before->in.nbytes, per);
    double stalls = top_more(item->out.n_stalls + item->in.n_stalls,
                             before->out.n_stalls + before->in.n_stalls, per);
    const struct top_rates rates = {.waiting =
                                        top_more(item->out.wait_ns + item->in.wait_ns,
                                                 before->out.wait_ns + before->in.wait_ns, per) /
                                        1e9,
                                    .is_rate = seconds > 0};
    char ops_text[STATS_TEXT_NBYTES], bytes_text[STATS_TEXT_NBYTES], stalls_text[STATS_TEXT_NBYTES];
    char waiting[STATS_TEXT_NBYTES], name[STATS_ITEM_NBYTES];

    stats_item_text(item, name);
    fprintf(out, "%10s %9s %7s %7s  %s\n", stats_count_text(nops, ops_text),
            stats_bytes_text(nbytes, bytes_text), stats_count_text(stalls, stalls_text),
            top_waiting(&rates, waiting), name);
}

static void top_items(FILE *out, const struct top *top, size_t n_rows)
{
    struct stats_items before = {.items = NULL}, now = stats_items_make(&top->now);

    if (top->has_before) {
        before = stats_items_make(&top->before);
    }
    for (size_t i = top->first; i < now.n && i - top->first < n_rows; i++) {
        top_item(out, &now.items[i], stats_items_find(&before, &now.items[i]), top_seconds(top));
    }
    if (now.n == 0) {
        fputs("no collectives, channels or networks are used so far\n", out);
    }
    stats_items_free(&before);
    stats_items_free(&now);
}

/* ---- a picture ------------------------------------------------------------------------------- */

static void top_draw(FILE *out, const struct top *top, size_t n_rows, bool has_color)
{
    double seconds = top_seconds(top), most = 0;
    struct top_rates all = {.put = 0};

    for (size_t i = 0; i < top->now.n; i++) {
        const struct stats_rank *rank = &top->now.ranks[i];
        struct top_rates rates =
            top_rates_of(rank, top->has_before ? top_find(&top->before, rank) : NULL, seconds);

        all.put += rates.put;
        all.get += rates.get;
        all.ops += rates.ops;
        all.notes += rates.notes;
        most = rates.put + rates.get > most ? rates.put + rates.get : most;
    }
    top_head(out, top, &all, has_color);
    if (top->shows_items) {
        top_items(out, top, n_rows);
        return;
    }
    for (size_t i = top->first; i < top->now.n && i - top->first < n_rows; i++) {
        const struct stats_rank *rank = &top->now.ranks[i];
        struct top_rates rates =
            top_rates_of(rank, top->has_before ? top_find(&top->before, rank) : NULL, seconds);

        top_rank(out, rank, &rates, most, has_color);
    }
}

/* Only the last processes of ranks, and without what ranks alone do not show. */
static struct stats_job top_read(const struct top *top)
{
    return stats_job_read(top->nixlrun, !top->shows_items);
}

/* ---- once ------------------------------------------------------------------------------------ */

static int top_print(struct top *top)
{
    top->now = top_read(top);
    top_draw(stdout, top, SIZE_MAX - 1, false);
    stats_job_free(&top->now);
    return 0;
}

/* ---- live ------------------------------------------------------------------------------------ */

/*
 * Cut each line to the width of the screen, by what is seen of it, and the text to its height: more
 * lines would move the first ones out of it.
 */
static void top_cut(char *text, int columns, int rows)
{
    char *to = text;
    int column = 0, row = 0;

    for (const char *from = text; *from != '\0' && row < rows; from++) {
        row += *from == '\n';
        if (*from == '\033') {
            while (*from != '\0' && *from != 'm') {
                *to++ = *from++;
            }
            *to++ = *from;
            if (*from == '\0') {
                return;
            }
        } else if (*from == '\n' || column < columns) {
            column = *from == '\n' ? 0 : column + 1;
            *to++ = *from;
        }
    }
    *to = '\0';
}

static void top_paint(const struct top *top, const struct top_screen *screen)
{
    size_t n_rows = screen->rows > HEAD_ROWS ? (size_t)(screen->rows - HEAD_ROWS) : 0;
    char *text = NULL;
    size_t nbytes = 0;
    FILE *out = open_memstream(&text, &nbytes);

    if (out != NULL) {
        top_draw(out, top, n_rows, screen->has_color);
        fclose(out);
        top_cut(text, screen->columns, screen->rows);
        top_screen_show(text);
    }
    free(text);
}

/* What is shown has changed: begin anew, since an earlier reading may lack it. */
static void top_read_again(struct top *top)
{
    if (top->has_before) {
        stats_job_free(&top->before);
    }
    stats_job_free(&top->now);
    top->has_before = false;
    top->now = top_read(top);
}

static size_t top_n_lines(const struct top *top)
{
    struct stats_items items;
    size_t n = top->now.n;

    if (top->shows_items) {
        items = stats_items_make(&top->now);
        n = items.n;
        stats_items_free(&items);
    }
    return n;
}

static void top_scroll(struct top *top, enum top_key key)
{
    if (key == TOP_KEY_VIEW) {
        top->shows_items = !top->shows_items;
        top->first = 0;
        top_read_again(top);
    } else if (key == TOP_KEY_DOWN && top->first + 1 < top_n_lines(top)) {
        top->first++;
    } else if (key == TOP_KEY_UP && top->first > 0) {
        top->first--;
    }
}

/* Until the user quits or nixlrun has ended. */
static void top_watch(struct top *top, struct top_screen *screen)
{
    for (;;) {
        int64_t next_ns = top->now.read_ns + EVERY_NS;
        enum top_key key = top_screen_wait(screen, next_ns);

        if (key == TOP_KEY_QUIT) {
            return;
        }
        if (key != TOP_KEY_NONE) {
            top_scroll(top, key);
            top_paint(top, screen);
            continue;
        }
        if (top->has_before) {
            stats_job_free(&top->before);
        }
        top->before = top->now;
        top->has_before = true;
        top->now = top_read(top);
        if (top->now.n == 0 && kill(top->nixlrun, 0) != 0 && errno == ESRCH) {
            return;
        }
        top_paint(top, screen);
    }
}

int top_run(pid_t nixlrun, bool is_once, bool shows_items)
{
    struct top top = {.nixlrun = nixlrun, .shows_items = shows_items};
    struct top_screen screen;

    if (is_once || !top_screen_open(&screen)) {
        return top_print(&top);
    }
    top.now = top_read(&top);
    top_paint(&top, &screen);
    top_watch(&top, &screen);
    top_screen_close();
    stats_job_free(&top.now);
    if (top.has_before) {
        stats_job_free(&top.before);
    }
    if (kill(nixlrun, 0) != 0 && errno == ESRCH) {
        printf("nixlrun: top: job %d has ended\n", (int)nixlrun);
    }
    return 0;
}
