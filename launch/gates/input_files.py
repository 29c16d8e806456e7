"""Gates for data files and the model folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from envcheck.core.messages import Message, _, fill, join, ngettext, verbatim
from envcheck.core.model import Finding, Status, fix, manual
from envcheck.core.units import format_gib
from envcheck.job.command import TrainingCommand
from envcheck.vendors import VENDORS
from installers.recipes.catalogue import TALKS
from installers.recipes.own_recipe import find_own_job
from launch.gates.context import GateContext
from launch.gates.results import block_if_unreachable, build_finding, build_not_applicable, build_ok
from launch.gates.stage_question import CONFIG, find_trained_folders, is_data_file
from launch.rendering.argument_rows import parse_rows
from launch.targets.stage import restore_text

NEAR_ONE = 1e-3  # accepts 0.333 + 0.333 + 0.334


def check_data(s: GateContext) -> Finding:
    """All input files exist and are not empty, and data files are valid."""
    if hidden := block_if_unreachable("gate.data", s):
        return hidden
    sets = {name: s.sight.sets.get(name) for name in s.command.data if not is_data_file(name, s.command.requires)}
    sizes = {
        **s.sight.sizes,
        **{path: s.sight.sizes.get(path) for path in sets.values() if path not in (None, "", "hub")},
    }
    sizes = {path: size for path, size in sizes.items() if not _is_model_file(path)}
    flawed = dict(_list_flawed(s))
    absent = {path: what for path, what in _list_absent(sizes) if sizes[path] is None or path not in flawed}
    wrong = {**flawed, **absent, **dict(_list_unknown_sets(sets, bool(s.sight.sets)))}  # one problem per file
    if not wrong:
        return build_ok("gate.data", _describe_checked(s, sets))
    folder: Message | str = s.command.workdir or _("the current folder")
    if s.stage.container:
        folder = _("{folder} in container {container}", folder=folder, container=s.stage.container)
    seen = ngettext(
        "{count} of {total} files is missing or invalid (paths are relative to {folder})",
        "{count} of {total} files are missing or invalid (paths are relative to {folder})",
        len(wrong),
        total=len({*sizes, *sets}),
        folder=folder,
    )
    gone = [path for path in wrong if path in absent or path not in flawed]
    words = [words for words, of in _SOURCES if any(of(s.command, path) for path in gone)]
    words += [_("Correct the listed errors, or create the file again.")] if flawed.keys() - absent.keys() else []
    words += [_explain_mounts(s)] if s.stage.container and absent.keys() & set(s.command.data) else []
    lines = tuple(_("{path}: {flaw}", path=path, flaw=what) for path, what in wrong.items())
    return Finding("gate.data", Status.FAIL, seen, manual(join(" ", words) or _("Copy the data to that path.")), lines)


def _explain_mounts(s: GateContext) -> Message:
    """Explain which host folders the container can read, and under which paths."""
    mounts = [m for m in (s.recipe.container.mounts if s.recipe.container else ()) if not m.read_only]
    if not mounts:
        return _("The container mounts no folder of this host. Use paths inside the container.")
    said = join(", ", (_("{target} ({source} on this host)", target=m.target, source=m.source) for m in mounts))
    return _("The container mounts {folders}. Use paths inside the container.", folders=said)


def _is_model_file(path: str) -> bool:
    """Whether gate.model checks this file, with its folder."""
    return path.endswith(f"/{CONFIG}")


def _list_absent(sizes: Mapping[str, int | None]) -> Iterator[tuple[str, Message]]:
    for path, size in sizes.items():
        if not size:
            yield path, _("missing or not readable") if size is None else _("empty file")


def _list_flawed(s: GateContext) -> Iterator[tuple[str, Message]]:
    for path, said in s.sight.data.items():
        if what := said.get("flaw"):
            yield path, verbatim(what)
        elif why := said.get("error"):
            yield path, _("cannot read it: {reason}", reason=fill(why))


def _list_unknown_sets(sets: Mapping[str, str | None], listed: bool) -> Iterator[tuple[str, Message]]:
    for name, path in sets.items():
        if listed and not path:
            yield name, _("is not a dataset in dataset_info.json")


def _describe_checked(s: GateContext, sets: Mapping[str, str | None]) -> Message:
    """Describe the checked files and what was checked in them."""
    checked = {path: found.get("seen") for path, found in s.sight.data.items()}
    parts: list[str] = [
        _("{path} ({result})", path=path, result=result) if (result := checked.get(path)) else path
        for path in s.sight.sizes
    ]
    parts += [
        _("data set {name} (downloaded by the framework)", name=name)
        for name, path in sets.items()
        if path in (None, "hub")
    ]
    return join(", ", parts) or _("the job reads no files")


_SOURCES: tuple[tuple[Message, Callable[[TrainingCommand, str], bool]], ...] = (
    (_("Install the vendor's toolkit, which contains these scripts."), lambda made, path: path in made.scripts),
    (
        _("Install the vendor's toolkit, which contains these files."),
        lambda made, path: path not in made.scripts and _belongs_to_toolkit(path),
    ),
    (
        _("Copy the data to that path, or set another with --data."),
        lambda made, path: path in made.data and made.own_data,
    ),
    (_("Copy the data to that path."), lambda made, path: path in made.data and not made.own_data),
    (
        _("Choose an existing checkpoint; `envcheck runs show ID` shows the checkpoints of a run."),
        lambda made, path: _is_trained_weight(made, path),
    ),
    (
        _("Get the other files from the project; `envcheck provision --dry-run` shows how."),
        lambda made, path: (
            path not in (*made.scripts, *made.data)
            and not _is_trained_weight(made, path)
            and not _belongs_to_toolkit(path)
        ),
    ),
)


def _belongs_to_toolkit(path: str) -> bool:
    """Whether the vendor's toolkit or driver installs the file."""
    return any(v.toolkit_folder and path.startswith(f"{v.toolkit_folder}/") for v in VENDORS.values())


