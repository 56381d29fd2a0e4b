# SPDX-License-Identifier: Apache-2.0
# Examples: built and tested here, installed as sources.
noinst_PROGRAMS += %D%/allreduce %D%/channel %D%/hello %D%/ring %D%/pair %D%/paged_kv %D%/kv_store %D%/kv_transfer \
	%D%/serve %D%/serve_worker
%C%_allreduce_SOURCES = %D%/allreduce.c
%C%_allreduce_LDADD = $(nixlrun_la)
%C%_allreduce_LDFLAGS = $(AM_LDFLAGS) -no-install
%C%_channel_SOURCES = %D%/channel.c
%C%_channel_LDADD = $(nixlrun_la)
%C%_channel_LDFLAGS = $(AM_LDFLAGS) -no-install
%C%_hello_SOURCES = %D%/hello.c
%C%_hello_LDADD = $(nixlrun_la)
%C%_hello_LDFLAGS = $(AM_LDFLAGS) -no-install
%C%_pair_SOURCES = %D%/pair.c
%C%_pair_LDADD = $(nixlrun_la)
%C%_pair_LDFLAGS = $(AM_LDFLAGS) -no-install
%C%_ring_SOURCES = %D%/ring.c
%C%_ring_LDADD = $(nixlrun_la)
%C%_ring_LDFLAGS = $(AM_LDFLAGS) -no-install
%C%_kv_store_SOURCES = %D%/kv_store.c
%C%_kv_store_LDADD = $(nixlrun_la)
%C%_kv_store_LDFLAGS = $(AM_LDFLAGS) -no-install
%C%_paged_kv_SOURCES = %D%/paged_kv.c
%C%_paged_kv_LDADD = $(nixlrun_la)
%C%_paged_kv_LDFLAGS = $(AM_LDFLAGS) -no-install
%C%_serve_SOURCES = %D%/serve.c %D%/serve.h
%C%_serve_LDADD = $(nixlrun_la)
%C%_serve_LDFLAGS = $(AM_LDFLAGS) -no-install
%C%_serve_worker_SOURCES = %D%/serve_worker.c %D%/serve.h
%C%_serve_worker_LDADD = $(nixlrun_la)
%C%_serve_worker_LDFLAGS = $(AM_LDFLAGS) -no-install
%C%_kv_transfer_SOURCES = %D%/kv_transfer.c %D%/kv_options.c %D%/kv_options.h %D%/kv_cache.c \
	%D%/kv_cache.h %D%/kv_report.c %D%/kv_report.h
%C%_kv_transfer_LDADD = $(nixlrun_la)
%C%_kv_transfer_LDFLAGS = $(AM_LDFLAGS) -no-install

examplesdir = $(docdir)/examples
dist_examples_DATA = $(%C%_hello_SOURCES) $(%C%_ring_SOURCES) $(%C%_paged_kv_SOURCES) \
	$(%C%_allreduce_SOURCES) $(%C%_channel_SOURCES) $(%C%_pair_SOURCES) \
	$(%C%_kv_store_SOURCES) $(%C%_kv_transfer_SOURCES) $(%C%_serve_SOURCES) %D%/serve_worker.c
examplescriptsdir = $(examplesdir)
dist_examplescripts_SCRIPTS = %D%/serve_demo.sh
pythonexamplesdir = $(docdir)/examples/python
dist_pythonexamples_DATA = %D%/python/attach.py %D%/python/hello.py %D%/python/kv_connector.py \
	%D%/python/kv_lend.py %D%/python/kv_reshard.py %D%/python/parameter_server.py %D%/python/ring.py \
	%D%/python/server.py %D%/python/stencil.py %D%/python/torch_tensors.py %D%/python/work_queue.py
