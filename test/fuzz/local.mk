# SPDX-License-Identifier: Apache-2.0
# The fuzz targets are built by the script "run" with clang, not by make.
EXTRA_DIST += test/fuzz

# The inputs by which those of messages begin, written anew.
EXTRA_PROGRAMS += %D%/make_seeds
%C%_make_seeds_SOURCES = %D%/make_seeds.c transports/ucx/envelope.c
%C%_make_seeds_LDFLAGS = $(mp_link)
%C%_make_seeds_LDADD = src/libnixlrun_core.la
.PHONY: seeds
seeds: %D%/make_seeds
	rm -rf %D%/seeds.new && $(MKDIR_P) %D%/seeds.new && %D%/make_seeds %D%/seeds.new
	cd %D%/seeds.new && for target in *; do rm -rf "$(abs_srcdir)/test/fuzz/seeds/$$target" && \
	    mv "$$target" "$(abs_srcdir)/test/fuzz/seeds/" || exit 1; done
	rmdir %D%/seeds.new
