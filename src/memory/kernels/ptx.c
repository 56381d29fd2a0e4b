/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels as PTX; the assembler includes kernel_copy.ptx and kernel_reduce.ptx verbatim.
 * Constant texts; no state, no lock. NXR_KERNEL_DIR is the folder of these files, relative to where
 * the compiler runs.
 */
#include "config.h"

#include "memory/kernels/kernel.h"

/* The text of FILE, with a 0 behind it, is the constant NAME. */
#define KERNEL_TEXT(NAME, FILE)                                                                    \
    __asm__(".pushsection .rodata\n"                                                               \
            ".globl " #NAME "\n"                                                                   \
            ".hidden " #NAME "\n"                                                                  \
            ".type " #NAME ", %object\n" #NAME ":\n"                                               \
            ".incbin \"" NXR_KERNEL_DIR "/" FILE "\"\n"                                            \
            ".byte 0\n"                                                                            \
            ".size " #NAME ", . - " #NAME "\n"                                                     \
            ".popsection\n")

KERNEL_TEXT(nxr_kernel_copy_ptx, "kernel_copy.ptx");
KERNEL_TEXT(nxr_kernel_reduce_ptx, "kernel_reduce.ptx");
