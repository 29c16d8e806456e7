"""How the lists in launch/rendering/options were made: the fields of an upstream's argument classes, read and not run.

    python tests/upstream_options.py FOLDER CLASS [CLASS ...]

FOLDER holds unpacked wheels (pip download --no-deps, then unzip), the upstream's and those of what its classes extend;
each CLASS is one that its parser is given.  Prints the names, sorted.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

Classes = dict[str, list[ast.ClassDef]]


def classes(folder: Path) -> Classes:
    """Every class below the folder, by its name; several may have one name."""
    found: Classes = {}
    for path in sorted(folder.rglob("*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
    return found


def fields(known: Classes, name: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """What a dataclass of that name takes, with all that it extends; the largest where several have the name."""
    if name in seen or name not in known:
        return set()
    node = max(known[name], key=lambda each: len(each.body))
    bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
    # ms-swift and LLaMA-Factory import transformers' classes under other names: HfTrainingArguments, Base...
    named = [base if base in known else base.removeprefix("Hf").removeprefix("Base") for base in bases]
    inherited = [fields(known, base, seen | {name}) for base in named]
    return set(_own(node)).union(*inherited)


def _own(node: ast.ClassDef) -> Iterator[str]:
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            fixed = each.value is not None and "init=False" in ast.unparse(each.value)
            if not (fixed or each.target.id.startswith("_") or "ClassVar" in ast.unparse(each.annotation)):
                yield each.target.id


if __name__ == "__main__":
    there = classes(Path(sys.argv[1]))
    if absent := [name for name in sys.argv[2:] if name not in there]:
        sys.exit(f"no class is named {', '.join(absent)}")
    print("\n".join(sorted(set().union(*(fields(there, name) for name in sys.argv[2:])))))
