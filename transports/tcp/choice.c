/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "choice.h"

#define FIRST_NBYTES ((uint64_t)256 * 1024) /* of class 0 */

#define FS_OF_NS 1e6

#define ENOUGH_TRIALS 3 /* of each way, for medians */

unsigned nxr_tcp_class_of(uint64_t nbytes)
{
    unsigned class = 0;

    while (class + 1 < NXR_TCP_N_CLASSES && nbytes >> (class + 1) >= FIRST_NBYTES) {
        class ++;
    }
    return class;
}

enum nxr_tcp_way nxr_tcp_best(const struct nxr_tcp_choice *choice, uint64_t nbytes)
{
    return choice->classes[nxr_tcp_class_of(nbytes)].is_whole ? NXR_TCP_WHOLE : NXR_TCP_SPREAD;
}

/* Enough is known, or tried. */
static void begin_rest(struct nxr_tcp_class *class)
{
    unsigned rest = class->rest == 0 ? NXR_TCP_REST : class->rest;

    class->n_begun = 0;
    class->n_to_rest = rest;
    class->rest = 2 * rest < NXR_TCP_LAST_REST ? 2 * rest : NXR_TCP_LAST_REST;
}

/* Would it take too long by the first rail alone, if that is no faster than the others? */
static bool is_too_long(const struct nxr_tcp_class *class, uint64_t nbytes, unsigned n_rails)
{
    const struct nxr_tcp_trials *spread = &class->trials[NXR_TCP_SPREAD];
    uint64_t fs;

    if (spread->n == 0) {
        return nbytes > NXR_TCP_TRIAL_NBYTES;
    }
    fs = spread->fs[spread->n / 2];
    return (double)fs * (double)nbytes * n_rails > (double)NXR_TCP_TRIAL_NS * FS_OF_NS;
}

enum nxr_tcp_way nxr_tcp_choose(struct nxr_tcp_choice *choice, uint64_t nbytes, unsigned n_rails)
{
    struct nxr_tcp_class *class = &choice->classes[nxr_tcp_class_of(nbytes)];
    enum nxr_tcp_way way;

    if (class->n_to_rest > 0) {
        class->n_to_rest--;
        return nxr_tcp_best(choice, nbytes);
    }
    if (class->n_begun == 0) { /* what was measured before the rest may hold no more */
        class->trials[NXR_TCP_SPREAD].n = class->trials[NXR_TCP_ALONE].n = 0;
    }
    way = class->n_begun % 2 == 0 ? NXR_TCP_SPREAD : NXR_TCP_ALONE;
    if (way == NXR_TCP_ALONE && is_too_long(class, nbytes, n_rails)) {
        return NXR_TCP_SPREAD; /* a shorter one may be tried */
    }
    if (++class->n_begun == 2 * NXR_TCP_N_TRIALS) {
        begin_rest(class);
    }
    return way;
}

static void add_trial(struct nxr_tcp_trials *trials, uint64_t fs)
{
    unsigned at = trials->n++;

    for (; at > 0 && trials->fs[at - 1] > fs; at--) {
        trials->fs[at] = trials->fs[at - 1];
    }
    trials->fs[at] = fs;
}

/* Is the first alone so slow that no more time is to be lost with it? */
static bool is_clear(const struct nxr_tcp_trials *spread, const struct nxr_tcp_trials *alone)
{
    return spread->n >= 2 && alone->n >= 2 && spread->fs[spread->n - 1] < alone->fs[0] / 4 * 3;
}

void nxr_tcp_learn(struct nxr_tcp_choice *choice, unsigned class, enum nxr_tcp_way way,
                   uint64_t nbytes, int64_t took_ns)
{
    struct nxr_tcp_class *of = &choice->classes[class];
    const struct nxr_tcp_trials *spread = &of->trials[NXR_TCP_SPREAD];
    const struct nxr_tcp_trials *alone = &of->trials[NXR_TCP_ALONE];

    if (way == NXR_TCP_WHOLE || of->trials[way].n == NXR_TCP_N_TRIALS) {
        return; /* nothing to compare with, or enough: it rests */
    }
    add_trial(&of->trials[way], (uint64_t)((double)took_ns * FS_OF_NS / (double)nbytes));
    if (of->n_begun > 0 && is_clear(spread, alone)) {
        of->is_whole = false;
        begin_rest(of);
    } else if (spread->n >= ENOUGH_TRIALS && alone->n >= ENOUGH_TRIALS) {
        uint64_t alone_fs = alone->fs[alone->n / 2];

        of->is_whole = spread->fs[spread->n / 2] > alone_fs - alone_fs / 8;
    }
}

void nxr_tcp_choice_renew(struct nxr_tcp_choice *choice)
{
    *choice = (struct nxr_tcp_choice){.classes = {{.rest = 0}}};
}
