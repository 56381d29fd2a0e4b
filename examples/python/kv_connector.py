# SPDX-License-Identifier: Apache-2.0
"""A KV connector for vLLM: decode engines read the KV cache of prefill engines through nixlrun.

    PYTHONPATH=examples/python vllm serve MODEL --kv-transfer-config '{"kv_role": "kv_both",
        "kv_connector": "NixlrunConnector", "kv_connector_module_path": "kv_connector",
        "kv_connector_extra_config": {"where": PLACE}}'

PLACE is "file:DIR", a folder of the user, or "tcp://HOST:0"; see nixl_attach(3). The other settings
are in seconds: "lease" (30), how long blocks are lent; "timeout" (10), for all else.

Each worker publishes ENGINE_ID.TP_RANK. When a prompt is computed, the scheduler of the prefill
engine has each worker lend the blocks, and puts the tokens of the grants into kv_transfer_params. A
router passes these to a decode engine, whose workers attach and read. The engines may differ in
tensor-parallel size, block size and layout (kv_reshard.py). The blocks are free when all have read
or the lease is over; nobody reads a byte of them afterwards (kv_lend.py). A load that comes too
late, or whose peer dies, is reported by get_block_ids_with_load_errors().

It follows KVConnectorBase_V1 of vLLM 0.33.0. Caches are those of attention with K and V, also as
older versions have them; MLA, hybrid models and pipeline parallelism are refused.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Optional

import nixlrun
import numpy as np
from kv_lend import DONE, NOBODY, Lender, ask_to_lend, done_note, give_back, join
from kv_reshard import Layout, heads_of, physical, pieces, readers, sources
from nixlrun import ALL_EXTENTS, Blocks
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
    KVConnectorRole,
)
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorStats
from vllm.distributed.parallel_state import get_tensor_model_parallel_rank
from vllm.v1.request import RequestStatus

SETTINGS = {"where": None, "lease": 30.0, "timeout": 10.0}
COUNTERS = ("loads", "nbytes", "seconds", "failed", "expired")  # of Stats
log = logging.getLogger(__name__)
_lenders: dict[str, Lender] = {}  # of this process: the scheduler may be in it, too


@dataclass
class Load:
    """Tokens that another engine has; none: its blocks are given back unread."""

    request: str
    far: dict[str, Any]
    blocks: list[int] = field(default_factory=list)
    first: int = 0
    count: int = 0


@dataclass
class Plan(KVConnectorMetadata):
    """What the workers do next; ``sending``: finished requests whose blocks are lent."""

    loads: list[Load] = field(default_factory=list)
    sending: set[str] = field(default_factory=set)


@dataclass
class Place(KVConnectorHandshakeMetadata):
    """Where to attach to a worker, and how its caches are laid out."""

    where: str
    name: str
    schema: str
    layout: tuple[int, ...]


class Stats(KVConnectorStats):
    """Sums: loads, their bytes and seconds, loads that failed, leases that ran out."""

    def reset(self) -> None:
        self.data = dict.fromkeys(COUNTERS, 0)

    def aggregate(self, other: KVConnectorStats) -> Stats:
        return Stats({name: self.data[name] + other.data[name] for name in COUNTERS})

    def reduce(self) -> dict[str, Any]:
        return dict(self.data)

    def is_empty(self) -> bool:
        return not any(self.data.values())


class NixlrunConnector(KVConnectorBase_V1):
    """One for the scheduler of an engine, and one for each of its workers."""

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any = None):
        super().__init__(vllm_config=vllm_config, role=role, kv_cache_config=kv_cache_config)
        given = self._kv_transfer_config.kv_connector_extra_config
        if "where" not in given or not set(given) <= set(SETTINGS):
            raise ValueError(f"kv_connector_extra_config is {given}; allowed: {list(SETTINGS)}")
        groups = getattr(kv_cache_config, "kv_cache_groups", [None])
        if len(groups) != 1 or vllm_config.parallel_config.pipeline_parallel_size != 1:
            raise ValueError("hybrid models and pipeline parallelism are not supported")
        self.where, self.lease, self.timeout = {**SETTINGS, **given}.values()
        self.nheads = vllm_config.model_config.get_total_num_kv_heads()
        self.size = vllm_config.parallel_config.tensor_parallel_size
        self.plan = Plan()  # of the scheduler, as its places
        self.places: list[Place] = []
        self.sending: set[str] = set()  # of a worker, as all that follows
        self.loading: dict[str, tuple[Load, Future[None]]] = {}
        self.failed: set[int] = set()
        self.lock = threading.Lock()  # of stats
        self.stats = Stats(dict.fromkeys(COUNTERS, 0))

    # The worker

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        caches, nblocks = list(kv_caches.values()), self._kv_cache_config.num_blocks
        layouts = {Layout.of(cache, nblocks) for cache in caches}
        self.layout, self.rank = layouts.pop(), get_tensor_model_parallel_rank()
        if layouts or self.layout.nheads != len(heads_of(self.rank, self.size, self.nheads)):
            raise ValueError(f"layers differ, or have not their part of {self.nheads} heads")
        name = f"{self._kv_transfer_config.engine_id}.{self.rank}"
        model = self._vllm_config.model_config.model
        schema = f"{model}: {len(caches)} layers, {self.nheads} heads of {self.layout.unit} bytes"
        self.region = join().register("kv", [physical(cache) for cache in caches])
        join().publish(self.where, name, schema)
        where = join().published_at(self.where, name)
        self.place = Place(where, name, schema, tuple(self.layout))
        self.pool = ThreadPoolExecutor(4, "kv-load")
        _lenders[name] = self.lender = Lender(self.region, self.layout, self.lease)
        atexit.register(self.shutdown)

    def get_handshake_metadata(self) -> Place:
        return self.place

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        plan = self._get_connector_metadata()
        self.sending |= plan.sending
        for load in plan.loads:
            future = self.pool.submit(self._load, load)
            if load.count > 0:
                self.loading[load.request] = load, future

    def _load(self, load: Load) -> None:
        """Read from each rank that has a part; when it has ended, no byte moves any more."""
        far, at, started, begin = load.far, {}, {}, time.monotonic()
        nreaders = readers(self.size, far["tp_size"], self.nheads)
        parts = sources(self.rank, self.size, far["tp_size"], self.nheads)
        try:
            for rank, place in enumerate(far["ranks"]):
                if rank in parts or nreaders[rank] == self.rank == 0:
                    at[rank] = self._attach(Place(*place))
            for rank, heads in parts.items() if load.count > 0 else ():
                transfer = self._prepare(load, rank, at[rank], np.array(heads))
                note, grant = done_note(far["request"], nreaders[rank]), far["tokens"][rank]
                started[rank] = transfer, transfer.start(tag=DONE, msg=note, grant=grant)
            for rank, (transfer, request) in started.items():
                request.wait(self.timeout)
                del at[rank]
                self._count(nbytes=transfer.nbytes)
            self._count(loads=load.count > 0, seconds=time.monotonic() - begin)
        finally:
            for transfer, request in started.values():
                if not request.done:
                    request.cancel(None)
                transfer.close()
            for rank, number in at.items():
                give_back(number, far["request"], nreaders[rank], self.timeout)

    def _prepare(self, load: Load, rank: int, number: int, heads: Any) -> nixlrun.Transfer:
        layout = Layout(*load.far["layout"])
        tokens = np.arange(load.first, load.first + load.count)
        own = heads_of(self.rank, self.size, self.nheads).start
        theirs = heads_of(rank, load.far["tp_size"], self.nheads).start
        here = self.layout.offsets(load.blocks, tokens, heads - own)
        there = layout.offsets(load.far["blocks"], tokens, heads - theirs)
        nbytes, *both = pieces(here, there, layout.unit)
        kv, unit = self.region, layout.unit
        sides = [Blocks(kv, nbytes, stride=unit, index=i, extents=ALL_EXTENTS) for i in both]
        return join().prepare_get(number, *sides)

    def _attach(self, place: Place) -> int:
        if place.name in _lenders:
            return join().rank
        schema = self.place.schema if self.role == KVConnectorRole.WORKER else place.schema
        return join().attach(place.where, place.name, schema, self.timeout)

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str], set[str]]:
        received = {name for name, (_, future) in self.loading.items() if future.done()}
        for name in received:
            load, future = self.loading.pop(name)
            if future.exception() is not None:
                log.warning("request %s was not loaded: %s", name, future.exception())
                self.failed.update(load.blocks[load.first // self.layout.block_size :])
                self._count(failed=1)
        sent, nexpired = self.lender.take_ended(self.sending)
        self.sending -= sent
        self._count(expired=nexpired)
        return sent, received

    def get_block_ids_with_load_errors(self) -> set[int]:
        failed, self.failed = self.failed, set()
        return failed

    def _count(self, **counts: float) -> None:
        with self.lock:
            for name, value in counts.items():
                self.stats.data[name] += value

    def get_kv_connector_stats(self) -> Optional[Stats]:
        with self.lock:
            stats, self.stats = self.stats, Stats(dict.fromkeys(COUNTERS, 0))
        return None if stats.is_empty() else stats

    @classmethod
    def build_kv_connector_stats(cls, data: Optional[dict[str, Any]] = None) -> Optional[Stats]:
        return Stats(data) if data else None

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Loads end between steps; see get_finished()."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kw: Any) -> None:
        """The caches themselves are read."""

    def wait_for_save(self) -> None:
        """See save_kv_layer()."""

    def shutdown(self) -> None:
        if self.role == KVConnectorRole.WORKER and _lenders.pop(self.place.name, None):
            self.pool.shutdown()
            self.lender.close()
            join().unpublish(self.where, self.place.name)
            self.region.close()

    # The scheduler

    def set_xfer_handshake_metadata(self, metadata: dict[int, Any]) -> None:
        self.places = [metadata[rank] for rank in sorted(metadata)]

    def get_num_new_matched_tokens(self, request: Any, ncomputed: int) -> tuple[int, bool]:
        far, count = request.kv_transfer_params or {}, 0
        if far.get("do_remote_prefill") and far.get("ntokens") == request.num_prompt_tokens:
            count = max(request.num_prompt_tokens - ncomputed, 0)
        return count, count > 0

    def update_state_after_alloc(self, request: Any, blocks: Any, count: int) -> None:
        far = request.kv_transfer_params or {}
        if far.get("do_remote_prefill"):
            far["do_remote_prefill"] = False  # it is called again when they are loaded
            ids, first = list(blocks.get_block_ids()[0]), request.num_prompt_tokens - count
            self.plan.loads.append(Load(request.request_id, far, ids, first, count))

    def build_connector_meta(self, scheduler_output: Any) -> Plan:
        plan, self.plan = self.plan, Plan()
        return plan

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, Any]:
        far, name = request.kv_transfer_params or {}, request.request_id
        if far.get("do_remote_prefill"):  # it was aborted before it was loaded
            self.plan.loads.append(Load(name, far))
        ntokens = request.num_prompt_tokens
        is_whole = request.status == RequestStatus.FINISHED_LENGTH_CAPPED
        if not far.get("do_remote_decode") or not is_whole or request.num_computed_tokens < ntokens:
            return False, None
        blocks = block_ids[: -(-ntokens // self._vllm_config.cache_config.block_size)]
        at: list[int] = []
        try:
            at.extend(self._attach(place) for place in self.places)
            tokens = [self._lend(*where, name, blocks) for where in zip(self.places, at)]
        except nixlrun.Error as error:
            log.warning("request %s is not lent: %s", name, error)
            for rank in at:
                give_back(rank, name, NOBODY, self.timeout)
            return False, None
        self.plan.sending.add(name)
        ranks = [[place.where, place.name, place.schema, place.layout] for place in self.places]
        return True, {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "request": name,
            "ranks": ranks,
            "tp_size": self.size,
            "layout": self.places[0].layout,
            "tokens": tokens,
            "blocks": blocks,
            "ntokens": ntokens,
        }

    def _lend(self, place: Place, rank: int, request: str, blocks: list[int]) -> str:
        if place.name in _lenders:
            return _lenders[place.name].lend(request, blocks)
        return ask_to_lend(rank, request, blocks, self.timeout)
