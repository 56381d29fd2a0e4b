/* SPDX-License-Identifier: Apache-2.0 */
/* Where publications listen for other hosts. No state, no lock. */
#include "config.h"

#include "attach/place.h"
#include "core/route.h"
#include "nixlrun.h"
#include "util/env.h"

#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

#define LISTEN_NONE "none"

/* File systems that several hosts may have in common, by the types that statfs() tells. */
static const unsigned long shared_systems[] = {
    0x00006969, /* NFS */
    0x0000517b, /* SMB */
    0xfe534d42, /* SMB2 */
    0xff534d42, /* CIFS */
    0x0bd00bd0, /* Lustre */
    0x47504653, /* GPFS */
    0x00c36400, /* Ceph */
    0x19830326, /* BeeGFS */
    0x20030528, /* OrangeFS */
    0x5346414f, /* AFS */
    0x6b414653, /* AFS of the kernel */
    0x7461636f, /* OCFS2 */
    0x01161970, /* GFS2 */
    0x01021997, /* 9p, of virtual machines */
    0x65735546, /* FUSE: GlusterFS, JuiceFS, sshfs, virtiofs */
};

static bool place_is_shared(const char *dir)
{
    struct statfs info;

    if (statfs(dir, &info) != 0) {
        return false; /* whoever opens a file there says why */
    }
    for (size_t i = 0; i < sizeof(shared_systems) / sizeof(shared_systems[0]); i++) {
        if (((unsigned long)info.f_type & 0xffffffff) == shared_systems[i]) {
            return true;
        }
    }
    return false;
}

enum nxr_place_need nxr_place_need(const char *dir)
{
    if (strcmp(nxr_env.publish_listen, LISTEN_NONE) == 0) {
        return NXR_PLACE_NONE;
    }
    if (nxr_env.publish_listen[0] != '\0' || !nxr_route_is_allowed("shm")) {
        return NXR_PLACE_REQUIRED;
    }
    return place_is_shared(dir) ? NXR_PLACE_WISHED : NXR_PLACE_NONE;
}

int nxr_place_find(const char *text, struct nxr_place *place_p, char why[NXR_PLACE_WHY_NBYTES])
{
    const char *named = nxr_env.publish_listen;
    int nbytes;

    place_p->is_named = named[0] != '\0';
    if (!place_p->is_named) {
        (void)nxr_where_parse("tcp://[::]:0", &place_p->port);
        place_p->port.text = text;
        return NIXL_OK;
    }
    nbytes = snprintf(place_p->text, sizeof(place_p->text), "tcp://%s", named);
    if ((size_t)nbytes >= sizeof(place_p->text) ||
        !nxr_where_parse(place_p->text, &place_p->port)) {
        snprintf(why, NXR_PLACE_WHY_NBYTES,
                 "NIXLRUN_PUBLISH_LISTEN is '%.100s'; allowed: HOST:PORT, an address of this host, "
                 "IPv6 in [], and 0 to 65535; in folders none, too",
                 named);
        return NIXL_E_INVALID_ARG;
    }
    if (place_p->port.port == 0) {
        place_p->port.text = text; /* a port for each place */
    }
    return NIXL_OK;
}

void nxr_place_take_four(const char *text, struct nxr_place *place)
{
    (void)nxr_where_parse("tcp://0.0.0.0:0", &place->port);
    place->port.text = text;
}
