/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of an engine. Its two streams are split by their tags (tagged.c); the pieces of each rank
 * are joined into lines, which are written like those of the local engine: whole, with our own tag
 * and time, to our output or to files. Reports of nixlrun-rank are removed on the way. When a sink
 * is full we stop reading from the engine, so it blocks and, in turn, the ranks do.
 *
 * The engine writes to sockets, not to pipes: a signal that interrupts a write to a full pipe cuts
 * it short, and Open MPI 4.1 drops the rest if its job has just ended (each of its daemons ends
 * with a SIGCHLD). A write to a socket is whole or starts again.
 */
#include "config.h"

#include "launcher/foreign.h"
#include "launcher/foreign_output.h"
#include "launcher/frame.h"
#include "launcher/line.h"
#include "launcher/sink.h"
#include "launcher/tagged.h"
#include "launcher/xalloc.h"
#include "launcher/rank_pages.h"
#include "launcher/rank_waits.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_NBYTES      (64 * 1024)
#define LINE_MOST_NBYTES (1024 * 1024)
#define HOLD_NS          (250 * NXR_MS)
#define HOLD_MOST_NBYTES (64 * 1024)
#define KEPT_MOST_NBYTES (64 * 1024 * 1024)

/* A growing text. */
struct text {
    char *data;
    size_t used, room;
};

/* One stream of one rank. */
struct outlet {
    int rank, which;
    struct sink *sink; /* NULL: it has written nothing yet */
    struct text line;
    struct text kept; /* lines that wait for the end of another rank's long line */
    bool is_lost;     /* its file cannot be opened: what it writes is dropped */
    bool is_midline;  /* the last output was a part of a line */
    struct frame_reader frames;
    struct text report; /* the part of a report that has arrived */
};

/* One stream of the engine. */
struct intake {
    struct loop_fd watch; /* fd -1: closed */
    struct tagged tagged;
    bool is_stopped;
};

static const struct launch_job *job;
static foreign_report_fn *report_fn;
static struct outlet *outlets[2]; /* stdout and stderr, by rank */
static struct intake intakes[2];
static struct text foreign_output_held; /* the engine's own lines */
static struct loop_timer hold_timer;
static const struct engine *engine;
static bool is_silent;
static int64_t heard_from_ns;        /* an intake was stopped before; 0: none was */
static size_t foreign_output_n_kept; /* bytes of all outlets */

static void text_add(struct text *text, const char *data, size_t nbytes)
{
    if (text->used + nbytes + 1 > text->room) {
        text->room = (text->used + nbytes + 1) * 2;
        text->data = x_array(text->data, text->room, 1);
    }
    memcpy(text->data + text->used, data, nbytes);
    text->used += nbytes;
    text->data[text->used] = '\0';
}

/* ---- the engine's own lines ------------------------------------------------------------------ */

static void release_held(void)
{
    if (!is_silent) {
        sink_add(sink_standard(1), &foreign_output_held, foreign_output_held.data,
                 foreign_output_held.used);
    }
    foreign_output_held.used = 0;
    loop_timer_clear(&hold_timer);
}

static void foreign_output_hold_is_over(struct loop_timer *timer)
{
    (void)timer;
    release_held();
}

static void foreign_output_hold(const char *data, size_t nbytes)
{
    if (engine->tell_ended != NULL) {
        engine->tell_ended(job, data, nbytes, foreign_ranks_gone);
    }
    if (engine->is_needless != NULL && job->verbose == 0 &&
        engine->is_needless(job, data, nbytes)) {
        return;
    }
    text_add(&foreign_output_held, data, nbytes);
    if (foreign_output_held.used > HOLD_MOST_NBYTES) {
        release_held();
    } else if (!hold_timer.is_set) {
        hold_timer.fire = foreign_output_hold_is_over;
        loop_timer_set(&hold_timer, nxr_now_ns() + HOLD_NS);
    }
}

void foreign_output_silence_engine(void)
{
    is_silent = job->verbose == 0;
    release_held();
}

/* ---- lines of ranks -------------------------------------------------------------------------- */

static bool open_sink(struct outlet *outlet)
{
    int fd;

    if (outlet->sink != NULL || outlet->is_lost) {
        return !outlet->is_lost;
    }
    if (job->output_dir == NULL) {
        outlet->sink = sink_standard(outlet->which);
        return true;
    }
    fd = line_open_file(job, 0, outlet->rank, outlet->which, false);
    outlet->sink = fd >= 0 ? sink_open(fd) : NULL;
    if (outlet->sink == NULL) {
        sink_say("the output of rank %d to std%s is lost", outlet->rank,
                 outlet->which == 0 ? "out" : "err");
        outlet->is_lost = true;
        sink_fail();
    }
    return !outlet->is_lost;
}

