#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's tensors as regions and as local sides: one of two ranks.

    nixlrun -np 2 python3 torch_tensors.py LIBRARY

Each rank registers a tensor, and puts from it, on PyTorch's stream, into that of the other. A tensor of no region
as the local side is refused with a reason, or its bytes arrive; it is never read by the processor. At the end nothing
is closed: nixl_finalize() returns at once. PYTORCH_CUDA_ALLOC_CONF chooses PyTorch's allocator. Exit code 77: PyTorch
or a GPU is missing.
"""
import ctypes
import sys
import time

try:
    import torch
except ImportError:
    print("skip: PyTorch is not installed")
    sys.exit(77)

FOREVER = 2**63 - 1
PATIENCE = 60 * 10**9
SOON = 4  # seconds; NIXLRUN_FINALIZE_TIMEOUT is 10
OK, INVALID_ARG = 0, -1
AUTO = 4
N = 32 << 20


class MemParams(ctypes.Structure):
    """struct nixl_mem_params"""

    _fields_ = [
        ("struct_nbytes", ctypes.c_size_t),
        ("kind", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
        ("numa_node", ctypes.c_int32),
        ("device", ctypes.c_char_p),
        ("vulkan", ctypes.c_void_p),
    ]


OP_STREAM = 4


class Op(ctypes.Structure):
    _fields_ = [
        ("struct_nbytes", ctypes.c_size_t),
        ("flags", ctypes.c_uint32),
        ("rank", ctypes.c_int),
        ("context", ctypes.c_void_p),
        ("cq", ctypes.c_void_p),
        ("user_data", ctypes.c_uint64),
        ("timeout_ns", ctypes.c_int64),
        ("stream", ctypes.c_void_p),
        ("tag", ctypes.c_uint64),
        ("msg", ctypes.c_void_p),
        ("msg_nbytes", ctypes.c_size_t),
        ("signal_region", ctypes.c_void_p),
        ("signal_offset", ctypes.c_uint64),
        ("signal", ctypes.c_void_p),
        ("signal_value", ctypes.c_uint64),
        ("signal_op", ctypes.c_int32),
    ]


class Error(ctypes.Structure):
    """struct nixl_error"""

    _fields_ = [
        ("struct_nbytes", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("native_code", ctypes.c_int),
        ("operation", ctypes.c_char_p),
        ("transport", ctypes.c_char_p),
        ("text", ctypes.c_char_p),
    ]


class Library:
    """The calls that are used here, checked."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.nixl_last_error.restype = ctypes.POINTER(Error)

    def why(self):
        return self.c.nixl_last_error().contents.text.decode()

    def need(self, status, what):
        if status != OK:
            sys.exit(f"FAILED: {what}: {status}: {self.why()}")

    def register(self, name, tensor):
        region = ctypes.c_void_p()
        params = MemParams(ctypes.sizeof(MemParams), AUTO, 0, 0, None, None)
        self.need(
            self.c.nixl_region_register(
                name, ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(tensor.nbytes), ctypes.byref(params),
                ctypes.byref(region)), "nixl_region_register")
        return region

    def put(self, rank, region, offset, tensor, nbytes):
        return self.c.nixl_put(rank, region, ctypes.c_uint64(offset), ctypes.c_void_p(tensor.data_ptr()),
                               ctypes.c_size_t(nbytes))

    def put_on_stream(self, rank, region, offset, tensor, nbytes, stream):
        form = Op(ctypes.sizeof(Op), OP_STREAM, 0, None, None, 0, 0, stream)
        return self.c.nixl_put_x(rank, region, ctypes.c_uint64(offset), ctypes.c_void_p(tensor.data_ptr()),
                                 ctypes.c_size_t(nbytes), ctypes.byref(form), None)

    def flush(self, rank):
        self.need(self.c.nixl_flush(rank, ctypes.c_int64(PATIENCE)), "nixl_flush")

    def team(self):
        team = ctypes.c_void_p()
        self.need(self.c.nixl_team_world(ctypes.c_int64(PATIENCE), ctypes.byref(team)), "nixl_team_world")
        return team

    def barrier(self, team):
        self.need(self.c.nixl_barrier(team, ctypes.c_int64(PATIENCE)), "nixl_barrier")


def put_loose(nixl, other, region, loose):
    """A tensor of no region: refused with a reason, or taken."""
    status = nixl.put(other, region, N, loose, N)
    if status == OK:
        return True
    why = nixl.why()
    if status != INVALID_ARG or "no region" not in why:
        sys.exit(f"FAILED: nixl_put() from a tensor of no region: {status}: {why}")
    print(f"# refused: {why}", flush=True)
    return False


def put_ordered(nixl, other, region, big):
    """In the order of PyTorch's stream. Memory that the GPU does not reach at the peer goes without it."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        big[:N].fill_(nixl.c.nixl_rank() + 1)
        status = nixl.put_on_stream(other, region, 2 * N, big, N, stream.cuda_stream)
    stream.synchronize()
    if status != OK:
        print(f"# not on a stream: {nixl.why()}", flush=True)
        nixl.need(nixl.put(other, region, 2 * N, big, N), "nixl_put")


def main():
    if torch.cuda.device_count() == 0:
        print("skip: there is no GPU")
        return 77
    nixl = Library(sys.argv[1])
    nixl.need(nixl.c.nixl_init(None), "nixl_init")
    rank, size = nixl.c.nixl_rank(), nixl.c.nixl_size()
    other = (rank + 1) % size
    torch.cuda.set_device(rank % torch.cuda.device_count())
    big = torch.zeros(3 * N, dtype=torch.uint8, device="cuda")
    loose = torch.full((N,), 7 + rank, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    region, team = nixl.register(b"big", big), nixl.team()
    is_taken = put_loose(nixl, other, region, loose)
    put_ordered(nixl, other, region, big)
    nixl.flush(other)
    nixl.barrier(team)
    left = (rank + size - 1) % size
    if not bool((big[2 * N:] == left + 1).all()) or (is_taken and not bool((big[N:2 * N] == 7 + left).all())):
        sys.exit("FAILED: other bytes than the other rank has put")
    torch.cuda.synchronize()
    nixl.barrier(team)
    began = time.monotonic()
    nixl.need(nixl.c.nixl_finalize(), "nixl_finalize")
    took = time.monotonic() - began
    if took > SOON:
        sys.exit(f"FAILED: nixl_finalize() took {took:.1f} s; allowed: {SOON}")
    print("passed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
