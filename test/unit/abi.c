/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs that were built earlier rely on: sizes, offsets and values of the public header. A
 * struct may grow at its end; then its size here is changed on purpose, and nothing else.
 */
#include "nixlrun.h"

#include "test/unit/unit.h"
#include <stddef.h>

TestSuite(abi, .timeout = 120);

Test(abi, sizes_are_pinned)
{
    cr_expect(eq(sz, sizeof(struct nixl_error), 48));
    cr_expect(eq(sz, sizeof(struct nixl_init_params), 16));
    cr_expect(eq(sz, sizeof(struct nixl_mem_params), 56));
    cr_expect(eq(sz, sizeof(struct nixl_file_params), 48));
    cr_expect(eq(sz, sizeof(struct nixl_object_params), 88));
    cr_expect(eq(sz, sizeof(struct nixl_object_info), 1144));
    cr_expect(eq(sz, sizeof(struct nixl_directory_params), 56));
    cr_expect(eq(sz, sizeof(struct nixl_region_info), 320));
    cr_expect(eq(sz, sizeof(struct nixl_note), 24 + NIXL_NOTE_MAX));
    cr_expect(eq(sz, sizeof(struct nixl_route_info), 1488));
    cr_expect(eq(sz, sizeof(struct nixl_event), 280));
    cr_expect(eq(sz, sizeof(struct nixl_peer_info), 512));
    cr_expect(eq(sz, sizeof(struct nixl_blocks), 72));
    cr_expect(eq(sz, sizeof(struct nixl_op), 136));
    cr_expect(eq(sz, sizeof(struct nixl_context_params), 16));
    cr_expect(eq(sz, sizeof(struct nixl_cq_params), 24));
    cr_expect(eq(sz, sizeof(struct nixl_cq_entry), 40));
    cr_expect(eq(sz, sizeof(struct nixl_xfer_info), 72));
    cr_expect(eq(sz, sizeof(struct nixl_stats), 1200));
}

Test(abi, fields_are_where_they_were)
{
    cr_expect(eq(sz, offsetof(struct nixl_error, status), 8));
    cr_expect(eq(sz, offsetof(struct nixl_error, rank), 12));
    cr_expect(eq(sz, offsetof(struct nixl_error, native_code), 16));
    cr_expect(eq(sz, offsetof(struct nixl_error, operation), 24));
    cr_expect(eq(sz, offsetof(struct nixl_error, transport), 32));
    cr_expect(eq(sz, offsetof(struct nixl_error, text), 40));
    cr_expect(eq(sz, offsetof(struct nixl_mem_params, kind), 8));
    cr_expect(eq(sz, offsetof(struct nixl_mem_params, flags), 12));
    cr_expect(eq(sz, offsetof(struct nixl_mem_params, numa_node), 16));
    cr_expect(eq(sz, offsetof(struct nixl_file_params, fd), 12));
    cr_expect(eq(sz, offsetof(struct nixl_file_params, nbytes), 16));
    cr_expect(eq(sz, offsetof(struct nixl_file_params, context), 40));
    cr_expect(eq(sz, offsetof(struct nixl_object_params, nobjects), 16));
    cr_expect(eq(sz, offsetof(struct nixl_object_params, nconnections), 48));
    cr_expect(eq(sz, offsetof(struct nixl_object_params, context), 80));
    cr_expect(eq(sz, offsetof(struct nixl_directory_params, nobjects), 16));
    cr_expect(eq(sz, offsetof(struct nixl_directory_params, context), 48));
    cr_expect(eq(sz, offsetof(struct nixl_object_info, etag), 32));
    cr_expect(eq(sz, offsetof(struct nixl_object_info, key), 112));
    cr_expect(eq(sz, offsetof(struct nixl_region_info, flags), 20));
    cr_expect(eq(sz, offsetof(struct nixl_region_info, transport), 28));
    cr_expect(eq(sz, offsetof(struct nixl_region_info, method), 44));
    cr_expect(eq(sz, offsetof(struct nixl_region_info, note), 68));
    cr_expect(eq(sz, offsetof(struct nixl_region_info, latency_ns), 232));
    cr_expect(eq(sz, offsetof(struct nixl_region_info, device), 248));
    cr_expect(eq(sz, offsetof(struct nixl_region_info, access), 296));
    cr_expect(eq(sz, offsetof(struct nixl_region_info, offset), 304));
    cr_expect(eq(sz, offsetof(struct nixl_region_info, nextents), 312));
    cr_expect(eq(sz, offsetof(struct nixl_blocks, first_extent), 64));
    cr_expect(eq(sz, offsetof(struct nixl_blocks, nextents), 68));
    cr_expect(eq(sz, sizeof(struct nixl_extent), 16));
    cr_expect(eq(sz, offsetof(struct nixl_mem_params, device), 24));
    cr_expect(eq(sz, offsetof(struct nixl_mem_params, access), 48));
    cr_expect(eq(sz, offsetof(struct nixl_stats, transport), 16));
    cr_expect(eq(sz, offsetof(struct nixl_stats, nops), 48));
    cr_expect(eq(sz, offsetof(struct nixl_stats, post), 96));
    cr_expect(eq(sz, offsetof(struct nixl_stats, complete), 440));
    cr_expect(eq(sz, offsetof(struct nixl_stats, name), 784));
    cr_expect(eq(sz, offsetof(struct nixl_stats, wait), 856));
    cr_expect(eq(sz, offsetof(struct nixl_route_info, is_usable), 24));
    cr_expect(eq(sz, offsetof(struct nixl_route_info, latency_ns), 32));
    cr_expect(eq(sz, offsetof(struct nixl_route_info, nrails), 48));
    cr_expect(eq(sz, offsetof(struct nixl_route_info, library), 52));
    cr_expect(eq(sz, offsetof(struct nixl_route_info, why), 1204));
    cr_expect(eq(sz, offsetof(struct nixl_route_info, method), 1460));
    cr_expect(eq(sz, offsetof(struct nixl_note, rank), 8));
    cr_expect(eq(sz, offsetof(struct nixl_note, nbytes), 12));
    cr_expect(eq(sz, offsetof(struct nixl_note, tag), 16));
    cr_expect(eq(sz, offsetof(struct nixl_note, payload), 24));
    cr_expect(eq(sz, offsetof(struct nixl_op, signal_op), 112));
    cr_expect(eq(sz, offsetof(struct nixl_op, grant), 120));
    cr_expect(eq(sz, offsetof(struct nixl_op, coll_p), 128));
    cr_expect(eq(sz, offsetof(struct nixl_event, name), 16));
    cr_expect(eq(sz, offsetof(struct nixl_event, incarnation), 272));
}

