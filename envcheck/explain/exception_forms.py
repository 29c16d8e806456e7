"""Explain an exception that no entry knows by its form, its package and its source line; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from envcheck.explain import catalogue, causality
from envcheck.explain.diagnosis import CatalogueEntry, Diagnosis, Evidence, RaisedException
from envcheck.explain.exceptions import api_changes, out_of_memory, raised_place

# Entries that only repeat what an exception of this type says: with its traceback, its form says more.
REPEATING: Mapping[str, str | tuple[str, ...]] = {
    "python.attribute": "",
    "python.call_changed": "TypeError",
    "python.import_name": "",
    "python.submodule": ("ModuleNotFoundError", "ImportError"),
    "memory.card": (
        "torch.OutOfMemoryError",
        "torch.cuda.OutOfMemoryError",
        "torch.npu.OutOfMemoryError",
        "RuntimeError",
    ),
    "model.template": "ValueError: Template",
    "options.unknown": ("TypeError", "ValueError"),
    "model.missing_field": "KeyError",
    "training.shapes": "RuntimeError",
}
_SPLIT = re.compile(r"^(?P<type>[A-Za-z_][\w.]{0,120}?)(?::\s{0,4}(?P<message>.{0,600}))?$")
_DATA_CODE = re.compile(
    r"data|tokenize_|preprocess|collat|convert|sampl|_map|template|prompt|reward|batch", re.IGNORECASE
)
_DATA_PART = re.compile(r"\b(?:batch|features?|examples?|samples?|rows?|inputs)\[['\"]")
_DATA_FIELD = re.compile(
    r"KeyError: ['\"](?:texts?|messages|conversations?|prompts?|chosen|rejected|instruction|query|response)['\"]$"
)
_MISSING_KEY, _MISSING_COLUMN, _IN_LIBRARY, _UNKNOWN = "missing_key", "missing_column", "in_library", "unknown"
_OVERRIDE, _SHARED = "own_override", "memory_shared"
_OWN = "own_attribute"
_HIDDEN, _MISTAKE = "hidden_package", "release_mistake"
_MEMORY = "memory_"  # forms of a full device: the whole traceback tells the phase
_IMPORTED, _LOOKUPS = "imported_part", ("unknown_role", "unmapped_value")
# Entries that say more than a form, unless it is this one.
_ONLY_AS = {"python.submodule": _IMPORTED}
# What is None, in the source line, by the end of the message.
_NONE_OWNERS = {
    "subscriptable": re.compile(r"([A-Za-z_][\w.]{0,80}(?:\([^()]{0,80}\))?)\["),
    "iterable": re.compile(r"\b(?:in|for \w{1,30} in) ([A-Za-z_][\w.]{0,80}(?:\([^()]{0,80}\))?)"),
    "callable": re.compile(r"([A-Za-z_][\w.]{0,80})\("),
}
# A method of a class, not the making of one: `Own.compute_loss`.
_METHOD = re.compile(r"^(?:[\w<>]{1,80}\.){0,4}[A-Z]\w{1,80}\.(?!__init__)\w{1,80}$")
# Forms of names in changes.toml, by which of their two releases are known: added, removed.
_CHANGES = {"removed_name": (False, True), "added_name": (True, False), "bounded_name": (True, True)}
# The same of options and templates of trainers.
_SETTINGS = {"removed_setting": (False, True), "added_setting": (True, False), "bounded_setting": (True, True)}
# paddle puts hints into brackets and the place of the check behind them: `[Hint: set X] (at /paddle/y.cc:7)`.
_TAIL = re.compile(r"\s{0,4}\(at \S{1,300}:\d{1,7}\)\s{0,4}$")
# Settings, fields and options that a message quotes: `name`, 'name', --name.
# A setting without quotation marks has an underscore: max_length.
_QUOTED = re.compile(
    r"`([\w./-]{3,60})`|(?<!\w)'([\w./-]{3,60})'|(?<![\w-])(--[a-z][\w-]{2,60})"
    r"|(?<![\w./'`-])([a-z]{1,20}(?:[._]?[a-z0-9]{1,20}){0,6}_[a-z0-9]{1,20})(?![\w/(]|\.\w)"
)
MOST_NAMES = 6
SHORT_MESSAGE = 100  # characters; to a message that is shorter, its further lines are added
_CLOSING = {"]": "[", ")": "(", "}": "{"}  # closing and opening brackets


def repeats_exception(entry: CatalogueEntry, raised: RaisedException) -> bool:
    """Return whether the form of the exception says more than the entry that knows it."""
    if not raised.text.startswith(REPEATING.get(entry.name, "\n")):
        return False
    if entry.name in _ONLY_AS:
        return _choose_form(raised, _describe_place(raised))[0].name.endswith("." + _ONLY_AS[entry.name])
    return bool(raised.frames) or _choose_form(raised, {})[0].name.rpartition(".")[2] in (*_CHANGES, _HIDDEN)


def explain_exception(raised: RaisedException) -> Diagnosis:
    """Return the diagnosis of an exception by its form; its evidence is the line of the exception."""
    text = raised.text.strip()
    values = _describe_place(raised) | _split_text(text)
    entry, groups = _choose_form(raised, values)
    if raised.continuation and len(values.get("message", "")) < SHORT_MESSAGE:
        values["message"] = f"{values.get('message', '')} {raised.continuation}".strip()
    values |= {name.rstrip("2"): _trim_sentence(said) for name, said in groups.items() if said}
    if held := out_of_memory.describe_held_memory(text):
        values["held"] = held
    if entry.name.endswith("." + _MISSING_KEY):
        values["key"] = values.get("key", "").strip("'\"")
    package = raised_place.find_class_package(values.get("function", "") or values.get("owner", ""))
    if package and not _reads_itself(values):
        values |= {"package": package, "hint": raised_place.find_hint(package)}
    values.setdefault("pip", _name_pip_package(values))
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
    text = _TAIL.sub("", text.strip())
    while text[-1:] in _CLOSING and sum(map(text.count, _CLOSING)) > sum(map(text.count, _CLOSING.values())):
        text = text[:-1].rstrip()
    return text


def _list_quoted_names(message: str) -> list[str]:
    """The names that the message quotes, each once."""
    return list(dict.fromkeys(next(filter(None, found)) for found in _QUOTED.findall(message)))[:MOST_NAMES]


def _name_pip_package(values: dict[str, str]) -> str:
    """The name by which pip knows the package of the module that the text names, or of the innermost frame."""
    top = values.get("module", "").partition(".")[0] or values.get("package", "")
    return next(iter(raised_place.list_fitting(top)), "")


def _describe_place(raised: RaisedException) -> dict[str, str]:
    """Return the values that the frames give."""
    own = raised_place.count_own_frames(raised.frames, raised.sources)
    frames = raised.frames[:own]
    package = raised_place.find_raising_package(frames)
    at = raised_place.find_telling_frame(frames)
    values = {
        "place": raised_place.shorten_place(frames[at] if frames else "" if raised.frames else raised.raised_in),
        "source": raised.sources[at] if own and raised.sources else "",
        "package": package,
        "caller": raised_place.find_caller(frames, package),
        "hint": raised_place.find_hint(package),
    }
    return {name: said for name, said in values.items() if said}


def _choose_form(raised: RaisedException, values: dict[str, str]) -> tuple[CatalogueEntry, dict[str, str]]:
    """The first form that matches the exception's own line, or this line with the rest of its message."""
    text = raised.text.strip()
    texts = [text, f"{text} {raised.details}"] if raised.details else [text]
    around = f"{values.get('source', '')}\n{values.get('place', '')}\n{' '.join(raised.frames[-3:])}"
    whole = "\n".join((*raised.frames, *(source for source in raised.sources if "backward(" in source)))
    for entry in catalogue.load_forms():
        form = entry.name.rpartition(".")[2]
        if form in (_IN_LIBRARY, _OWN) and "package" not in values:
            continue
        found = next((m for said in texts for pattern in entry.match if (m := pattern.search(said))), None)
        if found is None or (entry.unless and entry.unless.search(found.string)):
            continue
        if form == _IMPORTED and values.get("package", found["top"]) == found["top"]:
            continue
        if form in _LOOKUPS and re.search(rf"\[['\"]{re.escape(found['key'])}['\"]\]", values.get("source", "")):
            continue  # the key is that of a field: rows[sample["answer"]]
        if form in _LOOKUPS and _DATA_FIELD.match(text) and _is_of_data(raised, values):
            continue  # the name of a field comes from an option: row[key]
        if form == _OWN and f"self.{found['name']}" not in values.get("source", ""):
            continue
        if form == _HIDDEN and not raised_place.hides_package(found["path"], found["module"].partition(".")[0]):
            continue
        if form == _MISTAKE and not _is_of_one_package(found["owner"], raised):
            continue
        if form == _SHARED and not out_of_memory.is_held_by_others(text):
            continue
        if form == _OVERRIDE and not _is_override(found["function"], raised):
            continue
        there = entry.needs.search(whole if form.startswith(_MEMORY) else around) if entry.needs else None
        if entry.needs and there is None:
            continue
        if form in _SETTINGS:
            setting = _find_setting(found.groupdict(default=""), _SETTINGS[form])
            if setting:
                return entry, setting
            continue
        if form in _CHANGES and text.startswith("NameError") and "package" not in values:
            continue  # of the program itself: an import that is missing there
        if form in _CHANGES:
            change = api_changes.find_change(found.groupdict(default=""))
            if change and (bool(change.added), bool(change.removed)) == _CHANGES[form]:
                return entry, _describe_change(change, found)
            continue
        if form == _MISSING_KEY and _is_of_data(raised, values):
            return _load_form(_MISSING_COLUMN), {"key": found["key"].strip("'\"")}
        groups = found.groupdict(default="") | (there.groupdict(default="") if there else {})
        return entry, groups | (_describe_passing(groups["option"], values) if form == _OVERRIDE else {})
    return _load_form(_UNKNOWN), {}


