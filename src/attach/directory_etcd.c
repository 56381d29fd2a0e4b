/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module for etcd and its clients. Lock: idle_lock, a leaf, for the client that nobody uses;
 * module_lock, a leaf, for loading the module.
 */
#include "config.h"

#include "attach/directory_etcd.h"
#include "attach/token.h"
#include "core/wait.h"
#include "nixlrun.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/module.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POLL_NS         (1 * NXR_MS) /* how often to look for an answer */
#define LIST_NS         (2 * NXR_S)
#define MAX_NAMED       8 /* names in a list for people */
#define PASSWORD_NBYTES 1024

const struct nxr_etcd_module *nxr_etcd;

static pthread_mutex_t module_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_etcd *idle; /* NULL: none */
static char *idle_settings;   /* what it was opened with */

int nxr_directory_etcd_load(char why[NXR_ETCD_WHY_NBYTES])
{
    const struct nxr_etcd_module *module;
    char reason[256] = "";
    void *library;

    pthread_mutex_lock(&module_lock);
    if (nxr_etcd == NULL) {
        module = nxr_module_load("etcd", NXR_ETCD_SYMBOL, &library, reason, sizeof(reason));
        if (module != NULL && module->abi != NXR_ETCD_ABI) {
            nxr_module_is_of_other_version("etcd", reason, sizeof(reason));
            module = NULL;
        }
        nxr_etcd = module;
        if (module != NULL) {
            nxr_debug(HOST, "etcd by %s", module->libraries());
        }
    }
    module = nxr_etcd;
    pthread_mutex_unlock(&module_lock);
    if (module == NULL) {
        snprintf(
            why, NXR_ETCD_WHY_NBYTES,
            "the module for etcd is not available: %.230s (it needs libcurl and jansson; Debian: "
            "libcurl4 and libjansson4, to build it libcurl4-openssl-dev and libjansson-dev)",
            reason);
        return NIXL_E_UNSUPPORTED;
    }
    return NIXL_OK;
}

void nxr_directory_etcd_key(const struct nxr_where *where, const char *name,
                            char key[NXR_ETCD_KEY_NBYTES])
{
    snprintf(key, NXR_ETCD_KEY_NBYTES, "/%s/%s", where->prefix, name);
}

/* ---- settings -------------------------------------------------------------------------------- */

/* The password, from a variable or a file. NIXL_OK or the failure. */
static int read_password(char password[PASSWORD_NBYTES + 2], char why[NXR_ETCD_WHY_NBYTES])
{
    const char *path = nxr_env.etcd_password_file;
    size_t nbytes = strnlen(nxr_env.etcd_password, PASSWORD_NBYTES + 1);
    int status = NIXL_OK;

    if (nbytes > 0 && path[0] != '\0') {
        snprintf(why, NXR_ETCD_WHY_NBYTES,
                 "NIXLRUN_ETCD_PASSWORD and NIXLRUN_ETCD_PASSWORD_FILE are both set; allowed: one "
                 "of them");
        return NIXL_E_INVALID_ARG;
    }
    memcpy(password, nxr_env.etcd_password, nbytes);
    if (path[0] != '\0') {
        status = nxr_attach_secret_read("NIXLRUN_ETCD_PASSWORD_FILE", path, password,
                                        PASSWORD_NBYTES + 1, &nbytes, why);
    }
    if (status == NIXL_OK && nbytes > PASSWORD_NBYTES) {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "the password for etcd has more than %d bytes",
                 PASSWORD_NBYTES);
        status = NIXL_E_INVALID_ARG;
    }
    password[status == NIXL_OK ? nbytes : 0] = '\0';
    return status;
}

/* What goes with a user goes without one likewise. */
static int check_user(const char *user, const char *password, char why[NXR_ETCD_WHY_NBYTES])
{
    if (user[0] == '\0' && password[0] != '\0') {
        snprintf(why, NXR_ETCD_WHY_NBYTES,
                 "there is a password for etcd, but no user: set NIXLRUN_ETCD_USER, or use "
                 "etcd://USER@HOST:PORT");
        return NIXL_E_INVALID_ARG;
    }
    if (user[0] != '\0' && password[0] == '\0') {
        snprintf(why, NXR_ETCD_WHY_NBYTES,
                 "there is no password for etcd's user '%.100s': set NIXLRUN_ETCD_PASSWORD_FILE to "
                 "a file of mode 0600, or NIXLRUN_ETCD_PASSWORD",
                 user);
        return NIXL_E_ACCESS;
    }
    return NIXL_OK;
}

/* The settings for a place; `password` is wiped by the caller. */
static int read_settings(const struct nxr_where *where, char password[PASSWORD_NBYTES + 2],
                         struct nxr_etcd_settings *settings_p, char why[NXR_ETCD_WHY_NBYTES])
{
    int status = nxr_directory_etcd_load(why);

    if (status == NIXL_OK) {
        status = read_password(password, why);
    }
    if (status != NIXL_OK) {
        return status;
    }
    *settings_p = (struct nxr_etcd_settings){
        .is_tls = where->is_tls,
        .endpoints = where->endpoints,
        .user = where->user[0] != '\0' ? where->user : nxr_env.etcd_user,
        .password = password,
        .ca_file = nxr_env.etcd_ca_file,
        .cert_file = nxr_env.etcd_cert_file,
        .key_file = nxr_env.etcd_key_file,
    };
    return check_user(settings_p->user, password, why);
}

