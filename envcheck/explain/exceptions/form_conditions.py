"""What a form of exceptions needs besides its patterns, and the values it takes from there; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from packaging.version import Version

from envcheck.explain.exceptions import (
    api_changes,
    called_function,
    installed_versions,
    out_of_memory,
    raised_place,
    torch_releases,
)

Values = Mapping[str, str]
_DATA_CODE = re.compile(
    r"data|tokenize_|preprocess|collat|convert|sampl|_map|template|prompt|reward|batch", re.IGNORECASE
)
_SAMPLES = "(?:batch|features?|examples?|samples?|rows?|inputs)"
_DATA_PART = re.compile(
    rf"\b{_SAMPLES}\[(?:['\"]|\w{{0,30}}(?:field|column|key|name)\b)|\bfor \w{{1,20}} in {_SAMPLES}\b"
)
_DATA_FIELD = re.compile(
    r"KeyError: ['\"](?:texts?|messages|conversations?|prompts?|chosen|rejected|instruction|query|response)['\"]$"
)
# A function that checks settings or makes something of them.
_CHECKING = re.compile(r"__init__|valid|check|parse|arg|config|setup|build|create|load|main|prepare")
_CONFIGURATION = re.compile(r"(?:arg(?:ument)?s|conf(?:ig)?|cfg|opts?|hparams|params|FLAGS)\.$", re.IGNORECASE)
_DIVIDING = re.compile(r"\b\w{0,10}divi(?:de|sible)\(([^,()]{2,80}), ?([^,()]{2,80})\)")
CALLS = 4  # innermost ones that tell what a size is of
# A method of a class, not the making of one: `Own.compute_loss`.
_METHOD = re.compile(r"^(?:[\w<>]{1,80}\.){0,4}[A-Z]\w{1,80}\.(?!__init__)\w{1,80}$")
_ADDED, _REMOVED, _BOUNDED = (True, False), (False, True), (True, True)  # which of a change's releases are known
# Forms that explain by the exception's line alone: why a name is missing, and what holds the device's memory.
OF_LINES = (
    *("removed_name", "added_name", "bounded_name", "hidden_package", "required_since", "remote_tokenizer"),
    *("wrapped_model", "generation_setting", "folder_only", "shadowed_module"),
    *("removed_setting", "added_setting", "bounded_setting"),
    *("memory_shared", "memory_fragmented"),
    "column_lengths",
)
# A function that a library got as an argument, where it is called.
_HANDED_OVER = re.compile(
    r"(?<!\w)(?:self\.)?(\w{0,30}(?:reward|score|metrics?|loss|formatting|collat\w{1,4}|transform|preprocess|filter)\w{0,12}"
    r"_(?:func|fn|function|logits)|compute_metrics|collate_fn|data_collator|formatting_func|function)\("
)
_OWN_PART = re.compile(r"(?<![\w.(])self\.\w{1,60}\($")  # which is called at the end of the line
_PYTHON = re.compile(r"[/\\]python(3\.\d{1,2})[/\\]")  # in the path of a module
_MODEL_FOLDER = "/transformers_modules/"  # of code that came with a model
_SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)[.!?;](?=\s)")
_MARK = re.compile(r"\W{0,3}\b(?:hint|tip|note)$", re.IGNORECASE)  # before the remedy
_CLAUSE_ENDS = (",", ":", "(", "-")
_PLEASE = re.compile(r"^(?:please|plz)(?:,| try to)? ", re.IGNORECASE)
_CONDITION = re.compile(r"(?:If|When|For|In (?:case|order)|To)\b", re.IGNORECASE)
_ARGUMENTS = "TrainingArguments."  # of transformers, which many programs have among their options
# Programs that read their own options by the parser of transformers.
_TRAINERS = re.compile(r"llama.?factory|llmtuner|swift", re.IGNORECASE)


@dataclass(frozen=True)
class FittingForm:
    """An exception whose text fits the patterns of a form: `values` are of its place, `groups` of the patterns.

    `frames` do not have the innermost ones that only pass on what another process raised; `sources` are their lines.
    `installed` are the versions that the log prints, by package.
    """

    text: str
    frames: tuple[str, ...]
    sources: tuple[str, ...]
    values: Values
    groups: Values
    installed: Values = field(default_factory=dict)

    @property
    def source(self) -> str:
        return self.values.get("source", "")

    @property
    def package(self) -> str:
        return self.values.get("package", "")


# Returns the values of the form, None if it does not apply.
Condition = Callable[[FittingForm], Values | None]


def _is_setting(fit: FittingForm) -> Values | None:
    """The value that an assertion misses is a setting: of a configuration, or in a function that checks or makes.

    What torch itself asserts is none.
    """
    owner, function = fit.groups["owner"], fit.frames[-1].rpartition(", in ")[2] if fit.frames else ""
    is_checked = owner in ("", "self.") and _CHECKING.search(function)
    return fit.groups if fit.package != "torch" and (is_checked or _CONFIGURATION.search(owner)) else None


def _is_called_with(word: str, fit: FittingForm) -> Values | None:
    """The innermost calls have this word in their functions or source lines."""
    called = (*fit.sources[-CALLS:], *(frame.rpartition(", in ")[2] for frame in fit.frames[-CALLS:]))
    return fit.groups if any(word in one.lower() for one in called) else None


def _name_divided(fit: FittingForm) -> Values:
    """Name the two sizes if a call shows them: `divide(config.num_heads, world_size)`."""
    found = next(filter(None, map(_DIVIDING.search, reversed(fit.sources))), None)
    names = (one.strip().rpartition(".")[2] for one in found.groups()) if found else ()
    return {**fit.groups, "divided": " / ".join(names)}


def _name_flag(fit: FittingForm) -> Values:
    """Add the option of a command line that has the setting's name."""
    return {**fit.groups, "flag": "--" + fit.groups["option"].replace("_", "-")}


