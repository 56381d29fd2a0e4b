/* SPDX-License-Identifier: Apache-2.0 */
/* Paired operations: a buffer for one use, by a token. */
#include "region.h"
#include "request.h"

namespace nx
{

static nb::tuple pair_expose(nb::object self, nb::handle rank, nb::handle offset, nb::handle nbytes,
                             const char *use, nb::handle lifetime)
{
    static const char *const uses[] = {"read", "write", nullptr};
    Region *region = nb::inst_ptr<Region>(self);
    Use used(region);
    struct nixl_region *handle = region->region;
    const int partner = rank.is_none() ? NIXL_ANY_RANK : read_rank(rank);
    const uint64_t at = read_u64(offset, "offset");
    const uint64_t size = read_u64(nbytes, "nbytes");
    const auto how = (enum nixl_pair_use)(read_word(use, uses, "use") + 1);
    const int64_t lifetime_ns = read_timeout(lifetime);
    char token[NIXL_TOKEN_MAX + 1];
    auto request = std::make_unique<Request>();
    Start start;

    request->operation->kept = self;
    nb::object made =
        start_request("nixl_pair_expose", &start, 0, request.release(),
                      [&](const struct nixl_op *, struct nixl_req **req_p, Operation *) {
                          return nixl_pair_expose(partner, handle, at, size, how, lifetime_ns,
                                                  token, sizeof(token), req_p);
                      });
    return nb::make_tuple(nb::str(token), made);
}

static nb::dict pair_query(const std::string &token)
{
    struct nixl_pair_info info = NIXL_PAIR_INFO_INIT;
    nb::dict known;

    check(nixl_pair_query(token.c_str(), &info));
    known["rank"] = info.rank;
    known["use"] = info.use == NIXL_PAIR_READ ? "read" : "write";
    known["nbytes"] = info.nbytes;
    return known;
}

static nb::object start_pair(const std::string &token, nb::handle memory, bool is_read)
{
    struct nixl_pair_info info = NIXL_PAIR_INFO_INIT;
    auto request = std::make_unique<Request>();
    Memory held(memory, is_read);
    void *addr = held.addr;
    const size_t nbytes = held.nbytes;
    Start start;

    start.token_rank = nixl_pair_query(token.c_str(), &info) == NIXL_OK ? info.rank : -1;

    request->operation->held.push_back(std::move(held));
    return start_request(is_read ? "nixl_pair_read" : "nixl_pair_write", &start, SIZE_MAX,
                         request.release(),
                         [=](const struct nixl_op *, struct nixl_req **req_p, Operation *) {
                             return is_read ? nixl_pair_read(token.c_str(), addr, nbytes, req_p)
                                            : nixl_pair_write(token.c_str(), addr, nbytes, req_p);
                         });
}

static void pair_decline(const std::string &token)
{
    int status;

    {
        Unlocked unlocked;
        status = nixl_pair_decline(token.c_str());
    }
    check(status);
}

void bind_pair(nb::module_ &module)
{
    module.def("pair_expose", &pair_expose, "region"_a, "rank"_a.none(), "offset"_a, "nbytes"_a,
               "use"_a, "lifetime"_a.none(), guarded);
    module.def("pair_query", &pair_query, "token"_a);
    module.def("start_pair", &start_pair, "token"_a, "memory"_a, "is_read"_a, guarded);
    module.def("pair_decline", &pair_decline, "token"_a);
}

} // namespace nx