Test(abi, values_are_pinned)
{
    cr_expect(eq(i64, NIXL_FOREVER, INT64_MAX));
    cr_expect(eq(int, NIXL_ANY_RANK, -1));
    cr_expect(eq(int, NIXL_ALL_RANKS, -2));
    cr_expect(eq(int, NIXL_NOTE_MAX, 4096));
    cr_expect(eq(int, NIXL_NAME_MAX, 255));
    cr_expect(eq(int, NIXL_THREAD_MULTIPLE, 0));
    cr_expect(eq(int, NIXL_THREAD_SINGLE, 1));
    cr_expect(eq(int, NIXL_SCOPE_REMOTE, 2));
    cr_expect(eq(int, NIXL_MEM_HOST, 1));
    cr_expect(eq(int, NIXL_MEM_FILE, 5));
    cr_expect(eq(int, NIXL_MEM_PINNED, 4));
    cr_expect(eq(int, NIXL_MEM_POPULATE, 8));
    cr_expect(eq(int, NIXL_ACCESS_NO_PUT, 1));
    cr_expect(eq(int, NIXL_ACCESS_NO_GET, 2));
    cr_expect(eq(int, NIXL_FILE_TRUNCATE, 64));
    cr_expect(eq(int, NIXL_OP_DURABLE, 64));
    cr_expect(eq(int, NIXL_E_STORAGE, -22));
    cr_expect(eq(int, NIXL_OUTCOME_DONE, 2));
    cr_expect(eq(int, NIXL_EVENT_LAUNCHER_LOST, 3));
    cr_expect(eq(int, NIXL_PEER_FINISHED, 2));
    cr_expect(eq(int, NIXL_XFER_GET, 1));
    cr_expect(eq(int, NIXL_XFER_REMOTE, 1));
    cr_expect(eq(int, NIXL_CHANNEL_PRODUCER, 1));
    cr_expect(eq(int, NIXL_CHANNEL_NAME_MAX, 200));
}

Test(abi, initialisers_set_the_size)
{
    struct nixl_init_params init = NIXL_INIT_PARAMS_INIT;
    struct nixl_mem_params memory = NIXL_MEM_PARAMS_INIT;
    struct nixl_file_params file = NIXL_FILE_PARAMS_INIT;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_route_info route = NIXL_ROUTE_INFO_INIT;
    struct nixl_event event = NIXL_EVENT_INIT;
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;
    struct nixl_xfer_info xfer = NIXL_XFER_INFO_INIT;
    struct nixl_stats stats = NIXL_STATS_INIT;
    static struct nixl_note note;

    nixl_note_init(&note);
    cr_expect(eq(sz, init.struct_nbytes, sizeof(init)));
    cr_expect(eq(sz, memory.struct_nbytes, sizeof(memory)));
    cr_expect(eq(int, memory.kind, NIXL_MEM_HOST));
    cr_expect(eq(sz, file.struct_nbytes, sizeof(file)));
    cr_expect(eq(int, file.fd, -1));
    cr_expect(eq(sz, info.struct_nbytes, sizeof(info)));
    cr_expect(eq(sz, route.struct_nbytes, sizeof(route)));
    cr_expect(eq(sz, event.struct_nbytes, sizeof(event)));
    cr_expect(eq(sz, blocks.struct_nbytes, sizeof(blocks)));
    cr_expect(eq(u64, blocks.nblocks, 1));
    cr_expect(eq(sz, xfer.struct_nbytes, sizeof(xfer)));
    cr_expect(eq(sz, stats.struct_nbytes, sizeof(stats)));
    cr_expect(eq(sz, note.struct_nbytes, sizeof(note)));
}
