"""Our sources, which are for Python 3.10, for the Python 3.8 of a node: a table of what is written otherwise there.

Only what costs nothing in meaning is rewritten; a test compiles the whole for 3.8 and runs it where there is one.
"""

from __future__ import annotations

import ast
from typing import Any

MODULE = "envcheck_older"
HELPERS = '''"""What Python 3.8 lacks."""
import functools
import os
import pathlib
import typing

if not hasattr(functools, "cache"):
    functools.cache = functools.lru_cache(maxsize=None)
if not hasattr(os, "pidfd_open"):
    def _no_pidfd(pid, flags=0):
        raise OSError("this Python has no pidfd_open")
    os.pidfd_open = _no_pidfd
if not hasattr(pathlib.Path, "readlink"):
    pathlib.Path.readlink = lambda self: type(self)(os.readlink(str(self)))


def either(a, b):
    """a | b"""
    if isinstance(a, dict) and isinstance(b, dict):
        return {**a, **b}
    if a is None or b is None or isinstance(a, type) or hasattr(a, "__origin__"):
        return typing.Union[a, b]
    return a | b


def grown(a, b):
    """a |= b"""
    if isinstance(a, dict):
        a.update(b)
        return a
    a |= b
    return a


def removeprefix(text, end):
    return text[len(end):] if end and text.startswith(end) else text


def removesuffix(text, end):
    return text[:-len(end)] if end and text.endswith(end) else text
'''
GENERIC = {"dict": "Dict", "list": "List", "tuple": "Tuple", "set": "Set", "frozenset": "FrozenSet", "type": "Type"}
METHODS = ("removeprefix", "removesuffix")


def rewritten(source: str) -> str:
    """The module without comments, for Python 3.8; annotations stay as they are, since nobody evaluates them."""
    return written(changed(ast.parse(source)))


def changed(tree: ast.Module) -> ast.Module:
    """The tree itself, changed in place."""
    _Older().visit(tree)
    after = 1 + max((n for n, node in enumerate(tree.body) if _first(node)), default=-1)
    tree.body[after:after] = ast.parse(f"import {MODULE}, typing").body
    return tree


def written(tree: ast.Module) -> str:
    return ast.unparse(ast.fix_missing_locations(tree))


def _first(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _help(name: str, *args: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name(MODULE, ast.Load()), name, ast.Load()), list(args), [])


class _Older(ast.NodeTransformer):
    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if node.module == "collections.abc":  # whose classes take no [...] there
            node.module = "typing"
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        returns, node.returns = node.returns, None
        self.generic_visit(node)
        node.returns = returns
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = self.visit(node.value) if node.value else None
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "zip":
            node.keywords = [k for k in node.keywords if k.arg != "strict"]
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            return _help(node.func.attr, node.func.value, *node.args)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _help("either", node.left, node.right) if isinstance(node.op, ast.BitOr) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.BitOr):
            return node
        before: Any = ast.parse(ast.unparse(node.target), mode="eval").body
        return ast.Assign([node.target], _help("grown", before, node.value))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in GENERIC:
            node.value = ast.Attribute(ast.Name("typing", ast.Load()), GENERIC[node.value.id], ast.Load())
        return node
