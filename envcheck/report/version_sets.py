"""The report of `envcheck solve`: version sets and verdicts, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from envcheck.compat import solver, version_findings, version_patterns
from envcheck.compat.components import load_components
from envcheck.compat.solver import VersionSet, VersionSolution
from envcheck.compat.version_records import CompatibilityTable, Confidence, PairStatus, PairVerdict, SolverGoal
from envcheck.core import errors
from envcheck.core.language import translate
from envcheck.core.language.source_links import translate_source
from envcheck.core.language.width import display_width, remove_extra_blanks, wrap_text
from envcheck.core.messages import Message, _, fill, join
from envcheck.core.version import SCHEMA_VERSION
from envcheck.report.summary import safe

IMAGES_LIMIT = 3
NEWEST = (_("Newest documented version set for this driver:"), _("Newest tested version set for this driver:"))
NONE = (
    _("Unknown: no documented version set is known for this driver."),
    _("No documented version set is known for this driver."),
)


@dataclass(frozen=True)
class SolveReport:
    """The request, the installed versions (empty if no machine was checked), and the answer."""

    device: str
    framework: str
    driver: str
    architecture: str
    goal: SolverGoal
    answer: VersionSolution
    here: Mapping[str, str]
    verdicts: Sequence[PairVerdict]
    table: CompatibilityTable

    @cached_property
    def links(self) -> tuple[PairVerdict, ...]:
        """The pairs of the installed set, if it is complete, for the requested driver, and without a known
        incompatibility.
        """
        same = self.here.get(self.goal.driver) == self.driver
        return solver.link_verdicts(self.goal, self.verdicts) if same else ()

    @property
    def verdict(self) -> PairStatus | None:
        """TESTED if there is such a set; UNKNOWN if one is inferred or installed without known faults; None without
        one.
        """
        if self.answer.best:
            return PairStatus.TESTED
        return PairStatus.UNKNOWN if self.answer.guess or self.links else None


def exit_code(solved: SolveReport) -> int:
    """Return 0 for a tested set, 3 for an unknown one, 1 for none."""
    return {PairStatus.TESTED: errors.SUCCESS, PairStatus.UNKNOWN: errors.UNDETERMINED}.get(
        solved.verdict or PairStatus.BAD, errors.CHECK_FAILED
    )


def describe_outcome(solved: SolveReport) -> dict[str, Any]:
    """Return the error, exit code and next step for the document."""
    why = (
        _("missing: {components}", components=join(", ", solved.answer.missing))
        if solved.answer.missing
        else _("no documented version set found")
    )
    return errors.outcome_fields(exit_code(solved), why)


def as_json(solved: SolveReport) -> dict[str, Any]:
    """Return one JSON document; `documented` is false for a set that is only inferred."""
    answer = solved.answer
    return {
        "schema": SCHEMA_VERSION,
        "device": solved.device,
        "framework": solved.framework,
        "driver": solved.driver,
        "architecture": solved.architecture,
        "verdict": solved.verdict.value if solved.verdict else "none",
        "tested": _describe_choice(solved, answer.best),
        "inferred": _describe_choice(solved, answer.guess),
        "missing": list(answer.missing),
        "other_drivers": [_describe_choice(solved, choice) for choice in answer.others],
        "installed": dict(solved.here),
        "installed_pairs": [_describe_verdict(solved, v) for v in solved.verdicts],
    }


def _describe_choice(solved: SolveReport, choice: VersionSet | None) -> dict[str, Any] | None:
    if choice is None:
        return None
    return {
        "versions": dict(choice.versions),
        "changes": list_changes(solved, choice),
        "documented": choice.stated,
        "pairs": [_describe_verdict(solved, v) for v in choice.verdicts],
        "images": [{"references": list(i.references), "caveat": i.doubt, "date": i.date} for i in choice.images],
        "commands": list_install_commands(solved, choice),
    }


def _describe_verdict(solved: SolveReport, v: PairVerdict) -> dict[str, Any]:
    return {
        "components": {v.left: v.left_version, v.right: v.right_version},
        "verdict": v.standing.value,
        "confidence": v.confidence.value if v.confidence else None,
        "source": _list_sources(solved.table, v),
        "date": v.date,
        "symptom": v.symptom,
        "remedy": v.remedy,
        "note": v.note,
        "documented_versions": list(v.named),
    }


def as_text(solved: SolveReport, width: int) -> str:
    """Return the screen: the set and its sources, what other drivers allow, known incompatibilities here."""
    return "\n".join(line for part in _render_parts(solved, width) for line in part) + "\n"


def _render_parts(solved: SolveReport, width: int) -> Iterator[list[str]]:
    answer = solved.answer
    asked = _(
        "{device}, {framework}: driver {driver}, {architecture}",
        device=solved.device,
        framework=solved.framework,
        driver=solved.driver,
        architecture=solved.architecture,
    )
    yield _wrap_translated(asked, width)
    if answer.best:
        is_tried = any(verdict.confidence is Confidence.TRIED for verdict in answer.best.verdicts)
        yield ["", translate(NEWEST[is_tried]), *_render_set(solved, answer.best, width)]
        yield ["", translate(_("Sources:")), *_render_sources(solved, answer.best, width)]
    else:
        yield ["", *_wrap_translated(NONE[solved.verdict is None], width)]
        yield [line for text in answer.missing for line in _wrap_translated(text, width, "  ")]
    if solved.links and not answer.best:
        yield ["", *_render_unstated_links(solved, width)]
    elif answer.guess:
        words = _("Inferred from other facts, not documented (run a test on the cards before you rely on it):")
        yield ["", *_wrap_translated(words, width), *_render_set(solved, answer.guess, width)]
    if answer.others:
        title = _("With another driver:") if answer.best is None else _("Requirements of newer version sets:")
        yield [
            "",
            translate(title),
            *(line for choice in answer.others for line in _render_other_driver(solved, choice, width)),
        ]
    if amiss := [v for v in solved.verdicts if v.standing is PairStatus.BAD]:
        yield [
            "",
            translate(_("Known incompatibilities on this machine:")),
            *(line for v in amiss for line in _render_known_bad(solved, v, width)),
        ]
    yield ["", *_render_next_step(solved, width)]


def _render_unstated_links(solved: SolveReport, width: int) -> Iterator[str]:
    """The pairs of the installed set that no source documents; the others are documented, so no failure is known."""
    yield from _wrap_translated(
        _("No incompatibility is known for the installed versions; no source documents these pairs:"), width
    )
    for v in solved.links:
        if v.standing is not PairStatus.TESTED:
            why = _("; inferred from other facts") if v.confidence is Confidence.INFERRED else ""
            named = _("; documented with {named}", named=join(", ", v.named)) if v.named else ""
            yield from _wrap_verbatim(
                translate(_("{pair}{named}{why}", pair=_describe_pair(v), named=named, why=why)), width, "  ", "    "
            )


def _render_set(solved: SolveReport, choice: VersionSet, width: int) -> list[str]:
    """One row per component; `here` only if a machine was checked."""
    rows = [(_get_title(name), version, solved.here.get(name, "")) for name, version in _list_versions(solved, choice)]
    wide = [max(display_width(row[n]) for row in rows) for n in (0, 1)]
    changed = list_changes(solved, choice)
    lines = []
    for (name, version), row in zip(_list_versions(solved, choice), rows, strict=True):
        here = (
            translate(_("installed: {version}", version=safe(row[2])))
            if row[2] and name in changed
            else translate(_("installed"))
            if row[2]
            else ""
        )
        blank = " " * (wide[0] - display_width(row[0]))
        lines.append(f"  {row[0]}{blank}  {version:<{wide[1]}}  {here}".rstrip())
    for image in choice.images[:IMAGES_LIMIT]:
        lines += [
            f"  {translate(_('image {reference}', reference=image.references[0]))}"
        ]  # never wrapped, so that it can be pasted
        lines += _wrap_translated(image.doubt, width, "    ") if image.doubt else []
    return lines


def _render_sources(solved: SolveReport, choice: VersionSet, width: int) -> list[str]:
    """Each document once, with the pairs that it documents."""
    groups: dict[tuple[object, ...], list[PairVerdict]] = {}
    for v in choice.verdicts:
        groups.setdefault((v.confidence, v.date, v.source), []).append(v)
    lines: list[str] = []
    for alike in groups.values():
        pairs = join(
            "; ", (_("{left} with {right}", left=_get_title(v.left), right=_get_title(v.right)) for v in alike)
        )
        lines += _wrap_verbatim(
            translate(_("{pairs}: {confidence}", pairs=pairs, confidence=_describe_confidence(alike[0]))), width, "  "
        )
        said = (
            *map(translate_source, _list_sources(solved.table, alike[0])),
            *dict.fromkeys(translate(v.note) for v in alike if v.note),
        )
        lines += [line for text in said for line in _wrap_verbatim(text, width, "    ", "      ")]
    return lines


def _describe_confidence(v: PairVerdict) -> Message:
    if v.confidence:
        return _("{confidence}, {date}", confidence=fill(v.confidence.value), date=v.date)
    return _("no table lists this pair")


def _render_other_driver(solved: SolveReport, choice: VersionSet, width: int) -> list[str]:
    text = _(
        "driver {driver}: {versions}",
        driver=choice.versions[solved.goal.driver],
        versions=join(", ", (f"{_get_title(name)} {choice.versions[name]}" for name in solved.goal.wanted)),
    )
    return _wrap_verbatim(translate(text), width, "  ", "    ")


def _render_known_bad(solved: SolveReport, v: PairVerdict, width: int) -> list[str]:
    text = _(
        "{pair}: {symptom} ({confidence})",
        pair=_describe_pair(v),
        symptom=version_findings.table_text(v.symptom),
        confidence=_describe_confidence(v),
    )
    lines = _wrap_verbatim(translate(text), width, "  ", "    ")
    return [*lines, *(_wrap_verbatim(_translate_remedy(v), width, "    ") if v.remedy else [])]


def _describe_pair(v: PairVerdict) -> Message:
    left, right = f"{_get_title(v.left)} {v.left_version}", f"{_get_title(v.right)} {v.right_version}"
    return _("{left} with {right}", left=left, right=right)


def _translate_remedy(v: PairVerdict) -> str:
    """The sentence in the selected language, if doctor's table has it."""
    sentence = version_findings.table_sentence(v.remedy)
    said = translate(sentence)
    return v.remedy if said == sentence else said


