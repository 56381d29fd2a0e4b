/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlrun_device.cuh on GPUs: what kernels put is there when their signal is seen, by kernels and
 * by the host; waits end in time; and how fast it is beside bare stores and flags in the same run.
 * Two ranks, each on a GPU of its own; GPU_DEVICE=0 puts both on one, where two processes' kernels
 * do not run side by side, so that only what needs no answer is seen.
 *
 *     gpu_device [quick]     quick: few rounds and no speed, as under compute-sanitizer
 */
#include <nixlrun_device.cuh>

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_WORDS  1024 /* 8 KiB of data, then the signals */
#define PATIENCE 20000000000ll

enum { BY_THREAD, BY_WARP, BY_BLOCK, N_WAYS };

/* What a rank has in its part. */
struct board {
    uint64_t data[N_WORDS];
    uint64_t signals[16];
};

static int rank_, n_failed;
static struct board *own, *peer, *scratch;

static void check(bool is_good, const char *what)
{
    if (!is_good) {
        printf("rank %d: FAILED: %s\n", rank_, what);
        fflush(stdout);
        n_failed++;
    }
}

static void need_cuda(cudaError_t result, const char *call)
{
    if (result != cudaSuccess) {
        printf("rank %d: FAILED: %s: %s\n", rank_, call, cudaGetErrorString(result));
        fflush(stdout);
        _exit(1);
    }
}
#define CUDA_OK(_call) need_cuda((_call), #_call)

static void need_nixl(int status, const char *call)
{
    if (status != NIXL_OK) {
        printf("rank %d: FAILED: %s: %s\n", rank_, call, nixl_last_error()->text);
        fflush(stdout);
        _exit(1);
    }
}
#define NIXL_OK_OR_END(_call) need_nixl((_call), #_call)

static void barrier(void)
{
    static struct nixl_note note;

    NIXL_OK_OR_END(nixl_notify(1 - rank_, 1, NULL, 0, PATIENCE));
    nixl_note_init(&note);
    NIXL_OK_OR_END(nixl_notify_recv(1 - rank_, 1, UINT64_MAX, PATIENCE, &note));
}

/* ---- correctness ----------------------------------------------------------------------------- */

__device__ static uint64_t pattern(uint64_t round, uint64_t i)
{
    return (round + 1) * 0x9e3779b97f4a7c15ull + i;
}

/* Puts odd and even sizes at odd and even places, then raises the signal: all of `round`. */
__global__ void put_kernel(struct board *to, struct board *from, int way, uint64_t round,
                           size_t nbytes, size_t shift)
{
    const unsigned thread = threadIdx.x;
    char *dst = (char *)to->data + shift, *src = (char *)from->data + shift;

    for (size_t i = thread; i < N_WORDS; i += blockDim.x) {
        from->data[i] = pattern(round, i);
    }
    __syncthreads();
    if (way == BY_THREAD && thread == 0) {
        nixl_device_put_signal(dst, src, nbytes, &to->signals[0], 1);
    } else if (way == BY_WARP && thread < 32) {
        nixl_device_put_signal_warp(dst, src, nbytes, &to->signals[0], 1);
    } else if (way == BY_BLOCK) {
        nixl_device_put_signal_block(dst, src, nbytes, &to->signals[0], 1);
    }
}

/* Waits for the round's signal; counts the bytes that are not what they must be. */
__global__ void see_kernel(struct board *board, uint64_t round, size_t nbytes, size_t shift,
                           uint64_t n_signals, int *status, unsigned *n_wrong)
{
    uint64_t seen = 0;
    const int result = nixl_device_signal_wait_block(&board->signals[0], NIXL_COMPARE_GE, n_signals,
                                                     PATIENCE, &seen);

    if (result != NIXL_OK) {
        *status = result;
        return;
    }
    for (size_t at = shift + threadIdx.x; at < shift + nbytes; at += blockDim.x) {
        const uint64_t word = pattern(round, at / 8);

        if (((const unsigned char *)board->data)[at] != (unsigned char)(word >> at % 8 * 8)) {
            atomicAdd(n_wrong, 1u);
        }
    }
}

