"""Sets and verdicts for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from envcheck.compat import patterns, solving
from envcheck.compat.components import components
from envcheck.compat.model import Confidence, Goal, Standing, Table, Verdict
from envcheck.compat.solving import Answer, Choice
from envcheck.core import errors
from envcheck.core.language import say
from envcheck.core.language.width import columns, tidy, wrap
from envcheck.core.version import SCHEMA_VERSION
from envcheck.report.summary import safe

IMAGES_LIMIT = 3
NONE = ("Unknown: no tested set is known for this driver.", "No tested set is known for this driver.")


@dataclass(frozen=True)
class Told:
    """Everything that is printed: what was asked, what is here (empty where no machine was asked), and the answer."""

    device: str
    framework: str
    driver: str
    architecture: str
    goal: Goal
    answer: Answer
    here: Mapping[str, str]
    verdicts: Sequence[Verdict]
    table: Table

    @cached_property
    def links(self) -> tuple[Verdict, ...]:
        """On the set that is installed with the driver asked for, where it is whole and nothing in it is known bad."""
        same = self.here.get(self.goal.driver) == self.driver
        return solving.standing_here(self.goal, self.verdicts) if same else ()

    @property
    def verdict(self) -> Standing | None:
        """Tested: there is such a set.  Unknown: one follows, or is here, that nobody calls bad.  None: no set."""
        if self.answer.best:
            return Standing.TESTED
        return Standing.UNKNOWN if self.answer.guess or self.links else None


def exit_code(told: Told) -> int:
    return {Standing.TESTED: errors.FIT, Standing.UNKNOWN: errors.UNTOLD}.get(
        told.verdict or Standing.BAD, errors.UNFIT
    )


def end_of(told: Told) -> dict[str, Any]:
    """The end of the command, for the document."""
    why = f"missing: {', '.join(told.answer.missing)}" if told.answer.missing else "no set is known that was tested"
    return errors.outcome(exit_code(told), why)


def as_json(told: Told) -> dict[str, Any]:
    """One document; `stated` is false for a set that follows from other facts only."""
    answer = told.answer
    return {
        "schema": SCHEMA_VERSION,
        "device": told.device,
        "framework": told.framework,
        "driver": told.driver,
        "architecture": told.architecture,
        "verdict": told.verdict.value if told.verdict else "none",
        "tested": _choice(told, answer.best),
        "guess": _choice(told, answer.guess),
        "missing": list(answer.missing),
        "other_drivers": [_choice(told, choice) for choice in answer.others],
        "here": dict(told.here),
        "judged": [_verdict(told, v) for v in told.verdicts],
    }


def _choice(told: Told, choice: Choice | None) -> dict[str, Any] | None:
    if choice is None:
        return None
    return {
        "versions": dict(choice.versions),
        "change": changes(told, choice),
        "stated": choice.stated,
        "because": [_verdict(told, v) for v in choice.verdicts],
        "images": [{"references": list(i.references), "doubt": i.doubt, "date": i.date} for i in choice.images],
        "commands": commands(told, choice),
    }


def _verdict(told: Told, v: Verdict) -> dict[str, Any]:
    return {
        "components": {v.left: v.left_version, v.right: v.right_version},
        "verdict": v.standing.value,
        "confidence": v.confidence.value if v.confidence else None,
        "source": _sources(told.table, v),
        "date": v.date,
        "symptom": v.symptom,
        "remedy": v.remedy,
        "note": v.note,
        "named": list(v.named),
    }


def as_text(told: Told, width: int) -> str:
    """The screen: the set, why, what other drivers allow, what is amiss here."""
    return "\n".join(line for part in _parts(told, width) for line in part) + "\n"


def _parts(told: Told, width: int) -> Iterator[list[str]]:
    answer = told.answer
    asked = f"{told.device}, {told.framework}: driver {told.driver}, {told.architecture}"
    yield _wrapped(asked, width)
    if answer.best:
        yield ["", say("Newest tested set for this driver:"), *_set(told, answer.best, width)]
        yield ["", say("Who says so:"), *_because(told, answer.best, width)]
    else:
        yield ["", *_wrapped(NONE[told.verdict is None], width)]
        yield [line for text in answer.missing for line in _wrapped(text, width, "  ")]
    if told.links and not answer.best:
        yield ["", *_open(told, width)]
    elif answer.guess:
        words = "Stated nowhere, but following from other facts (let the cards compute before you rely on it):"
        yield ["", *_wrapped(words, width), *_set(told, answer.guess, width)]
    if answer.others:
        title = "With another driver:" if answer.best is None else "What a newer set wants:"
        yield ["", say(title), *(line for choice in answer.others for line in _other(told, choice, width))]
    if amiss := [v for v in told.verdicts if v.standing is Standing.BAD]:
        yield ["", say("Known bad here:"), *(line for v in amiss for line in _amiss(told, v, width))]
    yield ["", *_next(told, width)]


def _open(told: Told, width: int) -> Iterator[str]:
    """Which links of the installed set nobody states; the others are, so nothing says that it fails."""
    yield from _wrapped("What is here is known bad nowhere; no source names these together:", width)
    for v in told.links:
        if v.standing is not Standing.TESTED:
            why = "; it follows from other facts" if v.confidence is Confidence.INFERRED else ""
            named = f"; it is named with {', '.join(v.named)}" if v.named else ""
            yield from _verbatim(f"{_pair(v)}{say(named)}{say(why)}", width, "  ", "    ")


def _set(told: Told, choice: Choice, width: int) -> list[str]:
    """A row a component; `here` only where a machine was asked."""
    rows = [(_title(name), version, told.here.get(name, "")) for name, version in _listed(told, choice)]
    wide = [max(columns(row[n]) for row in rows) for n in (0, 1)]
    changed = changes(told, choice)
    lines = []
    for (name, version), row in zip(_listed(told, choice), rows, strict=True):
        here = f"{say('here')} {safe(row[2])}" if row[2] and name in changed else say("as here") if row[2] else ""
        blank = " " * (wide[0] - columns(row[0]))
        lines.append(f"  {row[0]}{blank}  {version:<{wide[1]}}  {here}".rstrip())
    for image in choice.images[:IMAGES_LIMIT]:
        lines += [f"  {say('image')} {image.references[0]}"]  # never wrapped: for pasting
        lines += _wrapped(image.doubt, width, "    ") if image.doubt else []
    return lines


def _because(told: Told, choice: Choice, width: int) -> list[str]:
    """Each document once, with the pairs that it carries."""
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    for v in choice.verdicts:
        groups.setdefault((v.confidence, v.date, v.source), []).append(v)
    lines: list[str] = []
    for alike in groups.values():
        pairs = say("; ").join(f"{_title(v.left)} {say('with')} {_title(v.right)}" for v in alike)
        lines += _verbatim(f"{pairs}{say(': ')}{_confidence(alike[0])}", width, "  ")
        said = (*_sources(told.table, alike[0]), *dict.fromkeys(say(v.note) for v in alike if v.note))
        lines += [line for text in said for line in _verbatim(text, width, "    ", "      ")]
    return lines


def _confidence(v: Verdict) -> str:
    return say(f"{v.confidence.value}, {v.date}" if v.confidence else "no table names the two")


def _other(told: Told, choice: Choice, width: int) -> list[str]:
    versions = ", ".join(f"{_title(name)} {choice.versions[name]}" for name in told.goal.wanted)
    head = f"{say('driver')} {choice.versions[told.goal.driver]}"
    return _verbatim(f"{head}{say(': ')}{versions}", width, "  ", "    ")


def _amiss(told: Told, v: Verdict, width: int) -> list[str]:
    why = f"{say(v.symptom)}{say(' (')}{_confidence(v)}{say(')')}"
    lines = _verbatim(f"{_pair(v)}{say(': ')}{why}", width, "  ", "    ")
    return [*lines, *(_verbatim(_remedy(v), width, "    ") if v.remedy else [])]


def _pair(v: Verdict) -> str:
    return f"{_title(v.left)} {v.left_version} {say('with')} {_title(v.right)} {v.right_version}"


def _remedy(v: Verdict) -> str:
    """A sentence in other languages, where the table has it as doctor says it."""
    sentence = f"{v.remedy[:1].upper()}{v.remedy[1:]}"
    said = say(sentence)
    return v.remedy if said == sentence else said


def _next(told: Told, width: int) -> list[str]:
    choice = told.answer.best
    if choice is None:
        other = "Next: let the cards compute with what is installed, or take another driver"
        if not told.answer.others:
            other = "Next: let the cards compute with what is installed, or ask for another --framework"
        words = "Next: let the cards decide by computing with what is installed" if told.links else other
        return [*_wrapped(words, width), "  envcheck doctor --deep"]
    lacking = [n for n in _pip(told) if n in choice.versions and n not in told.here]
    if told.here and not lacking and not set(changes(told, choice)) & set(_pip(told)):
        return [say("Next: nothing to change among the packages")]
    start = f"Next: with Python {choice.versions['python']}" + (", or from the image:" if choice.images else ":")
    return [*_wrapped(start, width), *(f"  {command}" for command in commands(told, choice))]


def commands(told: Told, choice: Choice) -> list[str]:
    """What installs the set's packages; Paddle's and torch's come from their own indexes, nightlies from Paddle's."""
    lines = []
    for name in _pip(told):
        version = choice.versions.get(name)
        if version is None:
            continue
        url = _index(told.table, name, version, choice.versions.get("cuda", ""))
        lines.append(f"pip install {components()[name].package or name}=={version}" + (f" -i {url}" if url else ""))
    return lines


def _index(table: Table, name: str, version: str, cuda: str) -> str:
    """The index of a package that is not on PyPI, or not as it is wanted; "" for the usual one."""
    tag = "cu" + "".join(cuda.split(".")[:2])
    if name in table.urls:
        return table.urls[name].replace("{cuda}", tag)
    folder = tag if name == "paddlepaddle-gpu" else table.indexes.get(name, "")
    channel = "nightly" if ".dev" in version else "stable"
    return table.index_pattern.replace("{channel}", channel).replace("{device}", folder) if folder else ""


def _pip(told: Told) -> list[str]:
    """Packages in the order in which they are installed: what others load first comes first."""
    packages = [n for n in (*reversed(told.goal.wanted), *told.goal.beside) if not _system(n)]
    return sorted(packages, key=lambda n: n not in told.goal.beside)


def changes(told: Told, choice: Choice) -> list[str]:
    """The set's components that are here in another version."""
    return [
        name
        for name, version in choice.versions.items()
        if name in told.here and patterns.fits(name, told.here[name], (version,)) is not True
    ]


def _listed(told: Told, choice: Choice) -> list[tuple[str, str]]:
    order = (told.goal.driver, *reversed(told.goal.wanted), *told.goal.beside)
    return [(name, choice.versions[name]) for name in order if name in choice.versions]


def _system(name: str) -> bool:
    return components()[name].builds


def _title(name: str) -> str:
    return say(components()[name].title)


def _sources(table: Table, v: Verdict) -> list[str]:
    return [table.sources.get(name, name) for name in v.source]


def _wrapped(text: str, width: int, lead: str = "", more: str = "") -> list[str]:
    """A sentence of ours, in the language that was chosen."""
    return _verbatim(say(safe(text)), width, lead, more)


def _verbatim(text: str, width: int, lead: str = "", more: str = "") -> list[str]:
    return wrap(tidy(safe(text)), width, lead, more or lead)
