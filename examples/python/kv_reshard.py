# SPDX-License-Identifier: Apache-2.0
"""Which bytes of which KV cache a tensor-parallel rank needs, for kv_connector.py.

Engines may differ in tensor-parallel size, block size and layout (NHD or HND): all follows from the
strides of the caches. Arrays of numpy and tensors of torch are caches alike.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


def _strides(cache: Any) -> list[int]:
    """In bytes."""
    if hasattr(cache, "stride"):
        return [stride * cache.itemsize for stride in cache.stride()]
    return list(cache.strides)


def physical(cache: Any) -> Any:
    """A view with its axes in the order of the memory, which is contiguous."""
    strides = _strides(cache)
    order = sorted(range(len(strides)), key=lambda axis: -strides[axis])
    return cache.permute(order) if hasattr(cache, "permute") else cache.transpose(order)


class Layout(NamedTuple):
    """Strides of a layer in bytes; ``unit`` is one head of one token, which is contiguous.

    ``kv`` is 0 if K and V of it adjoin, and are the unit together.
    """

    block_size: int
    nheads: int
    kv: int
    block: int
    token: int
    head: int
    unit: int

    @classmethod
    def of(cls, cache: Any, nblocks: int) -> Layout:
        """Of a cache of shape (blocks, heads, tokens, K and V of one head of one token).

        Or, as of older versions of vLLM, (2, blocks, tokens, heads, size) or (blocks, 2, ...).
        """
        shape, stride = tuple(cache.shape), _strides(cache)
        if len(shape) == 4 and shape[0] == nblocks:
            kv, block, token, head = None, 0, 2, 1
        elif len(shape) == 5 and nblocks != 2 and {nblocks, 2} == set(shape[:2]):
            kv = shape.index(2)
            block, token, head = 1 - kv, 2, 3
        else:
            raise ValueError(
                f"a KV cache has the shape {shape}; allowed: ({nblocks}, heads, tokens, size) and, "
                f"of more than 2 blocks, (2, {nblocks}, tokens, heads, size), ({nblocks}, 2, ...)"
            )
        block_size, nheads, unit = shape[token], shape[head], shape[-1] * cache.itemsize
        nhd, hnd = (unit * nheads, unit), (unit, unit * block_size)
        if stride[-1] != cache.itemsize or (stride[token], stride[head]) not in (nhd, hnd):
            raise ValueError(f"a KV cache has the strides {stride}: K of a block is not contiguous")
        kv_stride = 0 if kv is None else stride[kv]
        return cls(block_size, nheads, kv_stride, stride[block], stride[token], stride[head], unit)

    @property
    def halves_at(self) -> Any:
        """Where K and V begin, or both."""
        return np.arange(2) * self.kv if self.kv else np.zeros(1, np.int64)

    def offsets(self, blocks: Any, tokens: Any, heads: Any) -> Any:
        """Where K and V of each head of each token are, in an array of these three axes."""
        block, token = np.divmod(tokens, self.block_size)
        place = np.asarray(blocks, np.int64)[block] * self.block + token * self.token
        return self.halves_at[:, None, None] + place[:, None] + heads * self.head

    def halves(self, blocks: Any) -> tuple[int, Any]:
        """The bytes of K of one block, and the numbers of K and V of these blocks in such bytes."""
        nbytes = self.unit * self.nheads * self.block_size
        place = self.halves_at[:, None] + np.asarray(blocks, np.int64) * self.block
        return nbytes, (place.ravel() // nbytes).astype(np.uint64)


def heads_of(rank: int, tp_size: int, nheads: int) -> range:
    """The heads of a tensor-parallel rank; with more ranks than heads, several have the same."""
    first = rank * nheads // tp_size
    return range(first, max((rank + 1) * nheads // tp_size, first + 1))


def sources(rank: int, tp_size: int, far_size: int, nheads: int) -> dict[int, list[int]]:
    """Which heads a rank reads from which ranks of the other engine."""
    parts: dict[int, list[int]] = {}
    for head in heads_of(rank, tp_size, nheads):
        owners = [far for far in range(far_size) if head in heads_of(far, far_size, nheads)]
        parts.setdefault(owners[rank % len(owners)], []).append(head)
    return parts


def readers(tp_size: int, far_size: int, nheads: int) -> list[int]:
    """How many ranks read from each rank of the other engine; with copies of heads some have 0."""
    parts = [sources(rank, tp_size, far_size, nheads) for rank in range(tp_size)]
    return [sum(far in part for part in parts) for far in range(far_size)]


def pieces(here: Any, there: Any, unit: int) -> tuple[int, Any, Any]:
    """Join units that adjoin on both sides: bytes of a piece, and where they begin, in units."""
    order = np.argsort(there, axis=None)
    here, there = here.ravel()[order] // unit, there.ravel()[order] // unit
    breaks = np.flatnonzero((np.diff(here) != 1) | (np.diff(there) != 1)) + 1
    length = int(np.gcd.reduce(np.diff(np.concatenate(([0], breaks, [len(there)])))))
    return length * unit, here[::length].astype(np.uint64), there[::length].astype(np.uint64)
