# SPDX-License-Identifier: Apache-2.0
"""Teams: every collective against the result that numpy computes."""

import os
import signal

import numpy as np
import pytest

import nixlrun

N = 1000


def mine(rank, n=N, dtype=np.float64):
    return np.random.default_rng(rank).integers(1, 5, n).astype(dtype)


@pytest.mark.ranks(3)
def test_collectives_that_move_data(job):
    team = job.team()
    me, size = team.rank, team.size
    assert (me, size) == (job.rank, 3)
    everyone = np.stack([mine(rank) for rank in range(size)])
    buf = mine(me)
    team.broadcast(buf, 1)
    assert np.array_equal(buf, mine(1))
    got = np.zeros((size, N)) if me == 2 else None
    team.gather(mine(me), got, 2)
    assert me != 2 or np.array_equal(got, everyone)
    if me == 2:
        got[:] = 0
        got[2] = mine(2)
    team.gather(None if me == 2 else mine(me), got, 2)
    assert me != 2 or np.array_equal(got, everyone)
    part = np.zeros(N)
    team.scatter(everyone if me == 0 else None, part)
    assert np.array_equal(part, mine(me))
    every = np.zeros((size, N))
    team.allgather(mine(me), every)
    assert np.array_equal(every, everyone)
    every[:] = 0
    every[me] = mine(me)
    team.allgather(None, every)
    assert np.array_equal(every, everyone)
    table = np.arange(size * N).reshape(size, N) + 1000000 * me
    swapped = np.zeros_like(table)
    team.alltoall(table, swapped)
    wanted = np.stack([np.arange(size * N).reshape(size, N)[me] + 1000000 * r for r in range(size)])
    assert np.array_equal(swapped, wanted)
    team.alltoall(None, table)
    assert np.array_equal(table, wanted)
    team.start_barrier().wait()


@pytest.mark.ranks(1)
def test_a_prepared_collective_that_outlives_its_team(job):
    array = np.ones(4)
    team = job.team()
    plans = [team.prepare("allreduce", None, array) for _ in range(70)]
    team.free()
    assert plans[0].is_freed
    team = job.team()
    # The library takes handles again; dropping the former ones here must not free these.
    plans = [team.prepare("allreduce", None, array) for _ in range(70)]
    for plan in plans:
        plan.run()
    team.free()


@pytest.mark.ranks(3)
def test_parts_of_different_sizes(job):
    team = job.team()
    me = team.rank
    counts = np.array([1, 2, 3])
    joined = np.concatenate([np.full(n, n, np.int16) for n in counts])
    got = np.zeros(6, np.int16)
    team.gatherv(np.full(me + 1, me + 1, np.int16), got if me == 0 else None, counts if me == 0 else None)
    assert me != 0 or np.array_equal(got, joined)
    part = np.zeros(me + 1, np.int16)
    team.scatterv(joined if me == 1 else None, [1, 2, 3] if me == 1 else None, part, 1)
    assert (part == me + 1).all()
    got[:] = 0
    team.allgatherv(part, got, counts)
    assert np.array_equal(got, joined)
    sent = np.repeat(np.arange(3, dtype=np.int32), me + 1)  # me + 1 elements for each
    got = np.zeros(6, np.int32)
    team.alltoallv(sent, [me + 1] * 3, got, counts)
    assert (got == me).all()
    for call in (lambda: team.allgatherv(part, got, [1, 2]), lambda: team.allgatherv(part, got, [5, 5, 5]),
                 lambda: team.gatherv(part, None, None, me)):
        with pytest.raises((ValueError, TypeError)):
            call()
    team.barrier()


@pytest.mark.ranks(2)
def test_reductions(job):
    team = job.team()
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
                  "float32", "float64"):
        reductions(team, dtype)


