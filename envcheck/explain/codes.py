"""Explain bare codes such as `507033`, `EI0006`, `-8020`, `241`, `SIGKILL` or `ncclRemoteError`; pure."""

from __future__ import annotations

import fnmatch
import functools
import re
import signal
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core.messages import _, fill, mark
from envcheck.core.toml_file import Given, load_own_part, load_own_table
from envcheck.vendors import find_data_files

_FILE = Path(__file__).with_name("codes.toml")
_FAMILIES = "family"
_REST = "*"  # in a key: the rest of a word; such a row is for what has no row
_NAMED = re.compile(r"(?i)^(?:exit(?:[ _-]?(?:code|status))?|code|status|rc|returncode)[ :=]{0,3}(-?\d{1,3})$")
_SIGNAL = re.compile(r"(?i)^(?:signal[ :=]{0,3}(\d{1,2})|(SIG[A-Z]{2,9}))$")


@dataclass(frozen=True)
class ExplainedCode:
    """A code; `family` is a table of a codes.toml, `entry` the catalogue entry with more text if no entry lists the
    code, `advice` what to do about this very code, if its row has it.
    """

    code: str
    family: str
    name: str
    meaning: str
    entry: str
    advice: str = ""


@dataclass(frozen=True)
class CodeFamily:
    """How the codes of a table are written; `family.NAME` beside the table in a vendor's codes.toml.

    `form` is a pattern with the number as its first group, and `label` stands before the number where it is printed.
    A family without a form has names as keys, and `area` is the area of the entries whose lines have their numbers.
    `entry` is as in ExplainedCode.
    """

    name: Given[str]
    entry: str
    form: str = ""
    label: str = ""
    area: str = ""


@functools.cache
def load_code_tables() -> dict[str, dict[str, str]]:
    """Return the codes by family: the common ones, and those in each vendor's codes.toml."""
    return {name: codes for path in _list_files() for name, codes in load_own_table(path).items() if name != _FAMILIES}


@functools.cache
def load_families() -> tuple[CodeFamily, ...]:
    """Return the families with codes that a form or a name identifies."""
    return tuple(
        load_own_part(CodeFamily, path, part, name, name=name)
        for path in _list_files()
        for name, part in load_own_table(path).get(_FAMILIES, {}).items()
    )


def _list_files() -> list[Path]:
    return [_FILE, *(path for _unused, path in find_data_files(_FILE.name))]


def explain_code(text: str, area: str = "") -> ExplainedCode | None:
    """Return the explanation of a known code, or of one in a known range; otherwise None.

    In a log line that an entry of `area` matched, a bare number is a code of that area's families only.
    """
    word = text.strip().strip("[]():,.;'\"")
    for ask in (
        _explain_acl,
        _explain_cann,
        _explain_dcmi,
        _explain_pta,
        _explain_name,
        lambda word: _explain_form(word, area),
        _explain_exit_word,
    ):
        if found := ask(word):
            return found
    return None


def list_key_patterns(family: str) -> list[str]:
    """Return a pattern for each key of a table, long keys first; a star in a key is for the rest of a word."""
    keys = sorted(load_code_tables()[family], key=len, reverse=True)
    return [re.escape(key).replace(re.escape(_REST), r"\w{0,40}") for key in keys]


def label_code(entry: str, code: str) -> str:
    """Return the code with the label of its family if the entry is that of one: a bare number may be of others."""
    label = next((family.label for family in load_families() if family.entry == entry and family.label), "")
    return f"{label} {code}" if label and code.isdecimal() else code


def _find_key(family: str, word: str) -> str | None:
    """Return the table's key that is the word in any case, otherwise the longest key with a star that fits."""
    table = load_code_tables()[family]
    if word in table:
        return word
    keys = {key.lower(): key for key in sorted(table, key=len)}
    low = word.lower()
    fitting = (key for key in reversed(keys) if _REST in key and fnmatch.fnmatchcase(low, key))
    found = low if low in keys else next(fitting, "")
    return keys.get(found)


def _look_up_code(family: str, key: str, code: str, entry: str) -> ExplainedCode:
    name, meaning, advice, *_unused = (*_read_row(family, key), "", "")
    return ExplainedCode(code, family, name if meaning else "", meaning or name, entry, advice)


def _read_row(family: str, key: str) -> list[str]:
    """Return the parts of a row; a part `@CODE` is the same part of the row of that code."""
    table = load_code_tables()[family]
    parts = table[key].split(" | ")
    return [table[part[1:]].split(" | ")[at] if part.startswith("@") else part for at, part in enumerate(parts)]


def _explain_acl(word: str) -> ExplainedCode | None:
    if not re.fullmatch(r"[1-5]\d{5}", word):
        table = load_code_tables()["acl"]  # a code that was renamed has both names
        known = [code for code, said in table.items() if word.upper() in said.partition(" | ")[0].split(", ")]
        return _explain_acl(known[0]) if known else None
    entry = {"1": "acl.call", "2": "acl.resource", "3": "acl.resource"}.get(word[0], "acl.internal")
    if word in load_code_tables()["acl"]:
        return _look_up_code("acl", word, word, entry)
    ranges = {
        "1": _("the caller's environment or arguments"),
        "2": _("device resources"),
        "3": _("the service"),
        "5": _("errors inside CANN, the driver or the device"),
    }
    if word[0] == "4":
        return None
    said = _(
        "unknown code; AscendCL codes that start with {word} concern: {ranges}",
        word=word[0],
        ranges=ranges[word[0]],
    )
    return ExplainedCode(word, "acl", "", said, entry)


