/* SPDX-License-Identifier: Apache-2.0 */
/* Posted buffers: bulk lands in them, and stops doing so when they are taken back. */
#include "net_case.h"

#include "net/clients.h"

enum { NBYTES = 8 };

static char posted_buffer[NBYTES];
static struct nxr_net_posted posted;

/* What the network was asked for. */
static struct {
    unsigned n;
    const char *from;
    char *to;
} redirected;

static void note_redirect(void *cookie, const char *from, char *to)
{
    (void)cookie;
    redirected.n++;
    redirected.from = from;
    redirected.to = to;
}

/* The network of rank 1, with another redirect(): it is the one that brings what comes. */
static void use_redirect(void (*redirect)(void *cookie, const char *from, char *to))
{
    static struct nxr_network module;
    struct net *net = &nxr_net.nets[0];

    module = *net->module;
    module.redirect = redirect;
    net->module = &module;
    nxr_net.receiver = net;
}

static void post(uint64_t offset, uint64_t nbytes)
{
    const struct nxr_net_put put = own_put(nbytes);

    posted = (struct nxr_net_posted){.generation = put.generation,
                                     .id = put.id,
                                     .offset = offset,
                                     .nbytes = nbytes,
                                     .buffer = posted_buffer};
    nxr_net_post(&posted);
}

static void start_posted(void)
{
    start();
    redirected.n = 0;
    use_redirect(note_redirect);
    post(0, NBYTES);
}

static void stop_posted(void)
{
    cr_expect(nxr_list_is_empty(&nxr_net.posted));
    cr_expect(nxr_list_is_empty(&nxr_net.holds));
    stop();
}

static char *place_of(uint64_t nbytes)
{
    const struct nxr_net_put put = own_put(nbytes);

    return fake_bulk(1, NXR_NET_BULK_PUT, &put, sizeof(put), nbytes);
}

Test(posted, the_put_lands_in_the_buffer, .init = start_posted, .fini = stop_posted)
{
    cr_assert(eq(ptr, place_of(NBYTES), posted_buffer));
    fake_land(0, NIXL_OK);
    cr_expect(nxr_net_unpost(&posted));
    cr_expect(zero(u32, redirected.n));
}

Test(posted, only_the_next_put_does, .init = start_posted, .fini = stop_posted)
{
    cr_assert(eq(ptr, place_of(NBYTES), posted_buffer));
    use_redirect(note_redirect);
    cr_expect(eq(ptr, place_of(NBYTES), fake_job.own));
    fake_land(0, NIXL_OK);
    use_redirect(note_redirect);
    cr_expect(eq(ptr, place_of(NBYTES), fake_job.own));
    fake_land(0, NIXL_OK);
    fake_land(0, NIXL_OK);
    cr_expect(nxr_net_unpost(&posted));
}

Test(posted, one_of_other_bytes_does_not, .init = start_posted, .fini = stop_posted)
{
    cr_expect(eq(ptr, place_of(NBYTES - 1), fake_job.own));
    fake_land(0, NIXL_OK);
    cr_expect(not(nxr_net_unpost(&posted)));
}

Test(posted, one_that_was_on_its_way_does_not, .init = start, .fini = stop_posted)
{
    use_redirect(note_redirect);
    cr_assert(eq(ptr, place_of(NBYTES), fake_job.own));
    post(0, NBYTES);
    fake_land(0, NIXL_OK);
    cr_expect(not(nxr_net_unpost(&posted)));
}

Test(posted, none_does_where_it_could_not_be_moved_away, .init = start_posted, .fini = stop_posted)
{
    use_redirect(NULL);
    cr_expect(eq(ptr, place_of(NBYTES), fake_job.own));
    fake_land(0, NIXL_OK);
    cr_expect(not(nxr_net_unpost(&posted)));
}

Test(posted, what_still_comes_goes_to_the_region, .init = start_posted, .fini = stop_posted)
{
    cr_assert(eq(ptr, place_of(NBYTES), posted_buffer));
    cr_expect(not(nxr_net_unpost(&posted)));
    cr_expect(eq(u32, redirected.n, 1));
    cr_expect(eq(ptr, (void *)redirected.from, posted_buffer));
    cr_expect(eq(ptr, redirected.to, fake_job.own));
    fake_land(0, NIXL_OK);
}

Test(posted, a_put_that_fails_is_not_in_it, .init = start_posted, .fini = stop_posted)
{
    cr_assert(eq(ptr, place_of(NBYTES), posted_buffer));
    fake_land(0, NIXL_E_TRANSPORT);
    cr_expect(not(nxr_net_unpost(&posted)));
    cr_expect(zero(u32, redirected.n));
}
