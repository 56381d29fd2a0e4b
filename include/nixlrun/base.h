/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/base.h
 * What every other header needs: statuses, limits, and the detail of a failure.
 */
#ifndef NIXLRUN_BASE_H
#define NIXLRUN_BASE_H

#include <stddef.h>
#include <stdint.h>
#include <nixlrun_version.h>

#if defined(__GNUC__)
#define NIXL_API                 __attribute__((visibility("default")))
#define NIXL_MUST_CHECK          __attribute__((warn_unused_result))
#define NIXL_PRINTF(_fmt, _args) __attribute__((format(printf, _fmt, _args)))
#define NIXL_NORETURN            __attribute__((noreturn))
#else
#define NIXL_API
#define NIXL_MUST_CHECK
#define NIXL_PRINTF(_fmt, _args)
#define NIXL_NORETURN
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Every status: name, value, text. The enum, nixl_strerror() and the manual page are made from this
 * list.
 */
/* clang-format off */
#define NIXL_STATUS_LIST(_x)                                                                       \
    _x(OK, 0, "success")                                                                           \
    _x(INPROGRESS, 1, "in progress")                                                               \
    _x(E_INVALID_ARG, -1, "invalid argument")                                                      \
    _x(E_RANGE, -2, "offset or length is outside of the region")                                   \
    _x(E_NOT_INIT, -3, "nixl_init has not been called")                                            \
    _x(E_FORKED, -4, "not usable in a forked child")                                               \
    _x(E_NAME_IN_USE, -5, "the rank has a region of this name")                                    \
    _x(E_NOT_FOUND, -6, "nothing of that name was found")                                          \
    _x(E_STALE, -7, "what it refers to has ended or was replaced")                                 \
    _x(E_TRUNCATED, -8, "the buffer is too small")                                                 \
    _x(E_AGAIN, -9, "would block; nothing has happened")                                           \
    _x(E_TIMEOUT, -10, "timed out")                                                                \
    _x(E_IN_USE, -11, "still in use")                                                              \
    _x(E_UNSUPPORTED, -12, "not supported on this path")                                           \
    _x(E_NO_DEVICE, -13, "no such device")                                                         \
    _x(E_NO_MEMORY, -14, "out of memory")                                                          \
    _x(E_LIMIT, -15, "a limit of the system or the library is reached")                            \
    _x(E_PEER_LOST, -16, "the peer has died or left")                                              \
    _x(E_CANCELED, -17, "canceled")                                                                \
    _x(E_TRANSPORT, -18, "the transport failed")                                                   \
    _x(E_INTERNAL, -19, "internal error")                                                          \
    _x(E_EXPIRED, -20, "the lifetime is over")                                                     \
    _x(E_ACCESS, -21, "access is not permitted")                                                   \
    _x(E_STORAGE, -22, "the storage failed")
/* clang-format on */

enum nixl_status {
#define NIXL_STATUS_ENUM(_name, _value, _text) NIXL_##_name = (_value),
    NIXL_STATUS_LIST(NIXL_STATUS_ENUM)
#undef NIXL_STATUS_ENUM
};

#define NIXL_FOREVER   0x7fffffffffffffff /**< INT64_MAX, a timeout: no limit */
#define NIXL_ANY_RANK  (-1)               /**< nixl_notify_recv(): any sender */
#define NIXL_ALL_RANKS (-2) /**< nixl_flush(), nixl_fence(): every peer with earlier puts */
#define NIXL_NOTE_MAX  4096 /**< largest payload of a notification, in bytes */
#define NIXL_NAME_MAX  255  /**< longest name of a region, in bytes without the final zero */

/**
 * The version of the library that is loaded, as NIXL_VERSION_NUMBER() makes it. NIXL_VERSION is
 * that of the headers which the caller was compiled with. Threads: any; usable before nixl_init()
 * and after nixl_finalize().
 */
NIXL_API uint32_t nixl_version(void);

/** Constant English text for any value; never NULL, never to be freed. Threads: any. */
NIXL_API const char *nixl_strerror(int status);

/** The detail of a failure. Text fields are never NULL. */
struct nixl_error {
    size_t struct_nbytes;
    int status;            /**< what the call returned */
    int rank;              /**< the peer, or -1 if none was involved */
    int native_code;       /**< errno or the transport library's own code; 0 for none */
    const char *operation; /**< the public call: "nixl_put" */
    const char *transport; /**< "shm", "self", …; "" if none was involved */
    const char *text;      /**< one line: what happened and what to do */
};

/**
 * The calling thread's last failure since its start; status NIXL_OK if there was none.
 * The memory belongs to the library and is unchanged until the thread's next failure.
 * Threads: any; usable before nixl_init() and after nixl_finalize().
 */
NIXL_API const struct nixl_error *nixl_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_BASE_H */
