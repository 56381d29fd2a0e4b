/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance program walks every guarantee of the library, one function each. All ranks run
 * the same functions in the same order and meet after each; rank 0 then prints its TAP line. What
 * a guarantee needs of memory it takes from conf_segment(), so that the whole walk runs over
 * allocated and over registered memory.
 */
#ifndef NXR_TEST_CONFORMANCE_H
#define NXR_TEST_CONFORMANCE_H

#include "test/mp/mptest.h"

/* How this walk was asked for; constant after main() has read its arguments. */
struct conf {
    int rank, size;
    int next, prev;     /* neighbours in the ring of ranks */
    int partner;        /* the other of a pair (0 1) (2 3) ...; -1 for a last odd rank */
    bool is_single;     /* NIXL_THREAD_SINGLE */
    bool is_registered; /* segments are the caller's own memory */
    bool is_in_extents; /* ... as regions of one extent each */
    enum nixl_mem_kind segment_kind; /* of segments */
    enum nixl_mem_kind local_kind;   /* of local memory, where guarantees make it of any kind */
    bool is_mapped;                  /* the processor reads and writes segments */
    bool is_direct;                  /* segments are files past the page cache */
    const char *method;    /* how other ranks' segments must be reached; NULL: not checked */
    const char *transport; /* ... and by what on this host, if they are allocated host memory */
    unsigned scale;        /* rounds are multiplied by this many tenths */
};
extern struct conf conf;

enum conf_needs {
    CONF_THREADS = 1, /* several threads use the library at once */
    CONF_PEERS = 2,   /* at least two ranks */
    CONF_HOST = 4,  /* segments in host memory: looked at after their end, or by their addresses */
    CONF_WORDS = 8, /* words of segments change, or are waited for */
};

/* In a table a row without a function names the operation that the next ones are about. */
struct guarantee {
    const char *name; /* reads as a sentence with underscores */
    void (*run)(void);
    unsigned needs; /* enum conf_needs */
};

/* One table per subject; begins with an operation, ends with a NULL name. */
extern const struct guarantee conf_data[], conf_order[], conf_notify[], conf_region[], conf_close[],
    conf_request[], conf_atomic[], conf_signal[], conf_event[], conf_job[], conf_kinds[],
    conf_xfer[], conf_xfer_data[], conf_channel[], conf_collective[], conf_reduction[], conf_team[],
    conf_later[], conf_pair[], conf_grant[], conf_extended[], conf_access[], conf_extents[],
    conf_extents_xfer[], conf_kinds_channel[], conf_kinds_collective[], conf_prepared[],
    conf_mixture[];

/* Rounds of a stress loop: `n` scaled by what the machine is asked for. */
static inline unsigned conf_rounds(unsigned n)
{
    unsigned scaled = n / 10 * conf.scale;

    return scaled > 0 ? scaled : 1;
}

/* A rank's segment of a region, allocated or registered as the walk wants it. */
struct segment {
    struct nixl_region *region;
    char *addr;           /* as the library names its memory */
    unsigned char *bytes; /* the same, where the processor can read and write it; or NULL */
    size_t nbytes;
    void *own;       /* registered: what was malloc'ed */
    char *directory; /* of files: its path */
    char *path;      /* of a file that has a name */
    unsigned n_files;
};
struct segment conf_segment(const char *name, size_t nbytes);

/* The same, with what peers may not do (enum nixl_access). */
struct segment conf_segment_with(const char *name, size_t nbytes, uint32_t access);
void conf_drop(struct segment *segment);

/* Where segments are files (file.c). */
struct segment conf_file_segment(const char *name, size_t nbytes, uint32_t access);
void conf_file_unmap(struct segment *segment);

/* Where they are files of a directory (directory.c). */
struct segment conf_directory_segment(const char *name, size_t nbytes, uint32_t access);
void conf_directory_remove(struct segment *segment);

/* The same once all ranks are here: no put of theirs to it comes too late. */
void conf_end(struct segment *segment);

/* Notifications for the walk's own use, without a payload. */
void conf_tell(int rank, uint64_t tag);
void conf_hear(int rank, uint64_t tag);

/*
 * A close on another host may come before puts that were sent; the next call that orders reports
 * that. Let it be a flush, after which everything is as usual.
 */
void conf_forget_late_puts(int rank);

/* The outcome of what may have been started. */
static inline int conf_outcome(int status, struct nixl_req **req)
{
    return status == NIXL_INPROGRESS ? nixl_req_wait(req, MPT_PATIENCE) : status;
}

/* Remember the signal handlers that are there before the library is used. */
void conf_note_signals(void);

/* Wait until a word of own memory, that a peer puts to, has a value. Makes no call of the library.
 */
void conf_spin(const volatile uint64_t *word, uint64_t value);

#endif
