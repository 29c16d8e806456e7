"""Our sources for a node, where each start counts: what costs much while it is imported is put off, or done plainly.

A dataclass is made by writing and compiling its methods, half a millisecond each; a pattern is compiled, used or not.
Together they are a third of what Python itself does there.  The meaning stays; a test compares.
"""

from __future__ import annotations

import ast

MODULE = "envcheck_lighter"
LIGHT = {"dataclass", "field", "fields", "replace"}  # of dataclasses, as far as what travels uses them
HELPERS = '''"""Dataclasses without generated code, and patterns that are compiled when they are first used."""
import re

MISSING = object()


class Field:
    def __init__(self, default=MISSING, default_factory=None):
        self.default, self.default_factory = default, default_factory


def field(**given):
    return Field(**given)


def fields(of):
    return of.__fields__


def replace(value, **changed):
    return type(value)(**{**value.__dict__, **changed})


def dataclass(cls=None, **given):
    if cls is None:
        return lambda cls: dataclass(cls, **given)
    found = {f.name: f for base in reversed(cls.__mro__[1:]) for f in base.__dict__.get("__fields__", ())}
    for name, kind in cls.__dict__.get("__annotations__", {}).items():
        default = cls.__dict__.get(name, MISSING)
        one = default if isinstance(default, Field) else Field(default)
        one.name, one.type = name, kind
        found[name] = one
        if isinstance(default, Field):
            delattr(cls, name)
    cls.__fields__ = tuple(found.values())
    cls.__init__, cls.__eq__, cls.__repr__ = _init, _eq, _repr
    cls.__hash__ = _hash if given.get("frozen") else None
    return cls


def _init(self, *args, **given):
    of = self.__fields__
    if len(args) > len(of):
        raise TypeError("too many values")
    mine = self.__dict__
    for one, value in zip(of, args):
        mine[one.name] = value
    for one in of[len(args):]:
        if one.name in given:
            mine[one.name] = given.pop(one.name)
        elif one.default_factory:
            mine[one.name] = one.default_factory()
        elif one.default is not MISSING:
            mine[one.name] = one.default
        else:
            raise TypeError(one.name + " is missing")
    if given:
        raise TypeError("unknown: " + ", ".join(given))


def _values(self):
    return tuple(self.__dict__[one.name] for one in self.__fields__)


def _eq(self, other):
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self):
    return hash(_values(self))


def _repr(self):
    return type(self).__name__ + "(" + ", ".join("%s=%r" % pair for pair in self.__dict__.items()) + ")"


class pattern:
    def __init__(self, *of, **flags):
        self.of, self.flags_given = of, flags

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "real":
            self.real = re.compile(*self.of, **self.flags_given)
            return self.real
        found = self.__dict__[name] = getattr(self.real, name)
        return found
'''


def changed(tree: ast.Module) -> ast.Module:
    """The tree itself, changed in place."""
    _Lighter().visit(tree)
    return tree


class _Lighter(ast.NodeTransformer):
    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if node.module == "dataclasses" and {alias.name for alias in node.names} <= LIGHT:
            node.module = MODULE
        return node

    def visit_Module(self, node: ast.Module) -> ast.AST:
        self.generic_visit(node)
        after = next(n for n, one in enumerate([*node.body, ast.Pass()]) if not _first(one))
        node.body[after:after] = ast.parse(f"import {MODULE}").body
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if _named(node.func, "re", "compile"):
            node.func = ast.Attribute(ast.Name(MODULE, ast.Load()), "pattern", ast.Load())
        return node


def _named(node: ast.expr, module: str, name: str) -> bool:
    """As in re.compile."""
    of = node.value if isinstance(node, ast.Attribute) and node.attr == name else None
    return isinstance(of, ast.Name) and of.id == module


def _first(node: ast.stmt) -> bool:
    """What stays before all imports: the docstring, and __future__."""
    said = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return said or (isinstance(node, ast.ImportFrom) and node.module == "__future__")
