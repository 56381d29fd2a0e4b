/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Static probes for bpftrace, perf and SystemTap, of the provider "nixlrun": a nop in the code and
 * a note in the library that says where it is and where its arguments are. Without sys/sdt.h at the
 * build there are none. nixlrun-observe(7) lists them; their names and arguments stay.
 */
#ifndef NXR_UTIL_PROBE_H
#define NXR_UTIL_PROBE_H

#ifdef HAVE_SYS_SDT_H
#include <sys/sdt.h>
#define NXR_PROBE1(_name, _a)                 DTRACE_PROBE1(nixlrun, _name, _a)
#define NXR_PROBE3(_name, _a, _b, _c)         DTRACE_PROBE3(nixlrun, _name, _a, _b, _c)
#define NXR_PROBE5(_name, _a, _b, _c, _d, _e) DTRACE_PROBE5(nixlrun, _name, _a, _b, _c, _d, _e)
#else
#define NXR_PROBE1(_name, _a)                 ((void)0)
#define NXR_PROBE3(_name, _a, _b, _c)         ((void)0)
#define NXR_PROBE5(_name, _a, _b, _c, _d, _e) ((void)0)
#endif

#endif