static void foreign_output_write_line(struct outlet *outlet, const char *text, size_t nbytes)
{
    char prefix[LINE_PREFIX_NBYTES];

    if (!outlet->sink->is_midline || outlet->sink->midline_owner != outlet) {
        sink_add(outlet->sink, outlet, prefix, line_prefix(job, 0, outlet->rank, prefix));
    }
    sink_add(outlet->sink, outlet, text, nbytes);
}

/*
 * Keep a line that waits for the end of another rank's line. One pipe carries all ranks, so it must
 * be read further until that end arrives: hence the limit.
 */
static void keep_line(struct outlet *outlet, size_t nbytes)
{
    text_add(&outlet->kept, outlet->line.data, nbytes);
    foreign_output_n_kept += nbytes;
    if (foreign_output_n_kept > KEPT_MOST_NBYTES) {
        sink_release(outlet->sink, outlet->sink->holder);
    }
}

static void write_kept(struct outlet *outlet)
{
    const char *at = outlet->kept.data, *end = at + outlet->kept.used;

    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *next = newline != NULL ? newline + 1 : end;

        foreign_output_write_line(outlet, at, (size_t)(next - at));
        at = next;
    }
    foreign_output_n_kept -= outlet->kept.used;
    outlet->kept.used = 0;
}

/* The sink belongs to this outlet until its line ends. */
static void hold_or_release(struct outlet *outlet)
{
    if (outlet->is_midline) {
        sink_hold(outlet->sink, outlet);
    } else {
        sink_release(outlet->sink, outlet);
    }
}

/* Write the kept lines as soon as possible. */
static void write_all_kept(void)
{
    for (int i = 0; i < 2 && foreign_output_n_kept > 0; i++) {
        for (int rank = 0; rank < job->np; rank++) {
            struct outlet *outlet = &outlets[i][rank];

            if (outlet->sink != NULL && outlet->kept.used > 0 && sink_takes(outlet->sink, outlet)) {
                write_kept(outlet);
                hold_or_release(outlet);
            }
        }
    }
}

/* The line is complete, or so long that it must be written in parts. */
static void end_line(struct outlet *outlet)
{
    size_t nbytes = outlet->line.used;

    outlet->is_midline = nbytes > 0 && outlet->line.data[nbytes - 1] != '\n';
    if (nbytes > 0 && open_sink(outlet)) {
        if (!sink_takes(outlet->sink, outlet)) {
            keep_line(outlet, nbytes);
        } else {
            write_kept(outlet);
            foreign_output_write_line(outlet, outlet->line.data, nbytes);
            hold_or_release(outlet);
        }
    }
    outlet->line.used = 0;
}

/* The stream of this rank has ended, perhaps in the middle of a line. */
static void end_stream(struct outlet *outlet)
{
    end_line(outlet);
    outlet->is_midline = false;
    if (outlet->sink != NULL) {
        sink_release(outlet->sink, outlet);
    }
}

/* A report is complete. It is dropped if nixlrun-rank does not write such a form. */
static void end_report(struct outlet *outlet)
{
    char host[256], kind;
    int rank, pid, value, n_read, end = 0, rest = 0;

    text_add(&outlet->report, "", 0); /* it may be empty */
    n_read = sscanf(outlet->report.data, RANK_REPORT_FORMAT RANK_REPORT_TAIL, &rank, host, &pid,
                    &kind, &value, &end, &rest);
    if (n_read != 5 ||
        rank_report_is_of_stdout((enum rank_report_kind)kind) != (outlet->which == 0)) {
        return;
    }
    if (kind == RANK_REPORT_WAITS) {
        foreign_waits_take(outlet->rank, host, value,
                           outlet->report.data + (rest > end ? rest : end));
        return;
    }
    if (kind == RANK_REPORT_PAGE) {
        foreign_pages_take(outlet->rank, value, outlet->report.data + (rest > end ? rest : end));
        return;
    }
    if (kind == RANK_REPORT_LEFT) {
        sink_say("pid %d on host %s cannot be killed, as it runs as another user (uid %u): it is "
                 "left running",
                 pid, host, (unsigned)value);
        return;
    }
    if (rank_report_is_last((enum rank_report_kind)kind)) {
        foreign_waits_ended(outlet->rank);
        end_stream(outlet);
    }
    report_fn(outlet->rank, host, pid, (enum rank_report_kind)kind, value);
}

/* A byte of a rank's output. */
static void take_byte(struct outlet *outlet, char c)
{
    text_add(&outlet->line, &c, 1);
    if (c == '\n' || outlet->line.used > LINE_MOST_NBYTES) {
        end_line(outlet);
    }
}

