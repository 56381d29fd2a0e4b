/* SPDX-License-Identifier: Apache-2.0 */
/* Driving device copies: for the service thread and for threads that are going to sleep. */
#ifndef NXR_MEMORY_DEVICE_H
#define NXR_MEMORY_DEVICE_H

#include <stdint.h>

/* Polling stops: the copies have to wake this process when they end. */
void nxr_device_arm(void);

/* The same for copies that were not polled for a while; called by the service thread. */
void nxr_device_arm_old(void);

/* When the service thread has to poll copies that are not armed. */
int64_t nxr_device_tick(int64_t now);

extern const struct nxr_subsystem nxr_device_subsystem;

#endif
