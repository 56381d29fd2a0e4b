# SPDX-License-Identifier: Apache-2.0
"""What the bodies of tests use of pytest, for ranks: rank.py names it ``pytest`` there.

The import of pytest itself takes longer than all else that most ranks do. Marks, fixtures and
parameters are for pytest, which has chosen the function before it started the ranks.
"""

import importlib
import re
import warnings


class Skipped(BaseException):
    """rank.py makes an exit code of it."""


class _Decorators:
    """``pytest.mark``: every mark, with or without arguments, leaves the function as it is."""

    def __getattr__(self, name):
        return lambda *_, **__: lambda function: function


mark = _Decorators()


def fixture(function):
    return function


def hookimpl(**_):
    return lambda function: function


def skip(reason):
    raise Skipped(reason)


def importorskip(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Skipped(f"could not import {name!r}: {error}") from None


class raises:
    """The block must raise this exception, with a text in which the pattern is found."""

    def __init__(self, expected, *, match=None):
        self.expected = expected
        self.match = match
        self.value = None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is None:
            raise AssertionError(f"did not raise {self.expected}")
        if not issubclass(kind, self.expected):
            return False
        if self.match is not None and re.search(self.match, str(value)) is None:
            raise AssertionError(f"{str(value)!r} has no {self.match!r}")
        self.value = value
        return True


class warns:
    """The block must warn so, with a text in which the pattern is found."""

    def __init__(self, expected, *, match=""):
        self.expected = expected
        self.match = match
        self.catching = warnings.catch_warnings(record=True)

    def __enter__(self):
        self.seen = self.catching.__enter__()
        warnings.simplefilter("always")
        return self

    def __exit__(self, kind, value, traceback):
        self.catching.__exit__(kind, value, traceback)
        if kind is None and not any(
            issubclass(one.category, self.expected) and re.search(self.match, str(one.message))
            for one in self.seen
        ):
            raise AssertionError(f"no {self.expected} with {self.match!r} in {self.seen}")
