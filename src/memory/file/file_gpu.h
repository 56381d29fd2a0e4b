/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How bytes go between files and memory of NVIDIA's GPUs: staged through host memory, or by cuFile
 * if that is there, permitted (NIXLRUN_CUFILE) and faster. What is faster is measured for each file
 * system and GPU, direction, and small or large operations, by the program's operations
 * (file_trial.h), and remembered until the last finalize.
 *
 * Only files with direct I/O go by cuFile, since it passes the page cache by; and only whole blocks
 * do, since cuFile would read, change and write others, and two ranks may put into one block.
 *
 * Lock: choices_lock, a leaf.
 */
#ifndef NXR_MEMORY_FILE_FILE_GPU_H
#define NXR_MEMORY_FILE_FILE_GPU_H

#include "memory/file/file.h"
#include "memory/file/file_trial.h"

struct nxr_file_choice;

/*
 * What such operations between a file and a GPU go by; NULL: all are staged, and one line in `why`
 * says the reason. It lives until nxr_file_gpu_stop().
 */
struct nxr_file_choice *nxr_file_choice_of(const struct nxr_memory_between *between, char *why,
                                           size_t why_nbytes);

/* Begin one by cuFile, if its turn is that. False: it has to be staged. */
bool nxr_file_choice_take(struct nxr_file_choice *choice);

/* Begin one that is staged. */
void nxr_file_choice_stage(struct nxr_file_choice *choice);

/* The end of one that began so; nbytes is 0 if it failed. */
void nxr_file_choice_end(struct nxr_file_choice *choice, enum nxr_file_by by, uint64_t nbytes);

/* cuFile has failed: nothing goes by it any more. */
void nxr_file_choice_refuse(struct nxr_file_choice *choice, const char *why);

/* As in struct nxr_memory_kind. */
void *nxr_file_stage_begin(const struct nxr_memory_between *between);
void nxr_file_stage_end(void *begun, uint64_t nbytes);
void nxr_file_how(const struct nxr_memory_between *between, struct nxr_memory_how *how);

/* A file is being closed; or no file is left. */
void nxr_file_gpu_close(struct nxr_file *file);
void nxr_file_gpu_stop(void);

#endif