def _is_in_library(fit: FittingForm) -> Values | None:
    return fit.groups if fit.package else None


def _reads_own_attribute(fit: FittingForm) -> Values | None:
    return fit.groups if fit.package and f"self.{fit.groups['name']}" in fit.source else None


def _bypasses_engine(fit: FittingForm) -> Values | None:
    """The tensor's own backward started the hooks, and no engine of DeepSpeed called it."""
    files = [frame.partition(":")[0] for frame in fit.frames]
    by_engine = any(file.endswith("deepspeed/runtime/engine.py") for file in files)
    return fit.groups if not by_engine and any(file.endswith("torch/_tensor.py") for file in files) else None


def _imports_other_package(fit: FittingForm) -> Values | None:
    return fit.groups if fit.package not in ("", fit.groups["top"]) else None


def _looks_up_value(fit: FittingForm) -> Values | None:
    """The key is a value of the data, not the name of a field as in `rows[sample["answer"]]`.

    The name of a field may come from an option too: `row[key]`.
    """
    of_field = re.search(rf"\[['\"]{re.escape(fit.groups['key'])}['\"]\]", fit.source)
    return None if of_field or (_DATA_FIELD.match(fit.text) and _is_of_data(fit)) else fit.groups


def _hides_package(fit: FittingForm) -> Values | None:
    hides = raised_place.hides_package(fit.groups["path"], fit.groups["top"])
    return fit.groups if hides else None


def _is_mixed(fit: FittingForm) -> Values | None:
    """An installed package imports from itself what it lacks."""
    inner = fit.frames[-1] if fit.frames else ""
    path = inner.partition(", in ")[0]
    top = fit.groups["top"]
    own = raised_place.find_package(inner) == top
    same = raised_place.is_installed(path) and raised_place.is_installed(fit.groups["path"])
    upgrade = {} if raised_place.is_vendor_built(top) else {"upgrade": raised_place.name_pip_package(top)}
    return {**fit.groups, **upgrade} if own and same else None


def _is_of_model_code(fit: FittingForm) -> Values | None:
    """The class is one of a model's own code, by its name or because a frame is of that code."""
    if "owner" in fit.groups and "setter" not in fit.text:
        return fit.groups
    own = next((frame for frame in reversed(fit.frames) if _MODEL_FOLDER in frame), "")
    return {"owner": raised_place.shorten_place(own), **fit.groups} if own else None


def _is_in_package(fit: FittingForm) -> Values | None:
    """The place is in a known package."""
    at = raised_place.find_telling_frame(fit.frames)
    package = raised_place.find_package(fit.frames[at]) if fit.frames else ""
    return {**fit.groups, "package": package} if package else None


def _is_of_one_package(fit: FittingForm) -> Values | None:
    """The class and all code that led to the attribute are of one known package, but for its start."""
    packages = {raised_place.find_package(frame) for frame in fit.frames[1:]}
    package = raised_place.find_class_package(fit.groups["owner"])
    return fit.groups if package and packages == {package} else None


def _is_held_by_others(fit: FittingForm) -> Values | None:
    return fit.groups if out_of_memory.is_held_by_others(fit.text) else None


