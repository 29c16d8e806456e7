"""The message catalogues: what Babel extracts for them, how they are updated and compiled.  A developer's tool.

    python -m envcheck.cli.message_catalogue update     after a message was added or changed
    python -m envcheck.cli.message_catalogue compile    after a translation was changed

Python: the literals of `_`, `mark` and `ngettext`, the help of options and commands, and what checks promise (the
docstrings of judges).  TOML: the texts under the keys that the mapping file names.
"""

from __future__ import annotations

import ast
import io
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli

from envcheck.cli.help_screen import EXAMPLE
from envcheck.cli.translate_help import split_paragraphs
from envcheck.core.language.gettext_catalogue import COMPILED, compute_key, encode_catalogue

ROOT = Path(__file__).parents[2]
MAPPING = "babel.cfg"
CATALOGUES = "*/locale/*/LC_MESSAGES/*.po"
LEFT_OUT = ("tests", "build", "docs", "benchmarks")
WIDTH = 120

if TYPE_CHECKING:
    from babel.messages.catalog import Catalog

Extracted = tuple[int, str | None, str | tuple[str, ...], list[str]]
CALLS = {"_": 1, "mark": 1, "ngettext": 2}
HELP = ("help", "short_help", "epilog", "metavar")
CHECK_NAME = re.compile(r"[a-z]+\.[a-z0-9_]+")
SENTENCE = re.compile(r"[A-Za-z]{2}")
ADDRESS = re.compile(r"https?://\S+|@\w+")  # @CODE: the text of another row of codes.toml
CODE_MEANING = " | "
ANNOTATED = "value"


def extract_python(
    file: io.BufferedIOBase, _keywords: Any, _tags: Collection[str], options: Mapping[str, str]
) -> Iterator[Extracted]:
    """Yield the messages of one module with their lines."""
    tree = ast.parse(file.read())
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(map(_is_command, node.decorator_list)):
            yield from ((node.lineno, None, text, []) for text in help_texts(ast.get_docstring(node, clean=False)))
        if isinstance(node, ast.Call):
            yield from _of_call(node, functions)


def _of_call(call: ast.Call, functions: Mapping[str, ast.FunctionDef]) -> Iterator[Extracted]:
    name = (
        call.func.id
        if isinstance(call.func, ast.Name)
        else call.func.attr
        if isinstance(call.func, ast.Attribute)
        else ""
    )
    literals = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if isinstance(call.func, ast.Name) and name in CALLS and len(literals) >= CALLS[name] and literals[0]:
        if CALLS[name] == 1:
            yield call.lineno, None, literals[0], []
        else:
            yield call.lineno, name, tuple(literals[:2]), []
    for keyword in call.keywords:
        if keyword.arg in HELP and isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str):
            for text in help_texts(keyword.value.value):
                yield call.lineno, None, text, []
    if literals and CHECK_NAME.fullmatch(literals[0]) and len(call.args) > 1 and isinstance(call.args[1], ast.Name):
        judge = functions.get(call.args[1].id)
        if judge and (promise := ast.get_docstring(judge)):
            yield judge.lineno, None, " ".join(promise.split()), []