def _explain_cann(word: str) -> ExplainedCode | None:
    word = word.upper()
    if not re.fullmatch(r"E[1-47-8B-PZ]\d{4}", word):
        return None
    for family in ("hccl", "cann"):
        if word in load_code_tables()[family]:
            return _look_up_code(family, word, word, "cann.inner" if word[2] == "9" else "cann.code")
    module = load_code_tables()["module"][word[1]]
    if word[2] == "9":
        return ExplainedCode(
            word,
            "cann",
            "",
            _("internal error of {module}; see the lines that follow", module=fill(module)),
            "cann.inner",
        )
    return ExplainedCode(
        word, "cann", "", _("error of {module}; see the text that follows", module=fill(module)), "cann.code"
    )


def _explain_dcmi(word: str) -> ExplainedCode | None:
    return _look_up_code("dcmi", word, word, "dcmi.other") if word in load_code_tables()["dcmi"] else None


def _explain_pta(word: str) -> ExplainedCode | None:
    if not re.fullmatch(r"(?i)ERR\d{5}", word):
        return None
    said = load_code_tables()["pta"].get(word[5:])
    part = {"00": "TorchNPU", "01": _("an operator"), "02": _("the distributed part"), "03": _("the graph part")}.get(
        word[3:5], "TorchNPU"
    )
    return ExplainedCode(
        word.upper(),
        "pta",
        "",
        _("{part}: {meaning}", part=part, meaning=fill(said) if said else _("an error without a known name")),
        "acl.wrapped",
    )


def _explain_name(word: str) -> ExplainedCode | None:
    """Explain the name of a code: the key of the table, or, where numbers are the keys, the words before the bar."""
    for family in load_families():
        for number, said in load_code_tables()[family.name].items():
            if family.form and _REST not in number and word.lower() == said.partition(" | ")[0].lower():
                return _look_up_code(family.name, number, f"{family.label} {number}", family.entry)
        if not family.form and (key := _find_key(family.name, word)):
            code = word if _REST in key else key
            found = _look_up_code(family.name, key, code, family.entry)
            return replace(found, code=code, name=f"{code} ({found.name})")
    return None


def name_result(area: str, number: str) -> str | None:
    """Return the name of a result of a call of the library with entries in `area`; the number itself if it has none.

    None if this area's numbers are no results.
    """
    for family in load_families():
        if family.area == area:
            names = load_code_tables()[family.name].items()
            return next((name for name, said in names if said.split(" | ")[0] == number), number)
    return None


def _explain_form(word: str, area: str) -> ExplainedCode | None:
    """Explain a number with its family's words; a bare number only if no other family has it."""
    families = [family for family in load_families() if family.form]
    for family in families:
        found = re.match(family.form, word)
        key = _find_key(family.name, found[1]) if found else None
        if not found or not key:
            continue
        others = (other for other in families if other != family)
        if word == found[1] and any(word in load_code_tables()[other.name] for other in others):
            continue
        if area and word.lstrip("-") == found[1] and family.entry.partition(".")[0] != area:
            continue
        return _look_up_code(family.name, key, f"{family.label} {found[1]}", family.entry)
    return None


def _explain_exit_word(word: str) -> ExplainedCode | None:
    if found := _SIGNAL.match(word):
        number = int(found[1]) if found[1] else getattr(signal, found[2].upper(), None)
        return None if number is None else explain_exit_status(-int(number), word)
    found = _NAMED.match(word)
    word = found[1] if found else word
    return (
        explain_exit_status(int(word), word) if re.fullmatch(r"-?\d{1,3}", word) and -64 <= int(word) <= 255 else None
    )


def explain_exit_status(status: int, word: str = "") -> ExplainedCode | None:
    """Return the meaning of an exit status: minus the signal number, 128 + n (shells), or 256 - n (-n as a byte)."""
    word = word or str(status)
    if str(status) in load_code_tables()["exit"]:
        return _look_up_code("exit", str(status), word, "exit.status")
    number = -status if status < 0 else status - 128 if 128 < status <= 192 else 256 - status
    name = _name_signal(number) if status < 0 or status > 128 else ""
    if not name:
        own = ExplainedCode(word, "exit", "", _("exit status set by the program; see its last lines"), "exit.status")
        return own if status > 0 else None
    meaning = load_code_tables()["signal"].get(str(number), "").partition(" | ")[2]
    template = mark("killed by {name}: {meaning}")
    if status > 192:
        template = mark("killed by {name} ({status} is 256 - {number}): {meaning}")
    elif status > 0:
        template = mark("killed by {name} ({status} is 128 + {number}): {meaning}")
    told = fill(meaning) if meaning else _("a signal")
    is_name = bool(meaning) and word.upper() in (name, name.removeprefix("SIG"))
    return ExplainedCode(
        word,
        "signal",
        name,
        told if is_name else fill(template, name=name, status=status, number=number, meaning=told),
        f"exit.{name.lower()}",
    )


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
