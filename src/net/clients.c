/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers above, as seen by this folder: what they do after a round and at the end. Constant
 * once the networks are started; no lock.
 */
#include "config.h"

#include "net/state.h"

#define MAX_CLIENTS 4

const struct net_device *nxr_net_device;

static const struct net_client *clients[MAX_CLIENTS];
static unsigned n_clients;

void nxr_net_add_client(const struct net_client *client)
{
    for (unsigned i = 0; i < n_clients; i++) {
        if (clients[i] == client) {
            return;
        }
    }
    if (n_clients < MAX_CLIENTS) {
        clients[n_clients++] = client;
    }
}

void nxr_net_clients_run(void)
{
    for (unsigned i = 0; i < n_clients; i++) {
        if (clients[i]->run != NULL) {
            clients[i]->run();
        }
    }
}

void nxr_net_clients_stop(void)
{
    for (unsigned i = 0; i < n_clients; i++) {
        if (clients[i]->stop != NULL) {
            clients[i]->stop();
        }
    }
}
