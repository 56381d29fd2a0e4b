/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of the copy method by size, relative alignment and processor. One table holds the
 * thresholds, with the measurements behind them (test/bench/copy_sweep shows all methods beside the
 * choice). A threshold that is due to a cache follows from the cache's size. Chosen once when the
 * library is loaded, and only read afterwards: no lock.
 */
#include "util/copy.h"
#include "util/copy_x86.h"

#include <string.h>

static const char *const method_names[] = {
#define COPY_NAME(_name, _text) _text,
    NXR_COPY_METHODS(COPY_NAME)
#undef COPY_NAME
};

const char *nxr_copy_method_name(enum nxr_copy_method method)
{
    return method_names[method];
}

static void copy_by_libc(void *dst, const void *src, size_t nbytes)
{
    memcpy(dst, src, nbytes);
}

void (*nxr_copy_large)(void *dst, const void *src, size_t nbytes) = copy_by_libc;

#ifdef NXR_COPY_X86

#include <cpuid.h>

#define KIB (1ul << 10)
#define MIB (1ul << 20)

/*
 * Intel (Emerald Rapids; L1 48 KiB, L2 2 MiB): below 24 KiB the AVX-512 loop gives 130-180 GB/s,
 * memcpy 100-180. From 24 KiB on, source and destination exceed the L1. There rep movsb is as fast
 * as the loops, and a third faster if a peer has read the destination, since it claims lines
 * without reading them (64 KiB: 12.7 GB/s against 8.9; 1 MiB: 20.6 against 16.7).
 *
 * AMD (Zen 4; L1 32 KiB, L2 1 MiB): at 4 KiB the loop gives 117 GB/s, rep movsb 94; they are equal
 * from 64 KiB on. At 1 MiB it is 48.8 against 49.8; above, 18-20 against 21-25, but only if both
 * sides have the same offset in their lines.
 *
 * AMD (Zen 5; L1 48 KiB, L2 1 MiB): as long as both sides fit into the L1, the loop gives 240 GB/s,
 * rep movsb 155; beyond, 92 against 121-155, at any alignment. If a peer on another L3 has read the
 * destination, the loop waits for each line: 32 KiB to 512 KiB: 4.5-5.8 against 9-16.
 *
 * Others: no rep movsb, whose cost varies most.
 *
 * Non-temporal stores are used from a fifth of the L3 on, at most from 32 MiB on, except on Zen 5.
 * Source and destination then fill a good part of the L3, other cores use the rest, and what is
 * written is evicted before it is read. Below that size they write faster, but the peer's read
 * loses more than that. Intel (Emerald Rapids with 300 MiB, of a virtual machine): 16 MiB: 15.5
 * GB/s against 12.8, copy and read 5.4 against 5.7; 32 MiB: 15.7 against 12.7, with the read 5.0
 * against 4.5; 48 MiB: 15.4 against 9.0, 5.1 against 4.4; 64 MiB: with the read 5.0 against 4.1.
 * Zen 3 (32 MiB of L3): 16 MiB: 8.9 against 5.7, with the read 3.7 against 2.9; 64 MiB: 8.2
 * against 6.3, 4.2 against 3.6. On Zen 5 rep movsb is faster at every size, and leaves in the cache
 * what still fits (32 MiB of L3; 16 MiB: 32-39 against 21-26, with the read 15 against 11; 64 MiB:
 * 23-25 against 16-17, 12 against 10).
 */
#define STREAM_FROM_MOST (32 * MIB)
#define L3_PARTS         5
static const struct nxr_copy_tuning intel_tuning = {24 * KIB, 512 * KIB, STREAM_FROM_MOST, true};
static const struct nxr_copy_tuning amd_tuning = {512 * KIB, SIZE_MAX, 6 * MIB, false};
static const struct nxr_copy_tuning zen5_tuning = {24 * KIB + 1, 24 * KIB + 1, SIZE_MAX, true};
static const struct nxr_copy_tuning other_tuning = {SIZE_MAX, SIZE_MAX, STREAM_FROM_MOST, false};

struct nxr_copy_tuning nxr_copy_tuning;

static struct {
    bool has_rep, has_avx2, has_avx512;
} cpu;

/*
 * Size of the third-level cache that this core shares, or 0. `leaf` is the vendor's CPUID leaf for
 * caches.
 */
static size_t l3_nbytes(unsigned leaf)
{
    unsigned eax, ebx, ecx, edx;

    for (unsigned index = 0; index < 8; index++) {
        if (!__get_cpuid_count(leaf, index, &eax, &ebx, &ecx, &edx) || (eax & 31) == 0) {
            break;
        }
        if (((eax >> 5) & 7) == 3) {
            size_t ways = (ebx >> 22) + 1, partitions = ((ebx >> 12) & 1023) + 1;

            return ways * partitions * ((ebx & 4095) + 1) * ((size_t)ecx + 1);
        }
    }
    return 0;
}

