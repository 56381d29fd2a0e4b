/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a store is opened with: the caller's settings, AWS's environment variables and files, in the
 * order in which AWS's own programs take them. The only file of the module that reads the
 * environment. No state.
 */
#include "config.h"

#include "storage/s3/profile.h"
#include "storage/s3/s3.h"
#include "nixlrun.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_FILE_NBYTES ((size_t)1 << 20)
#define CONTAINER_HOST  "http://169.254.170.2"
#define INSTANCE_HOST   "http://169.254.169.254"

/* What is read once for a store. */
struct sources {
    char profile[128], section[140]; /* in the file of credentials; in that of settings */
    bool is_profile_wanted;          /* AWS_PROFILE names it */
    char *config, *shared;           /* the files; "": there is none */
    char *why;
    size_t why_nbytes;
};

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* A whole file as text; "" if there is none. */
static char *file_text(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = calloc(1, MAX_FILE_NBYTES + 1);

    if (file != NULL && text != NULL) {
        text[fread(text, 1, MAX_FILE_NBYTES, file)] = '\0';
    }
    if (file != NULL) {
        fclose(file);
    }
    return text;
}

static char *aws_file(const char *name, const char *usual)
{
    const char *path = variable(name), *home = variable("HOME");
    char made[1024];

    snprintf(made, sizeof(made), "%s/.aws/%s", home != NULL ? home : "", usual);
    return file_text(path != NULL ? path : made);
}

/* A value of the profile, from the file of credentials, then from that of settings. */
static bool configured(const struct sources *sources, const char *name, char *value,
                       size_t value_nbytes)
{
    return nxr_s3_profile_value(sources->shared, sources->profile, name, value, value_nbytes) ||
           nxr_s3_profile_value(sources->config, sources->section, name, value, value_nbytes);
}

/* The first of: what the caller gives, two variables, the profile. "": none of them. */
static void choose_text(const struct sources *sources, const char *given, const char *first,
                        const char *second, const char *name, char *value, size_t value_nbytes)
{
    if (given == NULL) {
        given = variable(first);
    }
    if (given == NULL && second != NULL) {
        given = variable(second);
    }
    if (given != NULL) {
        snprintf(value, value_nbytes, "%s", given);
    } else {
        (void)configured(sources, name, value, value_nbytes);
    }
}

NIXL_PRINTF(3, 4)
static int settings_refuse(const struct sources *sources, int status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(sources->why, sources->why_nbytes, format, args);
    va_end(args);
    return status;
}

/* ---- where, and how -------------------------------------------------------------------------- */

static int read_place(const struct nxr_object_settings *settings, const struct sources *sources,
                      struct nxr_object_store *store)
{
    const char *ignore = variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
    bool is_ignored = ignore != NULL && strcasecmp(ignore, "true") == 0;
    char endpoint[600] = "", why[200];

    if (!nxr_s3_place_read(settings->url, &store->place, sources->why, sources->why_nbytes)) {
        return NIXL_E_INVALID_ARG;
    }
    if (store->place.host[0] != '\0') {
        return settings->endpoint == NULL
                   ? NIXL_OK
                   : settings_refuse(sources, NIXL_E_INVALID_ARG,
                                     "params->endpoint is %s, and the URL names a host; allowed: "
                                     "one of them",
                                     settings->endpoint);
    }
    if (settings->endpoint != NULL || !is_ignored) {
        choose_text(sources, settings->endpoint, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL",
                    "endpoint_url", endpoint, sizeof(endpoint));
    }
    if (endpoint[0] != '\0' && !nxr_s3_endpoint_read(endpoint, &store->place, why, sizeof(why))) {
        return settings_refuse(sources, NIXL_E_INVALID_ARG, "%s", why);
    }
    return NIXL_OK;
}

/* "when_required": what S3 itself does not need is left out, for servers that do not know it. */
static bool wants_checks(const struct sources *sources, const char *name, const char *setting)
{
    char value[32] = "";

    choose_text(sources, NULL, name, NULL, setting, value, sizeof(value));
    return strcasecmp(value, "when_required") != 0;
}

static int read_manner(const struct nxr_object_settings *settings, const struct sources *sources,
                       struct nxr_object_store *store)
{
    char attempts[16] = "", region[200] = "", *end;
    long number = 5;

