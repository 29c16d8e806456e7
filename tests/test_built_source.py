"""What setup.py changes in the source that it packs: docstrings and comments that nothing prints."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

from envcheck.report.check_list import list_checks
from tests.conftest import ROOT

SETUP = runpy.run_path(str(ROOT / "setup.py"), run_name="built")
BLANK = SETUP["blank_inner_text"]
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


def test_printed_docstrings_stay() -> None:
    """The functions of checks, and of commands, are in files whose docstrings stay."""
    judges = [check.judge or check.judge_card or check.judge_versions for check in list_checks()]
    printed = {judge.__module__ for judge in judges if judge and not judge.__module__.startswith("envcheck.deep.")}
    printed |= {f"envcheck.cli.commands.{path.stem}" for path in (ROOT / "envcheck/cli/commands").glob("*.py")}

    assert not [name for name in printed if not SETUP["is_printed"](f"{name.replace('.', '/')}.py")]


class UntypedLocals(ast.NodeTransformer):
    """Makes assignments of typed variables in functions those of variables without a type; not in a class."""

    depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        depth, self.depth = self.depth, 0
        self.generic_visit(node)
        self.depth = depth
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if not self.depth or node.value is None or not isinstance(node.target, ast.Name):
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def list_nodes(source: str) -> list[tuple[str, int]]:
    """Return text and line of each node but docstrings, types of private functions and of local variables."""
    tree = UntypedLocals().visit(ast.parse(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, False) is not None:
            node.body = node.body[1:]
        if isinstance(node, ast.FunctionDef) and node.name.startswith("_") and not node.name.endswith("__"):
            node.returns = None
            for each in ast.walk(node.args):
                if isinstance(each, ast.arg):
                    each.annotation = None
    return [(ast.dump(node), getattr(node, "lineno", 0)) for node in ast.walk(tree)]


@pytest.mark.parametrize("path", sorted((ROOT / "envcheck" / "core").rglob("*.py")), ids=lambda path: path.name)
def test_the_code_is_the_same(path: Path) -> None:
    """The same statements at the same lines, so that a traceback leads to the repository's source."""
    source = path.read_text(encoding="utf-8")
    built = SETUP["narrow_indents"](SETUP["drop_inner_types"](BLANK(source, False), True))

    assert list_nodes(source) == list_nodes(built)
    assert built.count("\n") == source.count("\n")


def test_types_of_public_functions_stay() -> None:
    source = "def f(a: int) -> str: ...\ndef _g(a: int, *, b: str = 'x: y') -> list[str]: ...\n"

    assert SETUP["drop_inner_types"](source, True) == "def f(a: int) -> str: ...\ndef _g(a, *, b = 'x: y'): ...\n"
    assert SETUP["drop_inner_types"](source, False) == "def f(a): ...\ndef _g(a, *, b = 'x: y'): ...\n"


def test_types_of_local_variables() -> None:
    """They are left out; those of a class, also of one in a function, are its fields."""
    kept = "a: int = 1\nclass A:\n    b: int = 2\n    def __init__(self):\n        self.c: int = 3\n"
    source = "def f():\n    a: list[int] = []; b: int\n    class B:\n        c: int = 4\n"

    assert SETUP["drop_inner_types"](kept, True) == kept
    assert SETUP["drop_inner_types"](source, True) == source.replace("a: list[int]", "a")


def test_indents() -> None:
    """One blank for each level; the lines of a text stay as they are."""
    source = (
        "def f(a):\n    if a:\n        return g(\n            a,\n"
        '            """x\n        y""",\n        )\n    return f"{a}"\n'
    )

    assert SETUP["narrow_indents"](source) == (
        'def f(a):\n if a:\n  return g(\na,\n"""x\n        y""",\n)\n return f"{a}"\n'
    )
