/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stand-in was told by its environment, the check at the door of every function, and the
 * table by which cuGetProcAddress finds them: name, the version of the driver that brought this
 * form of it, the function.
 */
#include "test/cuda/fake.h"
#include "test/cuda/functions.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_changed = PTHREAD_COND_INITIALIZER;
struct fake_settings fake_settings;
__thread bool fake_is_host_func;

static pthread_once_t settings_once = PTHREAD_ONCE_INIT;
static bool is_started; /* by cuInit(); under the lock */

void fake_misuse(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("stand-in for libcuda: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

static long number_of(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? strtol(text, NULL, 10) : otherwise;
}

/* As the driver: numbers up to the first one that is not there. */
static void read_visible(void)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    char *end;
    long device;

    if (text == NULL) {
        for (int i = 0; i < fake_settings.n_devices; ++i) {
            fake_settings.visible[fake_settings.n_visible++] = i;
        }
        return;
    }
    while (fake_settings.n_visible < FAKE_MAX_DEVICES) {
        device = strtol(text, &end, 10);
        if (end == text || device < 0 || device >= fake_settings.n_devices) {
            return;
        }
        fake_settings.visible[fake_settings.n_visible++] = (int)device;
        if (*end != ',') {
            return;
        }
        text = end + 1;
    }
}

static void read_settings(void)
{
    long n = number_of("FAKECUDA_DEVICES", 2);

    fake_settings.n_devices = n < 0 ? 0 : n > FAKE_MAX_DEVICES ? FAKE_MAX_DEVICES : (int)n;
    fake_settings.version = (int)number_of("FAKECUDA_VERSION", 13000);
    fake_settings.delay_us = number_of("FAKECUDA_DELAY_US", 0);
    fake_settings.dying_ms = (int)number_of("FAKECUDA_DYING_MS", 60000);
    fake_settings.is_stub = number_of("FAKECUDA_STUB", 0) != 0;
    fake_settings.has_p2p = number_of("FAKECUDA_P2P", 1) != 0;
    fake_settings.has_stream_ops = number_of("FAKECUDA_STREAM_OPS", 1) != 0;
    fake_settings.nbytes = (size_t)number_of("FAKECUDA_MIB", 1024) << 20;
    fake_settings.fail = getenv("FAKECUDA_FAIL");
    fake_settings.uuid = getenv("FAKECUDA_UUID");
    read_visible();
    for (int i = 0; i < FAKE_MAX_DEVICES; ++i) {
        fake_contexts[i].device = i;
    }
}

void fake_read_settings(void)
{
    pthread_once(&settings_once, read_settings);
}

/* The value that FAKECUDA_FAIL has for the function; 0: none. */
static int wanted_failure(const char *function)
{
    size_t length = strlen(function);
    const char *entry = fake_settings.fail;

    while (entry != NULL && *entry != '\0') {
        if (strncmp(entry, function, length) == 0 && entry[length] == '=') {
            return atoi(entry + length + 1);
        }
        entry = strchr(entry, ',');
        entry = entry != NULL ? entry + 1 : NULL;
    }
    return CU_OK;
}

int fake_enter(const char *function)
{
    int failure;
    bool started;

    fake_read_settings();
    if (fake_is_host_func) {
        fake_misuse("%s() was called from a host function", function);
    }
    failure = wanted_failure(function);
    if (failure != CU_OK) {
        return failure;
    }
    pthread_mutex_lock(&fake_lock);
    if (strcmp(function, "cuInit") == 0) {
        is_started = is_started || fake_settings.n_visible > 0;
    }
    started = is_started;
    pthread_mutex_unlock(&fake_lock);
    if (!started) {
        return strcmp(function, "cuInit") == 0 ? CU_NO_DEVICE : CU_NOT_INITIALIZED;
    }
    return CU_OK;
}

FAKE_API int cuInit(unsigned flags)
{
    ENTER();
    return flags == 0 ? CU_OK : CU_INVALID_VALUE;
}

FAKE_API int cuDriverGetVersion(int *version_p)
{
    fake_read_settings();
    if (fake_settings.is_stub) {
        return CU_STUB;
    }
    *version_p = fake_settings.version;
    return CU_OK;
}

FAKE_API int cuGetErrorName(int result, const char **name_p)
{
    static __thread char name[32];

    snprintf(name, sizeof(name), "CUDA_STAND_IN_ERROR_%d", result);
    *name_p = name;
    return CU_OK;
}

FAKE_API int cuGetErrorString(int result, const char **text_p)
{
    static __thread char text[48];

    snprintf(text, sizeof(text), "error %d of the stand-in for libcuda", result);
    *text_p = text;
    return CU_OK;
}

struct entry {
    const char *name;
    int version;
    void (*function)(void);
};

/* clang-format off */
#define ENTRY(_name, _version, _function) {#_name, _version, (void (*)(void))_function},
/* clang-format on */

static const struct entry entries[] = {FAKE_FUNCTIONS(ENTRY) FAKE_SECOND_FORMS(ENTRY)};

FAKE_API int cuGetProcAddress_v2(const char *name, void **function_p, int version, uint64_t flags,
                                 int *status_p)
{
    const struct entry *found = NULL;
    bool is_named = false;

    (void)flags;
    fake_read_settings();
    if (fake_settings.is_stub) {
        return CU_STUB;
    }
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); ++i) {
        if (strcmp(entries[i].name, name) != 0) {
            continue;
        }
        is_named = true;
        if (entries[i].version <= version && entries[i].version <= fake_settings.version &&
            (found == NULL || entries[i].version > found->version)) {
            found = &entries[i];
        }
    }
    if (status_p != NULL) {
        *status_p = found != NULL ? CU_PROC_FOUND : is_named ? CU_PROC_VERSION : CU_PROC_NOT_FOUND;
    }
    *function_p = NULL;
    if (found != NULL) {
        memcpy(function_p, &found->function, sizeof(*function_p));
    }
    return found != NULL ? CU_OK : CU_NOT_FOUND;
}

FAKE_API int cuGetProcAddress(const char *name, void **function_p, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(name, function_p, version, flags, NULL);
}