/* The family of this processor; AMD's Zen 5, and maybe later ones, is 26. */
#define ZEN5_FAMILY 26

static unsigned family(void)
{
    unsigned eax, ebx, ecx, edx, base;

    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) {
        return 0;
    }
    base = (eax >> 8) & 15;
    return base == 15 ? base + ((eax >> 20) & 255) : base;
}

/* Runs before main and before any thread. Copies by constructors that run earlier use memcpy. */
__attribute__((constructor)) static void choose_tuning(void)
{
    unsigned eax, ebx, ecx, edx;
    struct nxr_copy_tuning tuning = other_tuning;
    size_t l3 = 0;

    __builtin_cpu_init();
    cpu.has_avx2 = __builtin_cpu_supports("avx2");
    cpu.has_avx512 = cpu.has_avx2 && __builtin_cpu_supports("avx512f");
    cpu.has_rep = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & (1u << 9)) != 0;
    if (__builtin_cpu_is("intel")) {
        tuning = intel_tuning;
        l3 = l3_nbytes(4);
    } else if (__builtin_cpu_is("amd")) {
        tuning = family() >= ZEN5_FAMILY ? zen5_tuning : amd_tuning;
        l3 = l3_nbytes(0x8000001d);
    }
    if (l3 >= 4 * MIB && tuning.stream_from != SIZE_MAX) {
        tuning.stream_from = l3 / L3_PARTS < STREAM_FROM_MOST ? l3 / L3_PARTS : STREAM_FROM_MOST;
    }
    if (!cpu.has_rep) {
        tuning.rep_from = tuning.stream_from;
    }
    nxr_copy_tuning = tuning;
    if (cpu.has_avx2) {
        nxr_copy_large = cpu.has_avx512 ? nxr_copy_large_avx512 : nxr_copy_large_avx2;
    }
}

enum nxr_copy_method nxr_copy_choose(const void *dst, const void *src, size_t nbytes)
{
    if (!cpu.has_avx2) {
        return NXR_COPY_LIBC;
    }
    return nxr_copy_x86_choose(cpu.has_avx512 ? NXR_COPY_AVX512 : NXR_COPY_AVX2, dst, src, nbytes);
}

/*
 * Zen 3, 10,000 blocks of 4 KiB at random: non-temporal stores 4.9 GB/s, memcpy 3.1; blocks of 64
 * KiB: 7.3 against 5.0. A block below PAST_FROM consists mostly of its ends, which take plain
 * stores.
 */
#define PAST_FROM 512

bool nxr_copy_goes_past(uint64_t total_nbytes)
{
    return cpu.has_avx2 && total_nbytes >= nxr_copy_tuning.stream_from;
}

void nxr_copy_past(void *dst, const void *src, size_t nbytes)
{
    if (nbytes >= PAST_FROM) {
        nxr_copy_stream_part(dst, src, nbytes);
    } else {
        nxr_copy(dst, src, nbytes);
    }
}

void nxr_copy_past_end(void)
{
    __asm__ volatile("sfence" : : : "memory");
}

bool nxr_copy_is_usable(enum nxr_copy_method method)
{
    switch (method) {
    case NXR_COPY_REP:
        return cpu.has_rep && cpu.has_avx2; /* the ends use AVX2 */
    case NXR_COPY_AVX2:
    case NXR_COPY_STREAM:
        return cpu.has_avx2;
    case NXR_COPY_AVX512:
        return cpu.has_avx512;
    default:
        return method == NXR_COPY_LIBC;
    }
}

void nxr_copy_by(enum nxr_copy_method method, void *dst, const void *src, size_t nbytes)
{
    static void (*const functions[])(void *, const void *, size_t) = {
        [NXR_COPY_LIBC] = copy_by_libc,      [NXR_COPY_REP] = nxr_copy_rep,
        [NXR_COPY_AVX2] = nxr_copy_avx2,     [NXR_COPY_AVX512] = nxr_copy_avx512,
        [NXR_COPY_STREAM] = nxr_copy_stream,
    };

    functions[nbytes > NXR_COPY_SMALL ? method : NXR_COPY_LIBC](dst, src, nbytes);
}

#else

enum nxr_copy_method nxr_copy_choose(const void *dst, const void *src, size_t nbytes)
{
    (void)dst;
    (void)src;
    (void)nbytes;
    return NXR_COPY_LIBC;
}

bool nxr_copy_goes_past(uint64_t total_nbytes)
{
    (void)total_nbytes;
    return false;
}

void nxr_copy_past(void *dst, const void *src, size_t nbytes)
{
    nxr_copy(dst, src, nbytes);
}

void nxr_copy_past_end(void)
{
}

bool nxr_copy_is_usable(enum nxr_copy_method method)
{
    return method == NXR_COPY_LIBC;
}

void nxr_copy_by(enum nxr_copy_method method, void *dst, const void *src, size_t nbytes)
{
    (void)method;
    memcpy(dst, src, nbytes);
}

#endif