def _render_next_step(solved: SolveReport, width: int) -> list[str]:
    choice = solved.answer.best
    if choice is None:
        other = _("Next: test the installed versions on the cards, or use another driver")
        if not solved.answer.others:
            other = _("Next: test the installed versions on the cards, or choose another --library")
        words = _("Next: test the installed versions on the cards") if solved.links else other
        return [*_wrap_translated(words, width), "  envcheck doctor --deep"]
    lacking = [n for n in _list_pip_packages(solved) if n in choice.versions and n not in solved.here]
    if solved.here and not lacking and not set(list_changes(solved, choice)) & set(_list_pip_packages(solved)):
        return [translate(_("Next: nothing to do; all packages match"))]
    python = choice.versions["python"]
    start = _("Next: install with Python {python}:", python=python)
    if choice.images:
        start = _("Next: install with Python {python}, or use the image:", python=python)
    return [*_wrap_translated(start, width), *(f"  {command}" for command in list_install_commands(solved, choice))]


def list_install_commands(solved: SolveReport, choice: VersionSet) -> list[str]:
    """Return pip commands for the packages of the set; Paddle and torch use their own indexes."""
    lines = []
    for name in _list_pip_packages(solved):
        version = choice.versions.get(name)
        if version is None:
            continue
        url = _find_package_index(solved.table, name, version, choice.versions.get("cuda", ""))
        lines.append(
            f"pip install {load_components()[name].package or name}=={version}" + (f" -i {url}" if url else "")
        )
    return lines


