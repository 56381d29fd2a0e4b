# SPDX-License-Identifier: Apache-2.0
"""An engine for the tests of the KV connector: what vLLM's scheduler and workers do with it.

With one tensor-parallel rank scheduler and worker are in one process, with more each is in its own.
They have vLLM itself if the version that the connector follows is installed, else its stand-in.
"""

import importlib
import importlib.metadata
import json
import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import vllm_standin as vllm

VLLM = "0.33.0"
EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "python"
NLAYERS, NHEADS, HEAD_SIZE = 3, 4, 8
UNTOUCHED = 0xEEEE


def installed_vllm():
    """Its version; None: there is none."""
    try:
        return importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return None


IS_REAL = installed_vllm() == VLLM
V1 = "vllm.distributed.kv_transfer.kv_connector"
PRELOAD = [
    f"{V1}.factory",
    f"{V1}.v1.metrics",
    "vllm.v1.core.sched.scheduler",
    "vllm.v1.structured_output",
]
PRELOAD = PRELOAD if IS_REAL else ["numpy.random"]
LIMIT = 20.0
START_LIMIT = 400.0 if IS_REAL else LIMIT  # it takes a minute to import


@dataclass
class Shape:
    """Of an engine's caches; ``order`` is NHD or HND.

    ``axes``: "kv first" and "blocks first" are those of older versions of vLLM, with an axis for K
    and V; "kv last" is that of 0.33, where these adjoin.
    """

    tp_size: int = 1
    block_size: int = 16
    nblocks: int = 12
    order: str = "NHD"
    axes: str = "kv first"
    head_size: int = HEAD_SIZE
    nheads: int = NHEADS  # of the model

    def __str__(self):
        """Without a space, for the name of a test."""
        return f"tp{self.tp_size}_{self.order}{self.block_size}_{self.axes.replace(' ', '_')}"

    def heads(self, rank):
        first = rank * self.nheads // self.tp_size
        return slice(first, first + max(self.nheads // self.tp_size, 1))

    def cache(self):
        """A layer as vLLM makes it: logically (.., tokens, heads, size), in memory as ordered."""
        if self.axes == "kv last":
            return self.packed()
        pair = (2, self.nblocks) if self.axes == "kv first" else (self.nblocks, 2)
        inner = (self.block_size, max(self.nheads // self.tp_size, 1))
        swap = self.order == "HND"
        memory = np.full(
            (*pair, *(inner[::-1] if swap else inner), self.head_size), UNTOUCHED, "u2"
        )
        return memory.transpose(0, 1, 3, 2, 4) if swap else memory

    def packed(self):
        """Logically (blocks, heads, tokens, K and V)."""
        inner = (max(self.nheads // self.tp_size, 1), self.block_size)
        swap = self.order == "NHD"
        shape = (self.nblocks, *(inner[::-1] if swap else inner), 2 * self.head_size)
        memory = np.full(shape, UNTOUCHED, "u2")
        return memory.transpose(0, 2, 1, 3) if swap else memory

    def token(self, cache, blocks, token):
        """A view of K and V of one token: (2, heads, size)."""
        block, place = blocks[token // self.block_size], token % self.block_size
        if self.axes == "kv last":
            return cache[block, :, place].reshape(-1, 2, self.head_size).transpose(1, 0, 2)
        return cache[:, block, place] if self.axes == "kv first" else cache[block, :, place]


def contents(seed, layer, token, rank, shape):
    """K and V of a token at a rank, which follow from the numbers of all heads."""
    rng = np.random.default_rng([seed, layer, token])
    every = np.frombuffer(rng.bytes(4 * shape.nheads * shape.head_size), "u2")
    every = every.reshape(2, shape.nheads, shape.head_size)
    return every[:, shape.heads(rank)]


class Process:
    """One process of an engine: the connectors it has, and the calls that come through a pipe."""

    def __init__(self, config, shape, rank, roles, environment):
        os.environ.update(environment)
        self.vllm = importlib.import_module("vllm_real") if IS_REAL else vllm
        self.vllm.install(max(rank, 0))
        sys.path.insert(0, str(EXAMPLES))
        caches = vllm.KVCacheConfig(shape.nblocks)
        self.at = {role: self.vllm.connector(config, role, caches) for role in roles}
        self.shape, self.rank = shape, rank
        if "WORKER" in roles:
            self.caches = {f"layers.{i}": shape.cache() for i in range(NLAYERS)}
            tensors = {name: self.vllm.tensor(cache) for name, cache in self.caches.items()}
            self.at["WORKER"].register_kv_caches(tensors)

    def ask(self, name, *arguments):
        given = [self.vllm.real(argument) for argument in arguments]
        return getattr(self.at["SCHEDULER"], name)(*given)

    # What vLLM pickles between its processes is not opened in the test's own.

    def place(self):
        return pickle.dumps(self.at["WORKER"].get_handshake_metadata())

    def know(self, places):
        known = {rank: pickle.loads(place) for rank, place in enumerate(places)}
        self.at["SCHEDULER"].set_xfer_handshake_metadata(known)

    def meta(self):
        return pickle.dumps(self.at["SCHEDULER"].build_connector_meta(None))

    def step(self, meta, finished):
        """A step of the worker, with the metadata as it comes from another process."""
        worker = self.at["WORKER"]
        worker.bind_connector_metadata(pickle.loads(meta))
        worker.start_load_kv(None)
        for name in self.caches:
            worker.wait_for_layer_load(name)
        worker.wait_for_save()
        results = worker.get_transfer_results(finished)
        sent, received = results.finished_sending, results.finished_recving
        failed, stats = worker.get_block_ids_with_load_errors(), worker.get_kv_connector_stats()
        worker.clear_connector_metadata()
        return sent, received, failed, stats.data if stats else {}

    def fill(self, seed, blocks, ntokens):
        for layer, cache in enumerate(self.caches.values()):
            for token in range(ntokens):
                place = self.shape.token(cache, blocks, token)
                place[:] = contents(seed, layer, token, self.rank, self.shape)

    def differs(self, seed, blocks, first, ntokens):
        """How many numbers of all caches are not what they must be: those, or untouched."""
        wrong = 0
        for layer, cache in enumerate(self.caches.values()):
            wanted = self.shape.cache()
            for token in range(first, ntokens):
                place = self.shape.token(wanted, blocks, token)
                place[:] = contents(seed, layer, token, self.rank, self.shape)
            wrong += int((cache != wanted).sum())
        return wrong

    def kill_at(self, where, pid):
        """Kill a process when the next load has come so far: "prepared" or "started"."""
        import nixlrun

        worker, prepare = self.at["WORKER"], self.at["WORKER"]._prepare
        start = nixlrun.Transfer.start

        def kill():
            os.kill(pid, signal.SIGKILL)

        def prepared(*arguments):
            transfer = prepare(*arguments)
            kill()
            return transfer

        def started(transfer, **keywords):
            nixlrun.Transfer.start = start
            request = start(transfer, **keywords)
            kill()
            return request

        if where == "prepared":
            worker._prepare = prepared
        else:
            nixlrun.Transfer.start = started

    def heal(self):
        self.at["WORKER"].__dict__.pop("_prepare", None)


def _serve(pipe, kind, arguments):
    try:
        process = kind(*arguments)
        pipe.send((True, None))
        while True:
            name, given = pipe.recv()
            if name == "end":
                for connector in process.at.values():
                    connector.shutdown()
                break
            pipe.send((True, getattr(process, name)(*given)))
    except EOFError:
        os._exit(1)
    except BaseException:
        pipe.send((False, traceback.format_exc()))
        os._exit(1)
    pipe.send((True, None))


class Remote:
    """Calls a Process, or another kind of it."""

    def __init__(self, *arguments, kind=Process):
        context = multiprocessing.get_context("forkserver")  # which has it already
        context.set_forkserver_preload(PRELOAD)
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, kind, arguments), daemon=True)
        self.process.start()
        other.close()

    def answer(self, limit=LIMIT):
        assert self.pipe.poll(limit), "no answer in time"
        is_good, result = self.pipe.recv()
        assert is_good, result
        return result

    def __call__(self, name, *arguments):
        self.pipe.send((name, arguments))
        return self.answer()


class Engine:
    """The scheduler's part, in the test."""

    def __init__(self, where, engine_id, shape, env, **settings):
        transfer = vllm.KVTransferConfig(engine_id, {"where": where, "timeout": 5, **settings})
        self.shape = shape
        config = vllm.VllmConfig(
            transfer,
            vllm.ModelConfig("model", shape.nheads),
            vllm.ParallelConfig(shape.tp_size),
            vllm.CacheConfig(shape.block_size),
        )
        if shape.tp_size == 1:
            self.workers = [Remote(config, shape, 0, ["SCHEDULER", "WORKER"], env)]
            self.scheduler = self.workers[0]
            self.all = self.workers
        else:
            self.workers = [
                Remote(config, shape, rank, ["WORKER"], env) for rank in range(shape.tp_size)
            ]
            self.scheduler = Remote(config, shape, -1, ["SCHEDULER"], env)
            self.all = [*self.workers, self.scheduler]
        self.finished = set()
        self.stats = {}

    def started(self):
        for remote in self.all:
            remote.answer(START_LIMIT)
        self.scheduler("know", [worker("place") for worker in self.workers])
        return self

    def ask(self, name, *arguments):
        return self.scheduler("ask", name, *arguments)

    def step(self):
        """A step of all workers; what all have sent and received, and which blocks failed."""
        meta = self.scheduler("meta")
        finished, self.finished = self.finished, set()
        outputs = [worker("step", meta, finished) for worker in self.workers]
        for *_, stats in outputs:
            for name, value in stats.items():
                self.stats[name] = self.stats.get(name, 0) + value
        return [output[:3] for output in outputs]

    def until(self, which, request):
        """Step until each worker has reported a request as sent (0) or received (1)."""
        waiting, failed, end = set(range(len(self.workers))), set(), time.monotonic() + LIMIT
        while waiting:
            assert time.monotonic() < end, f"{request} is not reported by workers {waiting}"
            for rank, output in enumerate(self.step()):
                failed |= output[2]
                if request in output[which]:
                    waiting.remove(rank)  # once only
            time.sleep(0.002)
        return failed

    def prefill(self, name, seed, blocks, ntokens):
        """Compute a prompt; the parameters for the other engine, as they come through JSON."""
        for worker in self.workers:
            worker("fill", seed, blocks, ntokens)
        status = vllm.RequestStatus.FINISHED_LENGTH_CAPPED
        request = vllm.Request(name, ntokens, {"do_remote_decode": True}, ntokens, status)
        is_lent, far = self.ask("request_finished", request, blocks)
        assert is_lent
        self.finished.add(name)
        return json.loads(json.dumps(far))

    def schedule(self, name, far, blocks, ntokens, computed=0, expected=None):
        """Have a prompt loaded, of which some tokens are in the cache already."""
        expected = ntokens - computed if expected is None else expected
        request = vllm.Request(name, ntokens, far)
        count, is_async = self.ask("get_num_new_matched_tokens", request, computed)
        assert (count, is_async) == (expected, expected > 0)
        self.ask("update_state_after_alloc", request, vllm.KVCacheBlocks((blocks,)), count)

    def refused(self, name, blocks, ntokens):
        """A prompt whose blocks cannot be lent."""
        status = vllm.RequestStatus.FINISHED_LENGTH_CAPPED
        request = vllm.Request(name, ntokens, {"do_remote_decode": True}, ntokens, status)
        self.finished.add(name)
        return self.ask("request_finished", request, blocks) == (False, None)

    def aborted(self, name, far, ntokens):
        """A request ends before it was loaded."""
        status = vllm.RequestStatus.FINISHED_ABORTED
        return self.ask("request_finished", vllm.Request(name, ntokens, far, 0, status), [])

    def differs(self, *arguments):
        return sum(worker("differs", *arguments) for worker in self.workers)

    def end(self):
        for remote in self.all:
            try:
                remote("end")
            except (OSError, EOFError, AssertionError):
                pass
            remote.process.join(5)
            remote.process.kill()
            remote.process.join()
