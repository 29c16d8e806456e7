"""Every regular expression of the code base, and how its running time grows with hostile texts.

Patterns are those that modules compile when they are imported, those in calls such as `re.search("...", text)`, and
texts in tables that look like patterns.  Hostile texts are derived from a pattern's own parse tree: what leads up to
a repeat, then its body very often, then something that does not fit.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import itertools
import pkgutil
import re
import signal
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import envcheck

ROOT = Path(envcheck.__file__).parents[1]
PACKAGES = ("envcheck", "probes", "installers", "launch")
PROGRAMS = ".programs"  # modules that other interpreters run as programs
METHODS = ("search", "match", "fullmatch")
SEARCHING = {"search", "finditer", "findall", "sub", "subn", "split", "scanner"}
SHORT = 2_000  # characters
LENGTHS, TIMES = (16_000, 4_000), 4  # characters of the text that is compared with a fourth of it
SHORT_S, LONG_S = 0.0008, 0.04  # a linear pattern needs a hundredth of it
LINEAR = 7.0  # how many times as long a text takes as a fourth of it: 4 if linear, 16 if quadratic
GIVE_UP_S = 6.0  # then a shorter text is measured: on a busy machine, all patterns take longer
SHORT_GIVE_UP_S = 3.0  # no linear pattern needs a tenth of it for SHORT
MOST_BODIES = 8
LOOKS = re.compile(r"\\\\[dswSDWb]|\(\?[:<!=P]|\[\^|\.[*+]|\][*+?{]")
_constants: Any = re._constants  # type: ignore[attr-defined]
_parser: Any = re._parser  # type: ignore[attr-defined]


@dataclass(frozen=True)
class FoundPattern:
    """A pattern with the methods that are called on it; `where` is a module or file."""

    where: str
    pattern: str | bytes
    flags: int
    methods: tuple[str, ...] = METHODS


def collect_patterns() -> list[FoundPattern]:
    """Return all patterns, each once."""
    found: dict[tuple[str | bytes, int], FoundPattern] = {}
    for each in itertools.chain(_collect_literals(), _collect_compiled(), _collect_tables()):
        key = (each.pattern, each.flags)
        old = found.get(key)
        methods = tuple(sorted({*each.methods, *(old.methods if old else ())}))
        found[key] = FoundPattern(old.where if old else each.where, each.pattern, each.flags, methods)
    return list(found.values())


def _collect_compiled() -> Iterator[FoundPattern]:
    """Yield what modules compile when they are imported, and what their module-level names hold."""
    used = _list_used_methods()
    for name in PACKAGES:
        package = importlib.import_module(name)
        for info in pkgutil.walk_packages(package.__path__, f"{name}."):
            if info.name.endswith("__main__") or PROGRAMS in info.name:
                continue
            with contextlib.suppress(ImportError):
                module = importlib.import_module(info.name)
                for label, value in vars(module).items():
                    if label.startswith("__"):
                        continue
                    for each in _find_patterns(value):
                        methods = used.get(f"{info.name}:{label}" if label.startswith("_") else label, METHODS)
                        kinds = ("match",) if not isinstance(value, re.Pattern) else methods
                        yield FoundPattern(info.name, each.pattern, each.flags, kinds)


def _find_patterns(value: object, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, str | bytes):
        yield from _compile_lookalike(value)
    elif depth < 4 and isinstance(value, dict):
        for each in value.values():
            yield from _find_patterns(each, depth + 1)
    elif depth < 4 and isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _find_patterns(each, depth + 1)
    elif depth < 4 and hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        for field in value.__dataclass_fields__:
            yield from _find_patterns(getattr(value, field, None), depth + 1)


def _compile_lookalike(text: str | bytes) -> Iterator[re.Pattern[Any]]:
    """Yield a text as a pattern if it looks like one: tables hold patterns as texts."""
    words = text.decode("latin-1") if isinstance(text, bytes) else text
    if len(words) < 4_000 and LOOKS.search(words):
        with contextlib.suppress(re.error, OverflowError, RecursionError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield re.compile(text)


def _collect_tables() -> Iterator[FoundPattern]:
    """Yield the patterns in the TOML files of the packages, and those of the explanations as they are compiled."""
    from envcheck.core.toml_file import load_own_table
    from envcheck.explain import catalogue

    for entry in catalogue.load_entries():
        for each in (*entry.match, *entry.around, entry.needs, entry.unless):
            if each is not None:
                yield FoundPattern(f"explain {entry.name}", each.pattern, each.flags, ("search",))
    for name in PACKAGES:
        for path in sorted((ROOT / name).rglob("*.toml")):
            if path.name == "explain.toml" or "entries" in path.parts:
                continue
            for each in _find_patterns(load_own_table(path), -4):
                yield FoundPattern(str(path.relative_to(ROOT)), each.pattern, each.flags, ("match",))


def _list_sources() -> Iterator[tuple[Path, ast.Module]]:
    for name in PACKAGES:
        for path in sorted((ROOT / name).rglob("*.py")):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def _list_used_methods() -> dict[str, tuple[str, ...]]:
    """Return name of a pattern → the kinds of methods called on it; on a name that is also passed on, those that a
    module with this name calls on anything."""
    methods: dict[str, set[str]] = {}
    passed: dict[str, set[str]] = {}
    for path, tree in _list_sources():
        names, own, kinds = _list_module_uses(tree)
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for label, called in own.items():
            methods.setdefault(f"{module}:{label}" if label.startswith("_") else label, set()).update(called)
        for label in names:
            passed.setdefault(f"{module}:{label}" if label.startswith("_") else label, set()).update(kinds)
    return {
        label: tuple(sorted(methods.get(label, set()) | passed.get(label, set()))) or ("match",)
        for label in {*methods, *passed}
    }


def _list_module_uses(tree: ast.Module) -> tuple[set[str], dict[str, set[str]], set[str]]:
    """Return the names that a module passes on, the methods it calls on names, and all that it calls."""
    called: dict[str, set[str]] = {}
    kinds: set[str] = set()
    uses: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            uses[node.id] = uses.get(node.id, 0) + 1
        if isinstance(node, ast.Attribute):
            uses[node.attr] = uses.get(node.attr, 0) + 1
            label = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
            if node.attr in SEARCHING | {"match", "fullmatch"}:
                kind = "search" if node.attr in SEARCHING else node.attr
                if node.attr not in ("split", "sub", "scanner"):  # of texts, too
                    kinds.add(kind)
                if label:
                    called.setdefault(label, set()).add(kind)
                    uses[label] = uses.get(label, 0) - 1
    return {label for label, count in uses.items() if count > 0}, called, kinds


def _collect_literals() -> Iterator[FoundPattern]:
    """Yield the patterns in calls of module re; the parts of an f-string that are computed are taken as a word."""
    for path, tree in _list_sources():
        for node in ast.walk(tree):
            called = node.func if isinstance(node, ast.Call) else None
            if not (
                isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "re"
            ):
                continue
            assert isinstance(node, ast.Call)
            text = _read_literal(node.args[0]) if node.args else None
            if text is None or called.attr not in SEARCHING | {"match", "fullmatch"}:
                continue
            kind = "search" if called.attr in SEARCHING else called.attr
            with contextlib.suppress(re.error):
                flags = _read_flags(node)
                re.compile(text, flags)
                yield FoundPattern(str(path.relative_to(ROOT)), text, flags, (kind,))


def _read_literal(node: ast.expr) -> str | bytes | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "word" for part in node.values)
    return None


def _read_flags(node: ast.Call) -> int:
    names = [each.attr for part in (*node.args[1:], *(word.value for word in node.keywords))
             for each in ast.walk(part) if isinstance(each, ast.Attribute)]  # fmt: skip
    found = 0
    for name in names:
        found |= int(getattr(re, name, 0)) if isinstance(getattr(re, name, None), re.RegexFlag) else 0
    return found


def make_hostile_texts(found: FoundPattern, length: int) -> Iterator[str | bytes]:
    """Yield texts of about this length that the pattern's repeats fit many times, but the whole pattern does not."""
    tree = _parser.parse(found.pattern, found.flags & ~re.TEMPLATE if hasattr(re, "TEMPLATE") else found.flags)
    bodies = dict.fromkeys([*itertools.islice(_list_bodies(list(tree), ""), 40)])
    general = [("", "\n"), ("", " "), ("", "a"), ("", "1"), ("", "a "), ("", "a\n"), ("", " \n"), ("", "1,")]
    chosen = [*itertools.islice(bodies, MOST_BODIES), *general]
    for before, body in chosen:
        if body:
            for end in ("\x00", "\n\x01"):
                text = before + body * (length // len(body)) + end
                yield text.encode("latin-1", "replace") if isinstance(found.pattern, bytes) else text


def _list_bodies(nodes: list[Any], before: str) -> Iterator[tuple[str, str]]:
    """Yield (what leads up to a repeat, what it repeats) for each repeat of the tree."""
    text = before
    for index, (op, value) in enumerate(nodes):
        name = str(op)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            _low, high, inner = value
            body = _make_sample(list(inner))
            if high == _constants.MAXREPEAT or high > 50:
                yield text, body
                yield "", body
                yield "", text + body
                following = nodes[index + 1 :]
                if following and (both := _make_sample(following[:1])):
                    yield "", body + both
            yield from _list_bodies(list(inner), text)
        for inner in _list_inner(op, value):
            yield from _list_bodies(list(inner), text)
        text += _make_sample([(op, value)])


def _list_inner(op: Any, value: Any) -> list[Any]:
    name = str(op)
    if name == "SUBPATTERN":
        return [value[-1]]
    if name == "BRANCH":
        return list(value[1])
    if name in ("ASSERT", "ASSERT_NOT"):
        return [value[1]]
    return [value] if name == "ATOMIC_GROUP" else []


CATEGORIES = {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a", "CATEGORY_NOT_DIGIT": "a",
              "CATEGORY_NOT_SPACE": "a", "CATEGORY_NOT_WORD": "-"}  # fmt: skip


def _make_sample(nodes: list[Any]) -> str:
    """Return a text that the nodes match, as far as that is simple."""
    return "".join(map(_sample_node, nodes))


def _sample_node(node: Any) -> str:
    op, value = node
    name = str(op)
    if name == "LITERAL":
        return chr(value)
    if name == "NOT_LITERAL":
        return "b" if value == ord("a") else "a"
    if name == "ANY":
        return "a"
    if name == "IN":
        return _sample_set(value)
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        low, _high, inner = value
        return _make_sample(list(inner)) * min(max(low, 1), 8)
    if name == "BRANCH":
        return _make_sample(list(value[1][0]))
    if name == "SUBPATTERN":
        return _make_sample(list(value[-1]))
    return _make_sample(list(value)) if name == "ATOMIC_GROUP" else ""


def _sample_set(items: list[Any]) -> str:
    if str(items[0][0]) == "NEGATE":
        return next((c for c in " a1-\t\n" if not any(_fits(item, c) for item in items[1:])), "\x02")
    op, value = items[0]
    if str(op) == "CATEGORY":
        return CATEGORIES.get(str(value), "a")
    return chr(value[0] if isinstance(value, tuple) else value)


def _fits(item: Any, letter: str) -> bool:
    op, value = item
    if str(op) == "LITERAL":
        return chr(value) == letter
    if str(op) == "RANGE":
        return bool(value[0] <= ord(letter) <= value[1])
    tests = {"DIGIT": str.isdigit, "SPACE": str.isspace, "WORD": lambda c: c.isalnum() or c == "_"}
    kind = str(value).removeprefix("CATEGORY_")
    return not tests[kind[4:]](letter) if kind.startswith("NOT_") else tests[kind](letter)


MANY = 3  # repeats from which on the ways to divide a text among them are too many
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT")


def find_divided_repeat(found: FoundPattern) -> bool:
    """Return whether a repeat of a repeat may divide one text in many ways, and something may fail after it.

    So does `(?:,?[a-z]{1,20}){0,6}x`: nothing has to be between two parts.  Bounds do not help: six parts of up to
    20 characters are millions of ways.  No text is tried, so that all patterns of the code base take a second.
    """
    return _has_divided_repeat(list(_parser.parse(found.pattern, found.flags)), False)


def _has_divided_repeat(nodes: list[Any], may_fail: bool) -> bool:
    for at, (op, value) in enumerate(nodes):
        fails_later = may_fail or any(not _is_optional(node) for node in nodes[at + 1 :])
        if str(op) in _REPEATS:
            _low, high, inner = value
            if fails_later and high >= MANY and _is_divisible(list(inner)):
                return True
            if _has_divided_repeat(list(inner), fails_later):
                return True
        if any(_has_divided_repeat(list(inner), fails_later) for inner in _list_inner(op, value)):
            return True
    return False


def _is_divisible(nodes: list[Any]) -> bool:
    """Whether all that the nodes need is one repeat of any length."""
    needed = [node for node in nodes if not _is_optional(node)]
    if len(needed) != 1:
        return False
    op, value = needed[0]
    if str(op) in _REPEATS:
        low, high, inner = value
        return bool(high >= MANY and low < high) or _is_divisible(list(inner))
    return str(op) != "ATOMIC_GROUP" and any(_is_divisible(list(inner)) for inner in _list_inner(op, value))


def _is_optional(node: tuple[Any, Any]) -> bool:
    op, value = node
    if str(op) in (*_REPEATS, "POSSESSIVE_REPEAT"):
        return bool(value[0] == 0) or all(map(_is_optional, value[2]))
    if str(op) == "BRANCH":
        return any(all(map(_is_optional, way)) for way in value[1])
    return str(op) == "SUBPATTERN" and all(map(_is_optional, value[-1]))


class _TooLongError(Exception):
    """A pattern ran into the limit."""


def measure_growth(found: FoundPattern) -> str:
    """Return "" for a pattern that is linear on all its hostile texts, else the text and the times."""
    compiled = re.compile(found.pattern, found.flags)
    for number, short in enumerate(make_hostile_texts(found, SHORT)):
        for method in found.methods:
            took = _time_method(compiled, method, short, SHORT_S, SHORT_GIVE_UP_S)
            if took <= SHORT_S:
                continue
            if took >= SHORT_GIVE_UP_S:
                return f"{method} on {short[:30]!r}...: more than {took:.0f} s for {SHORT} characters"
            if slow := _compare_lengths(found, compiled, method, number):
                return f"{method} on {short[:30]!r}...: {slow}"
    return ""


def _compare_lengths(found: FoundPattern, compiled: re.Pattern[Any], method: str, number: int) -> str:
    """Return "" if the time grows as the hostile text with this number does, else the times.

    Only times of one pattern are compared, so that a busy machine changes nothing.
    """
    took = GIVE_UP_S
    for length in LENGTHS:
        took = _time_method(compiled, method, _make_text(found, number, length), LONG_S)
        if took <= LONG_S and length == LENGTHS[0]:
            return ""
        if took < GIVE_UP_S:
            before = _time_method(compiled, method, _make_text(found, number, length // TIMES), 0.0)
            is_slow = took / before > LINEAR
            return f"{before:.4f} s for {length // TIMES} characters, {took:.3f} s for {length}" if is_slow else ""
    return f"more than {took:.0f} s for {LENGTHS[-1]} characters"


def _make_text(found: FoundPattern, number: int, length: int) -> str | bytes:
    return next(itertools.islice(make_hostile_texts(found, length), number, None))


def _time_method(
    compiled: re.Pattern[Any], method: str, text: str | bytes, enough: float, limit: float = GIVE_UP_S
) -> float:
    """Return the least CPU seconds of up to three runs, each of at most `limit`; one below `enough` suffices."""
    best = limit
    for _ in range(3):
        best = min(best, _time_once(compiled, method, text, limit))
        if best <= enough or best >= limit:
            break
    return best


def _time_once(compiled: re.Pattern[Any], method: str, text: str | bytes, limit: float) -> float:
    def stop(_number: int, _frame: object) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    began = time.thread_time()
    try:
        getattr(compiled, method)(text)
    except _TooLongError:
        return limit
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return time.thread_time() - began