def reductions(team, dtype):
    me, size = team.rank, team.size
    everyone = np.stack([mine(rank, N, dtype) for rank in range(size)])
    got = np.zeros(N, dtype)
    for op, wanted in (("sum", everyone.sum(0, dtype)), ("prod", everyone.prod(0, dtype)),
                       ("min", everyone.min(0)), ("max", everyone.max(0))):
        team.allreduce(everyone[me], got, op)
        assert np.array_equal(got, wanted), (op, dtype)
    if np.issubdtype(dtype, np.integer):
        for op, how in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
            team.allreduce(everyone[me], got, op)
            assert np.array_equal(got, how.reduce(everyone))
    else:
        with pytest.raises(nixlrun.InvalidArgumentError):
            team.allreduce(everyone[me], got, "xor")
    got[:] = everyone[me]
    team.allreduce(None, got)
    assert np.array_equal(got, everyone.sum(0, dtype))
    team.reduce(everyone[me], got if me == 1 else None, "max", 1)
    assert me != 1 or np.array_equal(got, everyone.max(0))
    half = np.zeros(N // 2, dtype)
    team.reduce_scatter(everyone[me], half)
    assert np.array_equal(half, everyone.sum(0, dtype)[me * N // 2 : (me + 1) * N // 2])
    team.scan(everyone[me], got)
    assert np.array_equal(got, everyone[: me + 1].sum(0, dtype))
    got[:] = 77
    team.scan(everyone[me], got, exclusive=True)
    assert np.array_equal(got, everyone[:me].sum(0, dtype)) if me else (got == 77).all()


@pytest.mark.ranks(2)
def test_bfloat16_by_name(job):
    team = job.team()
    halves = np.full(8, 0x3F80, np.uint16)  # 1.0
    team.allreduce(None, halves, dtype="bfloat16")
    assert (halves == 0x4000).all()  # 2.0


@pytest.mark.ranks(2)
def test_bad_arrays(job):
    team = job.team()
    a = np.zeros(10)
    for call in (lambda: team.allgather(a, np.zeros(19)), lambda: team.allreduce(a, np.zeros(9)),
                 lambda: team.scatter(a, a, team.rank), lambda: team.alltoall(np.zeros(5, np.uint8), np.zeros(5, np.uint8)),
                 lambda: team.allreduce(a, a.copy(), "avg"), lambda: team.reduce_scatter(a, a.copy())):
        with pytest.raises(ValueError):
            call()
    for call in (lambda: team.allreduce(np.zeros(4, complex), np.zeros(4, complex)),
                 lambda: team.broadcast("text"), lambda: team.allgather(a, None),
                 lambda: team.gather(None, None, 1 - team.rank)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(BufferError):
        team.allreduce(np.zeros((4, 4))[:, :2], np.zeros((4, 2)))
    with pytest.raises(BufferError):
        team.broadcast(b"frozen", 1 - team.rank)
    with pytest.raises(nixlrun.InvalidArgumentError):
        team.broadcast(a, 2)
    team.barrier()  # none of these broke it


@pytest.mark.ranks(4)
def test_teams_of_some_ranks(job):
    world = job.team()
    half = world.split(job.rank % 2, -job.rank)
    assert (half.size, half.rank) == (2, 0 if job.rank >= 2 else 1)
    total = np.array([job.rank])
    half.allreduce(None, total)
    assert total[0] == (2 if job.rank % 2 == 0 else 4)
    assert world.split(-1 if job.rank else 0) is None or job.rank == 0
    if job.rank in (3, 1):
        pair = job.team([3, 1])
        assert pair.rank == (0 if job.rank == 3 else 1)
        assert pair.translate(0) == 3 and pair.translate(0, world) == 3
        assert half.translate(0, pair) == 0
        pair.barrier()
        pair.free()
        with pytest.raises(nixlrun.ClosedError):
            pair.barrier()
    assert job.node_team().size == 4
    with pytest.raises(nixlrun.InvalidArgumentError):
        job.team([0, 0, job.rank])
    world.barrier()


@pytest.mark.ranks(3, options=["--on-failure", "continue"], rc=137)
def test_a_team_shrinks_after_a_death(job):
    team = job.team()
    team.barrier()
    if job.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises((nixlrun.PeerLostError, nixlrun.CanceledError)):
        team.barrier(timeout=20)
    rest = team.shrink(timeout=20)
    assert rest.size == 2
    total = np.array([1])
    rest.allreduce(None, total)
    assert total[0] == 2


@pytest.mark.ranks(3)
def test_a_team_is_reformed(job):
    if job.rank != 0:
        upper = job.reform([2, 1], timeout=20)
        assert (upper.size, upper.rank) == (2, 2 - job.rank)
        upper.barrier()
    team = job.reform([0, 1, 2], timeout=20)
    total = np.array([job.rank + 1])
    team.allreduce(None, total)
    assert total[0] == 6
    with pytest.raises(nixlrun.InvalidArgumentError):
        job.reform([job.rank, job.rank])
    if job.rank == 0:
        with pytest.raises(nixlrun.TimedOutError):
            job.reform([0, 1, 2], timeout=0.2)
    team.barrier(timeout=20)
    job.reform([0, 1, 2], timeout=20).barrier()


@pytest.mark.ranks(2)
def test_a_collective_that_times_out(job):
    team = job.team()
    if job.rank == 0:
        with pytest.raises(nixlrun.TimedOutError):
            team.barrier(timeout=0.2)
        with pytest.raises(nixlrun.CanceledError):
            team.barrier()
    job.notify(1 - job.rank, 1)
    job.recv(tag=1)
    again = team.split(0)
    again.barrier()


@pytest.mark.ranks(3)
def test_prepared_collectives(job):
    team = job.team()
    small, large = np.zeros(1), np.zeros(100000)
    total, totals = np.zeros(1), np.zeros(100000)
    table, swapped = np.zeros((3, N)), np.zeros((3, N))
    with team.prepare("allreduce", small, total) as sum_one, \
            team.prepare("allreduce", large, totals, "max", timeout=20) as most, \
            team.prepare("alltoallv", table, [N] * 3, swapped, [N] * 3) as swap, \
            team.prepare("barrier") as meet:
        for step in range(5):
            small[:] = job.rank + step
            large[:] = job.rank * step
            table[:] = job.rank + step
            sum_one.run()
            request = most.start()
            swap.run(timeout=20)
            request.wait()
            meet.run()
            assert total[0] == 3 + 3 * step
            assert (totals == 2 * step).all()
            assert (swapped == np.arange(3)[:, None] + step).all()
        assert "allreduce of 3 members" in repr(most)
    with pytest.raises(nixlrun.ClosedError):
        most.run()
    with pytest.raises(ValueError, match="allowed: barrier"):
        team.prepare("split", 0)
    with pytest.raises(nixlrun.InvalidArgumentError, match="prepares another"):
        team.prepare("broadcast", small if job.rank == 0 else large)
    last = team.prepare("scan", small, total)
    team.free()
    with pytest.raises(nixlrun.ClosedError):
        last.run()
    last.free()
    assert last.is_freed


@pytest.mark.ranks(1)
def test_numbers_that_are_no_members_or_sizes(job):
    """None of them is taken for another number, or for a collective without a root."""
    team = job.team()
    x, y = np.ones(4), np.zeros(4)
    for root in (-1, 1, 2**31, 2**64):
        for call in (lambda: team.gather(x, y, root), lambda: team.scatter(x, y, root),
                     lambda: team.broadcast(y, root), lambda: team.reduce(x, y, "sum", root),
                     lambda: team.gatherv(x, y, [4], root), lambda: team.scatterv(x, [4], y, root)):
            with pytest.raises(ValueError, match="root"):
                call()
    for many in (2**61 + 4, 2**63, 2**64 - 1):  # elements of 8 bytes
        for call in (lambda: team.alltoallv(x, [many], y, [4]), lambda: team.alltoallv(x, [4], y, [many]),
                     lambda: team.allgatherv(x, y, [many]), lambda: team.gatherv(x, y, [many])):
            with pytest.raises(ValueError, match="counts"):
                call()
    for call in (lambda: team.split(2**31), lambda: team.split(0, -(2**40)), lambda: team.translate(2**31),
                 lambda: job.drain(-1), lambda: job.default_queue.drain(0, -1), lambda: job.debug_dump(2**40)):
        with pytest.raises(ValueError, match="allowed"):
            call()
    assert not y.any()
