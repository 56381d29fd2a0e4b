# SPDX-License-Identifier: Apache-2.0
"""NamedTuple without typing, whose import takes as long as that of the rest of this package.

Type checkers see that of typing: modules here import one or the other, by TYPE_CHECKING.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OWN = {"__annotations__", "__module__", "__qualname__"}  # of a body, which namedtuple() makes


class _Maker(type):
    """Makes a class of tuples of what is written as a class: fields, their defaults, methods."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(cls, name, bases, body)
        fields = body["__annotations__"]
        defaults = [body[field] for field in fields if field in body]
        make: Any = namedtuple
        made = make(name, list(fields), defaults=defaults, module=body["__module__"])
        made.__annotations__ = fields
        for key, value in body.items():
            if key not in fields and key not in _OWN:
                setattr(made, key, value)
        return made


class NamedTuple(metaclass=_Maker):
    """The base of such a class."""
