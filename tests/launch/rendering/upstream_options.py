"""Create the lists in launch/rendering/options from the source of an upstream's argument classes, without importing it.

    python tests/launch/rendering/upstream_options.py FOLDER CLASS [CLASS ...]

FOLDER contains unpacked wheels (pip download --no-deps, then unzip) of the upstream and of the packages that its
classes extend; each CLASS is passed to its parser, given by name or as module:name.  Prints the names, sorted; "on"
follows a boolean that defaults to true: the parsers of transformers and PaddleFormers also accept --no_NAME for it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

Where = tuple[str, ast.ClassDef]  # module, class


class SourceTree:
    """The modules below a folder by dotted name, without the folders above the package (NAME-VERSION)."""

    def __init__(self, folder: Path) -> None:
        self.paths = {_make_dotted_name(path.relative_to(folder)): path for path in sorted(folder.rglob("*.py"))}
        self.tree = cache(self._parse_module)

    def _parse_module(self, module: str) -> ast.Module:
        try:
            return ast.parse(self.paths[module].read_text(encoding="utf-8"))
        except (KeyError, SyntaxError, UnicodeDecodeError):
            return ast.Module([], [])

    def find_classes(self, name: str, package: str = "") -> Iterator[Where]:
        """Yield every class of that name, in all modules or in those of one package."""
        for module, path in self.paths.items():
            if package in ("", module.partition(".")[0]):
                for node in (
                    ast.walk(self.tree(module)) if f"class {name}" in path.read_text("utf-8", "replace") else ()
                ):
                    if isinstance(node, ast.ClassDef) and node.name == name:
                        yield module, node

    def find_meant_classes(
        self, module: str, name: str, tried: frozenset[tuple[str, str]] = frozenset()
    ) -> Iterator[Where]:
        """Yield the classes that a name refers to in a module: its own or imported ones; several if in branches."""
        if (module, name) in tried:
            return
        for node in ast.walk(self.tree(module)):
            if isinstance(node, ast.ClassDef) and node.name == name:
                yield module, node
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if name == (alias.asname or alias.name) or alias.name == "*":
                        yield from self._follow_import(module, node, name if alias.name == "*" else alias.name, tried)

    def _follow_import(
        self, module: str, node: ast.ImportFrom, name: str, tried: frozenset[tuple[str, str]]
    ) -> Iterator[Where]:
        other = self._resolve_import(module, node)
        found = list(self.find_meant_classes(other, name, tried | {(module, name)}))
        yield from found or self.find_classes(name, other.partition(".")[0])

    def _resolve_import(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.paths.get(module, Path()).name == "__init__.py"
        parts = module.split(".")[: None if package and node.level == 1 else package - node.level]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def read_fields(self, where: Where, seen: frozenset[str] = frozenset()) -> dict[str, bool]:
        """Return field name → whether it defaults to true, for a dataclass and its bases."""
        module, node = where
        found: dict[str, bool] = {}
        for base in (ast.unparse(each) for each in node.bases):
            for each in self.find_meant_classes(module, base.rpartition(".")[2]):
                if f"{each[0]}:{each[1].name}" not in seen | {f"{module}:{node.name}"}:
                    _merge_fields(found, self.read_fields(each, seen | {f"{module}:{node.name}"}))
        _merge_fields(found, dict(_list_own_fields(node)))
        return found

    def read_options(self, name: str) -> dict[str, bool]:
        """Return the fields of a class given on the command line; of several with that name, the largest."""
        module, _, plain = name.rpartition(":")
        there = list(self.find_meant_classes(module, plain) if module else self.find_classes(plain))
        return self.read_fields(max(there, key=lambda where: len(where[1].body))) if there else {}


def _make_dotted_name(path: Path) -> str:
    parts = [part for part in path.with_suffix("").parts if part.isidentifier()]
    return ".".join(parts[:-1] if parts[-1:] == ["__init__"] else parts)


def _merge_fields(found: dict[str, bool], more: dict[str, bool]) -> None:
    """Merge fields; one is on if any of them is: a class may override its bases, and either may be parsed."""
    for name, on in more.items():
        found[name] = on or found.get(name, False)


def _list_own_fields(node: ast.ClassDef) -> Iterator[tuple[str, bool]]:
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            value = ast.unparse(each.value) if each.value is not None else ""
            kind = ast.unparse(each.annotation)
            if not ("init=False" in value or each.target.id.startswith("_") or "ClassVar" in kind):
                truth = re.fullmatch(r"(Optional\[)?bool\]?|bool \| None|Union\[bool, None(Type)?\]", kind.strip("'\""))
                yield (
                    each.target.id,
                    bool(truth) and bool(re.match(r"True$|field\((?:.*\W)?default=True\b", value, re.S)),
                )


if __name__ == "__main__":
    there = SourceTree(Path(sys.argv[1]))
    every = {name: there.read_options(name) for name in sys.argv[2:]}
    if absent := [name for name in every if not every[name]]:
        sys.exit(f"class not found: {', '.join(absent)}")
    names: dict[str, bool] = {}
    for each in every.values():
        _merge_fields(names, each)
    print("\n".join(f"{name} on" if names[name] else name for name in sorted(names)))
