"""How each step of a plan is done, and how one sees at once whether it is: two tables by the step's name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from envcheck.core.errors import StepError
from installers import programs
from installers.bundle import from_bundle, lock_notes
from installers.containers import container
from installers.images import image, image_pull
from installers.images.engine import MACHINES
from installers.locks import lockfile_use
from installers.locks.lockfile import Image
from installers.seeds import layers
from installers.software import checkouts, packages, sources
from installers.state import environment, journal, progress, state_file, venv_parts
from installers.steps import checkout_undo, weights
from installers.steps.model import Step
from installers.steps.work import Work
from installers.verify import verify_environment

SWEEP = Path(programs.__path__[0]) / "sweep.py"
SWEEP_S = 120.0
VENV_DEADLINE_S = 300.0  # 4 s on two cores; ensurepip unpacks pip on a slow network disk in a minute


def clear(step: Step, work: Work) -> str:
    """Remove the environment, which the plan has made sure that envcheck made; other things in the folder stay."""
    for path in venv_parts.own(work.folder):
        venv_parts.remove(path)
    return f"emptied {work.folder}"


def make(step: Step, work: Work) -> str:
    argv = (work.place.interpreter, "-I", "-m", "venv", str(work.folder))
    done = work.target.run(argv, timeout_s=VENV_DEADLINE_S, env=packages.surroundings(work.target))
    packages.keep(work.own / "venv.log", f"$ {' '.join(argv)}\n{done.out}\n{done.err}")
    if done.status == 0:
        return f"Python {work.place.python}"
    if "No space left" in done.out + done.err:
        raise StepError("the disk is full", "make room, then repeat the same command")
    said = [line for line in (done.out + done.err).splitlines() if line.strip()]
    debian = "ensurepip" in done.out + done.err
    next_step = "on Debian and Ubuntu: apt-get install python3-venv" if debian else f"see {work.own / 'venv.log'}"
    raise StepError(f"python -m venv failed: {said[-1] if said else done.status}", next_step)


def install(step: Step, work: Work) -> str:
    _sweep(work)
    before = work.target.environment().packages
    with progress.Downloads(work.own / "tmp", work.report) as downloads:
        pip = packages.Pip(work.target, downloads.line)
        others = [p for p in work.recipe.packages if p not in step.packages]
        with from_bundle.links(work.terms, work.ground) as folder:
            locked = work.terms.wheels
            put = packages.install(pip, step.packages, others, force=step.again, locked=locked, find_links=folder)
    lock_notes.add_wheels(work.folder, work.terms.recipe, put)
    after = work.target.environment().packages
    remember(work.folder, added=set(after) - set(before))
    first = [str(canonicalize_name(p.name.partition("[")[0])) for p in step.packages]
    new = {name: after[name] for name in [*first, *after] if name in after and after[name] != before.get(name)}
    return ", ".join(f"{name} {version}" for name, version in new.items()) or "put in anew what was there"


def lend(step: Step, work: Work) -> str:
    """A library out of a wheel that carries it, under the name by which the loader asks for it."""
    done, library = install(step, work), step.library
    assert library
    found = next(site(work.folder).glob(library.pattern), None)
    if not found:
        raise StepError(f"{library.package} carries no {library.pattern}", "the wheel is not what its name says")
    link = site(work.folder) / library.link
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(found, link.parent))
    return f"{done}; {library.name} is {found.name}"


def site(folder: Path) -> Path:
    """The environment's site-packages; one per environment."""
    return next(folder.glob("lib/python3*/site-packages"))


def _sweep(work: Work) -> None:
    """Away with what a pip that was cut off left: half-written notes (without RECORD pip can neither use nor replace
    them), folders renamed to ~name, temporary files."""
    work.target.run(
        (work.target.python, "-I", "-c", SWEEP.read_text()), timeout_s=SWEEP_S, env=work.target.surroundings()
    )
    work.target.fresh("tmp")


def proof(step: Step, work: Work) -> str:
    """Of a lock's very versions, where there is one."""
    if lock := work.terms.lock:
        there = dict(work.target.environment().packages)
        commits = {each.directory: each.commit for each in lock_notes.commits(work.recipe, work.target)}
        for difference in lockfile_use.differences(lock, packages=there, image=boxed_image(work), commits=commits):
            raise StepError(difference, lockfile_use.NEXT)
    return verify_environment.all_of(work.recipe, work.target, work.say)


def boxed_image(work: Work) -> Image | None:
    """What the container runs; its digest where it came from a registry, else its id."""
    if work.client is None or work.recipe.container is None or work.terms.recipe.image is None:
        return None
    told = container.look(work.client.api, work.recipe.container.name) or {}
    _, _, digest = str((told.get("Config") or {}).get("Image") or "").partition("@")
    lock, name = work.terms.lock, next(iter(work.terms.recipe.image.references.values()))
    if work.terms.bundle and lock:
        return lock.image
    made_of = str(told.get("Image") or "")
    about = (made_of and image.named(work.client, made_of)) or {}
    name = work.terms.recipe.image.references.get(MACHINES.get(str(about.get("Architecture")), ""), name)
    return Image(name, digest, "" if digest else str(told.get("Image") or ""))