def _find_package_index(table: CompatibilityTable, name: str, version: str, cuda: str) -> str:
    """The index of a package that PyPI lacks in this version; empty for PyPI."""
    tag = "cu" + "".join(cuda.split(".")[:2])
    if name in table.urls:
        return table.urls[name].replace("{cuda}", tag)
    folder = tag if name == "paddlepaddle-gpu" else table.indexes.get(name, "")
    channel = "nightly" if ".dev" in version else "stable"
    return table.index_pattern.replace("{channel}", channel).replace("{device}", folder) if folder else ""


def _list_pip_packages(solved: SolveReport) -> list[str]:
    """Packages in installation order: what others depend on comes first."""
    packages = [n for n in (*reversed(solved.goal.wanted), *solved.goal.beside) if not _is_system_component(n)]
    return sorted(packages, key=lambda n: n not in solved.goal.beside)


def list_changes(solved: SolveReport, choice: VersionSet) -> list[str]:
    """Return the components of the set that are installed in another version."""
    return [
        name
        for name, version in choice.versions.items()
        if name in solved.here and version_patterns.fits_any(name, solved.here[name], (version,)) is not True
    ]


def _list_versions(solved: SolveReport, choice: VersionSet) -> list[tuple[str, str]]:
    order = (solved.goal.driver, *reversed(solved.goal.wanted), *solved.goal.beside)
    return [(name, choice.versions[name]) for name in order if name in choice.versions]


def _is_system_component(name: str) -> bool:
    return load_components()[name].builds


def _get_title(name: str) -> str:
    return translate(load_components()[name].title)


def _list_sources(table: CompatibilityTable, v: PairVerdict) -> list[str]:
    return [table.sources.get(name, name) for name in v.source]


def _wrap_translated(text: str, width: int, lead: str = "", more: str = "") -> list[str]:
    """A sentence of ours in the selected language."""
    return _wrap_verbatim(translate(text), width, lead, more)


def _wrap_verbatim(text: str, width: int, lead: str = "", more: str = "") -> list[str]:
    return wrap_text(remove_extra_blanks(safe(text)), width, lead, more or lead)