def _is_fragmented(fit: FittingForm) -> Values | None:
    found = out_of_memory.find_fragmented(fit.text)
    return {**fit.groups, **found} if found else None


def _overrides_method(fit: FittingForm) -> Values | None:
    """A library calls a method of a class that is not one of its own."""
    frames, function = fit.frames, fit.groups["function"]
    inner = raised_place.find_package(frames[-1]) if frames else ""
    owner = raised_place.find_class_package(function)
    if not inner or not (_METHOD.match(function) or _is_own_call(function, fit.source)):
        return None
    option = fit.groups.get("option") or _find_passed(fit.source)
    if owner == inner:
        # A class of another package has the same name, if it lacks what its base class gets.
        same = "option" not in fit.groups and api_changes.find_passing_release(inner, option)
        return {**fit.groups, "option": option, "package": inner, **_describe_passing(option, inner)} if same else None
    if not option or owner in raised_place.list_fitting(inner, []):
        return None  # a library that is built on the class's package calls it: nothing is replaced
    upgrade = {"upgrade": raised_place.name_pip_package(owner)} if owner else {}
    return {**fit.groups, "option": option, "package": inner, **upgrade, **_describe_passing(option, inner)}


def _is_handed_over(fit: FittingForm) -> Values | None:
    """A library calls a function by the name of an argument: `reward_func(` for the function length_reward."""
    source = fit.sources[-1] if fit.sources else ""
    function, called = fit.groups["function"].rpartition(".")[2], _HANDED_OVER.search(source)
    own = "." not in fit.groups["function"] or "<locals>" in fit.groups["function"]
    package = raised_place.find_package(fit.frames[-1]) if fit.frames else ""
    if not (package and own and called) or called[1] == function or raised_place.find_class_package(function):
        return None
    place = raised_place.shorten_place(fit.frames[-1])
    return {**fit.groups, "function": function, "package": package, "place": place, "source": source}


def _is_own_call(function: str, source: str) -> bool:
    """Return whether the line calls this method of its own object, or a part of it that this function replaces.

    Python before 3.10 names a method without its class.
    """
    replaces = function not in ("__init__", "__call__") and function not in source and _OWN_PART.search(source)
    return "." not in function and (f"self.{function}(" in source or bool(replaces))


def _find_passed(source: str) -> str:
    """Return the last value that a call passes, if it has a name: `device` in `self.take(batches, args.device)`."""
    found = re.search(r"[,(]\s{0,4}(?:\w{1,40}=)?(?:[A-Za-z_]\w{0,30}\.){0,3}([A-Za-z_]\w{1,40})\)$", source)
    return found[1] if found else ""


def _name_passed(fit: FittingForm) -> Values:
    """Name who passes the argument, and to which package: from outside of it, or what the innermost frame calls."""
    called = called_function.find_package(fit.groups["function"], fit.groups["option"], fit.source)
    called = called if raised_place.belong_together(fit.package, called) else fit.package
    handed_on = "**" in fit.source and called in ("", fit.package)
    if not fit.frames or handed_on or (called and called == fit.package):
        return {**fit.groups, "library": called or fit.package}
    caller = raised_place.shorten_place(fit.frames[-1])
    newer = "" if _METHOD.match(fit.groups["function"]) else called  # which release removed it is known of no method
    return {**fit.groups, "caller": caller, "library": called, "package": called, "newer": newer}


def _is_required_since(fit: FittingForm) -> Values | None:
    """An argument that the call does not give came with a release of the package."""
    function = fit.groups["function"]
    for option in re.findall(r"'(\w{1,60})'", fit.groups["option"]):
        change = api_changes.find_change({"function": function, "option": option})
        requirement = f"{change.package}<{change.added}" if change and change.added else ""
        if change and requirement and not installed_versions.check_requirement(requirement, fit.installed):
            return {**fit.groups, **_describe_change(change, option, fit), "requirement": requirement}
    return None


def _lacks_part(fit: FittingForm) -> Values | None:
    """The name is that of another package that a library imports, or of a class of it; or the package is None."""
    name = fit.groups["name"]
    if "NoneType" in fit.text:
        found = re.search(rf"(?<![\w.])([A-Za-z_]\w{{1,40}})\.{re.escape(name)}\b", fit.source)
        name = found[1] if found and found[1] != "datasets" else ""  # which is a usual name of a variable
    other = name if name in raised_place.load_packages() else raised_place.find_class_package(name)
    is_rewritten = "NameError" in fit.text and fit.package.startswith("unsloth")
    if not fit.package or other in ("", fit.package) or is_rewritten:
        return None
    return {**fit.groups, "package": fit.package, "part": other, "pip": raised_place.name_pip_package(other)}


