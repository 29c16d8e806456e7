"""What `envcheck infer` was asked for, and the recipe's job that it means; a run's record is a stranger's word."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from envcheck.errors import UsageError
from installers.containers.inside import OWN
from installers.recipes import catalogue
from installers.recipes.catalogue import TALKS, Offer, device_of
from installers.recipes.recipe import Job, Recipe
from launch.inference import kits
from launch.rendering.rows import rows
from launch.request import Request
from launch.request import choose as choose_job
from launch.runs import known
from launch.runs.known import Run

METHODS = ("chat", "infer")  # those that answer; a server is asked for by its name
_NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,200}")  # of a checkpoint's folder: nothing that leads out of it
_KINDS = ("finetuning_type", "tuner_type", "train_type", "sft_type", "fine_tuning")
_IN_FILE = re.compile(rf"^(?:{'|'.join(_KINDS)}): \"?(\w{{1,20}})", re.MULTILINE)
_PATH = re.compile(r"[^\x00-\x1f{}]{1,4096}")


@dataclass(frozen=True)
class Wish:
    """`run` names a run, "latest" the newest with a checkpoint; `checkpoint` is the number of its step."""

    request: Request
    run: str | None = None
    checkpoint: int | None = None
    adapter: str | None = None
    ask: str | None = None
    deadline_s: float = 600.0


@dataclass(frozen=True)
class Chosen:
    """`adapter` is what it talks with, "" for the model as published; `container` the one of the run, None where it is
    no run that is talked with; `of` is that run's id."""

    request: Request
    recipe: Recipe
    job: Job
    adapter: str = ""
    of: str = ""
    container: str | None = None


def choose(wish: Wish) -> Chosen:
    """UsageError, with the next step, where there is nothing to talk with or no program to do it."""
    if wish.checkpoint is not None and wish.run is None:
        raise UsageError("--checkpoint counts the steps of a run", "say which one: --run ID, or --run latest")
    if wish.run is None:
        return _by_name(wish)
    if wish.adapter is not None:
        raise UsageError("--run and --adapter both name weights", "leave one of them out")
    return _by_run(wish, _found(wish.run, wish.request))


def _found(name: str, request: Request) -> Run:
    """ "latest" is the newest run that left something: talks are on record, too."""
    folder = request.runs.expanduser().absolute() if request.runs != Request().runs else None
    if name == "latest":
        left = [run for run in known.every(folder) if _checkpoints(run)]
        if left:
            return left[0]
    return known.find(name, folder)


def _by_run(wish: Wish, run: Run) -> Chosen:
    recipe = catalogue.by_name(catalogue.load_all(wish.request.recipes), _text(run, "recipe"))
    path, adapted = _place(recipe, wish, run), _adapted(run)
    asked = replace(wish.request, recipe=recipe.name, device=_text(run, "device"))
    return _chosen(wish, asked, path, adapted, run)


def _by_name(wish: Wish) -> Chosen:
    if not (wish.request.model or wish.request.recipe):
        raise UsageError("what to talk with was not said", "envcheck infer --run latest, or --model NAME --adapter DIR")
    path = wish.adapter or ""
    if path and not _PATH.fullmatch(path):
        raise UsageError("--adapter: not a path", "name the folder of a checkpoint, such as .../checkpoint-500")
    return _chosen(wish, wish.request, path, bool(path), None)


def _chosen(wish: Wish, asked: Request, path: str, adapted: bool, run: Run | None) -> Chosen:
    recipe, job = _job(asked, adapted, run)
    if path and run is None and (recipe.image is None or asked.into):
        path = str(Path(path).expanduser().absolute())
    narrowed = replace(asked, recipe=recipe.name, method=job.method, variant=job.variant or None)
    if job in kits.jobs(recipe):
        job = kits.asked(narrowed, recipe, job)
    else:
        recipe, job = choose_job(narrowed)
    if path:
        job = filled(job, "adapter" if adapted else "model_path", path)
    container = None if run is None else run.text("container")
    return Chosen(narrowed, recipe, job, path, run.id if run else "", container)


def _job(asked: Request, adapted: bool, run: Run | None) -> Offer:
    """The one job that talks with such weights: an adapter, or a whole model."""
    if asked.method is not None and asked.method not in TALKS:
        raise UsageError(f"--method {asked.method[:40]} trains", f"envcheck train does that; here: {', '.join(TALKS)}")
    every = _offers(asked)
    fitting = [offer for offer in every if adapted == takes(offer[1], "adapter")]
    fitting = [offer for offer in fitting if offer[1] not in kits.jobs(offer[0])] or fitting
    fitting = [offer for offer in fitting if not offer[1].variant] or fitting
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(
            f"--recipe {recipe.name} --method {job.method}{job.variant and f' --variant {job.variant}'}"
            for recipe, job in fitting
        )
        raise UsageError(f"{len(fitting)} programs fit this request", f"say which one: {names}")
    what = f"the run {run.id}" if run else f"{asked.model or asked.recipe}"
    if every and not adapted:
        raise UsageError(f"to talk with {what[:80]} wants the weights of a run", "--run ID, or --adapter DIR")
    if every:
        raise UsageError(
            f"{' '.join(every[0][1].launcher)} talks with whole models alone, and an adapter is meant",
            "merge it into its model as the upstream does, then name that: --set model_name_or_path=DIR",
        )
    raise UsageError(f"no recipe has a chat for {what[:80]}", f"there are: {_there_are(asked)}")


