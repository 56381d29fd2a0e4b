/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies scattered pieces. Their list lies in page-locked host memory: each block fetches the next
 * entry while it copies a piece. `make ptx` compiles this file to kernel_copy.ptx.
 */
#include "memory/kernels/kernel.h"

#define WORDS 4 /* loads that a thread has in flight at a time */

/* Copy whole words between addresses aligned to a word; bytes after the last word are left out. */
template <typename Word>
static __device__ __forceinline__ void copy_words(char *dst, const char *src, uint64_t nbytes)
{
    Word *to = reinterpret_cast<Word *>(dst);
    const Word *from = reinterpret_cast<const Word *>(src);
    uint64_t n = nbytes / sizeof(Word), at = threadIdx.x;

    for (; at + (WORDS - 1) * NXR_KERNEL_COPY_THREADS < n; at += WORDS * NXR_KERNEL_COPY_THREADS) {
        Word words[WORDS];

#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            words[i] = from[at + i * NXR_KERNEL_COPY_THREADS];
        }
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            to[at + i * NXR_KERNEL_COPY_THREADS] = words[i];
        }
    }
    for (; at < n; at += NXR_KERNEL_COPY_THREADS) {
        to[at] = from[at];
    }
}

/* Copy a piece whose addresses have the same offset from a word: head bytes, words, tail bytes. */
template <typename Word>
static __device__ __forceinline__ void copy_around(char *dst, const char *src, uint64_t nbytes)
{
    uint64_t head = (0 - reinterpret_cast<uint64_t>(dst)) % sizeof(Word);
    uint64_t tail;

    head = head < nbytes ? head : nbytes;
    tail = (nbytes - head) % sizeof(Word);
    if (threadIdx.x < head) {
        dst[threadIdx.x] = src[threadIdx.x];
    }
    if (threadIdx.x < tail) {
        dst[nbytes - tail + threadIdx.x] = src[nbytes - tail + threadIdx.x];
    }
    copy_words<Word>(dst + head, src + head, nbytes - head);
}

extern "C" __global__ void __launch_bounds__(NXR_KERNEL_COPY_THREADS)
    nixlrun_copy(const struct nxr_kernel_piece *pieces, unsigned n_pieces)
{
    struct nxr_kernel_piece next = {0, 0, 0};

    if (blockIdx.x < n_pieces) {
        next = pieces[blockIdx.x];
    }
    for (unsigned i = blockIdx.x; i < n_pieces; i += gridDim.x) {
        char *dst = reinterpret_cast<char *>(next.dst);
        const char *src = reinterpret_cast<const char *>(next.src);
        uint64_t nbytes = next.nbytes, apart = next.dst ^ next.src;

        if (gridDim.x < n_pieces - i) {
            next = pieces[i + gridDim.x];
        }
        if (apart % sizeof(uint4) == 0) {
            copy_around<uint4>(dst, src, nbytes);
        } else if (apart % sizeof(unsigned) == 0) {
            copy_around<unsigned>(dst, src, nbytes);
        } else {
            copy_words<unsigned char>(dst, src, nbytes);
        }
    }
}
