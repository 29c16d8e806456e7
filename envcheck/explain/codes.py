"""Bare codes: what `507033`, `EI0006`, `-8020`, `241`, `SIGKILL` or `ncclRemoteError` say; pure."""

from __future__ import annotations

import functools
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.toml_file import own_table
from envcheck.vendors import find_data_files

_FILE = Path(__file__).with_name("codes.toml")
_NAMED = re.compile(r"(?i)^(?:exit(?:[ _-]?(?:code|status))?|code|status|rc|returncode)[ :=]{0,3}(-?\d{1,3})$")
_SIGNAL = re.compile(r"(?i)^(?:signal[ :=]{0,3}(\d{1,2})|(SIG[A-Z]{2,9}))$")
_CUDA = re.compile(r"(?i)^cuda(?:[ _]?error)?[ :=(]{0,3}(\d{1,3})\)?$")
_XID = re.compile(r"(?i)^xid[ :=]{0,3}(\d{1,3})$")


@dataclass(frozen=True)
class Code:
    """`family` is a table of a codes.toml; `entry` is where the catalogue says more, where nothing claims the code."""

    code: str
    family: str
    name: str
    meaning: str
    entry: str


@functools.cache
def tables() -> dict[str, dict[str, str]]:
    """Codes by family: those of every machine, and those of each vendor's codes.toml."""
    files = [_FILE, *(path for _, path in find_data_files(_FILE.name))]
    return {family: codes for path in files for family, codes in own_table(path).items()}


def read(text: str) -> Code | None:
    """None when the text is no code that is known, or of a family that is."""
    word = text.strip().strip("[]():,.;'\"")
    for ask in (_acl, _cann, _dcmi, _pta, _names, _cuda, _xid, _ended):
        if found := ask(word):
            return found
    return None


def _split(family: str, key: str, code: str, entry: str) -> Code:
    name, _, meaning = tables()[family][key].partition(" | ")
    return Code(code, family, name if meaning else "", meaning or name, entry)


def _acl(word: str) -> Code | None:
    if not re.fullmatch(r"[1-5]\d{5}", word):
        known = [code for code, said in tables()["acl"].items() if said.startswith(word.upper() + " |")]
        return _acl(known[0]) if known else None
    entry = {"1": "acl.call", "2": "acl.resource", "3": "acl.resource"}.get(word[0], "acl.internal")
    if word in tables()["acl"]:
        return _split("acl", word, word, entry)
    ranges = {
        "1": "the caller's environment or arguments",
        "2": "resources of the card",
        "3": "the service",
        "5": "errors inside CANN, driver or card",
    }
    if word[0] == "4":
        return None
    said = f"not in our table, but AscendCL's codes that begin with {word[0]} are about: {ranges[word[0]]}"
    return Code(word, "acl", "", said, entry)


def _cann(word: str) -> Code | None:
    word = word.upper()
    if not re.fullmatch(r"E[1-47-8B-PZ]\d{4}", word):
        return None
    for family in ("hccl", "cann"):
        if word in tables()[family]:
            return _split(family, word, word, "cann.inner" if word[2] == "9" else "cann.code")
    module = tables()["module"][word[1]]
    if word[2] == "9":
        return Code(word, "cann", "", f"an internal error of {module}; the lines after it say which", "cann.inner")
    return Code(word, "cann", "", f"an error of {module}; the text after it says which", "cann.code")


def _dcmi(word: str) -> Code | None:
    return _split("dcmi", word, word, "dcmi.other") if word in tables()["dcmi"] else None


def _pta(word: str) -> Code | None:
    if not re.fullmatch(r"(?i)ERR\d{5}", word):
        return None
    said = tables()["pta"].get(word[5:])
    part = {"00": "TorchNPU", "01": "an operator", "02": "the distributed part", "03": "the graph part"}.get(
        word[3:5], "TorchNPU"
    )
    return Code(word.upper(), "pta", "", f"{part}: {said or 'an error that our table does not name'}", "acl.wrapped")


def _names(word: str) -> Code | None:
    for family, entry in (("nccl", "nccl.error"), ("hccl_result", "hccl.result")):
        for key in tables()[family]:
            if word.lower() == key.lower():
                found = _split(family, key, key, entry)
                return Code(key, family, f"{key} ({found.name})", found.meaning, entry)
    for number, said in tables()["cuda"].items():
        if word.lower() == said.partition(" | ")[0].lower():
            return _split("cuda", number, f"CUDA {number}", "cuda.error")
    return None


def hccl_result(number: str) -> str:
    """The name of a number that HCCL's calls return; the number itself where it has none."""
    names = (key for key, said in tables()["hccl_result"].items() if said.split(" | ")[0] == number)
    return next(names, number)


def _cuda(word: str) -> Code | None:
    found = _CUDA.match(word)
    return (
        _split("cuda", found[1], f"CUDA {found[1]}", "cuda.error") if found and found[1] in tables()["cuda"] else None
    )


def _xid(word: str) -> Code | None:
    found = _XID.match(word)
    if not found or found[1] not in tables()["xid"]:
        return None
    return _split("xid", found[1], f"Xid {found[1]}", "cuda.xid")


def _ended(word: str) -> Code | None:
    if found := _SIGNAL.match(word):
        number = int(found[1]) if found[1] else getattr(signal, found[2].upper(), None)
        return None if number is None else ended(-int(number), word)
    found = _NAMED.match(word)
    word = found[1] if found else word
    return ended(int(word), word) if re.fullmatch(r"-?\d{1,3}", word) and -64 <= int(word) <= 255 else None


def ended(status: int, word: str = "") -> Code | None:
    """An exit status: minus a signal's number, 128 + n as a shell tells it, 256 - n as a byte of -n."""
    word = word or str(status)
    if str(status) in tables()["exit"]:
        return _split("exit", str(status), word, "exit.status")
    number = -status if status < 0 else status - 128 if 128 < status <= 192 else 256 - status
    name = _signal(number) if status < 0 or status > 128 else ""
    if not name:
        own = Code(word, "exit", "", "the program's own; its last lines say why", "exit.status")
        return own if status > 0 else None
    meaning = tables()["signal"].get(str(number), "").partition(" | ")[2]
    how = "" if status < 0 else f" ({status} is {'128 + ' if status <= 192 else '256 - '}{number})"
    return Code(word, "signal", name, f"ended by {name}{how}: {meaning or 'a signal'}", f"exit.{name.lower()}")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