static void check_puts(int n_rounds)
{
    static const size_t sizes[] = {1, 8, 16, 100, 1024, 4096, 8000};
    static const size_t shifts[] = {0, 16, 8, 4, 1};
    int *status;
    unsigned *n_wrong;

    CUDA_OK(cudaMallocManaged(&status, sizeof(*status)));
    CUDA_OK(cudaMallocManaged(&n_wrong, sizeof(*n_wrong)));
    *status = NIXL_OK;
    *n_wrong = 0;
    for (int round = 0; round < n_rounds; round++) {
        const size_t nbytes = sizes[round % 7], shift = shifts[round % 5];

        if (rank_ == round % 2) {
            put_kernel<<<1, 128>>>(peer, scratch, round % N_WAYS, round, nbytes, shift);
        } else {
            see_kernel<<<1, 128>>>(own, round, nbytes, shift, round / 2 + 1, status, n_wrong);
        }
        CUDA_OK(cudaDeviceSynchronize());
        barrier();
    }
    check(*status == NIXL_OK, "a signal of the peer's kernel was not seen in time");
    check(*n_wrong == 0, "bytes of a put were not there when its signal was seen");
    CUDA_OK(cudaFree(status));
    CUDA_OK(cudaFree(n_wrong));
}

__global__ void wait_kernel(const uint64_t *signal, int64_t timeout_ns, int *status)
{
    *status = nixl_device_signal_wait(signal, NIXL_COMPARE_EQ, 12345, timeout_ns, NULL);
}

__global__ void set_kernel(uint64_t *signal, uint64_t value)
{
    nixl_device_signal_set(signal, value);
}

static void check_waits(uint64_t *host_peer, const uint64_t *host_own)
{
    int *status;

    CUDA_OK(cudaMallocManaged(&status, sizeof(*status)));
    wait_kernel<<<1, 1>>>(&own->signals[1], 0, status);
    CUDA_OK(cudaDeviceSynchronize());
    check(*status == NIXL_INPROGRESS, "a wait with timeout 0 does not say NIXL_INPROGRESS");
    wait_kernel<<<1, 1>>>(&own->signals[1], 1000000, status);
    CUDA_OK(cudaDeviceSynchronize());
    check(*status == NIXL_E_TIMEOUT, "a wait for what never comes does not end");
    set_kernel<<<1, 1>>>(host_peer, 77);
    CUDA_OK(cudaDeviceSynchronize());
    NIXL_OK_OR_END(nixl_signal_wait(host_own, NIXL_COMPARE_EQ, 77, PATIENCE, NULL));
    CUDA_OK(cudaFree(status));
}

/* ---- speed ----------------------------------------------------------------------------------- */

/*
 * Both ranks' kernels answer each other n_rounds times: `first` begins. Bare: a store, the system
 * fence and a volatile flag, as one would write it by hand.
 */
__global__ void ping_kernel(struct board *to, struct board *here, size_t nbytes, uint64_t base,
                            uint64_t n_rounds, bool is_first, bool is_bare, uint64_t *elapsed_ns)
{
    const unsigned thread = threadIdx.x;
    volatile uint64_t *flag_there = &to->signals[2];
    const volatile uint64_t *flag_here = &here->signals[2];
    uint64_t begin = 0, end;

    for (uint64_t i = 1; i <= n_rounds; i++) {
        if (i == 2) {
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
        }
        for (int turn = 0; turn < 2; turn++) {
            if ((turn == 0) == is_first) {
                if (is_bare) {
                    for (size_t w = thread; w < nbytes / 16; w += blockDim.x) {
                        ((uint4 *)to->data)[w] = ((const uint4 *)here->data)[w];
                    }
                    __syncthreads();
                    if (thread == 0) {
                        __threadfence_system();
                        *flag_there = base + i;
                    }
                } else {
                    nixl_device_put_block(to->data, here->data, nbytes);
                    nixl_device_signal_set_block(&to->signals[2], base + i);
                }
            } else if (is_bare) {
                if (thread == 0) {
                    while (*flag_here < base + i) {
                    }
                    __threadfence_system();
                }
                __syncthreads();
            } else {
                nixl_device_signal_wait_block(&here->signals[2], NIXL_COMPARE_GE, base + i,
                                              PATIENCE, NULL);
            }
        }
    }
    if (thread == 0) {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end));
        *elapsed_ns = end - begin;
    }
}

