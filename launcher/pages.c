/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over the descriptors of a process that are observation pages. No state. */
#include "config.h"

#include "launcher/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Is it the descriptor of a page? */
static bool page_is_at(int dir, const char *name)
{
    static const char prefix[] = "/memfd:" NXR_OBSERVE_NAME;
    char target[sizeof(prefix)];
    ssize_t nbytes = readlinkat(dir, name, target, sizeof(target));

    return nbytes >= (ssize_t)sizeof(prefix) - 1 && memcmp(target, prefix, sizeof(prefix) - 1) == 0;
}

static void page_close(struct pages *pages)
{
    if (pages->page.head != NULL) {
        nxr_observe_unmap(&pages->page);
        pages->page = (struct nxr_observe_page){.head = NULL};
    }
    if (pages->fd >= 0) {
        close(pages->fd);
        pages->fd = -1;
    }
}

struct pages pages_of(pid_t pid)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    return (struct pages){.fds = opendir(path), .fd = -1};
}

bool pages_next(struct pages *pages)
{
    const struct dirent *entry;

    page_close(pages);
    while (pages->fds != NULL && (entry = readdir(pages->fds)) != NULL) {
        if (entry->d_name[0] == '.' || !page_is_at(dirfd(pages->fds), entry->d_name)) {
            continue;
        }
        pages->fd = openat(dirfd(pages->fds), entry->d_name, O_RDONLY | O_CLOEXEC);
        errno = 0;
        if (pages->fd >= 0 && nxr_observe_map(pages->fd, &pages->page)) {
            return true;
        }
        pages->n_unmapped += errno == ENOMEM;
        pages->page.head = NULL;
        page_close(pages);
    }
    return false;
}

int pages_keep(struct pages *pages)
{
    int fd = pages->fd;

    pages->fd = -1;
    return fd;
}

void pages_end(struct pages *pages)
{
    page_close(pages);
    if (pages->fds != NULL) {
        closedir(pages->fds);
        pages->fds = NULL;
    }
}

/* The pid that the process has in its own namespace. */
static pid_t pid_inside(pid_t pid)
{
    char path[40], line[256];
    pid_t inside = pid;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *last = strrchr(line, '\t');

        if (strncmp(line, "NSpid:", strlen("NSpid:")) == 0 && last != NULL) {
            inside = (pid_t)strtol(last, NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return inside;
}

int pages_open_own(pid_t pid)
{
    struct pages pages = pages_of(pid);
    int fd = -1;

    /* A child of a rank, too, has the rank's descriptors until it executes a program. */
    while (fd < 0 && pages_next(&pages)) {
        if (pages.page.head->pid == pid || pages.page.head->pid == pid_inside(pid)) {
            fd = pages_keep(&pages);
        }
    }
    pages_end(&pages);
    return fd;
}