    choose_text(sources, settings->region, "AWS_REGION", "AWS_DEFAULT_REGION", "region", region,
                sizeof(region));
    if (strlen(region) >= sizeof(store->region) ||
        strspn(region, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") !=
            strlen(region)) {
        return settings_refuse(sources, NIXL_E_INVALID_ARG,
                               "region '%s'; allowed: a name such as eu-west-1", region);
    }
    snprintf(store->region, sizeof(store->region), "%.63s",
             region[0] != '\0' ? region : "us-east-1");
    choose_text(sources, settings->ca_file, "AWS_CA_BUNDLE", NULL, "ca_bundle", store->ca_file,
                sizeof(store->ca_file));
    choose_text(sources, NULL, "AWS_MAX_ATTEMPTS", NULL, "max_attempts", attempts,
                sizeof(attempts));
    if (attempts[0] != '\0') {
        number = strtol(attempts, &end, 10);
        if (*end != '\0' || number < 1 || number > 100) {
            return settings_refuse(sources, NIXL_E_INVALID_ARG,
                                   "AWS_MAX_ATTEMPTS (max_attempts) is %s; allowed: 1 to 100",
                                   attempts);
        }
    }
    store->max_attempts = (unsigned)number;
    store->uses_md5 = settings->uses_md5;
    store->n_connections = settings->n_connections;
    store->checks_puts =
        wants_checks(sources, "AWS_REQUEST_CHECKSUM_CALCULATION", "request_checksum_calculation");
    store->checks_gets =
        wants_checks(sources, "AWS_RESPONSE_CHECKSUM_VALIDATION", "response_checksum_validation");
    return NIXL_OK;
}

/* ---- credentials ----------------------------------------------------------------------------- */

static bool take_credentials(struct nxr_object_store *store, const char *key_id, const char *secret,
                             const char *token)
{
    struct s3_credentials *ours = &store->credentials;

    if (strlen(key_id) >= sizeof(ours->key_id) || strlen(secret) >= sizeof(ours->secret) ||
        strlen(token) >= sizeof(ours->token)) {
        return false;
    }
    snprintf(ours->key_id, sizeof(ours->key_id), "%s", key_id);
    snprintf(ours->secret, sizeof(ours->secret), "%s", secret);
    snprintf(ours->token, sizeof(ours->token), "%s", token);
    store->source = S3_GIVEN;
    return true;
}

/* A key, all of it from one of the two files. */
static int take_profile(const struct sources *sources, struct nxr_object_store *store)
{
    struct s3_credentials found = {.key_id = ""};
    const char *text = sources->shared, *section = sources->profile;
    bool is_taken;

    if (!nxr_s3_profile_value(text, section, "aws_access_key_id", found.key_id,
                              sizeof(found.key_id))) {
        text = sources->config;
        section = sources->section;
        if (!nxr_s3_profile_value(text, section, "aws_access_key_id", found.key_id,
                                  sizeof(found.key_id))) {
            return NIXL_E_NOT_FOUND;
        }
    }
    (void)nxr_s3_profile_value(text, section, "aws_secret_access_key", found.secret,
                               sizeof(found.secret));
    (void)nxr_s3_profile_value(text, section, "aws_session_token", found.token,
                               sizeof(found.token));
    is_taken =
        found.secret[0] != '\0' && take_credentials(store, found.key_id, found.secret, found.token);
    explicit_bzero(&found, sizeof(found));
    return is_taken ? NIXL_OK
                    : settings_refuse(sources, NIXL_E_ACCESS,
                                      "profile %s has aws_access_key_id, and no "
                                      "aws_secret_access_key",
                                      sources->profile);
}

/*
 * What a profile may have instead of a key, and this module does not do; NULL: nothing. A role of
 * the instance in its place would be somebody else.
 */
static const char *profile_has_instead(const struct sources *sources)
{
    static const char *const others[] = {"role_arn", "sso_session", "sso_start_url",
                                         "credential_process", "web_identity_token_file"};
    char value[512];

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (configured(sources, others[i], value, sizeof(value))) {
            return others[i];
        }
    }
    return NULL;
}

static int refuse_profile(const struct sources *sources, const char *instead)
{
    if (instead != NULL) {
        return settings_refuse(sources, NIXL_E_ACCESS,
                               "profile %s has %s, which is not done here; have 'aws configure "
                               "export-credentials --format env' set the variables",
                               sources->profile, instead);
    }
    return settings_refuse(sources, NIXL_E_ACCESS,
                           "profile %s, which AWS_PROFILE names, has no aws_access_key_id in "
                           "~/.aws/credentials or ~/.aws/config",
                           sources->profile);
}

