"""The imports of the product: every one, at module level, inside functions and under TYPE_CHECKING.

`import_module("a.literal")` counts as an import; a name that is computed does not: that is how parts are plugged in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGES = ("envcheck", "probes", "installers", "launch")


@dataclass(frozen=True)
class ImportGraph:
    """The modules below `root`, and which of them each imports."""

    root: Path

    @cached_property
    def files(self) -> dict[str, Path]:
        """Module name to file."""
        found = sorted(path for package in PACKAGES for path in (self.root / package).rglob("*.py"))
        return {module_name(path.relative_to(self.root)): path for path in found}

    @cached_property
    def modules(self) -> dict[str, set[str]]:
        """Module to the modules of ours that it imports."""
        return {module: self._select_ours(module) - {module} for module in self.files}

    @cached_property
    def folders(self) -> dict[str, set[str]]:
        """Folder to the folders that its modules import from; a top package's own modules are a folder of their own."""
        graph: dict[str, set[str]] = {self.find_folder(module): set() for module in self.files}
        for module, imported in self.modules.items():
            graph[self.find_folder(module)] |= {self.find_folder(other) for other in imported} - {
                self.find_folder(module)
            }
        return graph

    def find_folder(self, module: str) -> str:
        return str(self.files[module].parent.relative_to(self.root))

    def names_imported_by(self, module: str) -> Iterator[str]:
        """Dotted names, ours and others'; for `from a import b` both `a` and `a.b`."""
        for node in ast.walk(ast.parse(self.files[module].read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Call) and _is_import_call(node):
                yield from (a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str))

    def _select_ours(self, module: str) -> set[str]:
        named = set(self.names_imported_by(module))
        found = named & self.files.keys()
        # `from a import b` imports the module a.b, and not a, where there is such a module
        return {name for name in found if not any(other.rpartition(".")[0] == name for other in found)} | {
            name for name in found if any(n.rpartition(".")[0] == name and n not in self.files for n in named)
        }


def module_name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def find_cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one node, largest first."""
    found = []
    reached = {node: _find_reachable(graph, node) for node in graph}
    left = set(graph)
    for node in sorted(graph):
        component = sorted({node} | {other for other in reached[node] & left if node in reached[other]})
        if node in left and len(component) > 1:
            found.append(component)
        left -= set(component)
    return sorted(found, key=len, reverse=True)


def _find_reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for other in graph[waiting.pop()] - seen:
            seen.add(other)
            waiting.append(other)
    return seen


def _is_import_call(node: ast.Call) -> bool:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return called in ("import_module", "__import__")
