# SPDX-License-Identifier: Apache-2.0
# What needs a GPU, or a stand-in for its driver: see README.md.
gpu_sources = %D%/gpu.c %D%/gpu.h test/cuda/driver.c test/cuda/driver.h
gpu_libs = test/mp/libmptest.la $(nixlrun_la) -ldl
EXTRA_PROGRAMS += %D%/gpu_collective %D%/gpu_extents %D%/gpu_kill %D%/gpu_kinds %D%/gpu_leave %D%/gpu_litmus %D%/gpu_loose %D%/gpu_reduce %D%/gpu_soak %D%/gpu_speed %D%/gpu_stream
%C%_gpu_kinds_SOURCES = %D%/gpu_kinds.c $(gpu_sources)
%C%_gpu_kinds_LDFLAGS = $(mp_link)
%C%_gpu_kinds_LDADD = $(gpu_libs)
%C%_gpu_collective_SOURCES = %D%/gpu_collective.c $(gpu_sources)
%C%_gpu_collective_LDFLAGS = $(mp_link)
%C%_gpu_collective_LDADD = $(gpu_libs)
%C%_gpu_reduce_SOURCES = %D%/gpu_reduce.c $(gpu_sources)
%C%_gpu_reduce_LDFLAGS = $(mp_link)
%C%_gpu_reduce_LDADD = $(gpu_libs)
%C%_gpu_extents_SOURCES = %D%/gpu_extents.c $(gpu_sources)
%C%_gpu_extents_LDFLAGS = $(mp_link)
%C%_gpu_extents_LDADD = $(gpu_libs)
%C%_gpu_kill_SOURCES = %D%/gpu_kill.c $(gpu_sources)
%C%_gpu_kill_LDFLAGS = $(mp_link)
%C%_gpu_kill_LDADD = $(gpu_libs)
%C%_gpu_leave_SOURCES = %D%/gpu_leave.c $(gpu_sources)
%C%_gpu_leave_LDFLAGS = $(mp_link)
%C%_gpu_leave_LDADD = $(gpu_libs)
%C%_gpu_litmus_SOURCES = %D%/gpu_litmus.c $(gpu_sources)
%C%_gpu_litmus_LDFLAGS = $(mp_link)
%C%_gpu_litmus_LDADD = $(gpu_libs)
%C%_gpu_loose_SOURCES = %D%/gpu_loose.c $(gpu_sources)
%C%_gpu_loose_LDFLAGS = $(mp_link)
%C%_gpu_loose_LDADD = $(gpu_libs)
%C%_gpu_soak_SOURCES = %D%/gpu_soak.c $(gpu_sources)
%C%_gpu_soak_LDFLAGS = $(mp_link)
%C%_gpu_soak_LDADD = $(gpu_libs)
%C%_gpu_stream_SOURCES = %D%/gpu_stream.c $(gpu_sources)
%C%_gpu_stream_LDFLAGS = $(mp_link)
%C%_gpu_stream_LDADD = $(gpu_libs)
%C%_gpu_speed_SOURCES = %D%/gpu_speed.c $(gpu_sources)
%C%_gpu_speed_LDFLAGS = $(mp_link)
%C%_gpu_speed_LDADD = $(gpu_libs)

dist_check_SCRIPTS += %D%/check_device.sh %D%/check_ptx.sh
TESTS += %D%/check_device.sh %D%/check_ptx.sh %D%/gpu.mp
EXTRA_DIST += %D%/README.md %D%/device_compile.cu %D%/gpu.mp %D%/gpu_device.cu %D%/pack \
	%D%/peers.py %D%/peers_nixl.py %D%/peers_nvshmem.py %D%/peers_rows.py %D%/run \
	%D%/torch_tensors.py

# What test/gpu/pack packs beside what is installed.
gpu-programs: %D%/gpu_collective %D%/gpu_extents %D%/gpu_kill %D%/gpu_kinds %D%/gpu_leave %D%/gpu_litmus %D%/gpu_loose %D%/gpu_reduce %D%/gpu_soak %D%/gpu_speed %D%/gpu_stream \
	test/attach/attach_gpu test/conformance/conformance
.PHONY: gpu-programs
