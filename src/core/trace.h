/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording the trace of this rank (util/trace_page.h), which NIXLRUN_TRACE asks for: what each
 * call did from when to when, what was sent and received, operations that take time, deaths. An
 * event is written into the ring of the calling thread when it has ended, without a lock; a call
 * that never ends is known from the record of its wait (core/observe.h).
 *
 * Off, each place costs a load of nxr_job and a branch.
 */
#ifndef NXR_CORE_TRACE_H
#define NXR_CORE_TRACE_H

#include "core/job.h"
#include "core/nvtx.h"
#include "util/ticks.h"
#include "util/trace_page.h"

/* Make the section in the page of this rank, if it is wanted; later than nxr_observe_open(). */
void nxr_trace_open(void);

/* Stop recording, before the page is dropped. */
void nxr_trace_close(void);

/* Is that kind recorded? */
static inline bool nxr_trace_has(enum nxr_trace_kind kind)
{
    return __builtin_expect((nxr_job.trace_kinds & (1u << kind)) != 0, 0);
}

/* All that an event may say; the rest is filled in. */
struct nxr_traced {
    enum nxr_trace_kind kind;
    enum nxr_trace_form form;
    const char *name;    /* constant, and so is detail */
    const char *detail;  /* the transport; NULL: none */
    uint64_t begin, end; /* ticks; end 0: now */
    uint64_t nbytes, tag, flow;
    uint32_t object;
    int peer;
    int status;
};

/* Record it. Only if nxr_trace_has() its kind. */
void nxr_trace_record(const struct nxr_traced *traced);

/* The beginning of a call, in ticks. */
static inline uint64_t nxr_trace_begin(const char *name, int peer, uint64_t nbytes)
{
    if (__builtin_expect(nxr_nvtx_is_on, 0)) {
        nxr_nvtx_push(name, peer, nbytes);
    }
    return nxr_ticks();
}

/* Kind, form and peer in one word: one store, most of it constant. */
static inline uint64_t nxr_trace_about(enum nxr_trace_kind kind, enum nxr_trace_form form, int peer)
{
    return (uint64_t)kind << 40 | (uint64_t)form << 32 | (uint32_t)peer;
}

/* What is known of a call when it begins. `name` is constant. */
struct nxr_traced_call {
    const char *name;
    uint64_t about; /* nxr_trace_about() */
    uint64_t begin; /* ticks */
    uint64_t nbytes, tag;
};

/*
 * It has returned `status`. Returns it. The shortest way into the ring, since all calls go it while
 * their kind is recorded.
 */
int nxr_trace_call(const struct nxr_traced_call *call, int status);

/*
 * The value of an expression, which carries out a public call and is its status: recorded from its
 * begin to its end. The expression stands twice in the code, so that it costs nothing when off.
 */
#define NXR_TRACED(_kind, _name, _peer, _nbytes, _tag, _call)                                      \
    NXR_TRACED_AS(NXR_TRACE_CALL, _kind, _name, _peer, _nbytes, _tag, _call)

/* The same of a part of a call. */
#define NXR_TRACED_STEP(_kind, _name, _peer, _nbytes, _call)                                       \
    NXR_TRACED_AS(NXR_TRACE_STEP, _kind, _name, _peer, _nbytes, 0, _call)

#define NXR_TRACED_AS(_form, _kind, _name, _peer, _nbytes, _tag, _call)                            \
    __extension__({                                                                                \
        int nxr_traced_status;                                                                     \
        if (nxr_trace_has(_kind)) {                                                                \
            const struct nxr_traced_call nxr_traced = {                                            \
                .name = (_name),                                                                   \
                .about = nxr_trace_about((_kind), (_form), (_peer)),                               \
                .begin = nxr_trace_begin((_name), (_peer), (_nbytes)),                             \
                .nbytes = (_nbytes),                                                               \
                .tag = (_tag)};                                                                    \
                                                                                                   \
            nxr_traced_status = nxr_trace_call(&nxr_traced, (_call));                              \
        } else {                                                                                   \
            nxr_traced_status = (_call);                                                           \
        }                                                                                          \
        nxr_traced_status;                                                                         \
    })

/* What happened to a rank, now. */
void nxr_trace_instant(enum nxr_trace_kind kind, const char *name, int peer);

/* A call that joins or ends the job; the trace begins within the one and ends in the other. */
void nxr_trace_job(const char *name, uint64_t began, int status);

/* All ranks begin to wait for each other; they have met, if the status says so. */
void nxr_trace_meets(enum nxr_trace_meeting_id id);
void nxr_trace_has_met(enum nxr_trace_meeting_id id, int status);

#endif
