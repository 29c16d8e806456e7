"""Explain an exception that no entry knows by its form, its package and its source line; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from envcheck.explain import catalogue, causality
from envcheck.explain.diagnosis import CatalogueEntry, Diagnosis, Evidence, RaisedException
from envcheck.explain.exceptions import called_function, installed_versions, out_of_memory, raised_place
from envcheck.explain.exceptions.form_conditions import CONDITIONS, OF_LINES, FittingForm
from envcheck.explain.exceptions.known_bugs import KnownBug
from envcheck.explain.passed_on import unwrap_exception

# Entries that only repeat what an exception of this type says: with its traceback, its form says more.
REPEATING: Mapping[str, str | tuple[str, ...]] = {
    "python.attribute": "",
    "python.call_changed": "TypeError",
    "python.import_name": "",
    "python.submodule": ("ModuleNotFoundError", "ImportError"),
    "python.other_distribution": "ModuleNotFoundError",
    "memory.fragmented": "",
    "memory.card": (
        "torch.OutOfMemoryError",
        "torch.cuda.OutOfMemoryError",
        "torch.npu.OutOfMemoryError",
        "RuntimeError",
    ),
    "model.template": "ValueError: Template",
    "options.unknown": ("TypeError", "ValueError"),
    "model.data_format": ("RuntimeError: Cannot find valid samples", "pyarrow.lib.ArrowInvalid: Column "),
    "model.missing_field": "KeyError",
    "model.missing_file": "FileNotFoundError",
    "model.ragged": "ValueError",
    "training.dtypes": "RuntimeError",
    "options.devices_differ": "RuntimeError",
    "training.shapes": "RuntimeError",
}
_SPLIT = re.compile(r"^(?P<type>[A-Za-z_][\w.]{0,120}?)(?::\s{0,4}(?P<message>.{0,600}))?$")
_UNKNOWN = "unknown"
_PHASE = re.compile(r"backward\(|\.(?:compute_metrics|preprocess_logits_for_metrics)\(")  # calls that tell the phase
# Forms for which the whole traceback tells the phase.
_BY_PHASE = ("memory_", "own_metrics", "unset_before_training", "data_parallel")
# Entries that say more than a form, unless it begins so.
_ONLY_AS: Mapping[str, str | tuple[str, ...]] = {
    "python.submodule": ("imported_part", "stored_object", "added_name", "removed_name", "bounded_name"),
    "python.other_distribution": "stored_object",
    "model.ragged": "own_metrics",
    "model.missing_file": "missing_folder",
    "memory.card": "memory_",
    "training.dtypes": "data_parallel",
    "options.devices_differ": ("data_parallel", "optimizer_device"),
}
# What is None, in the source line, by the end of the message.
_NONE_OWNERS = {
    "subscriptable": re.compile(r"([A-Za-z_][\w.]{0,80}(?:\([^()]{0,80}\))?)\["),
    "iterable": re.compile(r"\b(?:in|for \w{1,30} in) ([A-Za-z_][\w.]{0,80}(?:\([^()]{0,80}\))?)"),
    "callable": re.compile(r"([A-Za-z_][\w.]{0,80})\("),
}
# paddle puts hints into brackets and the place of the check behind them: `[Hint: set X] (at /paddle/y.cc:7)`.
_TAIL = re.compile(r"\s{0,4}\(at \S{1,300}:\d{1,7}\)\s{0,4}$")
# Settings, fields and options that a message quotes: `name`, 'name', --name.
# A setting without quotation marks has an underscore before its last part: max_length, actor.max_length.
_QUOTED = re.compile(
    r"`([\w./-]{3,60})`|(?<!\w)'([\w./-]{3,60})'|(?<![\w-])(--[a-z][\w-]{2,60})"
    r"|(?<![\w./'`-])([a-z][a-z0-9]{0,39}(?:[._][a-z0-9]{1,40}){0,6}_[a-z0-9]{1,40})(?![\w/(]|\.\w)"
)
_MESSAGE_BEGINS = re.compile(r",\s{0,4}\($")  # of an assertion, on the next line
_CONDITION = re.compile(r"(?:assert|if|elif|while)\b")
_WEIGHT = re.compile(
    r"\.(?:weight|bias|absmax|quant_state|quant_map|lora_[AB])\b|\blayers?\.\d|\.\d{1,4}\."
)  # no setting
MOST_NAMES = 6
SHORT_MESSAGE = 100  # characters; to a message that is shorter, its further lines are added
_REPR = re.compile(r"<[^<>\n]{1,200}>")  # of an object: its parts are no settings
_CLOSING = {"]": "[", ")": "(", "}": "{"}  # closing and opening brackets


def repeats_exception(entry: CatalogueEntry, raised: RaisedException, installed: Mapping[str, str]) -> bool:
    """Return whether the form of the exception says more than the entry that knows it."""
    if not raised.text.startswith(REPEATING.get(entry.name, "\n")):
        return False
    if entry.name in _ONLY_AS:
        form = _choose_form(raised, _describe_place(raised), installed)[0].name.rpartition(".")[2]
        return form.startswith(_ONLY_AS[entry.name])
    if raised.frames:
        return True
    return _choose_form(unwrap_exception(raised), {}, installed)[0].name.rpartition(".")[2] in OF_LINES


def explain_exception(
    raised: RaisedException, installed: Mapping[str, str] | None = None, bug: KnownBug | None = None
) -> Diagnosis:
    """Return the diagnosis of an exception by its form, or of the bug that it shows; its evidence is its own line.

    `installed` are the versions of packages that the log prints.
    """
    text = raised.text.strip()
    values = _describe_place(raised) | _split_text(text)
    if bug:
        entry, groups = replace(catalogue.load_bug_text(), source=(bug.source,)), bug.values
    else:
        entry, groups = _choose_form(raised, values, installed or {})
    if raised.continuation and len(values.get("message", "")) < SHORT_MESSAGE:
        values["message"] = f"{values.get('message', '')} {raised.continuation}".strip()
    values |= {name: _trim_sentence(said) for name, said in groups.items() if said}
    if "remedy" in groups and not groups.get("message"):  # the remedy is all of it: only what it is about
        values["message"] = ", ".join(_list_quoted_names(groups["remedy"]))
    if held := out_of_memory.describe_held_memory(text):
        values["held"] = held
    package = raised_place.find_class_package(values.get("function", "") or values.get("owner", ""))
    is_of_class = raised_place.belong_together(values.get("package", ""), package)
    if package and is_of_class and "package" not in groups and not _reads_itself(values):
        values |= {"package": package, "hint": raised_place.find_hint(package)}
    values.setdefault("pip", raised_place.name_pip_package(values.get("module", "") or values.get("package", "")))
    if values["pip"] and not raised_place.is_vendor_built(values["pip"]):
        values["newest"] = values["pip"]
    values["names"] = ", ".join(_list_quoted_names(values.get("message", "")))
    if owner := _find_owner(values.get("name", ""), values.get("source", "")) or _find_none_owner(values):
        values.setdefault("owner", owner)
    seen = Evidence(raised.file, raised.end or raised.line, text, raised.time)
    fits = raised_place.list_fitting(values.get("package", ""), _list_named_packages(text))
    made = causality.make_diagnosis(entry, values, (seen,), 1)
    commands = tuple(one.replace("FITS", "|".join(fits)) for one in made.commands if fits or "FITS" not in one)
    return replace(made, commands=commands)


def _split_text(text: str) -> dict[str, str]:
    found = _SPLIT.match(text)
    if found is None:
        return {"message": _trim_sentence(text)}
    return {name: _trim_sentence(said) for name, said in found.groupdict().items() if said}


def _trim_sentence(text: str) -> str:
    """The text without the place of a C++ check at its end, and without a bracket that closes none of it.

    In a half-open interval, [0, 1), a bracket closes one of another kind.
    """
    text = re.sub(r"\s{3,}", " ", _TAIL.sub("", text.strip()))
    while text[-1:] in _CLOSING and sum(map(text.count, _CLOSING)) > sum(map(text.count, _CLOSING.values())):
        text = text[:-1].rstrip()
    return text


def _list_quoted_names(message: str) -> list[str]:
    """The names that the message quotes, each once; those of weights are no settings."""
    names = dict.fromkeys(next(filter(None, found)) for found in _QUOTED.findall(_REPR.sub("", message)))
    return [name for name in names if not _WEIGHT.search(name)][:MOST_NAMES]


def _describe_place(raised: RaisedException) -> dict[str, str]:
    """Return the values that the frames give."""
    frames = _list_own_frames(raised)
    package = raised_place.find_raising_package(frames)
    at = raised_place.find_telling_frame(frames)
    values = {
        "place": raised_place.shorten_place(frames[at] if frames else "" if raised.frames else raised.raised_in),
        "source": _complete_source(raised.sources[at]) if frames and raised.sources else "",
        "package": package,
        "caller": raised_place.find_caller(frames, package),
        "hint": raised_place.find_hint(package),
    }
    return {name: said for name, said in values.items() if said}


def _complete_source(source: str) -> str:
    """Return the source line without what its next line continues; "" for a part of a condition: `assert x == len(`."""
    own = _MESSAGE_BEGINS.sub("", source.rstrip("\\ ,"))
    if _CONDITION.match(own) and sum(map(own.count, "([{")) > sum(map(own.count, ")]}")):
        return ""  # the rest of the condition is on the next line
    return "" if re.fullmatch(r"(?:assert|return|if|raise [\w.]{1,80})?\s{0,4}[(\[{]{0,2}", own) else own


def _list_own_frames(raised: RaisedException) -> tuple[str, ...]:
    """The frames without the innermost ones that only pass on what another process raised."""
    return tuple(raised.frames[: raised_place.count_own_frames(raised.frames, raised.sources)])


def _choose_form(
    raised: RaisedException, values: dict[str, str], installed: Mapping[str, str]
) -> tuple[CatalogueEntry, Mapping[str, str]]:
    """The first form that applies, by the exception's own line, or this line with the rest of its message."""
    text = raised.text.strip()
    texts = [text, f"{text} {raised.details}"] if raised.details else [text]
    own = _list_own_frames(raised)
    related = [*map(raised_place.relate_frame, raised.frames)]
    around = f"{values.get('source', '')}\n{values.get('place', '')}\n{' '.join(related[-3:])}"
    whole = "\n".join(
        (
            *related,
            *filter(_PHASE.search, raised.sources),
        )
    )
    for entry in catalogue.load_forms():
        form = entry.name.rpartition(".")[2]
        found = next((m for said in texts for pattern in entry.match if (m := pattern.search(said))), None)
        if found is None or (entry.unless and entry.unless.search(found.string)):
            continue
        if installed_versions.contradicts(entry.installed, installed):
            continue
        there = entry.needs.search(whole if form.startswith(_BY_PHASE) else around) if entry.needs else None
        if entry.needs and there is None:
            continue
        groups = found.groupdict(default="") | (there.groupdict(default="") if there else {})
        if groups.keys() >= {"function", "option"}:
            called = called_function.name_class(groups["function"], groups["option"], values.get("source", ""))
            groups["function"] = called
        fit = FittingForm(text, own, tuple(raised.sources[: len(own)]), values, groups, installed)
        taken = CONDITIONS[form](fit) if form in CONDITIONS else groups
        if taken is not None:
            return entry, taken
    return _load_form(_UNKNOWN), {}


def _find_owner(name: str, source: str) -> str:
    """Return what the source line takes this attribute of: `args` in `if args.name is None:`; "" if it does not."""
    found = re.search(r"([\w.\[\]'\"]{1,80})\." + re.escape(name) + r"\b", source) if name else None
    return found[1] if found else ""


def _reads_itself(values: Mapping[str, str]) -> bool:
    """Return whether the source line is of a method that reads this attribute of its own object."""
    return f"self.{values.get('name', chr(0))}" in values.get("source", "")


def _find_none_owner(values: Mapping[str, str]) -> str:
    """Return what the source line takes a part of, or goes through, where it is None; "" if the line does not say."""
    kind = next((kind for kind in _NONE_OWNERS if values.get("message", "").endswith(kind)), "")
    found = _NONE_OWNERS[kind].search(values.get("source", "")) if kind else None
    return found[1] if found else ""


def _load_form(form: str) -> CatalogueEntry:
    return next(entry for entry in catalogue.load_forms() if entry.name.endswith("." + form))


def _list_named_packages(text: str) -> list[str]:
    """Packages that the exception's text names as modules."""
    names = re.findall(r"(?:from|module) '([A-Za-z]\w{0,60})", text)
    return [name for name in names if name in raised_place.load_packages()]
