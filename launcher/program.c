/* SPDX-License-Identifier: Apache-2.0 */
/* Programs as files. No state. */
#include "config.h"

#include "launcher/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHOWN_NBYTES 256 /* of the name of an interpreter */

/* The path as seen from `wdir`, in `full` if it is another one; NULL: it is too long. */
static const char *path_from(const char *wdir, const char *path, char full[PATH_MAX])
{
    if (path[0] == '/' || wdir == NULL) {
        return path;
    }
    return snprintf(full, PATH_MAX, "%s/%s", wdir, path) < PATH_MAX ? full : NULL;
}

int program_test(const char *wdir, const char *path, int mode)
{
    char full[PATH_MAX];
    struct stat st;

    path = path_from(wdir, path, full);
    if (path == NULL) {
        return ENAMETOOLONG;
    }
    if (stat(path, &st) != 0) {
        return errno;
    }
    if (S_ISDIR(st.st_mode)) {
        return EISDIR;
    }
    return access(path, mode) == 0 ? 0 : errno;
}

int program_find(const char *name, const char *wdir, const char *dirs, char path[PATH_MAX])
{
    int error = ENOENT;

    if (strchr(name, '/') != NULL) {
        if (snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX) {
            return ENAMETOOLONG;
        }
        return program_test(wdir, path, X_OK);
    }
    for (dirs = dirs != NULL ? dirs : "/usr/local/bin:/usr/bin:/bin"; dirs != NULL;) {
        const char *colon = strchrnul(dirs, ':');
        int n = (int)(colon - dirs), found;

        if (snprintf(path, PATH_MAX, "%.*s%s%s", n, dirs, n > 0 ? "/" : "./", name) < PATH_MAX) {
            found = program_test(wdir, path, X_OK);
            if (found == 0) {
                return 0;
            }
            error = found == EACCES ? EACCES : error;
        }
        dirs = *colon == ':' ? colon + 1 : NULL;
    }
    return error;
}

enum program_missing program_missing(const char *wdir, const char *path,
                                     char name[PROGRAM_WHY_NBYTES])
{
    char full[PATH_MAX], line[PATH_MAX];
    FILE *file = NULL;
    size_t n;

    name[0] = '\0';
    path = path_from(wdir, path, full);
    if (path != NULL) {
        file = fopen(path, "re");
    }
    if (file != NULL && fgets(line, sizeof(line), file) != NULL && strncmp(line, "#!", 2) == 0) {
        const char *begin = line + 2 + strspn(line + 2, " \t");

        snprintf(name, SHOWN_NBYTES, "%.*s", (int)strcspn(begin, " \t\n"), begin);
    }
    if (file != NULL) {
        fclose(file);
    }
    n = strlen(name);
    if (n == 0) {
        return PROGRAM_LOADER;
    }
    if (name[n - 1] == '\r') {
        name[n - 1] = '\0';
        return PROGRAM_CARRIAGE_RETURN;
    }
    return PROGRAM_INTERPRETER;
}

int program_why_not(const char *name, int error)
{
    char path[PATH_MAX], interpreter[PROGRAM_WHY_NBYTES];

    return error == ENOENT && program_find(name, NULL, getenv("PATH"), path) == 0
               ? (int)program_missing(NULL, path, interpreter)
               : error;
}

void program_missing_text(enum program_missing missing, char why[PROGRAM_WHY_NBYTES])
{
    char name[SHOWN_NBYTES + 3] = "";

    if (why[0] != '\0') {
        snprintf(name, sizeof(name), " '%.*s'", SHOWN_NBYTES - 1, why);
    }
    switch (missing) {
    case PROGRAM_LOADER:
        snprintf(why, PROGRAM_WHY_NBYTES,
                 "its ELF loader does not exist; it was built for another system");
        break;
    default: /* a report of another version */
    case PROGRAM_INTERPRETER:
        snprintf(why, PROGRAM_WHY_NBYTES, "its interpreter%s does not exist", name);
        break;
    case PROGRAM_CARRIAGE_RETURN:
        snprintf(why, PROGRAM_WHY_NBYTES,
                 "its first line ends as on Windows, so the name of the interpreter%s ends with a "
                 "carriage return; convert it (dos2unix)",
                 name);
        break;
    }
}
