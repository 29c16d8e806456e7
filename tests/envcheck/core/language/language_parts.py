"""The English sentences of the code, found by its syntax: what the sayers are given, with {} where a value stands."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

# function -> the places (and names) of arguments that people read
SAYERS = {
    "ok": (0,),
    "skip": (0,),
    "unknown": (0, 1),
    "warn": (0, 1),
    "fail": (0, 1),
    "graded": (1, 2),
    "follows": (1,),
    "Finding": (2,),
    "Remedy": (0,),
    "not_told": (),
    "untold": (0, 1),
    "_tell": (0,),
    "_asked": (0,),
    "UsageError": (0, 1),
    "StepError": (0, 1),
    "UntoldError": (0, 1),
}
# The gates' own: a finding's name comes first.
GATES = {
    **SAYERS,
    "ok": (1,),
    "skip": (1,),
    "answer": (2, 3),
}
NAMED = ("seen", "words")
BINDING = (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.AugAssign)
VARIANTS = 24  # of one expression
SENTENCE = re.compile(r"\b[a-z']{2,} [a-z']{2,}\b")


@dataclass
class Module:
    """One file: its functions, its assignments, and what was found, with lines."""

    tree: ast.Module
    found: dict[str, int] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)
    scope_of: dict[int, ast.FunctionDef | None] = field(default_factory=dict)
    sayers: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: SAYERS)

    def __post_init__(self) -> None:
        self.functions = {n.name: n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef)}
        self._scopes(self.tree, None)
        self.bound: defaultdict[int, list[ast.AST]] = defaultdict(list)  # in which scope
        self.calls: defaultdict[str, list[ast.Call]] = defaultdict(list)  # of which name
        for node in ast.walk(self.tree):
            if isinstance(node, BINDING):
                self.bound[id(self.scope_of.get(id(node)))].append(node)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                self.calls[node.func.id].append(node)

    def _scopes(self, node: ast.AST, scope: ast.FunctionDef | None) -> None:
        for child in ast.iter_child_nodes(node):
            self.scope_of[id(child)] = scope
            self._scopes(child, child if isinstance(child, ast.FunctionDef) else scope)

    def said(self) -> dict[str, int]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                for argument in self._read(node):
                    self.add(argument)
            for loose in _handed_on(node):
                if SENTENCE.search("".join(self.texts(loose))):
                    self.add(loose)
        return self.found

    def add(self, node: ast.expr) -> None:
        for text in self.texts(node):
            if prose(text):
                self.found.setdefault(text.strip(), node.lineno)

    def _read(self, call: ast.Call) -> Iterator[ast.expr]:
        """The arguments that people read."""
        names = self._called(call.func)
        for place in {place for name in names for place in self.sayers.get(name, ())}:
            yield from self._argument(call, place)
        if names & {*self.sayers, "replace", "Fit"}:
            yield from (k.value for k in call.keywords if k.arg in NAMED)

    def _called(self, func: ast.expr) -> set[str]:
        match func:
            case ast.Attribute(attr=name):
                return {name}
            case ast.IfExp(body=a, orelse=b):
                return self._called(a) | self._called(b)
            case ast.Name(id=name) if name not in self.sayers:
                found = {n for v in self._assigned(name, self.scope_of.get(id(func))) for n in self._called(v)}
                return found & self.sayers.keys() or {name}
            case ast.Name(id=name):
                return {name}
        return set()

    def _argument(self, call: ast.Call, place: int) -> Iterator[ast.expr]:
        """The one at the place; of a starred call of a function here, the first of what it returns."""
        for n, argument in enumerate(call.args[: place + 1]):
            if isinstance(argument, ast.Starred):
                match argument.value:
                    case ast.Call(func=ast.Name(id=name)) if name in self.functions:
                        for returned in ast.walk(self.functions[name]):
                            if isinstance(returned, ast.Return) and isinstance(returned.value, ast.Tuple):
                                yield returned.value.elts[place - n]
                return
        if place < len(call.args):
            yield call.args[place]

    def texts(self, node: ast.expr | None) -> list[str]:
        """The templates that an expression may give; [] where it is only a value."""
        if node is None or id(node) in self.busy:
            return []
        self.busy.add(id(node))
        try:
            return list(dict.fromkeys(self._texts(node)))[:VARIANTS]
        finally:
            self.busy.discard(id(node))

    def _texts(self, node: ast.expr) -> Iterable[str]:
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.JoinedStr(values=values):
                return ["".join(parts) for parts in product(*(self._piece(v) for v in values))]
            case ast.IfExp(body=a, orelse=b):
                return [*self.texts(a), *self.texts(b)]
            case ast.BoolOp(values=values):
                return [t for v in values for t in self.texts(v)]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                a, b = self.texts(left) or ["{}"], self.texts(right) or ["{}"]
                return [x + y for x in a for y in b]
            case ast.NamedExpr(value=value):
                return self.texts(value)
            case ast.Name(id=name):
                return self._named(name, node)
            case (
                ast.Subscript(value=ast.Name(id=name))
                | ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"))
            ):
                return self._named(name, node)
            case ast.Subscript(value=value, slice=ast.Slice()):
                return self.texts(value)
            case ast.Subscript(value=ast.Dict() | ast.Tuple() as table):
                return self.texts(table)
            case ast.Dict(values=values):
                return [t for v in values for t in self.texts(v)]
            case ast.Tuple(elts=values) | ast.List(elts=values):
                return [t for v in values for t in self.texts(v)]
            case ast.Call(func=ast.Name(id="plural"), args=[_, ast.Constant(value=str(word))]):
                self.found.setdefault(f"1 {word}", node.lineno)
                self.found.setdefault(f"{{}} {word}{'es' if word.endswith('s') else 's'}", node.lineno)
                return []
            case ast.Call(func=ast.Name(id="next"), args=[_, default]):
                return self.texts(default)
            case ast.Call(func=ast.Name(id=name)) if name in self.functions and name not in self.sayers:
                return self._returned(self.functions[name])
            case ast.Call(func=ast.Attribute(attr="join"), args=[ast.GeneratorExp(elt=element)]):
                for text in self.texts(element):
                    if prose(text):
                        self.found.setdefault(text.strip(), node.lineno)
                return []
        return []

    def _piece(self, node: ast.expr) -> list[str]:
        """A part of an f-string; words within a value are sentences of their own."""
        if isinstance(node, ast.Constant):
            return [str(node.value)]
        assert isinstance(node, ast.FormattedValue)
        self.add(node.value)
        return ["{}"]

    def _named(self, name: str, node: ast.AST) -> list[str]:
        scope = self.scope_of.get(id(node))
        while True:
            found = [t for v in self._assigned(name, scope) for t in self.texts(v)]
            if found or scope is None:
                return self._grown(name, scope, found)
            if name in [a.arg for a in (*scope.args.args, *scope.args.kwonlyargs)]:
                return [t for v in self._passed(scope, name) for t in self.texts(v)]
            scope = self.scope_of.get(id(scope))

    def _assigned(self, name: str, scope: ast.FunctionDef | None) -> Iterator[ast.expr]:
        for node in self.bound[id(scope)]:
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                    yield value
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
                    yield value
                case ast.NamedExpr(target=ast.Name(id=target), value=value) if target == name:
                    yield value
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                    yield from (v for t, v in zip(targets, values, strict=False) if getattr(t, "id", "") == name)
                case ast.For(target=ast.Name(id=target), iter=ast.Tuple() as value) if target == name:
                    yield value

    def _grown(self, name: str, scope: ast.FunctionDef | None, texts: list[str]) -> list[str]:
        """words += ..."""
        for node in self.bound[id(scope)]:
            match node:
                case ast.AugAssign(target=ast.Name(id=target), value=value) if target == name:
                    texts = [a + b for a in texts for b in self.texts(value)]
        return texts

    def _passed(self, function: ast.FunctionDef, name: str) -> Iterator[ast.expr]:
        names = [a.arg for a in function.args.args]
        at = names.index(name) if name in names else None
        for node in self.calls[function.name]:
            yield from (k.value for k in node.keywords if k.arg == name)
            if at is not None and len(node.args) > at:
                yield node.args[at]

    def _returned(self, function: ast.FunctionDef) -> list[str]:
        returns = [n.value for n in ast.walk(function) if isinstance(n, (ast.Return, ast.Yield)) and n.value]
        return [t for value in returns for t in self.texts(value)]


def _handed_on(node: ast.AST) -> Iterator[ast.expr]:
    """Sentences that a function gives to another: what it returns, yields, or appends to a list."""
    match node:
        case ast.Return(value=(ast.Constant() | ast.JoinedStr()) as text):
            yield text
        case ast.Yield(value=(ast.Constant() | ast.JoinedStr()) as text):
            yield text
        case ast.Call(func=ast.Attribute(attr="append"), args=[(ast.Constant() | ast.JoinedStr()) as text]):
            yield text


def prose(text: str) -> bool:
    """Words of a person: not a path, a variable's name, a command's option."""
    bare = re.sub(r"\{\}", " ", text)
    words = re.findall(r"(?<![\w./=$<-])[A-Za-z][a-z']+(?![\w/=_(])", bare)
    return bool(words)


def sentences(file: Path, sayers: Mapping[str, tuple[int, ...]] = SAYERS) -> dict[str, int]:
    """Each with a line that says it."""
    return of_source(file.read_text(encoding="utf-8"), sayers)


def of_source(source: str, sayers: Mapping[str, tuple[int, ...]] = SAYERS) -> dict[str, int]:
    return Module(ast.parse(source), sayers=sayers).said()
