# SPDX-License-Identifier: Apache-2.0
# Test programs are EXTRA_PROGRAMS: "make check" builds those that its tests need, and
# "make test-programs" builds all. This file is read last.
CLEANFILES += $(EXTRA_PROGRAMS) test/limited.lock test/limited.lock.gate
check_SCRIPTS += needed-programs
needed-programs: $(check_LTLIBRARIES)
	@needs=`$(top_srcdir)/%D%/needs $(top_srcdir) $(TESTS)` || exit 1; \
	test -z "$$needs" || $(MAKE) $(AM_MAKEFLAGS) $$needs
test-programs: $(EXTRA_PROGRAMS) $(check_LTLIBRARIES)
list-tests:
	@printf '%s\n' $(TESTS)
.PHONY: needed-programs test-programs list-tests

# Tests of the tree itself: what no compiler looks at.
tree_tests = %D%/check-bindings.sh %D%/check-counts.sh %D%/check-getenv.sh %D%/check-header.sh %D%/check-install.sh %D%/check-layers.sh \
	%D%/check-hook.sh %D%/check-limited.sh %D%/check-man.sh %D%/check-python.sh %D%/check-quickstart.sh \
	%D%/check-repeat.sh %D%/check-rust.sh %D%/check-structs.sh %D%/check-style.sh %D%/check-seeds.sh
dist_check_SCRIPTS += $(tree_tests)
EXTRA_DIST += %D%/call_arguments.awk %D%/metrics %D%/mutate %D%/prototypes.awk %D%/tap.sh %D%/op_form.h
TESTS += $(tree_tests)

# Figures about the structure of the tree, beside their limits.
metrics: all
	@$(top_srcdir)/%D%/metrics/metrics.py --build .
.PHONY: metrics