def _is_override(function: str, raised: RaisedException) -> bool:
    """Return whether a library calls a method of a class that is not one of its own."""
    inner = raised_place.find_package(raised.frames[-1]) if raised.frames else ""
    return bool(inner and _METHOD.match(function)) and not raised_place.find_class_package(function)


def _is_of_one_package(owner: str, raised: RaisedException) -> bool:
    """Return whether a class and all code that led to the attribute are of one package, but for its start."""
    packages = {raised_place.find_package(frame) for frame in raised.frames[1:]} or {""}
    return packages == {raised_place.find_class_package(owner)}


def _describe_passing(option: str, values: dict[str, str]) -> dict[str, str]:
    """Return since which release the package passes the argument, and which release does not."""
    release = api_changes.find_passing_release(values.get("package", ""), option)
    if not release:
        return {}
    return {"passed": f"{values['package']}>={release}", "requirement": f"{values['package']}<{release}"}


def _find_setting(groups: Mapping[str, str], kind: tuple[bool, bool]) -> dict[str, str]:
    """Return the values of the first setting that a release added or removed."""
    for name in _list_settings(groups):
        change = api_changes.load_changes().get(name)
        if change and (bool(change.added), bool(change.removed)) == kind:
            return {
                "package": change.package,
                "version": change.added or change.removed,
                "end": change.removed,
                "name": name.partition(".")[2],
                "requirement": change.requirement,
                "instead": change.instead,
            }
    return {}