static bool has_container(struct nxr_object_store *store)
{
    const char *relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    const char *token_file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");

    if (relative == NULL && full == NULL) {
        return false;
    }
    if (asprintf(&store->service_url, "%s%s", relative != NULL ? CONTAINER_HOST : "",
                 relative != NULL ? relative : full) < 0) {
        store->service_url = NULL;
    }
    store->service_token = token != NULL ? strdup(token) : NULL;
    store->service_token_file = token_file != NULL ? strdup(token_file) : NULL;
    store->source = S3_CONTAINER;
    return true;
}

static int fetch_first(const struct sources *sources, struct nxr_object_store *store)
{
    const char *disabled = variable("AWS_EC2_METADATA_DISABLED");
    const char *endpoint = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    char why[160] = "AWS_EC2_METADATA_DISABLED is true";

    if (!has_container(store)) {
        store->source = S3_INSTANCE;
        store->metadata = strdup(endpoint != NULL ? endpoint : INSTANCE_HOST);
    }
    if (!(store->source == S3_INSTANCE && disabled != NULL && strcasecmp(disabled, "true") == 0) &&
        nxr_s3_credentials_fetch(store, why, sizeof(why))) {
        return NIXL_OK;
    }
    snprintf(sources->why, sources->why_nbytes,
             "no credentials: AWS_ACCESS_KEY_ID is not set, ~/.aws/credentials has no [%s], and "
             "%s: %.150s; for public buckets: NIXL_OBJECT_ANONYMOUS",
             sources->profile, store->source == S3_CONTAINER ? "the container" : "the instance",
             why);
    return NIXL_E_ACCESS;
}

static int read_credentials(const struct nxr_object_settings *settings,
                            const struct sources *sources, struct nxr_object_store *store)
{
    const char *key_id = variable("AWS_ACCESS_KEY_ID"), *secret = variable("AWS_SECRET_ACCESS_KEY");
    const char *token = variable("AWS_SESSION_TOKEN"), *instead;
    int status;

    if (settings->is_anonymous) {
        store->source = S3_ANONYMOUS;
        return NIXL_OK;
    }
    if (key_id != NULL || secret != NULL) {
        if (key_id == NULL || secret == NULL) {
            return settings_refuse(sources, NIXL_E_ACCESS, "%s is not set, and its pair is",
                                   key_id == NULL ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY");
        }
        return take_credentials(store, key_id, secret, token != NULL ? token : "")
                   ? NIXL_OK
                   : settings_refuse(sources, NIXL_E_ACCESS, "%s",
                                     "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or "
                                     "AWS_SESSION_TOKEN is too long");
    }
    status = take_profile(sources, store);
    if (status != NIXL_E_NOT_FOUND) {
        return status;
    }
    instead = profile_has_instead(sources);
    return sources->is_profile_wanted || instead != NULL ? refuse_profile(sources, instead)
                                                         : fetch_first(sources, store);
}

/* ---- all ------------------------------------------------------------------------------------- */

int nxr_s3_settings_read(const struct nxr_object_settings *settings, struct nxr_object_store *store,
                         char *why, size_t why_nbytes)
{
    struct sources sources = {.why = why, .why_nbytes = why_nbytes};
    const char *profile = variable("AWS_PROFILE");
    int status = NIXL_E_NO_MEMORY;

    sources.is_profile_wanted = profile != NULL;
    snprintf(sources.profile, sizeof(sources.profile), "%s", profile != NULL ? profile : "default");
    snprintf(sources.section, sizeof(sources.section), "%s%s",
             strcmp(sources.profile, "default") == 0 ? "" : "profile ", sources.profile);
    sources.config = aws_file("AWS_CONFIG_FILE", "config");
    sources.shared = aws_file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
    if (sources.config != NULL && sources.shared != NULL) {
        status = read_place(settings, &sources, store);
    } else {
        snprintf(why, why_nbytes, "no memory");
    }
    if (status == NIXL_OK) {
        status = read_manner(settings, &sources, store);
    }
    if (status == NIXL_OK) {
        status = read_credentials(settings, &sources, store);
    }
    if (sources.shared != NULL) {
        explicit_bzero(sources.shared, strlen(sources.shared));
    }
    free(sources.config);
    free(sources.shared);
    return status;
}

void nxr_s3_settings_free(struct nxr_object_store *store)
{
    explicit_bzero(&store->credentials, sizeof(store->credentials));
    free(store->service_url);
    free(store->service_token);
    free(store->service_token_file);
    free(store->metadata);
}
