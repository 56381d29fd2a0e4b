#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A library and programs of different sizes: the same program is compiled with the headers as they are, with
# an older copy, whose structs end with the last field that every caller needs (NXR_STRUCT_TYPE in src/), and
# with a newer one, whose structs have two more words. All three run against the library. Prints TAP.
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"

# The structs that grow, with the last field that every caller has: "TAG FIELD".
grep -rh 'NXR_STRUCT_TYPE(nixl_' "$src/src" |
    sed 's/.*NXR_STRUCT_TYPE(\([a-z_]*\), *[A-Z_]*, *\([a-z_]*\)).*/\1 \2/' | LC_ALL=C sort >"$scratch/needed"

# age AGE: a copy of the headers in which all structs are older or newer, and all initializers only set the size.
age() {
    mkdir -p "$scratch/$1/nixlrun"
    cp "$src/include/nixlrun.h" "$scratch/$1"
    for header in "$src"/include/nixlrun/*.h; do
        awk -v age="$1" '
            FNR == NR { needed[$1] = $2; next }
            /^#define NIXL_[A-Z_]*_INIT / { macro = $2 }
            macro != "" {
                if (match($0, /sizeof\(struct [a-z_]*\)/)) {
                    print "#define " macro " {" substr($0, RSTART, RLENGTH) "}"
                }
                if ($0 !~ /\\$/) { macro = "" }
                next
            }
            /^struct nixl_[a-z_]* \{/ { tag = $2; is_over = 0 }
            /^};/ {
                if (tag in needed && age == "newer") { print "    uint64_t added[2];" }
                tag = ""
            }
            tag in needed && age == "older" && is_over { next }
            { print }
            tag in needed && $0 ~ "[ *]" needed[tag] "[;[]" { is_over = 1 }
        ' "$scratch/needed" "$header" >"$scratch/$1/nixlrun/${header##*/}"
    done
}

cat >"$scratch/program.c" <<'TEXT'
#include <nixlrun.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE 20000000000
#define CANARY   64
#define ROOM     4