def _list_settings(groups: Mapping[str, str]) -> Iterator[str]:
    if template := groups.get("template"):
        yield f"template.{template}"
    for kind in ("options", "argv"):
        for option in re.findall(r"[\w-]{2,60}", groups.get(kind, "")):
            yield f"{kind.removesuffix('s')}.{option.strip('-').replace('-', '_')}"


def _describe_change(change: api_changes.ApiChange, found: re.Match[str]) -> dict[str, str]:
    groups = found.groupdict(default="")
    return {
        "package": change.package,
        "version": change.added or change.removed,
        "end": change.removed,
        "name": groups.get("option") or groups.get("name", ""),
        "requirement": change.requirement,
        "instead": change.instead,
    }


def _is_of_data(raised: RaisedException, values: dict[str, str]) -> bool:
    """Return whether code that prepares data, or a line that takes a part of a batch, raised the exception."""
    frames = raised.frames[: raised_place.count_own_frames(raised.frames, raised.sources)]
    if not frames:
        return bool(_DATA_FIELD.match(raised.text.strip()))
    of_data = any(_DATA_CODE.search(_drop_folders(frame)) for frame in frames[-3:])
    return of_data or bool(_DATA_PART.search(values.get("source", "")))


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


def _drop_folders(frame: str) -> str:
    """The last folder, file and function of a frame."""
    path, _unused, function = frame.partition(", in ")
    return "/".join(path.split("/")[-2:]) + " " + function


def _load_form(form: str) -> CatalogueEntry:
    return next(entry for entry in catalogue.load_forms() if entry.name.endswith("." + form))


def _list_named_packages(text: str) -> list[str]:
    """Packages that the exception's text names as modules."""
    names = re.findall(r"(?:from|module) '([A-Za-z]\w{0,60})", text)
    return [name for name in names if name in raised_place.load_packages()]