def _describe_passing(option: str, package: str) -> Values:
    """Return since which release the package passes the argument, and which release does not."""
    release = api_changes.find_passing_release(package, option)
    return {"passed": f"{package}>={release}", "requirement": f"{package}<{release}"} if release else {}


def _names_none(fit: FittingForm) -> Values | None:
    """A setting at the end of a call or condition is None only if the message is about going through it."""
    goes_through = fit.text.rstrip().endswith(("iterable", ", not NoneType"))
    return fit.groups if goes_through or not fit.groups.get("whole") else None


def _is_unpickled(fit: FittingForm) -> Values | None:
    """A class or module is missing where a stored object is read."""
    loads = any(frame.endswith(", in find_class") for frame in fit.frames) or "pickle.load" in fit.source
    return fit.groups if loads or fit.text.startswith("AttributeError") else None


def _is_rewritten(fit: FittingForm) -> Values | None:
    """A trainer that unsloth wrote fails: a key that it does not find is of the data, and an attribute says more."""
    in_trainer = fit.values.get("place", "").startswith("Unsloth")
    return None if in_trainer and fit.text.startswith(("KeyError", "AttributeError")) else fit.groups


def _find_setting(kind: tuple[bool, bool], fit: FittingForm) -> Values | None:
    """The first setting that a release added or removed."""
    for name in _list_settings(fit.groups):
        change = api_changes.load_changes().get(name)
        of_trainer = name.startswith(_ARGUMENTS) or _TRAINERS.search(" ".join((*fit.frames[-3:], fit.source)))
        if of_trainer and change and _find_broken_bounds(change, fit.installed) == kind:
            return _describe_change(change, name.partition(".")[2], fit)
    return None


def _list_settings(groups: Values) -> Iterator[str]:
    if template := groups.get("template"):
        yield f"template.{template}"
    for kind in ("options", "argv"):
        for option in re.findall(r"[\w-]{2,60}", groups.get(kind, "")):
            name = option.strip("-").replace("-", "_")
            yield f"{kind.removesuffix('s')}.{name}"
            yield _ARGUMENTS + name


def _find_change(kind: tuple[bool, bool], fit: FittingForm) -> Values | None:
    if fit.text.startswith("NameError") and not fit.package:
        return None  # of the program itself: an import that is missing there
    change = api_changes.find_change(dict(fit.groups))
    if change is None or _find_broken_bounds(change, fit.installed) != kind:
        return None
    if "module" not in fit.groups and not raised_place.belong_together(fit.package, change.package):
        return None  # a class of the same name
    name = fit.groups.get("option") or fit.groups.get("name", "")
    found = {**_describe_change(change, name, fit), **_describe_python(change, fit), **_name_calling(change, fit)}
    pair = torch_releases.describe_pair(fit.package, fit.installed) if change.package == torch_releases.TORCH else {}
    return {**found, "requirement": pair.get("pair", found["requirement"])}


def _name_calling(change: api_changes.ApiChange, fit: FittingForm) -> Values:
    """Return the package that uses the name, if pip can upgrade it."""
    has_release = fit.package not in ("", change.package) and not raised_place.is_vendor_built(fit.package)
    return {"upgrade": raised_place.name_pip_package(fit.package)} if has_release else {}


def _find_broken_bounds(change: api_changes.ApiChange, installed: Values) -> tuple[bool, bool]:
    """Return which bounds of the change may be broken: of a printed version one, or none if it has the name."""
    oldest = change.added and f"{change.package}>={change.added}"
    newest = change.removed and f"{change.package}<{change.removed}"
    kept = [installed_versions.check_requirement(one, installed) if one else True for one in (oldest, newest)]
    if False in kept:
        return (kept[0] is False, kept[1] is False)
    return (kept[0] is None, kept[1] is None)


def _describe_python(change: api_changes.ApiChange, fit: FittingForm) -> Values:
    """Return the Python that the release needs and the older one of the traceback; nothing if it is new enough."""
    needed = api_changes.find_python(change.package, change.added)
    found = _PYTHON.search("\n".join((fit.text, *fit.frames)))
    if not needed or found is None or Version(found[1]) >= Version(needed):
        return {}
    return {"python": needed, "old_python": found[1]}