def _is_trained_weight(made: TrainingCommand, path: str) -> bool:
    """Whether the file belongs to a checkpoint folder on the command line, as in a chat."""
    return path in made.requires and path.rpartition("/")[0] in made.argv


# (data set option, probability option) of ERNIE, LLaMA-Factory and ms-swift.
MIXES = (
    ("train_dataset_path", "train_dataset_prob"),
    ("eval_dataset_path", "eval_dataset_prob"),
    ("dataset", "interleave_probs"),
    ("dataset", "interleave_prob"),
)


def check_mix_probabilities(s: GateContext) -> Finding:
    """Mixed data sets have one probability each; the sum is 1."""
    said = parse_rows(s.job.arguments)
    pairs = [(files, probs) for files, probs in MIXES if files in said and probs in said]
    if not pairs:
        return build_not_applicable("gate.mix", _("the job sets no data set probabilities"))
    wrong = [
        what
        for files, probs in pairs
        for what in _list_mix_errors(files, _split_values(said[files]), probs, _split_values(said[probs]))
    ]
    seen = join("; ", wrong) or join(
        "; ",
        (
            ngettext(
                "{option}: {count} data set",
                "{option}: {count} data sets, sum of the probabilities 1",
                len(_split_values(said[option])),
                option=option,
            )
            for _unused, option in pairs
        ),
    )
    words = _("Set one probability per data set with --set; the sum must be 1.")
    return build_finding("gate.mix", not wrong, seen, manual(words))


def _split_values(values: tuple[str, ...]) -> list[str]:
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def _list_mix_errors(files: str, sets: list[str], name: str, texts: list[str]) -> Iterator[Message]:
    try:
        numbers = [float(text) for text in texts]
    except ValueError:
        yield _("{name} contains values that are not numbers: {texts}", name=name, texts=",".join(texts)[:80])
        return
    if len(numbers) != len(sets):
        yield _(
            "{option} and {files} have different numbers of values: {count} and {sets}",
            option=name,
            count=len(numbers),
            sets=len(sets),
            files=files,
        )
    below = [text for text, number in zip(texts, numbers, strict=True) if number < 0]
    if below:
        yield _("{name} has negative values: {below}", name=name, below=", ".join(below)[:80])
        return
    if not all(0 <= number <= 1 for number in numbers) or not abs(sum(numbers) - 1) <= NEAR_ONE:
        yield _("{name} sums to {numbers:g}; expected 1", name=name, numbers=sum(numbers))


