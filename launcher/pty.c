/* SPDX-License-Identifier: Apache-2.0 */
/* Making pseudo-terminals. */
#include "config.h"

#include "launcher/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

/* Raw mode: no byte is changed or echoed. */
static int make_raw(int fd)
{
    struct termios termios;

    if (tcgetattr(fd, &termios) != 0) {
        return -1;
    }
    cfmakeraw(&termios);
    return tcsetattr(fd, TCSANOW, &termios);
}

int pty_open(const struct winsize *size, int fds[2])
{
    int error;

    fds[1] = -1;
    fds[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fds[0] < 0) {
        return -errno;
    }
    if (grantpt(fds[0]) == 0 && unlockpt(fds[0]) == 0) {
        fds[1] = ioctl(fds[0], TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    }
    if (fds[1] >= 0 && make_raw(fds[1]) == 0 && ioctl(fds[0], TIOCSWINSZ, size) == 0) {
        return 0;
    }
    error = errno;
    close(fds[0]);
    if (fds[1] >= 0) {
        close(fds[1]);
    }
    return -error;
}

struct winsize pty_own_size(void)
{
    struct winsize size;

    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
            return size;
        }
    }
    return (struct winsize){.ws_row = 24, .ws_col = 80};
}