def _describe_change(change: api_changes.ApiChange, name: str, fit: FittingForm) -> Values:
    only_removed = _find_broken_bounds(change, fit.installed) == _REMOVED
    return {
        "package": change.package,
        "version": change.removed if only_removed else change.added or change.removed,
        "installed": fit.installed.get(installed_versions.normalize_name(change.package), ""),
        "end": change.removed,
        "name": name,
        "requirement": change.requirement,
        "instead": change.instead,
    }


def _is_own_layer(fit: FittingForm) -> Values | None:
    """The layers of torch are called by code that is in no package."""
    calling = next((frame for frame in reversed(fit.frames) if raised_place.find_package(frame) != "torch"), "")
    if not calling or raised_place.find_package(calling):
        return None
    return {**fit.groups, "owner": raised_place.shorten_place(calling)}


def _misses_column(fit: FittingForm) -> Values | None:
    """The message names a field, or code that prepares data, or that takes a part of a batch, misses a key."""
    if "missing" not in fit.groups:
        return fit.groups
    return {"key": fit.groups["missing"].strip("'\"")} if _is_of_data(fit) else None


def _is_of_data(fit: FittingForm) -> bool:
    """Return whether code that prepares data, or a line that takes a part of a batch, raised the exception."""
    if not fit.frames:
        return bool(_DATA_FIELD.match(fit.text))
    of_data = any(_DATA_CODE.search(_drop_folders(frame)) for frame in fit.frames[-3:])
    return of_data or bool(_DATA_PART.search(fit.source))


def _drop_folders(frame: str) -> str:
    """The last folder, file and function of a frame."""
    path, _unused, function = frame.partition(", in ")
    return "/".join(path.split("/")[-2:]) + " " + function


def _misses_key(fit: FittingForm) -> Values:
    return {**fit.groups, "key": fit.groups["key"].strip("'\"")}


def _split_instruction(fit: FittingForm) -> Values:
    """Divide the message into what is wrong and the sentence that names the remedy, with its condition.

    A clause before the remedy that ends with a comma or colon is of what is wrong.
    """
    before, remedy = fit.groups["message"], fit.groups["remedy"]
    ends = [found.end() for found in _SENTENCE_END.finditer(before)]
    cut = ends[-1] if ends else 0
    clause = before[cut:].strip()
    if clause.endswith(_CLAUSE_ENDS) and not _CONDITION.match(clause):
        message = _MARK.sub("", before.strip().rstrip("".join(_CLAUSE_ENDS)))
    else:
        message, remedy = before[:cut].strip().rstrip(";"), f"{before[cut:]}{remedy}".strip()
    remedy = _PLEASE.sub("", remedy)
    return {**fit.groups, "message": message, "remedy": remedy[:1].upper() + remedy[1:]}


CONDITIONS: Mapping[str, Condition] = {
    "names_remedy": _split_instruction,
    "hidden_package": _hides_package,
    "mixed_release": _is_mixed,
    "release_mistake": _is_of_one_package,
    "remote_tokenizer": _is_of_model_code,
    "saved_setting": _is_in_package,
    "in_library": _is_in_library,
    "limit_of_option": _name_flag,
    "own_attribute": _reads_own_attribute,
    "engine_bypassed": _bypasses_engine,
    "imported_part": _imports_other_package,
    "unknown_role": _looks_up_value,
    "unmapped_value": _looks_up_value,
    "memory_shared": _is_held_by_others,
    "memory_fragmented": _is_fragmented,
    "own_callback": _is_handed_over,
    "own_override": _overrides_method,
    "unexpected_argument": _name_passed,
    "required_since": _is_required_since,
    "missing_part": _lacks_part,
    "none_setting": _names_none,
    "stored_object": _is_unpickled,
    "rewritten_library": _is_rewritten,
    "removed_setting": partial(_find_setting, _REMOVED),
    "added_setting": partial(_find_setting, _ADDED),
    "bounded_setting": partial(_find_setting, _BOUNDED),
    "removed_name": partial(_find_change, _REMOVED),
    "added_name": partial(_find_change, _ADDED),
    "bounded_name": partial(_find_change, _BOUNDED),
    "unset_setting": _is_setting,
    "vocabulary_degree": partial(_is_called_with, "vocab"),
    "beyond_positions": partial(_is_called_with, "position"),
    "expert_degree": partial(_is_called_with, "expert"),
    "numbers_not_divisible": _name_divided,
    "layer_input": _is_own_layer,
    "own_shapes": _is_own_layer,
    "missing_column": _misses_column,
    "missing_key": _misses_key,
}