def check_weight_values(s: GateContext) -> Finding:
    """A sample of the checkpoint's weights are finite numbers of a usual size, in safetensors and .npz files."""
    if not (s.job.method in TALKS and find_trained_folders(s.command)):
        return build_not_applicable("gate.weights", _("the job loads no trained weights"))
    if hidden := block_if_unreachable("gate.weights", s):
        return hidden
    flaws = [(folder, flaw) for folder, found in s.sight.values.items() if (flaw := found.get("flaw"))]
    if not flaws:
        return build_ok("gate.weights", _("a sample of the weights has finite values"))
    folder, flaw = flaws[0]
    words = _(
        "The training diverged before this checkpoint. Choose an earlier one with --checkpoint; "
        "`envcheck runs show ID` shows the checkpoints and the loss."
    )
    return build_finding("gate.weights", False, _("{folder}: {flaw}", folder=folder, flaw=flaw), manual(words))


def check_model(s: GateContext) -> Finding:
    """The model folder is complete: index and headers of all shards agree."""
    folders = [path.rpartition("/")[0] for path in s.command.requires if path.endswith("/config.json")]
    if not folders and s.recipe.dimensions:
        return build_not_applicable("gate.model", _("the options of the job describe the model"))
    if not folders:
        return build_not_applicable("gate.model", _("the framework downloads the model"))
    if hidden := block_if_unreachable("gate.model", s):
        return hidden
    found = [(folder, s.sight.models.get(folder)) for folder in folders]
    gone = [folder for folder, said in found if said is None]
    if gone:
        words = _("Download the model to that folder.")
        if find_own_job(s.recipe) is not None:
            return build_finding(
                "gate.model", False, _("no model found in {gone}", gone=join(", ", gone)), manual(words)
            )
        fetch = " --fetch-weights" if s.recipe.weights else ""  # without it provision only reports missing weights
        seen = _("no model found in {gone}", gone=join(", ", gone))
        is_own = find_own_job(s.recipe) is not None
        remedy = manual(words) if is_own else fix(words, f"envcheck provision {s.options}{fetch}")
        return build_finding("gate.model", False, seen, remedy)
    flaws = [(folder, flaw) for folder, said in found for flaw in (said or {}).get("flaws", ())]
    if not flaws:
        complete = [
            ngettext(
                "{folder}: {count} weight file, {size}",
                "{folder}: {count} weight files, {size}",
                said["shards"],
                folder=folder,
                size=format_gib(said["size_bytes"]),
            )
            for folder, said in found
            if said
        ]
        return build_ok("gate.model", join("; ", complete))
    good = False if any(flaw["sure"] for _unused, flaw in flaws) else None
    lines = tuple(_("{folder}: {flaw}", folder=folder, flaw=restore_text(flaw, "what")) for folder, flaw in flaws[:20])
    steps = {str(flaw["next"]): restore_text(flaw, "next") for _unused, flaw in flaws}
    seen = (
        ngettext("{count} problem in the model files", "{count} problems in the model files", len(flaws))
        if good is False
        else ngettext(
            "cannot verify the model files: {count} possible problem",
            "cannot verify the model files: {count} possible problems",
            len(flaws),
        )
    )
    return build_finding("gate.model", good, seen, manual(join("; ", steps.values())), evidence=lines)


def check_resumed_checkpoint(s: GateContext) -> Finding:
    """The checkpoint to resume from is complete, and a sample of its values is finite."""
    if not s.checkpoint:
        return build_not_applicable("gate.checkpoint", _("the training does not resume a run"))
    if hidden := block_if_unreachable("gate.checkpoint", s):
        return hidden
    said = s.sight.checkpoints.get(s.checkpoint, {})
    flaws = said.get("flaws", ())
    if said and not flaws:
        seen = _(
            "{path}: {files} files, {size}, whole, sampled values are finite",
            path=s.checkpoint,
            files=said["files"],
            size=format_gib(said["size_bytes"]),
        )
        return build_ok("gate.checkpoint", seen)
    good = False if any(flaw["sure"] for flaw in flaws) else None
    lines = tuple(restore_text(flaw, "what") for flaw in flaws[:20])
    words = _("Resume from another run, or repeat the run from the beginning with `envcheck runs rerun`.")
    seen = (
        _("cannot resume from {path}", path=s.checkpoint)
        if good is False
        else _("cannot verify the checkpoint {path}", path=s.checkpoint)
    )
    return build_finding("gate.checkpoint", good, seen, manual(words), evidence=lines)
