"""Messages are complete literal templates with all named values, never concatenated from pieces."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

from envcheck.cli.message_catalogue import read_catalogue

ROOT = Path(__file__).parent.parent
PACKAGES = ("envcheck", "probes", "installers", "launch")
CATALOGUE = ROOT / "envcheck/locale/zh_CN/LC_MESSAGES/envcheck.po"
# Words of a private idiom, outside {placeholders}: messages use the terms of the field.
IDIOM = re.compile(
    r"\b(told|anew|beside|alike|by hand|what follows|stands|wants|nobody|begun|in the way|of itself)\b", re.I
)
MAKERS = ("_", "ngettext", "mark")


def is_made(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS


def flaws(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the fault of the message there."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(op=ast.Add() | ast.Mod(), left=left, right=right) if is_made(left) or is_made(right):
                yield node.lineno, "put together by an operator"
            case ast.AugAssign(op=ast.Add(), value=value) if is_made(value):
                yield node.lineno, "put together by +="
            case ast.FormattedValue(value=value) if is_made(value):
                yield node.lineno, "put together by an f-string"
            case ast.Attribute(value=value, attr="format") if is_made(value):
                yield node.lineno, "filled in by .format()"
            case ast.Call(args=args, keywords=keywords) if is_made(node):
                yield from ((node.lineno, what) for what in flaws_of_call(node, args, keywords))


def flaws_of_call(node: ast.Call, args: list[ast.expr], keywords: list[ast.keyword]) -> Iterator[str]:
    templates = args[:2] if isinstance(node.func, ast.Name) and node.func.id == "ngettext" else args[:1]
    if not all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in templates) or not templates:
        yield "no literal"
        return
    given = {keyword.arg for keyword in keywords}
    if (not given and len(templates) == 1) or None in given:
        return
    named = {name for one in templates for name in named_in(one.value)}  # type: ignore[attr-defined]
    if wrong := given ^ (named - ({"count"} if len(templates) == 2 else set())):
        yield f"values and template differ: {sorted(map(str, wrong))}"


def named_in(template: str) -> set[str]:
    return {name for _text, name, _spec, _conversion in Formatter().parse(template) if name is not None}


@pytest.mark.parametrize("package", PACKAGES)
def test_messages_are_whole_templates(package: str) -> None:
    """A translator sees the sentence, its values by name, and can order them as the language needs."""
    found = [
        f"{file.relative_to(ROOT)}:{line}: {what}"
        for file in sorted((ROOT / package).rglob("*.py"))
        for line, what in flaws(ast.parse(file.read_text(encoding="utf-8")))
    ]

    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        '_("a") + _("b")',
        'words += _("; b")',
        "f\"{_('a')}: b\"",
        '_("{}, or {}").format(1, 2)',
        "_(f'device {n}')",
        "_('device ' + name)",
        '_("device {index}", number=3)',
        '_("device {index}: {name}", index=3)',
        'ngettext("{count} of {total}", "{count} of {total}", 3)',
        '_("device %d") % 3',
    ],
)
def test_each_flaw_is_found(code: str) -> None:
    """The lint fails on a message built by concatenation, and on values that do not fit."""
    assert list(flaws(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    ['_("device {index}", index=3)', 'ngettext("{count} of {total}", "{count} of all {total}", 3, total=4)', '_("a")'],
)
def test_whole_templates_pass(code: str) -> None:
    """Correct templates pass."""
    assert list(flaws(ast.parse(code))) == []


def test_messages_use_the_terms_of_the_field() -> None:
    """No message, help text or table has a word of the private idiom."""
    ids = [text for entry in read_catalogue(CATALOGUE) for text in as_tuple(entry.id)]

    assert len(ids) > 5000
    assert [text for text in ids if IDIOM.search(re.sub(r"\{[^}]*\}", "", text))] == []


def find_capital_hints(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The next steps of errors, and the hints of options, that do not begin in lower case."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        steps = [keyword.value for keyword in node.keywords if keyword.arg in ("next_step", "hint")]
        for step in [*steps, *(node.args[1:2] if name.endswith("Error") else ())]:
            if isinstance(step, ast.Call) and is_made(step) and isinstance(step.args[0], ast.Constant):
                text = str(step.args[0].value)
                if text[0].isupper() or text.endswith("."):
                    yield step.lineno, text


@pytest.mark.parametrize("package", PACKAGES)
def test_next_steps_of_errors_read_alike(package: str) -> None:
    """`next: use ...` continues the line: lower case, no full stop; remedies of findings are sentences."""
    found = [
        f"{file.relative_to(ROOT)}:{line}: {text}"
        for file in sorted((ROOT / package).rglob("*.py"))
        for line, text in find_capital_hints(ast.parse(file.read_text(encoding="utf-8")))
    ]

    assert found == []


@pytest.mark.parametrize(
    "code",
    ['UsageError(_("a"), _("Use b"))', 'option("-a", hint=_("use b."))', 'EnvcheckError(_("a"), next_step=_("Use b"))'],
)
def test_a_capital_hint_is_found(code: str) -> None:
    """Errors and options are both seen."""
    assert list(find_capital_hints(ast.parse(code)))


def as_tuple(text: str | tuple[str, ...]) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else text
