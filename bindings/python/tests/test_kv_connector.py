# SPDX-License-Identifier: Apache-2.0
"""The KV connector for vLLM of the examples, against vLLM or a stand-in; see kv_engine.py."""

import json
import sys
import time

import pytest

np = pytest.importorskip("numpy")

from kv_engine import (  # noqa: E402
    EXAMPLES,
    IS_REAL,
    LIMIT,
    NHEADS,
    START_LIMIT,
    VLLM,
    Engine,
    Remote,
    Shape,
    installed_vllm,
)
from vllm_scheduler import Scheduled  # noqa: E402


def need_vllm():
    if not IS_REAL:
        has = installed_vllm()
        pytest.skip(f"vllm=={VLLM} is not installed{f', but {has}' if has else ''}: a stand-in is")


def test_it_is_vllm_itself():
    need_vllm()


def step_until(engine, name, which):
    """Step until a request has part in what a step returns; its part in all of that."""
    end = time.monotonic() + LIMIT
    while True:
        results = engine("step")
        if name in results[which]:
            return [result.get(name) for result in results]
        assert time.monotonic() < end, f"nothing of {name}"
        time.sleep(0.002)


def test_the_scheduler_of_vllm(tmp_path):
    need_vllm()
    p, d = [Remote(tmp_path, name, str(EXAMPLES), kind=Scheduled) for name in ("p", "d")]
    for engine in (p, d):
        engine.answer(START_LIMIT)
    try:
        p("add", "one", 77, {"do_remote_decode": True})
        ntokens, theirs, far = step_until(p, "one", 2)
        assert ntokens == 77 and far["blocks"] == theirs and not p("idle")
        d("add", "mine", 77, json.loads(json.dumps(far)))
        ntokens, mine, _ = step_until(d, "mine", 2)
        assert ntokens == 1  # the last token, whose output is the first of the answer
        for here, there in zip(d("tokens", mine, 77), p("tokens", theirs, 77)):
            assert np.array_equal(here, there)
        end = time.monotonic() + LIMIT
        while not p("idle"):
            assert time.monotonic() < end, "the blocks were not given back"
            p("step")
        # A load that fails: the scheduler has all tokens computed here.
        p("add", "two", 77, {"do_remote_decode": True})
        far = step_until(p, "two", 2)[2]
        p.process.kill()
        p.process.join()
        d("add", "again", 77, json.loads(json.dumps(far)))
        assert step_until(d, "again", 2)[0] == 77
        d("step")
        assert d("idle")
    finally:
        for engine in (p, d):
            engine.process.kill()
            engine.process.join()


@pytest.fixture
def engines(tmp_path):
    made = []

    def make(name, shape, where=f"file:{tmp_path}", env=(), **settings):
        made.append(Engine(where, name, shape, env, **settings))
        return made[-1]

    yield make
    for engine in made:
        engine.end()


def both(make, prefill, decode, timeout=5, **settings):
    pair = make("prefill", prefill, **settings), make("decode", decode, timeout=timeout)
    return [engine.started() for engine in pair]


PAIRS = [
    (Shape(), Shape()),
    (Shape(order="HND"), Shape(block_size=32, axes="blocks first")),
    (Shape(), Shape(2, 32)),
    (Shape(order="HND"), Shape(2, 32, order="NHD")),
    (Shape(2, 32, order="HND"), Shape(axes="blocks first")),
    (Shape(2, 16), Shape(block_size=32, order="HND")),
    (Shape(axes="kv last"), Shape(axes="kv last")),
    (Shape(axes="kv last"), Shape(2, 32, order="HND", axes="kv last")),
    (Shape(2, 32, order="HND", axes="kv last"), Shape(axes="kv last")),
]


