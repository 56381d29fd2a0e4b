/* SPDX-License-Identifier: Apache-2.0 */
/* Reading AWS's files of profiles, and what a service of credentials answers. Pure functions. */
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

#endif
