/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the multi-process tests share: checks that explain themselves, and test data. No state; any
 * thread may call it.
 */
#include "config.h"

#include "mptest.h"

#include <errno.h>
#include <execinfo.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void (*mpt_on_fail)(const char *file, int line, const char *text);

/* ---- beginning and end ----------------------------------------------------------------------- */

/* A crash that happens once in a thousand runs leaves nothing else to look at. */
static void tell_crash(int number, siginfo_t *info, void *context)
{
    void *frames[40];
    char text[80];
    int nbytes = snprintf(text, sizeof(text), "mptest: signal %d, address %p\n", number,
                          number == SIGABRT ? NULL : info->si_addr);

    (void)context;
    if (write(STDOUT_FILENO, text, (size_t)nbytes) == nbytes) {
        backtrace_symbols_fd(frames, backtrace(frames, 40), STDOUT_FILENO);
    }
    raise(number); /* as without a handler, which was reset; it is blocked until the return */
}

/* Sanitizers tell more by themselves. */
static void watch_for_crashes(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    const struct sigaction action = {.sa_sigaction = tell_crash,
                                     .sa_flags = SA_SIGINFO | (int)SA_RESETHAND};
    void *frame;

    (void)backtrace(&frame, 1); /* the first call loads a library */
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        MPT_EQ(sigaction(numbers[i], &action, NULL), 0);
    }
#else
    (void)tell_crash;
#endif
}

