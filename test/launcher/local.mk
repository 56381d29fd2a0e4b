# SPDX-License-Identifier: Apache-2.0
dist_check_SCRIPTS += \
	%D%/test_completion.sh \
	%D%/test_effects.sh \
	%D%/test_help.sh \
	%D%/test_options.sh \
	%D%/test_placement.sh \
	%D%/transcript.sh
TESTS += \
	%D%/test_completion.sh \
	%D%/test_effects.sh \
	%D%/test_help.sh \
	%D%/test_options.sh \
	%D%/test_placement.sh
EXTRA_DIST += \
	%D%/effects.transcript \
	%D%/options.transcript \
	%D%/placement.transcript \
	%D%/topologies/1-core.xml \
	%D%/topologies/2-sockets-cgroup.xml \
	%D%/topologies/2-sockets-smt.xml \
	%D%/topologies/8-numa.xml