static void foreign_output_take_piece(void *arg, int rank, const char *text, size_t nbytes)
{
    const struct intake *intake = arg;
    const char *own_mark = engine->own_mark;
    struct outlet *outlet;

    if (rank < 0 || (own_mark != NULL && nbytes > strlen(own_mark) &&
                     memcmp(text, own_mark, strlen(own_mark)) == 0)) {
        foreign_output_hold(text, nbytes);
        return;
    }
    outlet = &outlets[intake - intakes][rank];
    for (size_t i = 0; i < nbytes; i++) {
        char c = text[i];

        switch (frame_read(&outlet->frames, &c)) {
        case FRAME_IS_OUTPUT:
            take_byte(outlet, c);
            break;
        case FRAME_IS_REPORT_START:
            outlet->report.used = 0;
            break;
        case FRAME_IS_REPORT:
            text_add(&outlet->report, &c, outlet->report.used < FRAME_MOST_NBYTES);
            break;
        case FRAME_IS_REPORT_END:
            end_report(outlet);
            break;
        case FRAME_IS_NOTHING:
            break;
        }
    }
}

/* ---- the engine's streams -------------------------------------------------------------------- */

static void intake_close(struct intake *intake)
{
    int which = (int)(intake - intakes);

    tagged_end(&intake->tagged);
    loop_watch(&intake->watch, 0);
    close(intake->watch.fd);
    intake->watch.fd = -1;
    for (int rank = 0; rank < job->np; rank++) {
        end_stream(&outlets[which][rank]);
    }
    write_all_kept();
    release_held();
}

/* Read once. Returns what read() returned. */
static ssize_t intake_read(struct intake *intake)
{
    static char buffer[READ_NBYTES];
    ssize_t n = read(intake->watch.fd, buffer, sizeof(buffer));

    if (n > 0) {
        tagged_feed(&intake->tagged, buffer, (size_t)n);
        sink_hold_on(sink_standard((int)(intake - intakes)));
    }
    return n;
}

static void intake_ready(struct loop_fd *watch, uint32_t events)
{
    struct intake *intake = LOOP_OWNER(watch, struct intake, watch);
    ssize_t n = intake_read(intake);

    (void)events;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        intake_close(intake);
        return;
    }
    sink_flush_all();
    if (sink_is_full(sink_standard(0)) || sink_is_full(sink_standard(1))) {
        loop_watch(watch, 0);
        intake->is_stopped = true;
    }
}

int64_t foreign_output_heard_ns(void)
{
    bool is_stopped = intakes[0].is_stopped || intakes[1].is_stopped;

    return is_stopped ? 0 : nxr_now_ns() - heard_from_ns;
}

bool foreign_output_has_waited(struct loop_timer *timer, int64_t wait_ns)
{
    int64_t left_ns = wait_ns - foreign_output_heard_ns();

    if (left_ns > 0) {
        loop_timer_set(timer, nxr_now_ns() + left_ns);
    }
    return left_ns <= 0;
}

void foreign_output_continue(void)
{
    write_all_kept();
    for (int i = 0; i < 2; i++) {
        if (intakes[i].is_stopped && !sink_is_full(sink_standard(0)) &&
            !sink_is_full(sink_standard(1))) {
            intakes[i].is_stopped = false;
            heard_from_ns = nxr_now_ns();
            loop_watch(&intakes[i].watch, EPOLLIN);
        }
    }
}

void foreign_output_finish(void)
{
    for (int i = 0; i < 2; i++) {
        if (intakes[i].watch.fd >= 0) {
            while (intake_read(&intakes[i]) > 0) {
            }
            intake_close(&intakes[i]);
        }
    }
}

bool foreign_output_is_open(void)
{
    return intakes[0].watch.fd >= 0 || intakes[1].watch.fd >= 0;
}

bool foreign_output_is_unread(void)
{
    return sink_standard(0)->is_broken;
}

int foreign_output_open(const struct engine_task *task, foreign_report_fn *fn, int fds[2])
{
    job = task->job;
    report_fn = fn;
    engine = task->engine;
    for (int i = 0; i < 2; i++) {
        int ends[2];

        outlets[i] = x_array(NULL, (size_t)job->np, sizeof(*outlets[i]));
        for (int rank = 0; rank < job->np; rank++) {
            outlets[i][rank] = (struct outlet){.rank = rank, .which = i};
        }
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
            sink_say("cannot create a socket for the engine: %s", strerror(errno));
            return -1;
        }
        shutdown(ends[0], SHUT_WR);
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        fds[i] = ends[1];
        intakes[i] = (struct intake){.watch = {.fd = ends[0], .ready = intake_ready}};
        intakes[i].tagged = (struct tagged){.tags = engine->tags(task),
                                            .n_ranks = job->np,
                                            .piece_fn = foreign_output_take_piece,
                                            .arg = &intakes[i]};
        loop_watch(&intakes[i].watch, EPOLLIN);
    }
    return 0;
}