int nxr_directory_etcd_open(const struct nxr_where *where, struct nxr_etcd **etcd_p,
                            char why[NXR_ETCD_WHY_NBYTES])
{
    char password[PASSWORD_NBYTES + 2] = "";
    struct nxr_etcd_settings settings;
    int status = read_settings(where, password, &settings, why);

    if (status == NIXL_OK) {
        status = nxr_etcd->open(&settings, etcd_p, why);
    }
    explicit_bzero(password, sizeof(password));
    return status;
}

/* ---- clients of calling threads -------------------------------------------------------------- */

/* Wait for an answer of etcd, and make progress. */
static void wait_for_etcd(nxr_etcd_ready_fn *ready, void *arg, int64_t until)
{
    int status;

    do {
        status = nxr_wait(ready, arg, POLL_NS);
    } while (status == NIXL_E_TIMEOUT && nxr_now_ns() < until);
}

/* All settings as one text, to be wiped and freed; NULL: no memory. */
static char *settings_text(const struct nxr_etcd_settings *settings)
{
    char *text;
    int nbytes = asprintf(&text, "%d\n%s\n%s\n%s\n%s\n%s\n%s", settings->is_tls,
                          settings->endpoints, settings->user, settings->password,
                          settings->ca_file, settings->cert_file, settings->key_file);

    return nbytes >= 0 ? text : NULL;
}

static void text_free(char *text)
{
    if (text != NULL) {
        explicit_bzero(text, strlen(text));
        free(text);
    }
}

/* Keep a client, or none, and close the one that was kept. */
static void idle_set(struct nxr_etcd *etcd, char *settings)
{
    struct nxr_etcd *former;
    char *former_settings;

    pthread_mutex_lock(&idle_lock);
    former = idle;
    former_settings = idle_settings;
    idle = etcd;
    idle_settings = settings;
    pthread_mutex_unlock(&idle_lock);
    text_free(former_settings);
    if (former != NULL) {
        nxr_etcd->close(former);
    }
}

/* Take the client that is kept, if it has these settings. */
static struct nxr_etcd *idle_take(const char *settings)
{
    struct nxr_etcd *etcd = NULL;
    char *former = NULL;

    pthread_mutex_lock(&idle_lock);
    if (idle != NULL && settings != NULL && strcmp(idle_settings, settings) == 0) {
        etcd = idle;
        former = idle_settings;
        idle = NULL;
        idle_settings = NULL;
    }
    pthread_mutex_unlock(&idle_lock);
    text_free(former);
    return etcd;
}

int nxr_directory_etcd_take(const struct nxr_where *where, struct nxr_etcd **etcd_p,
                            char why[NXR_ETCD_WHY_NBYTES])
{
    char password[PASSWORD_NBYTES + 2] = "", *text;
    struct nxr_etcd_settings settings;
    int status = read_settings(where, password, &settings, why);

    if (status == NIXL_OK) {
        settings.wait = wait_for_etcd;
        text = settings_text(&settings);
        *etcd_p = idle_take(text);
        text_free(text);
        if (*etcd_p == NULL) {
            status = nxr_etcd->open(&settings, etcd_p, why);
        }
    }
    explicit_bzero(password, sizeof(password));
    return status;
}

void nxr_directory_etcd_give(const struct nxr_where *where, struct nxr_etcd *etcd)
{
    char password[PASSWORD_NBYTES + 2] = "", why[NXR_ETCD_WHY_NBYTES], *text = NULL;
    struct nxr_etcd_settings settings;

    if (read_settings(where, password, &settings, why) == NIXL_OK) {
        text = settings_text(&settings);
    }
    explicit_bzero(password, sizeof(password));
    if (text != NULL) {
        idle_set(etcd, text);
    } else if (nxr_etcd != NULL) { /* as who has a client knows */
        nxr_etcd->close(etcd);
    }
}

void nxr_directory_etcd_reset(void)
{
    idle_set(NULL, NULL);
}

/* ---- names ----------------------------------------------------------------------------------- */

struct name_list {
    char *text;
    size_t nbytes, used;
    int n;
};

static void name_list_add(void *arg, const char *name, const struct nxr_etcd_found *found)
{
    struct name_list *list = arg;

    if (found->is_entry && strcmp(found->entry.name, name) == 0 && list->n++ < MAX_NAMED &&
        list->used < list->nbytes) {
        list->used += (size_t)snprintf(list->text + list->used, list->nbytes - list->used, "%s'%s'",
                                       list->n > 1 ? ", " : "", name);
    }
}

void nxr_directory_etcd_names(const struct nxr_where *where, struct nxr_etcd *etcd, char *text,
                              size_t nbytes)
{
    struct name_list list = {.text = text, .nbytes = nbytes};
    char key[NXR_ETCD_KEY_NBYTES], why[NXR_ETCD_WHY_NBYTES];

    text[0] = '\0';
    nxr_directory_etcd_key(where, "", key);
    if (nxr_etcd->list(etcd, key, nxr_now_ns() + LIST_NS, name_list_add, &list, why) != NIXL_OK) {
        snprintf(text, nbytes, "unknown (%s)", why);
    } else if (list.n == 0) {
        snprintf(text, nbytes, "none");
    } else if (list.n > MAX_NAMED && list.used < nbytes) {
        snprintf(text + list.used, nbytes - list.used, " and %d more", list.n - MAX_NAMED);
    }
}
