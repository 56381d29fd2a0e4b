/* SPDX-License-Identifier: Apache-2.0 */
/* How bytes go between files and memory of GPUs: see file_gpu.h, also for the lock. */
#include "config.h"

#include "memory/file/file_gpu.h"
#include "storage/cufile/cufile.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SMALL_NBYTES ((uint64_t)256 << 10) /* smaller operations are a trial of their own */

struct nxr_file_choice {
    struct nxr_file_choice *next;
    dev_t device; /* this to is_small find it */
    char gpu[32];
    bool is_put, is_small;
    bool is_refused; /* cuFile has failed, and `why` says how */
    char why[160];
    struct nxr_file_trial trial;
};

static pthread_mutex_t choices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_file_choice *file_choices;

static bool is_asked_for_always(void)
{
    return strcmp(nxr_env.cufile, "always") == 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Keep the outcome of a registration, unless another thread was first. */
static void file_keep_slot(struct nxr_file *file, int slot, const char *why)
{
    struct stat stat = {.st_dev = 0};
    int untried = NXR_FILE_UNTRIED;

    (void)fstat(file->opened.direct_fd, &stat);
    pthread_mutex_lock(&choices_lock);
    if (atomic_load(&file->cufile_slot) == NXR_FILE_UNTRIED) {
        file->device = file->is_block_device ? stat.st_rdev : stat.st_dev;
        snprintf(file->cufile_why, sizeof(file->cufile_why), "%s", why);
        file->by_cufile = (struct nxr_storage_file){.engine = &nxr_storage_cufile,
                                                    .fd = file->opened.fd,
                                                    .direct_fd = -1,
                                                    .slot = slot,
                                                    .direct_slot = -1,
                                                    .block_nbytes = file->opened.block_nbytes};
    }
    if (!atomic_compare_exchange_strong(&file->cufile_slot, &untried, slot)) {
        nxr_cufile_remove(slot);
    }
    pthread_mutex_unlock(&choices_lock);
}

/* Is the file registered with cuFile, or can it be? */
static bool file_is_registered(struct nxr_file *file, char *why, size_t why_nbytes)
{
    char refusal[sizeof(file->cufile_why)] = "";
    int slot = atomic_load_explicit(&file->cufile_slot, memory_order_acquire);

    if (slot == NXR_FILE_UNTRIED) {
        file_keep_slot(file, nxr_cufile_add(file->opened.direct_fd, refusal, sizeof(refusal)),
                       refusal);
        slot = atomic_load(&file->cufile_slot);
    }
    if (slot == NXR_FILE_REFUSED) {
        snprintf(why, why_nbytes, "%s", file->cufile_why);
    }
    return slot != NXR_FILE_REFUSED;
}

void nxr_file_gpu_close(struct nxr_file *file)
{
    int slot = atomic_exchange(&file->cufile_slot, NXR_FILE_UNTRIED);

    if (slot >= 0) {
        nxr_cufile_remove(slot);
    }
}

/* ---- choices --------------------------------------------------------------------------------- */

/* Caller holds choices_lock. */
static struct nxr_file_choice *choice_find(const struct nxr_file *file, const char *gpu,
                                           bool is_put, bool is_small)
{
    struct nxr_file_choice *choice = file_choices;

    while (choice != NULL && (choice->device != file->device || choice->is_put != is_put ||
                              choice->is_small != is_small || strcmp(choice->gpu, gpu) != 0)) {
        choice = choice->next;
    }
    return choice;
}

/* Caller holds choices_lock. NULL: no memory. */
static struct nxr_file_choice *choice_make(const struct nxr_file *file, const char *gpu,
                                           bool is_put, bool is_small)
{
    struct nxr_file_choice *choice = calloc(1, sizeof(*choice));

    if (choice != NULL) {
        choice->device = file->device;
        snprintf(choice->gpu, sizeof(choice->gpu), "%s", gpu);
        choice->is_put = is_put;
        choice->is_small = is_small;
        choice->next = file_choices;
        file_choices = choice;
    }
    return choice;
}

/* Can the file and the GPU go by cuFile at all? */
static bool choice_is_there(const struct nxr_memory_between *between, char *why, size_t why_nbytes)
{
    struct nxr_file *file = nxr_file_of(between->storage);
    const struct nxr_memory_kind *kind = between->device->kind;

    if (strcmp(nxr_env.cufile, "never") == 0) {
        snprintf(why, why_nbytes, "NIXLRUN_CUFILE is never");
    } else if (kind->kind != NIXL_MEM_CUDA) {
        snprintf(why, why_nbytes, "cuFile does not know %s memory", kind->name);
    } else if (file->opened.direct_fd < 0) {
        snprintf(why, why_nbytes, "cuFile is for files with NIXL_FILE_DIRECT");
    } else if (nxr_cufile_open(between->memory, is_asked_for_always()) != NXR_CUFILE_READY) {
        nxr_cufile_tell(why, why_nbytes);
    } else {
        return file_is_registered(file, why, why_nbytes);
    }
    return false;
}

struct nxr_file_choice *nxr_file_choice_of(const struct nxr_memory_between *between, char *why,
                                           size_t why_nbytes)
{
    static atomic_bool is_warned;
    const struct nxr_file *file = nxr_file_of(between->storage);
    const char *gpu = between->device->kind->pci(between->device);
    bool is_small = between->nbytes < SMALL_NBYTES;
    struct nxr_file_choice *choice;
    char reason[160] = "";

    if (!choice_is_there(between, reason, sizeof(reason))) {
        if (is_asked_for_always() && !atomic_exchange(&is_warned, true)) {
            nxr_warn(MEMORY, "NIXLRUN_CUFILE is always, but bytes of GPUs are staged: %s", reason);
        }
        snprintf(why, why_nbytes, "%s", reason);
        return NULL;
    }
    pthread_mutex_lock(&choices_lock);
    choice = choice_find(file, gpu, between->is_put, is_small);
    if (choice == NULL) {
        choice = choice_make(file, gpu, between->is_put, is_small);
    }
    pthread_mutex_unlock(&choices_lock);
    return choice;
}

/* Caller holds choices_lock. */
static enum nxr_file_by choice_next(const struct nxr_file_choice *choice)
{
    return choice->is_refused      ? NXR_FILE_STAGED
           : is_asked_for_always() ? NXR_FILE_BY_CUFILE
                                   : nxr_file_trial_next(&choice->trial);
}

bool nxr_file_choice_take(struct nxr_file_choice *choice)
{
    bool is_taken;

    pthread_mutex_lock(&choices_lock);
    is_taken = choice_next(choice) == NXR_FILE_BY_CUFILE;
    if (is_taken) {
        nxr_file_trial_begin(&choice->trial, NXR_FILE_BY_CUFILE, nxr_now_ns());
    }
    pthread_mutex_unlock(&choices_lock);
    return is_taken;
}

void nxr_file_choice_stage(struct nxr_file_choice *choice)
{
    pthread_mutex_lock(&choices_lock);
    nxr_file_trial_begin(&choice->trial, NXR_FILE_STAGED, nxr_now_ns());
    pthread_mutex_unlock(&choices_lock);
}

/* What has been found out, in words. */
static void choice_tell(const struct nxr_file_choice *choice, char *text, size_t text_nbytes)
{
    const double *rates = choice->trial.rates;

    if (choice->is_refused) {
        snprintf(text, text_nbytes, "staged: %.120s", choice->why);
    } else if (is_asked_for_always()) {
        snprintf(text, text_nbytes, "by cuFile: NIXLRUN_CUFILE is always");
    } else if (!nxr_file_trial_is_over(&choice->trial)) {
        snprintf(text, text_nbytes, "cuFile is being measured");
    } else if (choice_next(choice) == NXR_FILE_BY_CUFILE) {
        snprintf(text, text_nbytes, "by cuFile, measured faster (%.3g against %.3g GB/s staged)",
                 rates[NXR_FILE_BY_CUFILE], rates[NXR_FILE_STAGED]);
    } else {
        snprintf(text, text_nbytes, "staged: cuFile measured slower (%.3g against %.3g GB/s)",
                 rates[NXR_FILE_BY_CUFILE], rates[NXR_FILE_STAGED]);
    }
}

void nxr_file_choice_end(struct nxr_file_choice *choice, enum nxr_file_by by, uint64_t nbytes)
{
    char text[160] = "";

    pthread_mutex_lock(&choices_lock);
    if (nxr_file_trial_end(&choice->trial, by, nbytes, nxr_now_ns())) {
        choice_tell(choice, text, sizeof(text));
    }
    pthread_mutex_unlock(&choices_lock);
    if (text[0] != '\0') {
        nxr_info(MEMORY, "GPU %s, files on %u:%u: %s %s go %s", choice->gpu,
                 (unsigned)(choice->device >> 8), (unsigned)(choice->device & 0xff),
                 choice->is_small ? "small" : "large", choice->is_put ? "puts" : "gets", text);
    }
}

void nxr_file_choice_refuse(struct nxr_file_choice *choice, const char *why)
{
    bool is_new;

    pthread_mutex_lock(&choices_lock);
    is_new = !choice->is_refused;
    choice->is_refused = true;
    if (is_new) {
        snprintf(choice->why, sizeof(choice->why), "%s", why);
    }
    pthread_mutex_unlock(&choices_lock);
    if (is_new) {
        nxr_info(MEMORY, "bytes of GPU %s are staged, and not moved by cuFile any more: %s",
                 choice->gpu, why);
    }
}

void nxr_file_gpu_stop(void)
{
    struct nxr_file_choice *choice;

    nxr_cufile_stop();
    while ((choice = file_choices) != NULL) {
        file_choices = choice->next;
        free(choice);
    }
}

/* ---- the kind's functions -------------------------------------------------------------------- */

void *nxr_file_stage_begin(const struct nxr_memory_between *between)
{
    char why[1];
    struct nxr_file_choice *choice = nxr_file_choice_of(between, why, sizeof(why));

    if (choice != NULL) {
        nxr_file_choice_stage(choice);
    }
    return choice;
}

void nxr_file_stage_end(void *begun, uint64_t nbytes)
{
    nxr_file_choice_end(begun, NXR_FILE_STAGED, nbytes);
}

/* What has been found out of one direction, by large operations rather than by small ones. */
static enum nxr_file_by tell_direction(struct nxr_memory_between *between, char *text,
                                       size_t text_nbytes)
{
    struct nxr_file_choice *large, *small;
    enum nxr_file_by by;

    between->nbytes = SMALL_NBYTES;
    large = nxr_file_choice_of(between, text, text_nbytes);
    between->nbytes = 1;
    small = large != NULL ? nxr_file_choice_of(between, text, text_nbytes) : NULL;
    if (small == NULL) {
        return NXR_FILE_STAGED;
    }
    pthread_mutex_lock(&choices_lock);
    if (!nxr_file_trial_is_over(&large->trial) && nxr_file_trial_is_over(&small->trial)) {
        large = small;
    }
    by = large->is_refused || is_asked_for_always() || nxr_file_trial_is_over(&large->trial)
             ? choice_next(large)
             : NXR_FILE_STAGED;
    choice_tell(large, text, text_nbytes);
    pthread_mutex_unlock(&choices_lock);
    return by;
}

void nxr_file_how(const struct nxr_memory_between *between, struct nxr_memory_how *how)
{
    struct nxr_memory_between asked = *between;
    char puts[100] = "", gets[100] = "", about[160];
    enum nxr_file_by put_by, get_by;

    asked.is_put = true;
    put_by = tell_direction(&asked, puts, sizeof(puts));
    asked.is_put = false;
    get_by = tell_direction(&asked, gets, sizeof(gets));
    snprintf(how->method, sizeof(how->method), "%s",
             put_by != get_by            ? "staged, cuFile"
             : put_by == NXR_FILE_STAGED ? "staged"
                                         : "cuFile");
    nxr_cufile_tell(about, sizeof(about));
    if (strcmp(puts, gets) == 0) {
        snprintf(how->why, sizeof(how->why), "%s", puts);
    } else {
        snprintf(how->why, sizeof(how->why), "puts %s; gets %s", puts, gets);
    }
    if (get_by == NXR_FILE_BY_CUFILE || put_by == NXR_FILE_BY_CUFILE) {
        size_t used = strlen(how->why);

        snprintf(how->why + used, sizeof(how->why) - used, "; %s", about);
    }
}