@pytest.mark.parametrize("prefill, decode", PAIRS, ids=str)
def test_every_byte_arrives(engines, prefill, decode):
    p, d = both(engines, prefill, decode)
    far = p.prefill("one", 7, [5, 1, 8, 11, 2, 0, 3][: -(-77 // prefill.block_size)], 77)
    mine = [9, 2, 10, 4, 7, 1][: -(-77 // decode.block_size)]
    d.schedule("mine", far, mine, 77, computed=32)
    assert d.until(1, "mine") == set()
    assert d.differs(7, mine, 32, 77) == 0
    p.until(0, "one")
    assert d.stats["loads"] == decode.tp_size and d.stats["failed"] == 0
    assert d.stats["nbytes"] == (77 - 32) * 2 * 3 * 4 * 8 * 2
    assert p.stats.get("expired", 0) == 0


def test_blocks_that_are_lent_no_longer_are_not_read(engines):
    p, d = both(engines, Shape(), Shape(2), lease=0.2)
    blocks, mine = [3, 4, 5], [7, 6, 5]
    far = p.prefill("late", 1, blocks, 40)
    p.until(0, "late")  # without a reader: the lease has ended it
    assert p.stats["expired"] == 1
    p.workers[0]("fill", 2, blocks, 40)  # the next owner of the blocks
    d.schedule("mine", far, mine, 40, computed=16)
    assert d.until(1, "mine") == set(mine[1:])
    assert d.differs(2, mine, 0, 0) == 0  # not a byte of theirs
    assert (d.stats["failed"], d.stats.get("loads", 0)) == (2, 0)


@pytest.mark.parametrize("where", ["prepared", "started"])
def test_a_peer_that_is_killed_in_the_middle(engines, where):
    shape = Shape(block_size=32, nblocks=16, head_size=1024)
    p, d = both(engines, shape, shape, timeout=2)
    blocks, ntokens = list(range(16)), 512
    far = p.prefill("one", 1, blocks, ntokens)
    d.workers[0]("kill_at", where, p.workers[0].process.pid)
    d.schedule("mine", far, blocks, ntokens)
    failed = d.until(1, "mine")
    if where == "prepared" or failed:
        assert failed == set(blocks)
    else:
        assert d.differs(1, blocks, 0, ntokens) == 0
    p.workers[0].process.join(10)
    assert p.workers[0].process.exitcode == -9
    d.workers[0]("heal")
    d.schedule("again", {**far, "do_remote_prefill": True}, blocks, ntokens)
    assert d.until(1, "again") == set(blocks)
    # It comes again, by the same name, and serves those who had known its former process.
    again = engines("prefill", shape).started()
    far = again.prefill("two", 2, blocks, ntokens)
    d.schedule("mine", far, blocks, ntokens)
    assert d.until(1, "mine") == set()
    assert d.differs(2, blocks, 0, ntokens) == 0
    again.until(0, "two")


def test_blocks_come_back_unread(engines):
    p, d = both(engines, Shape(2), Shape(), lease=60)
    far = p.prefill("one", 1, [0, 1], 32)
    d.schedule("hit", far, [4, 5], 32, computed=32)  # all of it is in the cache
    d.step()
    p.until(0, "one")
    far = p.prefill("two", 1, [2, 3], 32)
    request = d.aborted("gone", far, 32)
    assert request == (False, None)
    d.step()
    p.until(0, "two")
    assert d.differs(1, [], 0, 0) == 0 and d.stats.get("failed", 0) == 0
    assert p.stats.get("expired", 0) == 0


@pytest.mark.parametrize("prefill, decode", [(2, 1), (1, 2)])
def test_ranks_that_have_the_same_head(engines, prefill, decode):
    p, d = both(engines, Shape(prefill, nheads=1), Shape(decode, nheads=1), lease=60)
    far = p.prefill("one", 5, [0, 1], 32)
    d.schedule("mine", far, [4, 5], 32)
    assert d.until(1, "mine") == set()
    assert d.differs(5, [4, 5], 0, 32) == 0
    p.until(0, "one")  # the rank of which nobody has read, too
    assert p.stats.get("expired", 0) == 0


def test_engines_meet_by_ports(engines):
    port = {"where": "tcp://127.0.0.1:0", "env": {"NIXLRUN_TOKEN": "0123456789abcdef" * 4}}
    shapes = [("prefill", Shape(2)), ("decode", Shape())]
    p, d = [engines(name, shape, **port).started() for name, shape in shapes]
    far = p.prefill("one", 5, [0, 1], 32)
    assert all(rank[0].startswith("tcp://127.0.0.1:") for rank in far["ranks"])
    d.schedule("mine", far, [4, 5], 32)
    assert d.until(1, "mine") == set()
    assert d.differs(5, [4, 5], 0, 32) == 0
    p.until(0, "one")


def test_a_long_prompt_is_lent_in_several_notes(engines):
    shape = Shape(2, 1, 1000)
    p, d = both(engines, shape, Shape(1, 16, 64))
    blocks, mine = list(range(999, -1, -1))[:900], list(range(60))
    far = p.prefill("one", 3, blocks, 900)
    assert len(far["tokens"]) == 2 and far["blocks"] == blocks
    d.schedule("mine", far, mine, 900)
    assert d.until(1, "mine") == set()
    assert d.differs(3, mine, 0, 900) == 0
    p.until(0, "one")


def test_a_reader_that_is_killed_leaves_its_blocks_to_the_lease(engines):
    p, d = both(engines, Shape(), Shape(), lease=0.5)
    p.prefill("one", 1, [0, 1], 32)
    d.workers[0].process.kill()
    p.until(0, "one")
    assert p.stats["expired"] == 1


def test_settings_and_caches_that_do_not_fit_are_refused(engines):
    for settings, text in [({"lese": 1}, "allowed"), ({}, "")]:
        engine = engines("one" + text, Shape(nblocks=2 if not text else 12), **settings)
        with pytest.raises(AssertionError, match=text or "more than 2 blocks"):
            engine.started()


def test_a_model_that_differs_is_refused(engines):
    p, d = both(engines, Shape(head_size=4), Shape())
    far = p.prefill("one", 1, [0, 1], 32)
    d.schedule("mine", far, [2, 3], 32)
    assert d.until(1, "mine") == {2, 3}
    assert d.differs(1, [], 0, 0) == 0


@pytest.mark.parametrize("tp_size", [1, 2])
def test_what_cannot_be_lent_is_freed_at_once(engines, tp_size):
    p, d = both(engines, Shape(tp_size), Shape())
    assert p.refused("bad", [0, 99], 32)
    far = p.prefill("one", 1, [0, 1], 32)
    d.schedule("mine", far, [2, 3], 32)
    assert d.until(1, "mine") == set()
    assert d.differs(1, [2, 3], 0, 32) == 0
    p.until(0, "one")


def test_parameters_that_do_not_fit(engines):
    p, d = both(engines, Shape(), Shape())
    far = p.prefill("one", 1, [0, 1], 32)
    d.schedule("longer", dict(far), [2, 3, 4], 33, expected=0)
    d.schedule("foreign", {"do_remote_prefill": True, "remote_host": "a"}, [2, 3], 32, expected=0)
    d.step()
    p.until(0, "one")
    for name, change in [
        ("outside", {"blocks": [0, 99]}),
        ("negative", {"blocks": [-1, 0]}),
        ("short", {"blocks": [0]}),
        ("forged", {"tokens": ["no token"]}),
    ]:
        d.schedule(name, {**p.prefill(name, 1, [0, 1], 32), **change}, [2, 3], 32)
        assert d.until(1, name) == {2, 3}
        p.until(0, name)  # each is given back
    assert d.differs(1, [], 0, 0) == 0


@pytest.fixture
def reshard(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield pytest.importorskip("kv_reshard")
    sys.modules.pop("kv_reshard")


@pytest.mark.parametrize("here, there", [(1, 1), (1, 4), (4, 2), (8, 1), (1, 8), (8, 16), (16, 2)])
def test_each_head_is_read_once(reshard, here, there):
    counts = [0] * there
    for rank in range(here):
        parts = reshard.sources(rank, here, there, NHEADS)
        heads = [head for part in parts.values() for head in part]
        assert sorted(heads) == list(reshard.heads_of(rank, here, NHEADS))
        for far, part in parts.items():
            assert set(part) <= set(reshard.heads_of(far, there, NHEADS))
            counts[far] += 1
    assert reshard.readers(here, there, NHEADS) == counts


@pytest.mark.parametrize(
    "here, there, units",
    [
        (Shape(), Shape(), 16 * NHEADS),  # a block of K
        (Shape(order="HND"), Shape(order="HND"), 16 * NHEADS),
        (Shape(axes="blocks first"), Shape(axes="blocks first"), 2 * 16 * NHEADS),
        (Shape(axes="kv last"), Shape(axes="kv last"), 16 * NHEADS),  # a block of both
        (Shape(), Shape(block_size=32), 16 * NHEADS),
        (Shape(order="HND"), Shape(block_size=32, order="HND"), 16),
        (Shape(order="HND"), Shape(), 1),
    ],
    ids=str,
)
def test_pieces_are_as_long_as_they_can_be(reshard, here, there, units):
    layouts = [reshard.Layout.of(shape.cache(), shape.nblocks) for shape in (here, there)]
    tokens, heads = np.arange(64), np.arange(NHEADS)
    blocks = [[5, 1, 8, 3], [7, 2, 9, 4]]
    sides = [layout.offsets(some, tokens, heads) for layout, some in zip(layouts, blocks)]
    nbytes, first, second = reshard.pieces(*sides, layouts[0].unit)
    assert nbytes == units * layouts[0].unit
    nhalves = 1 if here.axes == "kv last" else 2
    assert len(first) == len(second) == nhalves * 64 * NHEADS // units


def test_bad_caches(reshard):
    for cache, text in [
        (np.zeros((2, 2, 16, 4, 8)), "more than 2 blocks"),
        (np.zeros((9, 16, 64)), "has the shape"),
        (np.zeros((8, 4, 16, 16)), "has the shape"),
        (np.zeros((9, 4, 16, 16))[..., ::2], "not contiguous"),
        (np.zeros((2, 9, 16, 4, 16))[..., ::2], "not contiguous"),
        (np.zeros((2, 9, 16, 8, 8))[:, :, :, ::2], "not contiguous"),
    ]:
        with pytest.raises(ValueError, match=text):
            reshard.Layout.of(cache, 2 if cache.shape[1] == 2 else 9)