void mpt_start(void)
{
    const char *dir = getenv("MPT_DIR"), *rank = getenv("PMIX_RANK");
    char path[512];

    if (dir != NULL) {
        snprintf(path, sizeof(path), "%s/rank.%s", dir, rank != NULL ? rank : "0");
        if (freopen(path, "a", stdout) == NULL || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) {
            _exit(1);
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    watch_for_crashes();
}

int mpt_passed(void)
{
    printf("mptest: passed\n");
    return fflush(stdout) == 0 ? 0 : 1;
}

void mpt_skip(const char *format, ...)
{
    va_list args;

    printf("mptest: skip: ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
    _exit(77);
}

void mpt_fail(const char *file, int line, const char *format, ...)
{
    const char *name = strrchr(file, '/');
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (mpt_on_fail != NULL) {
        mpt_on_fail(name != NULL ? name + 1 : file, line, text);
    }
    printf("mptest: %s:%d: %s\n", name != NULL ? name + 1 : file, line, text);
    fflush(stdout);
    _exit(1);
}

int64_t mpt_patience_ns(void)
{
    static _Atomic int64_t patience_ns;
    const char *text;

    if (patience_ns == 0) {
        text = getenv("MPT_PATIENCE");
        patience_ns = (text != NULL ? atoi(text) : 60) * MPT_S;
    }
    return patience_ns;
}

/* ---- checks -------------------------------------------------------------------------------- */

void mpt_status(const char *file, int line, const char *call, int status, int expected)
{
    if (status != expected) {
        mpt_fail(file, line, "%s: %d '%s' (%s), expected %d '%s'", call, status,
                 nixl_strerror(status), status < 0 ? nixl_last_error()->text : "", expected,
                 nixl_strerror(expected));
    }
}

void mpt_finalize(void)
{
    int64_t began_ns = mpt_now_ns();

    MPT_OK(nixl_finalize());
    MPT_LT(mpt_now_ns() - began_ns, MPT_PATIENCE / 2);
}

void mpt_compare(const char *file, int line, const char *what, intmax_t a, intmax_t b, bool holds)
{
    if (!holds) {
        mpt_fail(file, line, "%s: left is %jd (0x%jx), right is %jd (0x%jx)", what, a, a, b, b);
    }
}

void mpt_true(const char *file, int line, const char *what, bool holds)
{
    if (!holds) {
        mpt_fail(file, line, "%s: is false; the last error of the library is '%s'", what,
                 nixl_last_error()->text);
    }
}

void mpt_compare_text(const char *file, int line, const char *what, const char *a, const char *b)
{
    if (a == NULL || b == NULL ? a != b : strcmp(a, b) != 0) {
        mpt_fail(file, line, "%s: '%s', expected '%s'", what, a != NULL ? a : "(NULL)",
                 b != NULL ? b : "(NULL)");
    }
}

void mpt_error_has(const char *file, int line, const char *text)
{
    if (strstr(nixl_last_error()->text, text) == NULL) {
        mpt_fail(file, line, "'%s' is not in: %s", text, nixl_last_error()->text);
    }
}

/* ---- places -------------------------------------------------------------------------------- */

int mpt_host_of(int rank)
{
    const char *ppn = getenv("MPT_PPN");

    return rank / (ppn != NULL ? atoi(ppn) : nixl_size());
}

enum nixl_scope_kind mpt_scope(int rank)
{
    if (rank == nixl_rank()) {
        return NIXL_SCOPE_SELF;
    }
    return mpt_host_of(rank) == mpt_host_of(nixl_rank()) ? NIXL_SCOPE_LOCAL : NIXL_SCOPE_REMOTE;
}

const char *mpt_network(void)
{
    const char *name = getenv("MPT_NETWORK");

    return name != NULL && name[0] != '\0' ? name : NULL;
}

/* ---- data ---------------------------------------------------------------------------------- */

int64_t mpt_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * MPT_S + now.tv_nsec;
}

int64_t mpt_cpu_ns(void)
{
    struct timespec now;

    MPT_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return now.tv_sec * MPT_S + now.tv_nsec;
}

char mpt_look_at(pid_t pid, char name[32], pid_t *parent_p)
{
    char path[64], comm[32], state = 0;
    int n_read, parent = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    n_read = fscanf(file, "%*d (%15[^)]) %c %d", comm, &state, &parent);
    fclose(file);
    if (n_read == EOF) {
        return 0; /* it has vanished since the file was opened */
    }
    MPT_EQ(n_read, 3);
    if (name != NULL) {
        memcpy(name, comm, sizeof(comm));
    }
    if (parent_p != NULL) {
        *parent_p = parent;
    }
    return state;
}

void mpt_bring(pid_t pid, int signal, const char *states)
{
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    char state;

    MPT_TRUE(pid > 1);
    MPT_EQ(kill(pid, signal), 0);
    do {
        MPT_LT(mpt_now_ns(), end_ns);
        state = mpt_look_at(pid, NULL, NULL);
    } while (strchr(states, state != 0 ? state : '-') == NULL);
}

/* splitmix64: one step of a generator whose every output differs. */
uint64_t mpt_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* Eight bytes of the pattern: bytes 8 * index to 8 * index + 7. */
static uint64_t pattern_word(uint64_t seed, size_t index)
{
    return (seed + index) * 0x9e3779b97f4a7c15ull ^ seed;
}

void mpt_fill(void *memory, size_t nbytes, uint64_t seed)
{
    unsigned char *bytes = memory;

    for (size_t i = 0; i < nbytes / 8; i++) {
        uint64_t word = pattern_word(seed, i);

        memcpy(bytes + 8 * i, &word, 8);
    }
    if (nbytes % 8 != 0) {
        uint64_t word = pattern_word(seed, nbytes / 8);

        memcpy(bytes + nbytes / 8 * 8, &word, nbytes % 8);
    }
}

void mpt_check(const char *file, int line, const void *memory, size_t nbytes, uint64_t seed)
{
    const unsigned char *bytes = memory;

    for (size_t i = 0; i < nbytes; i += 8) {
        size_t n = nbytes - i < 8 ? nbytes - i : 8;
        uint64_t word = pattern_word(seed, i / 8), found = word;

        if (n == 8) { /* a call for each word would take most of the time of large tests */
            memcpy(&found, bytes + i, 8);
        } else {
            memcpy(&found, bytes + i, n);
        }
        if (found != word) {
            mpt_fail(file, line, "byte %zu to %zu of %zu differ from the pattern of seed %" PRIu64,
                     i, i + n - 1, nbytes, seed);
        }
    }
}

void mpt_check_bytes(const char *file, int line, const void *memory, size_t nbytes, int value)
{
    const unsigned char *bytes = memory;

    /* All bytes are alike if each equals the next one. */
    if (nbytes > 0 && bytes[0] == (unsigned char)value &&
        memcmp(bytes, bytes + 1, nbytes - 1) == 0) {
        return;
    }
    for (size_t i = 0; i < nbytes; i++) {
        if (bytes[i] != (unsigned char)value) {
            mpt_fail(file, line, "byte %zu of %zu is 0x%02x, expected 0x%02x", i, nbytes, bytes[i],
                     (unsigned char)value);
        }
    }
}

/* What is gone already does not end the walk: a folder may name a file twice while others go. */
static int mpt_remove_one(const char *path, const struct stat *stat, int type, struct FTW *where)
{
    (void)stat;
    (void)type;
    (void)where;
    if (remove(path) != 0 && errno != ENOENT) {
        fprintf(stderr, "mptest: cannot remove '%s': %s\n", path, strerror(errno));
        return 1;
    }
    return 0;
}

void mpt_remove_tree(const char *path)
{
    (void)nftw(path, mpt_remove_one, 20, FTW_DEPTH | FTW_PHYS);
}
