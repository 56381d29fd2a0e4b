# SPDX-License-Identifier: Apache-2.0
"""Run one test function in this rank: rank.py FILE FUNCTION [NAME=VALUE...]"""

import importlib.util
import os
import sys
import types

import rank_pytest

import nixlrun

SKIPPED = 77
IS_ASYNC = 0x80  # CO_COROUTINE; its name is in inspect, which takes long to import


class Late(types.ModuleType):
    """A package that is imported when something of it is first used.

    Half of the tests whose file imports numpy use none, and it takes 0.2 s of a core in each rank.
    """

    def __getattr__(self, name):
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def run_async(function, arguments):
    import asyncio

    from nixlrun import aio

    async def run():
        async with aio.Job() as job:
            await function(job, **arguments)

    asyncio.run(run())


def main():
    path, name, *pairs = sys.argv[1:]
    sys.modules["pytest"] = rank_pytest
    sys.path.insert(0, os.path.dirname(path))
    if importlib.util.find_spec("numpy") is not None:
        sys.modules["numpy"] = Late("numpy")
    spec = importlib.util.spec_from_file_location("ranks_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name)
    function = getattr(function, "__wrapped__", function)
    arguments = dict(pair.split("=", 1) for pair in pairs)
    code = function.__code__
    if code.co_flags & IS_ASYNC:
        run_async(function, arguments)
    elif "job" in code.co_varnames[: code.co_argcount]:
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
