/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling all members of a call that makes a team, over their mailboxes. Functions return as
 * nxr_mailbox_swap().
 */
#ifndef NXR_COLLECTIVE_TREE_H
#define NXR_COLLECTIVE_TREE_H

#include <stddef.h>

struct nixl_team;

/*
 * Each member has filled in its own entry of a table, of nbytes; afterwards all have all entries.
 */
int nxr_tree_tell_all(struct nixl_team *team, void *table, size_t nbytes);

/*
 * The steps of it: entries go up to the first member, the whole table comes down to this one, and
 * goes on to those below. With nbytes 0 they only wait for each other.
 */
int nxr_tree_gather(struct nixl_team *team, char *table, size_t nbytes);
int nxr_tree_hear(struct nixl_team *team, char *table, size_t nbytes);
int nxr_tree_pass(struct nixl_team *team, char *table, size_t nbytes);

#endif
