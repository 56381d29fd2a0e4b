/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading AWS's files of profiles, and what a service of credentials answers; when it is asked.
 * Pure functions.
 */
#ifndef NXR_S3_PROFILE_H
#define NXR_S3_PROFILE_H

#include "storage/s3/sign.h"

/*
 * The value of a name in [section] of a file, "" if it has none. False: it is not there, or does
 * not fit.
 */
bool nxr_s3_profile_value(const char *text, const char *section, const char *name, char *value,
                          size_t value_nbytes);

/* Is there such a section? */
bool nxr_s3_profile_has(const char *text, const char *section);

/* A JSON object with AccessKeyId, SecretAccessKey, Token and Expiration. False: it is none. */
bool nxr_s3_credentials_read(const char *json, struct s3_credentials *credentials);

/*
 * Must credentials be asked for that expire then (seconds since 1970; 0: never), now, if the last
 * answer or failure was so many seconds ago?
 */
enum s3_need {
    S3_NEED_NONE, /* no, or not again yet */
    S3_NEED_SOON, /* those that are there still do */
    S3_NEED_NOW,  /* they do not */
};
enum s3_need nxr_s3_credentials_need(int64_t expires, int64_t now, int64_t seconds_ago);

#endif
