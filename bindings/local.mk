# SPDX-License-Identifier: Apache-2.0
# The Rust crates, which cargo builds.
rust_files = .gitignore Cargo.lock Cargo.toml README.md bindgen.sh rustfmt.toml \
	nixlrun-sys/Cargo.toml nixlrun-sys/build.rs nixlrun-sys/src/bindings.rs nixlrun-sys/src/lib.rs \
	nixlrun/Cargo.toml
rust_sources = aio.rs buffer.rs channel.rs collective.rs context.rs directory.rs error.rs executor.rs file.rs flight.rs grant.rs inbox.rs \
	job.rs lib.rs log.rs memory.rs note.rs object.rs op.rs pair.rs panics.rs prepared.rs put_get.rs queue.rs rank.rs region.rs registered.rs \
	request.rs scope.rs signal.rs stats.rs team.rs time.rs transfer.rs view.rs
rust_tests = awaits.rs drops.rs files.rs life.rs main.rs memory.rs notes.rs objects.rs teams.rs transfers.rs words.rs
rust_examples = hello.rs queue.rs ring.rs
EXTRA_DIST += $(rust_files:%=%D%/rust/%) $(rust_sources:%=%D%/rust/nixlrun/src/%) \
	$(rust_tests:%=%D%/rust/nixlrun/tests/ranks/%) $(rust_examples:%=%D%/rust/nixlrun/examples/%)

# The Python package. pip builds it against an installed library; "make wheel" makes a wheel with a
# copy of what this build tree has, for which nothing needs to be installed.
python_core = argument.cpp attach.cpp blocks.cpp blocks.h channel.cpp collective.cpp context.cpp context.h core.h error.cpp \
	job.cpp log.cpp memory.cpp module.cpp move.cpp pair.cpp queue.cpp region.cpp region.h request.cpp request.h start.cpp \
	stats.cpp storage.cpp team.cpp team.h threads.h token.cpp transfer.cpp usual.h wait.cpp words.cpp
python_modules = __init__.py _aio_region.py _aio_team.py _channel.py _context.py _core.pyi _errors.py _grant.py _inbox.py _job.py _log.py _named.py _pump.py \
	_region.py _team.py _transfer.py _types.py _version.py aio.py py.typed
python_tests = conftest.py kv_engine.py rank.py rank_pytest.py test_aio.py test_attach.py test_file.py test_grant.py test_interrupt.py \
	test_kv_connector.py test_life.py test_memory.py test_notes.py test_object.py test_region.py test_team.py \
	test_threads.py test_transfer.py vllm_real.py vllm_scheduler.py vllm_standin.py
python_bench = README bench.py choose/bench.py choose/build_cffi.py choose/nanobind.cpp c_side.c \
	peers_nixl.py peers_nixl_file.py peers_nixl_net
EXTRA_DIST += %D%/python/CMakeLists.txt %D%/python/README.md %D%/python/pyproject.toml \
	%D%/python/free_threaded.sh %D%/python/launcher.py %D%/python/make-wheel %D%/python/requirements.txt \
	%D%/python/thread_sanitizer.sh \
	$(python_core:%=%D%/python/core/%) $(python_modules:%=%D%/python/nixlrun/%) \
	$(python_tests:%=%D%/python/tests/%) $(python_bench:%=%D%/python/bench/%)

PYTHON = python3
WHEEL_FLAGS =
wheel: src/libnixlrun.la $(bin_PROGRAMS) $(pkglibexec_PROGRAMS) $(pkglib_LTLIBRARIES)
	@mkdir -p wheel
	@PYTHON='$(PYTHON)' MAKE='$(MAKE)' WHEEL_FLAGS='$(WHEEL_FLAGS)' bindir='$(bindir)' \
		libdir='$(libdir)' libexecdir='$(pkglibexecdir)' '$(abs_srcdir)/%D%/python/make-wheel'
# What pip builds where nixlrun is installed.
sdist:
	@mkdir -p wheel
	@cd '$(abs_srcdir)/%D%/python' && '$(PYTHON)' -c 'import os, scikit_build_core.build as build; \
		print(os.path.join("$(abs_builddir)/wheel", build.build_sdist("$(abs_builddir)/wheel")))'
clean-local: clean-wheel clean-rust
clean-rust:
	rm -rf rust
clean-wheel:
	rm -rf wheel
.PHONY: wheel sdist clean-wheel clean-rust
