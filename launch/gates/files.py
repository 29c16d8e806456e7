"""Data, and the model's folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from envcheck.core.model import Finding, Remedy, Status
from envcheck.core.units import gib
from envcheck.job.command import TrainingCommand
from launch.gates.answers import answer, ok, skip, unseen
from launch.gates.asking import CONFIG, is_file
from launch.gates.context import GateContext
from launch.rendering.rows import rows

NEAR_ONE = 1e-3  # 0.333, 0.333 and 0.334 are a whole


def data(s: GateContext) -> Finding:
    """Every file that the job reads is there and holds something, and what is data parses."""
    if hidden := unseen("gate.data", s):
        return hidden
    sets = {name: s.sight.sets.get(name) for name in s.command.data if not is_file(name, s.command.requires)}
    sizes = {
        **s.sight.sizes,
        **{path: s.sight.sizes.get(path) for path in sets.values() if path not in (None, "", "hub")},
    }
    sizes = {path: size for path, size in sizes.items() if not _of_model(path)}
    flawed = dict(_flawed(s))
    absent = {path: what for path, what in _absent(sizes) if sizes[path] is None or path not in flawed}
    wrong = {**flawed, **absent, **dict(_unknown_sets(sets, bool(s.sight.sets)))}  # each file once
    if not wrong:
        return ok("gate.data", _told(s, sets))
    where = f" in {s.stage.container}" if s.stage.container else ""
    are_wrong = "files is wrong" if len(wrong) == 1 else "files are wrong"
    seen = f"{len(wrong)} of {len({*sizes, *sets})} {are_wrong}, seen from {s.command.workdir or 'here'}{where}"
    gone = [path for path in wrong if path in absent or path not in flawed]
    words = [words for words, of in _SOURCES if any(of(s.command, path) for path in gone)]
    words += ["Mend what is named, or write the file anew."] if flawed.keys() - absent.keys() else []
    words += [_mounted(s)] if s.stage.container and absent.keys() & set(s.command.data) else []
    lines = tuple(f"{path} {what.removeprefix('it ')}" for path, what in wrong.items())
    return Finding("gate.data", Status.FAIL, seen, Remedy(" ".join(words) or "Put the data there."), lines)


def _mounted(s: GateContext) -> str:
    """A file of this host is there only below a mount, and by another path."""
    mounts = [m for m in (s.recipe.container.mounts if s.recipe.container else ()) if not m.read_only]
    said = ", ".join(f"{m.target} ({m.source} of this host)" for m in mounts)
    seen = f"sees of this host's data {said}" if said else "has no folder of this host"
    return f"The container {seen}: name a file by its path in there."


def _of_model(path: str) -> bool:
    """gate.model judges it, with the whole folder."""
    return path.endswith(f"/{CONFIG}")


def _absent(sizes: Mapping[str, int | None]) -> Iterator[tuple[str, str]]:
    for path, size in sizes.items():
        if not size:
            yield path, "is not there or not readable" if size is None else "is empty"


def _flawed(s: GateContext) -> Iterator[tuple[str, str]]:
    for path, said in s.sight.data.items():
        if what := said.get("flaw"):
            yield path, what
        elif why := said.get("error"):
            yield path, f"cannot be read: {why}"


def _unknown_sets(sets: Mapping[str, str | None], listed: bool) -> Iterator[tuple[str, str]]:
    for name, path in sets.items():
        if listed and not path:
            yield name, "is no set that dataset_info.json knows"


def _told(s: GateContext, sets: Mapping[str, str | None]) -> str:
    """What was looked at, and how."""
    said = {path: found.get("seen") for path, found in s.sight.data.items()}
    parts = [f"{path}{f' ({said[path]})' if said.get(path) else ''}" for path in s.sight.sizes]
    parts += [f"the set {name}, which the upstream fetches" for name, path in sets.items() if path in (None, "hub")]
    return ", ".join(parts) or "the job names no files"


_SOURCES: tuple[tuple[str, Callable[[TrainingCommand, str], bool]], ...] = (
    ("The scripts come with the vendor's toolkit: install it.", lambda made, path: path in made.scripts),
    ("Put the data there, or name others with --data.", lambda made, path: path in made.data and made.own_data),
    ("Put the data there.", lambda made, path: path in made.data and not made.own_data),
    ("Name a checkpoint that is there; envcheck runs show ID tells a run's.", lambda made, path: _trained(made, path)),
    (
        "The rest comes with the project: envcheck provision --dry-run shows how to get it.",
        lambda made, path: path not in (*made.scripts, *made.data) and not _trained(made, path),
    ),
)


def _trained(made: TrainingCommand, path: str) -> bool:
    """Of a folder that the command itself names: what a talk is to be held with."""
    return path in made.requires and path.rpartition("/")[0] in made.argv


# Options that name data sets, and those that say how often each is drawn, by upstream: ERNIE, LLaMA-Factory, ms-swift.
MIXES = (
    ("train_dataset_path", "train_dataset_prob"),
    ("eval_dataset_path", "eval_dataset_prob"),
    ("dataset", "interleave_probs"),
    ("dataset", "interleave_prob"),
)


def mix(s: GateContext) -> Finding:
    """Data sets that are mixed have a probability each, 1 in sum."""
    said = rows(s.job.arguments)
    pairs = [(files, probs) for files, probs in MIXES if files in said and probs in said]
    if not pairs:
        return skip("gate.mix", "the job mixes no data sets by probabilities")
    wrong = [what for files, probs in pairs for what in _unmixed(files, _each(said[files]), probs, _each(said[probs]))]
    seen = "; ".join(wrong) or "; ".join(f"{p}: {len(_each(said[p]))} for as many sets, 1 in sum" for _, p in pairs)
    words = "Give a probability for each set, all together 1, by --set."
    return answer("gate.mix", not wrong, seen, words)


def _each(values: tuple[str, ...]) -> list[str]:
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def _unmixed(files: str, sets: list[str], name: str, texts: list[str]) -> Iterator[str]:
    try:
        numbers = [float(text) for text in texts]
    except ValueError:
        yield f"{name} holds something else than numbers: {','.join(texts)[:80]}"
        return
    if len(numbers) != len(sets):
        yield f"{name} has {len(numbers)} numbers for {len(sets)} sets of {files}"
    below = [text for text, number in zip(texts, numbers, strict=True) if number < 0]
    if below:
        yield f"{name} has numbers below 0: {', '.join(below)[:80]}"
        return
    if not all(0 <= number <= 1 for number in numbers) or not abs(sum(numbers) - 1) <= NEAR_ONE:
        yield f"{name} is {sum(numbers):g} in sum"


def model(s: GateContext) -> Finding:
    """The model's folder is complete: every shard by its header, against the index."""
    folders = [path.rpartition("/")[0] for path in s.command.requires if path.endswith("/config.json")]
    if not folders:
        return skip("gate.model", "the upstream fetches the model by itself")
    if hidden := unseen("gate.model", s):
        return hidden
    found = [(folder, s.sight.models.get(folder)) for folder in folders]
    gone = [folder for folder, said in found if said is None]
    if gone:
        words = "Fetch the model from its hub into that folder."
        fetch = " --fetch-weights" if s.recipe.weights else ""  # without it provision only says that they are missing
        seen = f"there is no model in {', '.join(gone)}"
        return answer("gate.model", False, seen, words, f"envcheck provision {s.options}{fetch}")
    flaws = [(folder, flaw) for folder, said in found for flaw in (said or {}).get("flaws", ())]
    if not flaws:
        told = [f"{folder}: {said['shards']} files, {gib(said['size_bytes'])}" for folder, said in found if said]
        return ok("gate.model", "; ".join(told))
    good = False if any(flaw["sure"] for _, flaw in flaws) else None
    lines = tuple(f"{folder}: {flaw['what']}" for folder, flaw in flaws[:20])
    steps = dict.fromkeys(str(flaw["next"]) for _, flaw in flaws)
    words = "; ".join(steps)
    seen = f"{len(flaws)} of the model's files {'are wrong' if good is False else 'cannot be judged'}"
    return answer("gate.model", good, seen, f"{words[:1].upper()}{words[1:]}.", evidence=lines)
