"""How the lists in launch/rendering/options were made: the fields of an upstream's argument classes, read and not run.

    python tests/launch/rendering/upstream_options.py FOLDER CLASS [CLASS ...]

FOLDER holds unpacked wheels (pip download --no-deps, then unzip), the upstream's and those of what its classes extend;
each CLASS is one that its parser is given, by its name or as module:name.  Prints the names, sorted; behind one that is
on unless it is said otherwise stands "on": the parsers of transformers and PaddleFormers make a --no_NAME of it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

Where = tuple[str, ast.ClassDef]  # module, class


class Sources:
    """The modules below a folder by their dotted names; what stands above the package (NAME-VERSION) is no part."""

    def __init__(self, folder: Path) -> None:
        self.paths = {_dotted(path.relative_to(folder)): path for path in sorted(folder.rglob("*.py"))}
        self.tree = cache(self._tree)

    def _tree(self, module: str) -> ast.Module:
        try:
            return ast.parse(self.paths[module].read_text(encoding="utf-8"))
        except (KeyError, SyntaxError, UnicodeDecodeError):
            return ast.Module([], [])

    def named(self, name: str, package: str = "") -> Iterator[Where]:
        """Every class of that name, wherever it is, or in a package that names its classes at its top."""
        for module, path in self.paths.items():
            if package in ("", module.partition(".")[0]):
                for node in (
                    ast.walk(self.tree(module)) if f"class {name}" in path.read_text("utf-8", "replace") else ()
                ):
                    if isinstance(node, ast.ClassDef) and node.name == name:
                        yield module, node

    def seen_from(self, module: str, name: str, tried: frozenset[tuple[str, str]] = frozenset()) -> Iterator[Where]:
        """The classes that a module means by a name: its own, or those that it imports; several in branches."""
        if (module, name) in tried:
            return
        for node in ast.walk(self.tree(module)):
            if isinstance(node, ast.ClassDef) and node.name == name:
                yield module, node
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if name == (alias.asname or alias.name) or alias.name == "*":
                        yield from self._imported(module, node, name if alias.name == "*" else alias.name, tried)

    def _imported(
        self, module: str, node: ast.ImportFrom, name: str, tried: frozenset[tuple[str, str]]
    ) -> Iterator[Where]:
        other = self._from(module, node)
        found = list(self.seen_from(other, name, tried | {(module, name)}))
        yield from found or self.named(name, other.partition(".")[0])

    def _from(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.paths.get(module, Path()).name == "__init__.py"
        parts = module.split(".")[: None if package and node.level == 1 else package - node.level]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def fields(self, where: Where, seen: frozenset[str] = frozenset()) -> dict[str, bool]:
        """Name → whether it is on by itself, of a dataclass with all that it extends."""
        module, node = where
        found: dict[str, bool] = {}
        for base in (ast.unparse(each) for each in node.bases):
            for each in self.seen_from(module, base.rpartition(".")[2]):
                if f"{each[0]}:{each[1].name}" not in seen | {f"{module}:{node.name}"}:
                    _join(found, self.fields(each, seen | {f"{module}:{node.name}"}))
        _join(found, dict(_own(node)))
        return found

    def of(self, name: str) -> dict[str, bool]:
        """Of a class that stands on the command line; the largest where several have the name."""
        module, _, plain = name.rpartition(":")
        there = list(self.seen_from(module, plain) if module else self.named(plain))
        return self.fields(max(there, key=lambda where: len(where[1].body))) if there else {}


def _dotted(path: Path) -> str:
    parts = [part for part in path.with_suffix("").parts if part.isidentifier()]
    return ".".join(parts[:-1] if parts[-1:] == ["__init__"] else parts)


def _join(found: dict[str, bool], more: dict[str, bool]) -> None:
    """On where any of them is: a class may change what its bases say, and either may be parsed."""
    for name, on in more.items():
        found[name] = on or found.get(name, False)


def _own(node: ast.ClassDef) -> Iterator[tuple[str, bool]]:
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            said = ast.unparse(each.value) if each.value is not None else ""
            kind = ast.unparse(each.annotation)
            if not ("init=False" in said or each.target.id.startswith("_") or "ClassVar" in kind):
                truth = re.fullmatch(r"(Optional\[)?bool\]?|bool \| None|Union\[bool, None(Type)?\]", kind.strip("'\""))
                yield (
                    each.target.id,
                    bool(truth) and bool(re.match(r"True$|field\((?:.*\W)?default=True\b", said, re.S)),
                )


if __name__ == "__main__":
    there = Sources(Path(sys.argv[1]))
    every = {name: there.of(name) for name in sys.argv[2:]}
    if absent := [name for name in every if not every[name]]:
        sys.exit(f"no class is named {', '.join(absent)}")
    names: dict[str, bool] = {}
    for each in every.values():
        _join(names, each)
    print("\n".join(f"{name} on" if names[name] else name for name in sorted(names)))
