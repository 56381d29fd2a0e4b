/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tool for NVTX, as nsys is one: the library loads it by NVTX_INJECTION64_PATH. When the process
 * ends it writes to the file that NVTX_TOOL_OUTPUT names, with the number of the process behind it,
 * how often each range was begun, "DOMAIN: RANGE COUNT", and how many have not ended.
 */
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_RANGES 512

/* tool_lock guards all. */
static pthread_mutex_t tool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char name[96];
    unsigned long n;
} ranges[MAX_RANGES];
static int n_ranges;
static long n_open;
static char domain_name[64];

static nvtxDomainHandle_t make_domain(const char *name)
{
    snprintf(domain_name, sizeof(domain_name), "%s", name);
    return (nvtxDomainHandle_t)(void *)domain_name;
}

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
    int i = 0;

    (void)domain;
    pthread_mutex_lock(&tool_lock);
    n_open++;
    while (i < n_ranges && strcmp(ranges[i].name, event->message.ascii) != 0) {
        i++;
    }
    if (i < MAX_RANGES) {
        snprintf(ranges[i].name, sizeof(ranges[i].name), "%s", event->message.ascii);
        ranges[i].n++;
        n_ranges = i == n_ranges ? i + 1 : n_ranges;
    }
    pthread_mutex_unlock(&tool_lock);
    return 0;
}

static int pop(nvtxDomainHandle_t domain)
{
    (void)domain;
    pthread_mutex_lock(&tool_lock);
    n_open--;
    pthread_mutex_unlock(&tool_lock);
    return 0;
}

__attribute__((destructor)) static void write_all(void)
{
    const char *output = getenv("NVTX_TOOL_OUTPUT");
    char path[4096];
    FILE *file;

    if (output == NULL || domain_name[0] == '\0') {
        return;
    }
    snprintf(path, sizeof(path), "%s.%d", output, (int)getpid());
    file = fopen(path, "we");
    if (file == NULL) {
        return;
    }
    for (int i = 0; i < n_ranges; i++) {
        fprintf(file, "%s: %s %lu\n", domain_name, ranges[i].name, ranges[i].n);
    }
    fprintf(file, "open %ld\n", n_open);
    fclose(file);
}

/* What NVTX calls. */
__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks =
        (const NvtxExportTableCallbacks *)get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned n = 0;

    if (callbacks == NULL || callbacks->GetModuleFunctionTable == NULL ||
        callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &n) == 0 ||
        n <= NVTX_CBID_CORE2_DomainCreateA) {
        return 0;
    }
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)make_domain;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
