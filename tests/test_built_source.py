"""What setup.py changes in the source that it packs: docstrings and comments that nothing prints."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

from tests.conftest import ROOT

BLANK = runpy.run_path(str(ROOT / "setup.py"), run_name="built")["blank_inner_text"]
SOURCE = '''"""Of the module."""


def public():
    """Printed."""


def _private(a):
    """One line.

    More.
    """
    # why
    text = """
    # data"""
    mark = "# no comment"
    return a, text  # same


class _Kind:
    """Of a class."""

    def _inner(self):
        """Only this."""
'''


def test_only_inner_text_is_left_out() -> None:
    built = BLANK(SOURCE, True)

    assert [each in built for each in ("Of the module", "Printed", "One line", "Of a class", "Only this")] == [
        False, True, False, False, False,
    ]  # fmt: skip
    assert [each in built for each in ("# why", "# data", "# same", "# no comment")] == [False, True, False, True]
    assert built.split("\n").index("    return a, text") == SOURCE.split("\n").index("    return a, text  # same")


def test_docstrings_of_packages_that_print_none() -> None:
    built = BLANK(SOURCE, False)

    assert ("Printed" in built, "Of a class" in built) == (False, False)


@pytest.mark.parametrize("path", sorted((ROOT / "envcheck" / "core").glob("*.py")), ids=lambda path: path.name)
def test_the_code_is_the_same(path: Path) -> None:
    """The same statements at the same lines, so that a traceback leads to the repository's source."""
    source = path.read_text(encoding="utf-8")
    was, built = (list(ast.walk(ast.parse(text))) for text in (source, BLANK(source, True)))

    assert [(type(node), getattr(node, "lineno", 0)) for node in was] == [
        (type(node), getattr(node, "lineno", 0)) for node in built
    ]
