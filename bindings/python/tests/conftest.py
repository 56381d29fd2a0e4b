# SPDX-License-Identifier: Apache-2.0
"""Tests whose body runs in every rank of a job.

``@pytest.mark.ranks(2)`` runs the function in both ranks of ``nixlrun -np 2``, each with its job as
the argument; an ``async def`` gets an asyncio job. Keywords: ``options`` of nixlrun, ``rc`` that it
must end with, ``env``, and ``says``: what must be in its output. A function without arguments joins
the job by itself. The environment names nixlrun in NIXLRUN.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SKIPPED = 77
RUNNER = Path(__file__).with_name("rank.py")
NIXLRUN = os.environ.get("NIXLRUN", "nixlrun")


def pytest_configure(config):
    config.addinivalue_line("markers", "ranks(n, options=(), rc=0, env={}, says=''): see conftest")


@pytest.fixture
def job():
    """The ranks have it."""


def launch(nranks, arguments, options=(), env=None, timeout=70):
    """Run Python in each rank; returns the finished process, with both streams as stdout.

    Two ranks that import numpy take 2 s of a core, which is 20 s where 20 processes want each core.
    """
    command = [NIXLRUN, "--timeout", "60s", *options, "-np", str(nranks), sys.executable, *arguments]
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        env={**os.environ, **(env or {})},
        check=False,
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    marker = pyfuncitem.get_closest_marker("ranks")
    if marker is None:
        return None
    wanted = marker.kwargs.get("rc", 0)
    done = launch(
        marker.args[0],
        [str(RUNNER), str(pyfuncitem.path), pyfuncitem.originalname, *_parameters(pyfuncitem)],
        marker.kwargs.get("options", ()),
        marker.kwargs.get("env"),
    )
    if done.returncode == SKIPPED:
        pytest.skip(done.stdout.strip().splitlines()[0])
    if done.returncode != wanted or marker.kwargs.get("says", "") not in done.stdout:
        pytest.fail(f"exit code {done.returncode}, wanted {wanted}\n{done.stdout}", pytrace=False)
    return True


def _parameters(item):
    callspec = getattr(item, "callspec", None)
    return [f"{name}={value}" for name, value in callspec.params.items()] if callspec else []