def remember(folder: Path, *, added: set[str]) -> None:
    """Which packages were not there before us: what a person would take out of an environment of their own."""
    ours = state_file.load(folder)
    if ours:
        state_file.save(
            folder, state_file.EnvironmentState(**{**vars(ours), "added": tuple(sorted({*ours.added, *added}))})
        )


def _not_empty(step: Step, work: Work) -> str | None:
    left = venv_parts.own(work.folder)
    return f"{left[0].name} is still there" if left else None


def _no_environment(step: Step, work: Work) -> str | None:
    env = work.target.environment()
    if not env.works or not env.python:
        return f"{env.interpreter} is not there"
    return None if env.packages.get("pip") else "it has no pip"


def _missing(step: Step, work: Work) -> str | None:
    there = work.target.environment()
    wrong = [p.name for p in step.packages if not environment.fits(p, there.packages)]
    if wrong or there.torn:
        return f"pip was content, yet {', '.join([*wrong, *there.torn])} is not there as wanted"
    return None


def pull(step: Step, work: Work) -> str:
    """By digest.  What an undo takes back is noted before it is there, as a cut may come right after."""
    assert step.image and work.client
    names = [str(step.image.pinned), str(step.image.reference)]
    with layers.way(work.seed) as way:
        near = layers.near(step.image, way) if way else None
        names = [*([str(near.pinned)] if near else []), *names]
        note = {"names": names} | ({"was": step.moves} if step.moves else {})
        journal.write(work.folder, "image", "made", deed=f"image {step.image.image_id}", **note)
        if way and near:
            layers.fetch(work.client, near, work.report, way)
    there = image_pull.pull(work.client, step.image, work.report, moves=bool(step.moves))
    if near:
        layers.forget(work.client, near)
    if there.image_id != step.image.image_id:  # containerd's store knows images by their manifest
        journal.write(work.folder, "image", "made", deed=f"image {there.image_id}", **note)
    return f"{step.image.reference} is {there.digest or there.image_id}"


def load(step: Step, work: Work) -> str:
    assert work.client
    return from_bundle.load(work.client, work.terms, work.folder, work.report)


def box(step: Step, work: Work) -> str:
    """The container with its own folders; what differed and was ours is made anew."""
    assert step.drawn and work.client
    name = step.drawn.spec.name
    for folder in step.drawn.folders:
        journal.write(work.folder, "container", "made", deed=f"folder {folder}")
    container.make_folders(step.drawn.folders)
    if container.look(work.client.api, name) is None:
        journal.write(work.folder, "container", "made", deed=f"container {name}")
    identity = container.ensure(work.client.api, step.drawn.spec, recreate=step.recreate)
    return f"{name} runs ({identity[:12]})"


def clone(step: Step, work: Work) -> str:
    assert step.checkout
    source = from_bundle.clone(work.terms, work.ground, step.checkout)
    checkout_undo.begun(work, step.checkout)
    with from_bundle.tools(work.terms, work.ground) as tools:
        terms = checkouts.CloneOptions(
            note=_noting(work), locked=work.terms.lock is not None, source=source, tools=tools
        )
        told, commit = sources.clone(work.recipe, work.target, step.checkout, work.say, terms)
    for whole in work.terms.recipe.checkouts if work.terms.lock else ():
        if whole.directory == step.checkout.directory:
            checkouts.name(work.target, whole, commit.commit)
    checkout_undo.ended(work, step.checkout, commit.commit)
    return told


def build(step: Step, work: Work) -> str:
    assert step.build
    before = checkout_undo.untracked(work, step.build.checkout)
    result = sources.build(work.recipe, work.ground, step.build, work.role, work.say, _noting(work))
    checkout_undo.built(work, step.build.checkout, before)
    return f"{step.build.name} {'taken from the cache' if result.from_cache else 'built'}"


def _noting(work: Work) -> packages.Note:
    """What pip is about to put in comes into the lock before it does: a run that is cut off later knows of it."""
    return lambda wheels: lock_notes.add_wheels(work.folder, work.terms.recipe, wheels)


def fetch_weights(step: Step, work: Work) -> str:
    assert step.weights
    return weights.perform(step.weights, work)


def _not_running(step: Step, work: Work) -> str | None:
    assert step.drawn and work.client
    return container.still_wrong(work.client.api, step.drawn.spec)


PERFORM: Mapping[str, Callable[[Step, Work], str]] = {
    "clone": clone,
    "build": build,
    "weights": fetch_weights,
    "image": pull,
    "load": load,
    "container": box,
    "clear": clear,
    "environment": make,
    "packages": install,
    "library": lend,
    "proof": proof,
}
STILL_WRONG: Mapping[str, Callable[[Step, Work], str | None]] = {
    "image": lambda step, work: None,  # verified by its digest when it has come
    "load": lambda step, work: None,  # the same by its id
    "container": _not_running,
    "clone": lambda step, work: None,  # these prove themselves: the commit is asked for, the result is looked at
    "build": lambda step, work: None,
    "weights": lambda step, work: None,
    "clear": _not_empty,
    "environment": _no_environment,
    "packages": _missing,
    "library": _missing,
    "proof": lambda step, work: None,  # it is its own proof
}


def do(step: Step, work: Work) -> str:
    """Perform, and look at once; returns what was done.  StepError names the reason."""
    done = PERFORM[step.name](step, work)
    if reason := STILL_WRONG[step.name](step, work):
        raise StepError(reason, f"see {journal.path(work.folder)}")
    return done
