"""Which function a source line calls, where the exception's text does not give its class or package; pure."""

from __future__ import annotations

import re

from envcheck.explain.exceptions import raised_place

_INIT = "__init__"
_NAME = re.compile(r"[A-Za-z_][\w.]{0,120}$")
_CALLS = re.compile(r"([A-Za-z_][\w.]{0,120})\(")


def name_class(function: str, option: str, source: str) -> str:
    """Return `Frob.__init__` if the text has only `__init__` and the source line calls Frob; otherwise the function."""
    called = find_called(function, option, source) if function == _INIT else ""
    return f"{called.rpartition('.')[2]}.{_INIT}" if called else function


def find_package(function: str, option: str, source: str) -> str:
    """Return the package of the function: by its class, or by the line that calls it: `deepspeed.zero.Init(`."""
    top = find_called(function, option, source).partition(".")[0]
    return raised_place.find_class_package(function) or (top if top in raised_place.load_packages() else "")


def find_called(function: str, option: str, source: str) -> str:
    """Return the name by which the source line calls the function; "" if it does not show that.

    It is the call that has the argument, or that continues on the next line; otherwise the only one that may be it.
    """
    given = re.search(rf"(?<![\w.]){re.escape(option)}\s?=(?!=)", source)
    around = _list_open_calls(source[: given.start()] if given else source)[-1:]
    found = [name for name in around or _CALLS.findall(source) if _may_be(name, function)]
    return found[0] if len(found) == 1 else ""


def _may_be(name: str, function: str) -> bool:
    """Return whether this name may be the function's: to call `__init__`, it is that of a class."""
    last, wanted = name.rpartition(".")[2], function.removesuffix(f".{_INIT}").rpartition(".")[2]
    return last.lstrip("_")[:1].isupper() if wanted == _INIT else last == wanted


def _list_open_calls(text: str) -> list[str]:
    """The names of the calls whose bracket is open at the end of the text, the innermost one last."""
    opened: list[str] = []
    for at, mark in enumerate(text):
        if mark == "(":
            found = _NAME.search(text[:at])
            opened.append(found[0] if found else "")
        elif mark == ")" and opened:
            opened.pop()
    return list(filter(None, opened))