def _is_command(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name in ("command", "group")


def help_texts(text: str | None) -> Iterator[str]:
    """Yield each paragraph as one line; of examples, only the description of each command."""
    for paragraph in split_paragraphs(text):
        if "\b" not in paragraph:
            yield " ".join(paragraph.split())
            continue
        for line in paragraph.splitlines():
            if found := EXAMPLE.match(line):
                yield found[3]


def extract_toml(
    file: io.BufferedIOBase, _keywords: Any, _tags: Collection[str], options: Mapping[str, str]
) -> Iterator[Extracted]:
    """Yield the texts under the keys of the option `keys`; with `meanings`, the part of every value after the bar.

    Tables of the option `skip` are left out; of tables in `tables`, the keys and all texts are extracted, and of tables
    in `values` the texts.  A value that stands as {value = ..., source = ...} counts under the key of that table.
    Addresses are not extracted.
    """
    text = file.read().decode()
    keys, skip, tables, values = (set(options.get(name, "").split()) for name in ("keys", "skip", "tables", "values"))
    for path, value in _leaves(tomli.loads(text), ()):
        if skip & {*path}:
            continue
        key = next((name for name in reversed(path) if name != ANNOTATED), "")
        messages: tuple[str, ...] = (
            (key, value) if tables & {*path} else (value,) if key in keys or values & {*path} else ()
        )
        if "meanings" in options:
            own, *parts = value.split(CODE_MEANING)  # a part `@CODE` is that of another row
            messages = tuple(part for part in parts if part[:1] != "@") if parts else (own,)
        for message in messages:
            if SENTENCE.search(message) and not ADDRESS.fullmatch(message):
                line = text.count("\n", 0, max(text.find(value[:40]), 0)) + 1
                yield line, None, message, []


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (keys, text) for every text; items of a list have the keys of the list."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, below in value.items():
            yield from _leaves(below, (*path, name))
    elif isinstance(value, list):
        for below in value:
            yield from _leaves(below, path)


def extract_catalogue(root: Path = ROOT) -> Catalog:
    """Return the template of all catalogues: every message below `root`, by the mapping file there."""
    from babel.messages.catalog import Catalog
    from babel.messages.extract import extract_from_dir
    from babel.messages.frontend import parse_mapping_cfg

    with (root / MAPPING).open(encoding="utf-8") as mapping:
        methods, options = parse_mapping_cfg(mapping)
    found = Catalog(fuzzy=False)

    def is_source(folder: str) -> bool:
        return Path(folder).name not in LEFT_OUT and not Path(folder).name.startswith(".")

    for file, _line, message, comments, context in extract_from_dir(
        str(root), methods, options, directory_filter=is_source
    ):
        found.add(message, None, [(file, None)], auto_comments=comments, context=context)
    return found


def read_catalogue(path: Path) -> Catalog:
    from babel.messages.pofile import read_po

    with path.open("rb") as file:
        return read_po(file)


def write_catalogue(path: Path, catalogue: Catalog) -> None:
    from babel.messages.pofile import write_po

    with path.open("wb") as file:
        write_po(file, catalogue, sort_by_file=True, width=WIDTH, include_lineno=False, ignore_obsolete=True)


def update_catalogues(root: Path = ROOT) -> None:
    """Add new messages and remove old ones; a changed one is a new one."""
    template = extract_catalogue(root)
    for path in sorted(root.glob(CATALOGUES)):
        catalogue = read_catalogue(path)
        catalogue.update(template, no_fuzzy_matching=True)  # which takes seconds for each new message
        write_catalogue(path, catalogue)


def compile_catalogues(root: Path = ROOT) -> None:
    """Write each catalogue's compiled form next to it, where it is older than the .po."""
    import lzma

    for path in root.glob(CATALOGUES):
        compiled = path.with_name(COMPILED)
        if compiled.exists() and compiled.stat().st_mtime >= path.stat().st_mtime:
            continue
        part = compiled.with_suffix(f".{os.getpid()}.part")  # several test runs may do so at once
        data = encode_catalogue(_collect_texts(read_catalogue(path)))
        part.write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))
        part.replace(compiled)


def _collect_texts(catalogue: Catalog) -> dict[bytes, str]:
    """Return the translations by key; ValueError if two messages have the same key."""
    found: dict[bytes, str] = {}
    for message in catalogue:
        if not message.id or message.fuzzy or not message.string:
            continue
        english, text = (message.id[0], message.string[0]) if message.pluralizable else (message.id, message.string)
        key = compute_key(english)
        if key in found:
            raise ValueError(f"two messages have the key {key.hex()}: {english!r}")
        found[key] = text
    return found


if __name__ == "__main__":
    {"update": update_catalogues, "compile": compile_catalogues}[sys.argv[1]]()