static double ping(size_t nbytes, unsigned n_threads, bool is_bare)
{
    static uint64_t base;
    const uint64_t n_rounds = 2000;
    uint64_t *elapsed_ns;
    double ns;

    CUDA_OK(cudaMallocManaged(&elapsed_ns, sizeof(*elapsed_ns)));
    barrier();
    ping_kernel<<<1, n_threads>>>(peer, own, nbytes, base, n_rounds, rank_ == 0, is_bare,
                                  elapsed_ns);
    CUDA_OK(cudaDeviceSynchronize());
    base += n_rounds;
    ns = (double)*elapsed_ns / (double)(n_rounds - 1) / 2;
    CUDA_OK(cudaFree(elapsed_ns));
    return ns;
}

static void speed(const char *what, size_t nbytes, unsigned n_threads, double goal)
{
    double bare = 0, ours = 0;

    for (int turn = 0; turn < 3; turn++) {
        bare += ping(nbytes, n_threads, true) / 3;
        ours += ping(nbytes, n_threads, false) / 3;
    }
    if (rank_ == 0) {
        printf("row | %-34s | %6zu B | %10.2f us | %10.2f us | %8.1f GB/s | %5.3f | <= %.2f | %s\n",
               what, nbytes, bare / 1000, ours / 1000, (double)nbytes / ours, ours / bare, goal,
               ours <= bare * goal ? "met" : "NOT MET");
        fflush(stdout);
    }
}

/* ---- the two ranks --------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_region *boards, *words;
    const char *wish = getenv("GPU_DEVICE");
    const bool is_quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    void *mapped, *mapped_words, *own_words;
    char number[8];
    int n_devices = 0, device;

    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0) {
        printf("skipped: no GPU\n");
        return 77;
    }
    NIXL_OK_OR_END(nixl_init(NULL));
    rank_ = nixl_rank();
    device = wish != NULL ? atoi(wish) : rank_ % n_devices;
    CUDA_OK(cudaSetDevice(device));
    snprintf(number, sizeof(number), "%d", device);
    params.kind = NIXL_MEM_CUDA;
    params.device = number;
    NIXL_OK_OR_END(nixl_region_alloc("board", sizeof(struct board), &params, &boards));
    NIXL_OK_OR_END(nixl_region_alloc("words", 4096, NULL, &words));
    own = (struct board *)nixl_region_addr(boards);
    own_words = nixl_region_addr(words);
    barrier();
    NIXL_OK_OR_END(nixl_region_map(1 - rank_, boards, &mapped));
    NIXL_OK_OR_END(nixl_region_map(1 - rank_, words, &mapped_words));
    peer = (struct board *)mapped;
    CUDA_OK(cudaMalloc(&scratch, sizeof(*scratch)));
    if (cudaHostRegister(mapped_words, 4096, cudaHostRegisterDefault) != cudaSuccess) {
        (void)cudaGetLastError(); /* the library did it */
    }
    check_puts(is_quick ? 30 : 600);
    check_waits((uint64_t *)mapped_words, (const uint64_t *)own_words);
    barrier();
    if (!is_quick && wish == NULL && n_devices > 1) {
        speed("device signal, one way / bare flag", 0, 1, 1.5);
        speed("device put + signal, a warp", 8 * 16, 32, 1.2);
        speed("device put + signal, a block", 1024, 128, 1.2);
        speed("device put + signal, a block", 4096, 256, 1.2);
        speed("device put + signal, a block", 8192, 512, 1.2);
    }
    barrier();
    (void)cudaHostUnregister(mapped_words);
    (void)cudaGetLastError();
    NIXL_OK_OR_END(nixl_region_unmap(1 - rank_, boards, mapped));
    NIXL_OK_OR_END(nixl_region_unmap(1 - rank_, words, mapped_words));
    barrier();
    NIXL_OK_OR_END(nixl_region_close(boards, PATIENCE));
    NIXL_OK_OR_END(nixl_region_close(words, PATIENCE));
    CUDA_OK(cudaFree(scratch));
    NIXL_OK_OR_END(nixl_finalize());
    printf("rank %d: %s\n", rank_, n_failed == 0 ? "passed" : "failed");
    return n_failed != 0;
}