def _offers(asked: Request) -> list[Offer]:
    """Every job that answers, of the recipes that were asked for; on this machine's device, where several fit."""
    recipes = catalogue.load_all(asked.recipes)
    found = [offer for recipe in recipes if asked.recipe in (None, recipe.name) for offer in _of(recipe, asked)]
    if len({device_of(offer) for offer in found}) > 1:
        from installers.accelerator import device_here

        with contextlib.suppress(UsageError):
            here = device_here()
            return [offer for offer in found if device_of(offer) == here] or found
    return found


def _of(recipe: Recipe, asked: Request) -> list[Offer]:
    """The recipe's own jobs, and for weights that none of them takes those of its framework."""
    wanted = (asked.method,) if asked.method else METHODS
    found = []
    for job in recipe.jobs:
        if job.method in wanted and asked.variant in (None, job.variant):
            plain = replace(asked, recipe=recipe.name, method=job.method, settings=(), extra=(), data=None)
            with contextlib.suppress(UsageError):
                found.append(choose_job(replace(plain, variant=job.variant or None)))
    taken = {takes(job, "adapter") for _, job in found}
    with contextlib.suppress(UsageError):
        catalogue.agreeing(recipe, asked.model, None, asked.device, asked.framework)
        more = [job for job in kits.jobs(recipe) if job.method in wanted and asked.variant is None]
        found += [(recipe, job) for job in more if takes(job, "adapter") not in taken]
    return found


def _there_are(asked: Request) -> str:
    found = catalogue.load_all(asked.recipes)
    return "; ".join(
        f"{r.name} ({j.method} {j.variant}".strip() + ")" for r in found for j in r.jobs if j.method in TALKS
    )


def takes(job: Job, token: str) -> bool:
    texts = (*job.launcher, *job.arguments, *job.requires, *job.environment.values())
    return any(f"{{{token}}}" in text for text in texts)


def filled(job: Job, token: str, value: str) -> Job:
    """The job with a token's value wherever it stands."""

    def texts(each: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text.replace(f"{{{token}}}", value) for text in each)

    return replace(
        job,
        launcher=texts(job.launcher),
        arguments=texts(job.arguments),
        requires=texts(job.requires),
        environment={name: text.replace(f"{{{token}}}", value) for name, text in job.environment.items()},
    )


def _place(recipe: Recipe, wish: Wish, run: Run) -> str:
    """Of a checkpoint.  Of the record its name alone is taken; where runs stand is known without it."""
    name = _pick(wish.checkpoint, run)
    if not run.text("container"):
        return str(run.folder / "output" / name)
    return str(PurePosixPath(recipe.runs or f"{OWN}/runs") / run.id / "output" / name)


def _pick(step: int | None, run: Run) -> str:
    names = _checkpoints(run)
    if not names:
        why = "still runs" if run.running else f"is {run.state} and left none"
        raise UsageError(
            f"the run {run.id} has no checkpoint on record: it {why}",
            "envcheck runs show latest tells more; --model NAME --adapter DIR names one by its folder",
        )
    fitting = [name for name in names if step is None or re.search(r"(\d*)$", name)[1] == str(step)]  # type: ignore[index]
    if not fitting:
        raise UsageError(f"the run {run.id} has no checkpoint {step}", f"it has {', '.join(names[:20])}")
    return fitting[-1]


def _checkpoints(run: Run) -> list[str]:
    said = run.said.get("checkpoints")
    paths = said if isinstance(said, list) else []
    names = [PurePosixPath(path).name for path in paths[:10_000] if isinstance(path, str)]
    return [name for name in names if _NAME.fullmatch(name)]


def _adapted(run: Run) -> bool:
    """Whether it trained an adapter beside a model: by the options on record, else by the method's name.  An option
    may stand in the text of a file that the command writes first."""
    command = run.said.get("command")
    words = [word for word in command[:2000] if isinstance(word, str)] if isinstance(command, list) else []
    said = rows(words)
    kinds = [said[kind][0].lower() for kind in _KINDS if said.get(kind)]
    kinds += [found[1].lower() for word in words if (found := _IN_FILE.search(word))]
    if kinds:
        return kinds[0] != "full"
    return "lora" in said or run.text("method") == "lora"


def _text(run: Run, key: str) -> str:
    if not run.text(key):
        raise UsageError(f"{run.folder}: its record names no {key}", "say --model NAME and --adapter DIR")
    return run.text(key)