#define WANT(_what)                                                                                \
    do {                                                                                           \
        if (!(_what)) {                                                                            \
            printf("line %d: %s: %s\n", __LINE__, #_what, nixl_last_error()->text);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A call with input struct `_in`: it works, but not with a field that the library does not know. */
#ifdef NEWER
#define INPUT(_in, _call)                                                                          \
    do {                                                                                           \
        (_in).added[1] = 1;                                                                        \
        WANT((_call) == NIXL_E_UNSUPPORTED);                                                     \
        WANT(strstr(nixl_last_error()->text, "newer header: byte") != NULL);                       \
        (_in).added[1] = 0;                                                                        \
        WANT((_call) == NIXL_OK);                                                                  \
    } while (0)
#define TAIL(_out)          memset((_out).added, 0x5a, sizeof((_out).added))
#define IS_TAIL_ZERO(_out)  ((_out).added[0] == 0 && (_out).added[1] == 0)
#else
#define INPUT(_in, _call)   WANT((_call) == NIXL_OK)
#define TAIL(_out)          (void)0
#define IS_TAIL_ZERO(_out)  1
#endif

/* A call that fills `_out`: nothing behind it is written, and of it what is unknown becomes zero. */
#define OUTPUT(_tag, _init, _call)                                                                 \
    do {                                                                                           \
        static const struct _tag fresh = _init;                                                    \
        unsigned char *block = malloc(sizeof(fresh) + CANARY);                                     \
        struct _tag *out = (struct _tag *)(void *)block;                                           \
        memset(block, 0xa5, sizeof(fresh) + CANARY);                                               \
        *out = fresh;                                                                              \
        TAIL(*out);                                                                                \
        WANT((_call) == NIXL_OK);                                                                  \
        WANT(out->struct_nbytes == sizeof(*out));                                                  \
        WANT(IS_TAIL_ZERO(*out));                                                                  \
        for (int i = 0; i < CANARY; i++) {                                                         \
            WANT(block[sizeof(fresh) + i] == 0xa5);                                                \
        }                                                                                          \
        _tag##_got = *out;                                                                         \
        free(block);                                                                               \
    } while (0)

static struct nixl_team *team;
static struct nixl_region *region;

static void regions(void)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT; /* kind 0: host memory */
    struct nixl_region_info nixl_region_info_got;
    struct nixl_route_info nixl_route_info_got;
    struct nixl_peer_info nixl_peer_info_got;
    struct nixl_stats nixl_stats_got;
    struct nixl_region *registered;
    static char own[512];

    INPUT(params, nixl_region_alloc("structs", 4096, &params, &region));
    INPUT(params, nixl_region_register("own", own, sizeof(own), &params, &registered));
    WANT(nixl_region_close(registered, PATIENCE) == NIXL_OK);
    OUTPUT(nixl_region_info, NIXL_REGION_INFO_INIT,
           nixl_region_query(nixl_rank(), region, PATIENCE, out));
    WANT(nixl_region_info_got.nbytes == 4096 && nixl_region_info_got.kind == NIXL_MEM_HOST);
    OUTPUT(nixl_stats, NIXL_STATS_INIT,
           nixl_stats_sum(nixl_rank(), NIXL_STATS_PUT, NULL, out));
    WANT(nixl_stats_got.rank == nixl_rank() && nixl_stats_got.op == NIXL_STATS_PUT);
    OUTPUT(nixl_peer_info, NIXL_PEER_INFO_INIT, nixl_peer_query(nixl_rank(), out));
    WANT(nixl_peer_info_got.scope == NIXL_SCOPE_SELF && nixl_peer_info_got.host[0] != '\0');
    OUTPUT(nixl_route_info, NIXL_ROUTE_INFO_INIT, nixl_route_query(nixl_rank(), 0, out));
    WANT(strcmp(nixl_route_info_got.transport, "self") == 0 && nixl_route_info_got.is_chosen == 1);
    OUTPUT(nixl_route_info, NIXL_ROUTE_INFO_INIT,
           nixl_route_query_segment(nixl_rank(), region, NULL, 0, out));
    WANT(strcmp(nixl_route_info_got.transport, "self") == 0 && nixl_route_info_got.is_chosen == 1);
}

static void transfers(void)
{
    struct nixl_blocks local[ROOM], remote[ROOM];
    static const struct nixl_blocks fresh = NIXL_BLOCKS_INIT;
    struct nixl_xfer_info nixl_xfer_info_got;
    struct nixl_xfer *xfer = NULL;
    static char source[ROOM][8] = {"one", "two", "three", "four"};

    for (int i = 0; i < ROOM; i++) {
        local[i] = remote[i] = fresh;
        local[i].nblocks = remote[i].nblocks = 1;
        local[i].block_nbytes = remote[i].block_nbytes = sizeof(source[i]);
        local[i].addr = source[i];
        remote[i].region = region;
        remote[i].offset = 100 * (uint64_t)i;
    }
    INPUT(local[ROOM - 1],
          nixl_xfer_create(NIXL_XFER_PUT, nixl_rank(), local, ROOM, remote, ROOM, &xfer));
    WANT(nixl_xfer_start(xfer, NULL) >= 0 && nixl_xfer_wait(xfer, PATIENCE) == NIXL_OK);
    for (int i = 0; i < ROOM; i++) {
        WANT(strcmp((char *)nixl_region_addr(region) + 100 * i, source[i]) == 0);
    }
    OUTPUT(nixl_xfer_info, NIXL_XFER_INFO_INIT, nixl_xfer_query(xfer, out));
    WANT(nixl_xfer_info_got.nbytes == sizeof(source) && nixl_xfer_info_got.nblocks == ROOM);
    WANT(nixl_xfer_free(xfer) == NIXL_OK);
}

static void collectives(void)
{
    struct nixl_reduce_args reduce = NIXL_REDUCE_ARGS_INIT;
    struct nixl_vector_args vector = NIXL_VECTOR_ARGS_INIT;
    struct nixl_strided_args strided = NIXL_STRIDED_ARGS_INIT;
    int64_t in[2] = {nixl_rank() + 1, 10}, out[2] = {0, 0};
    size_t nbytes[2] = {8, 8}, offsets[2] = {0, 8};

    reduce.src = in;
    reduce.dst = out;
    reduce.count = 2;
    reduce.type = NIXL_TYPE_INT64;
    INPUT(reduce, nixl_allreduce(team, &reduce, PATIENCE));
    WANT(out[0] == 3 && out[1] == 20);
    vector.src = in;
    vector.dst = out;
    vector.nbytes = 8;
    vector.dst_nbytes = nbytes;
    vector.dst_offsets = offsets;
    INPUT(vector, nixl_allgatherv(team, &vector, PATIENCE));
    WANT(out[0] == 1 && out[1] == 2);
    strided.src = in;
    strided.dst = out;
    strided.nblocks = 1;
    strided.block_nbytes = strided.src_stride = strided.dst_stride = 8;
    INPUT(strided, nixl_alltoall_strided(team, &strided, PATIENCE));
    WANT(out[nixl_rank()] == (nixl_rank() == 0 ? 1 : 10));
}

static void pairs(void)
{
    struct nixl_pair_info nixl_pair_info_got;
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req;

    WANT(nixl_pair_expose(nixl_rank(), region, 0, 64, NIXL_PAIR_READ, NIXL_FOREVER, token,
                          sizeof(token), &req) == NIXL_INPROGRESS);
    OUTPUT(nixl_pair_info, NIXL_PAIR_INFO_INIT, nixl_pair_query(token, out));
    WANT(nixl_pair_info_got.rank == nixl_rank() && nixl_pair_info_got.nbytes == 64);
    WANT(nixl_req_cancel(&req, PATIENCE, NULL) == NIXL_OK);
}

static int lend(const struct nixl_blocks *blocks, const struct nixl_grant_params *params,
                char token[NIXL_TOKEN_MAX + 1], struct nixl_req **req_p)
{
    int status = nixl_grant_create(blocks, params, token, NIXL_TOKEN_MAX + 1, req_p);

    return status == NIXL_INPROGRESS ? NIXL_OK : status;
}

static void grants(void)
{
    struct nixl_grant_params params = NIXL_GRANT_PARAMS_INIT;
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;
    struct nixl_grant_info nixl_grant_info_got;
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req;

    blocks.region = region;
    blocks.block_nbytes = 64;
    blocks.nblocks = 1;
    params.rights = NIXL_GRANT_WRITE;
    params.uses = 5;
    INPUT(params, lend(&blocks, &params, token, &req));
    OUTPUT(nixl_grant_info, NIXL_GRANT_INFO_INIT, nixl_grant_query(token, out));
    WANT(nixl_grant_info_got.uses_left == 5 && nixl_grant_info_got.nbytes == 64);
    WANT(nixl_req_cancel(&req, PATIENCE, NULL) == NIXL_OK);
}

/* Rank 0 closes a region that rank 1 has used, which is an event there. */
static void events(void)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_event nixl_event_got;
    struct nixl_region *shared;

    WANT((nixl_rank() == 0 ? nixl_region_alloc("shared", 64, NULL, &shared)
                           : nixl_region_open("shared", &shared)) == NIXL_OK);
    WANT(nixl_rank() == 0 || nixl_region_query(0, shared, PATIENCE, &info) == NIXL_OK);
    WANT(nixl_barrier(team, PATIENCE) == NIXL_OK);
    if (nixl_rank() == 1) {
        OUTPUT(nixl_event, NIXL_EVENT_INIT, nixl_event_recv(PATIENCE, out));
        WANT(nixl_event_got.type == NIXL_EVENT_REGION_CLOSED && nixl_event_got.rank == 0);
    }
    WANT(nixl_region_close(shared, PATIENCE) == NIXL_OK);
}

int main(void)
{
    struct nixl_init_params params = NIXL_INIT_PARAMS_INIT;

    INPUT(params, nixl_init(&params));
    WANT(nixl_size() == 2);
    WANT(nixl_team_world(PATIENCE, &team) == NIXL_OK);
    regions();
    transfers();
    collectives();
    pairs();
    grants();
    events();
    WANT(nixl_team_free(team) == NIXL_OK);
    WANT(nixl_region_close(region, PATIENCE) == NIXL_OK);
    WANT(nixl_finalize() == NIXL_OK);
    return 0;
}
TEXT

library=$build/src/.libs/libnixlrun.so
sanitizers=$(sed -n 's/^SAN_CFLAGS = //p' "$build/Makefile")

# works AGE INCLUDE OPTIONS...: the program of that age does what it should.
works() {
    age=$1 include=$2
    shift 2
    if [ ! -e "$library" ]; then
        number=$((number + 1))
        echo "ok $number - a program with $age headers # SKIP no shared library was built"
        return
    fi
    # shellcheck disable=SC2086
    verdict "$({ ${CC:-cc} -std=gnu11 -g -Wall $sanitizers "$@" -I"$include" -I"$build/include" \
        -o "$scratch/program" "$scratch/program.c" "$library" -Wl,-rpath,"$build/src/.libs" &&
        "$build/launcher/nixlrun" --timeout 50s -np 2 "$scratch/program"; } 2>&1 </dev/null ||
        echo "failed")" "a program with $age headers works with this library"
}

echo 1..4
age older
age newer
verdict "$({
    awk '/^struct nixl_[a-z_]* \{/ { tag = $2 } tag != "" && /^ *size_t struct_nbytes;/ { print tag } /^};/ { tag = "" }' \
        "$src"/include/nixlrun/*.h
    cut -d' ' -f1 "$scratch/needed"
    echo nixl_error # the library's own memory
    echo nixl_note
} | LC_ALL=C sort | uniq -u | sed 's/$/ cannot grow: NXR_STRUCT_TYPE in src\/ lacks it/')" \
    "every struct with a size can grow"
works "the same" "$src/include"
works older "$scratch/older" -DOLDER
works newer "$scratch/newer" -DNEWER
