/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which interfaces lead out of this host. A bridge leads where its ports lead. For a port, the
 * kernel reports its driver: containers hang on veth, virtual machines on tun (tap), and dummy is
 * what keeps some bridges up. An unknown port counts as leading out. No state.
 */
#include "config.h"

#include "interface.h"

#include <dirent.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_of_host(int fd, const char *port)
{
    static const char *const drivers[] = {"veth", "tun", "dummy"};
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request = {.ifr_data = (void *)&info};

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%.15s", port);
    if (ioctl(fd, SIOCETHTOOL, &request) != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
        if (strncmp(info.driver, drivers[i], sizeof(info.driver)) == 0) {
            return true;
        }
    }
    return false;
}

static bool are_all_of_host(DIR *ports)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const struct dirent *entry;
    bool are_all = fd >= 0;

    while (are_all && (entry = readdir(ports)) != NULL) {
        are_all = entry->d_name[0] == '.' || is_of_host(fd, entry->d_name);
    }
    if (fd >= 0) {
        close(fd);
    }
    return are_all;
}

enum nxr_extent nxr_interface_extent(const char *name)
{
    enum nxr_extent extent = NXR_EXTENT_HOSTS;
    char path[64];
    DIR *ports;

    snprintf(path, sizeof(path), "/sys/class/net/%.15s/brif", name);
    ports = opendir(path);
    if (ports != NULL) {
        extent = are_all_of_host(ports) ? NXR_EXTENT_HOST : NXR_EXTENT_HOSTS;
        closedir(ports);
    }
    return extent;
}
