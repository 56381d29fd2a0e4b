# SPDX-License-Identifier: Apache-2.0
"""Run one test function in this rank: rank.py FILE FUNCTION [NAME=VALUE...]"""

import asyncio
import importlib.util
import inspect
import os
import sys

import nixlrun
import nixlrun.aio

SKIPPED = 77


async def run_async(function, arguments):
    async with nixlrun.aio.Job() as job:
        await function(job, **arguments)


def main():
    path, name, *pairs = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location("ranks_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name)
    function = getattr(function, "__wrapped__", function)
    arguments = dict(pair.split("=", 1) for pair in pairs)
    if inspect.iscoroutinefunction(function):
        asyncio.run(run_async(function, arguments))
    elif "job" in inspect.signature(function).parameters:
        with nixlrun.Job() as job:
            function(job, **arguments)
    else:
        function(**arguments)


if __name__ == "__main__":
    try:
        main()
    except BaseException as error:
        if type(error).__name__ == "Skipped":
            print(error, flush=True)
            os._exit(SKIPPED)
        raise
