"""A recipe's clone in its target: the very commit, proved; taken up where it was cut off; nobody's work is overwritten.

A clone is begun by `git init` and a note in its configuration, which goes when it is whole: a run that finds the note
goes on with it as with its own.  What git prints is told redacted, and no command of a clone's own (hooks) is run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit
from urllib.request import url2pathname

from envcheck.core.errors import StepError, UsageError
from envcheck.core.process import NOT_FOUND, CommandResult
from envcheck.core.secrets import redact
from installers.locks.lockfile import Commit
from installers.plan.requirement import Need, Satisfied
from installers.recipes.checkout_rules import COMMIT, complaints
from installers.recipes.recipe import Checkout
from installers.software import git_words, packages
from installers.targets.target import Target, answer

LOOK_S = 60.0
FETCH_S = 2 * 3600.0  # Paddle with its submodules is some GB
# ext:: would run a command; a stalled transfer ends in a minute instead of never.
SAFE = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "http.lowSpeedLimit=1000", "http.lowSpeedTime=60")
SURROUNDINGS = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "LC_ALL": "C.UTF-8",
}
MAKING = "envcheck.making"
SIZE_MIB = 500  # a guess: nobody says how large a clone is before it is there
NO_GIT = ("there is no git", "install git")
Line = Callable[[str], None]

_EDITABLE = """
import importlib.metadata, json
found = [d.read_text("direct_url.json") for d in importlib.metadata.distributions()]
said = [json.loads(text) for text in found if text]
print("ENVCHECK " + json.dumps([s["url"] for s in said if s.get("dir_info", {}).get("editable")]))
"""


@dataclass(frozen=True)
class Clone:
    """What stands at the folder.  `wanted`: the commit that the ref means there, "" where nobody can say yet.

    `making`: an earlier run of ours did not get to its end; `taken`: there are other things, no clone.
    """

    commit: str = ""
    wanted: str = ""
    remote: str = ""
    changed: tuple[str, ...] = ()
    making: bool = False
    taken: bool = False
    editable: bool = False

    @property
    def absent(self) -> bool:
        return not self.commit and not self.taken


def there(target: Target, checkout: Checkout) -> Clone:
    """Looks, and changes nothing.  UsageError where the recipe's words are none that git may be given."""
    for field, wrong in complaints(checkout):
        raise UsageError(f"checkouts: {field}: {wrong}")
    git = Git(target, checkout.directory)
    if ".git" not in target.names(checkout.directory):
        return Clone(taken=bool(target.names(checkout.directory)))
    commit = git.says("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    remote = git.says("config", "--local", "--get", "remote.origin.url")
    making = bool(git.says("config", "--local", "--get", MAKING))
    if not (making or commit or remote):  # cut off right after init, or somebody's beginning
        return Clone(making=True) if target.names(checkout.directory) == [".git"] else Clone(taken=True)
    changed = (
        git.says("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty") if not making else ""
    )
    return Clone(
        commit,
        git.meaning(checkout.ref),
        remote,
        tuple(changed.splitlines()),
        making,
        editable=checkout.editable and git.folder() in _editables(target),
    )


def need(checkout: Checkout, clone: Clone) -> Need | Satisfied:
    """What a plan says of it.  Pure."""
    where, ref = checkout.directory, checkout.ref[:12] if COMMIT.fullmatch(checkout.ref) else checkout.ref
    what = f"clone {redact(checkout.url)} at {ref} into {where}"
    undo = f"rm -r {where}" if clone.absent or clone.making else f"git -C {where} checkout {clone.commit}"
    if refusal := refused(checkout, clone):
        return Need(what, "", "", "", obstacle=refusal[0], remedy=refusal[1])
    if not clone.making and clone.commit and clone.commit == clone.wanted:
        if clone.editable or not checkout.editable:
            return Satisfied(f"{where} is at {ref}")
        return Need(
            f"install {where} editable", "the clone is there and not installed", "the packages", "pip uninstall", 50
        )
    if clone.making:
        return Need(what, "an earlier run did not get to its end there", f"fills {where}", undo, SIZE_MIB)
    if clone.commit:
        why = f"it is at {clone.commit[:12]}"
        return Need(f"move {where} to {ref}", why, f"the files of {where}", undo, SIZE_MIB)
    return Need(what, "there is none yet", f"makes {where}", undo, SIZE_MIB)


def refused(checkout: Checkout, clone: Clone) -> tuple[str, str] | None:
    """Why it must be left as it is, and what to do."""
    where = checkout.directory
    if clone.taken:
        return f"{where} holds other things and is no clone", "move them away"
    if clone.remote and not _same(clone.remote, checkout.url):
        words = f"{where} is a clone of {redact(clone.remote)}, wanted is {redact(checkout.url)}"
        return words, "move it away, or: git remote set-url origin"
    if clone.changed and not clone.making:
        listed = ", ".join(line[3:] for line in clone.changed[:3])
        more = f" and {len(clone.changed) - 3} more" if len(clone.changed) > 3 else ""
        return f"{where} has changes of somebody's: {listed}{more}", f"git -C {where} stash, or commit them"
    return None


@dataclass(frozen=True)
class CloneOptions:
    """`limits` are requirement lines that an editable installation must keep; `note` hears what it brings.

    `locked`: all that it needs is there.  `source` is a git bundle on the target, fetched from instead of the address,
    `tools` a folder from which pip takes what builds it instead of an index: no network is asked.
    """

    limits: Sequence[str] = ()
    note: packages.Note = lambda wheels: None
    locked: bool = False
    source: str = ""
    tools: str = ""


def perform(target: Target, checkout: Checkout, say: Line, terms: CloneOptions = CloneOptions()) -> Commit:
    """The clone at its commit, installed where the recipe says so; what the lock says of it.

    StepError in words; nothing of anybody's is overwritten.
    """
    clone = there(target, checkout)
    if refusal := refused(checkout, clone):
        raise StepError(*refusal)
    git = Git(target, checkout.directory, say)
    commit = clone.wanted if clone.wanted and not clone.making else ""
    if not commit:
        commit = _fetched(git, checkout, clone, terms.source)
    if clone.making or clone.commit != commit:
        force = ("--force",) if clone.absent or clone.making else ()
        git.must("checkout", "--quiet", *force, "--detach", commit, "--")
    head = git.says("rev-parse", "--verify", "HEAD")
    if head != commit:
        raise StepError(f"{checkout.directory} is at {head or 'no commit'}, wanted is {commit}", git_words.AGAIN)
    git.run("config", "--local", "--unset-all", MAKING)
    if checkout.editable and not clone.editable:
        _install(target, git.folder(), say, terms)
    return Commit(public(checkout.url), commit, checkout.directory)


def name(target: Target, checkout: Checkout, commit: str) -> None:
    """What the recipe's ref means, for a clone that was made by its commit: so that later nobody asks the network."""
    if not COMMIT.fullmatch(checkout.ref):
        Git(target, checkout.directory).must("update-ref", f"refs/remotes/origin/{checkout.ref}", commit)


def _fetched(git: Git, checkout: Checkout, clone: Clone, source: str) -> str:
    """The commit that the ref means, after it was fetched; the least that will do first."""
    if clone.absent or clone.making:
        git.must("init", "--quiet", place=False)
        git.tidy()
        git.must("config", "--local", MAKING, "true")
        git.must("config", "--local", "remote.origin.url", public(checkout.url))
        git.must("config", "--local", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    git.say(f"fetching {redact(source or checkout.url)}")
    everything = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
    shallow = () if source else tuple(_least(git, checkout))
    for depth, refspecs in ((("--depth=1",), shallow), ((), everything)):
        done = (
            git.run("fetch", "--no-tags", "--progress", *depth, "--", source or checkout.url, *refspecs)
            if refspecs
            else None
        )
        if done and done.status == 0 and (commit := git.meaning(checkout.ref)):
            return commit
        if done and done.status and not (depth and _worth_more(done)):
            raise git.failed(done)
    raise StepError(f"{redact(checkout.url)} has no {checkout.ref}", "look at the recipe's ref")


def _least(git: Git, checkout: Checkout) -> Iterator[str]:
    """What to fetch for the ref: the commit itself, or the tag or branch of that name."""
    ref = checkout.ref
    if COMMIT.fullmatch(ref):
        yield ref
        return
    done = git.must("ls-remote", "--", checkout.url, f"refs/tags/{ref}", f"refs/heads/{ref}")
    listed = {line.split("\t")[-1] for line in done.splitlines()}
    if f"refs/tags/{ref}" in listed:
        yield f"+refs/tags/{ref}:refs/tags/{ref}"
    elif f"refs/heads/{ref}" in listed:
        yield f"+refs/heads/{ref}:refs/remotes/origin/{ref}"


def _worth_more(done: CommandResult) -> bool:
    """A server that gives no single commits, or no shallow ones (plain files over http), is asked for everything."""
    words = ("shallow", "not our ref", "unadvertised object", "couldn't find remote ref", "did not send all")
    return any(word in done.out + done.err for word in words)


def _install(target: Target, folder: str, say: Line, terms: CloneOptions) -> None:
    """What it needs first, from the index, as far as no lock has brought that already."""
    say(f"installing {folder} editable")
    pip = packages.Pip(target, say)
    if not terms.locked:
        packages.needs(pip, ("--editable", folder), terms.limits, terms.note)
    pip.run("install", "--no-deps", *offline(target, terms.tools), "--editable", folder)
    if folder not in _editables(target):
        raise StepError(f"pip was content, yet {folder} is not installed editable", f"see {target.notes / 'pip.log'}")


def offline(target: Target, tools: str) -> tuple[str, ...]:
    """What builds it comes from a folder; where a bundle brought none, the target's own setuptools does."""
    where = ("--no-index", f"--find-links={tools}") if tools else ()
    isolated = any(name.endswith(".whl") for name in target.names(tools)) if tools else True
    return where if isolated else (*where, "--no-build-isolation")


def _editables(target: Target) -> list[str]:
    """Folders that are installed editable in the target."""
    done = target.run((target.python, "-I", "-c", _EDITABLE), timeout_s=LOOK_S, env=target.surroundings())
    line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "ENVCHECK []")
    return [url2pathname(urlsplit(url).path) for url in json.loads(line.removeprefix("ENVCHECK "))]


def public(url: str) -> str:
    """The address without a user and a password, as it may stand in a clone's configuration and in a lock."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if parts.scheme[:4] == "http" else url


def _same(one: str, other: str) -> bool:
    a, b = (public(url).rstrip("/").removesuffix(".git") for url in (one, other))
    return a == b


@dataclass(frozen=True)
class Git:
    """git in a folder of the target."""

    target: Target
    place: str
    say: Line = lambda line: None

    def run(self, *words: str, place: bool = True) -> CommandResult:
        argv, timeout_s, env = self._asked(words, place)
        return self.target.run(argv, timeout_s=timeout_s, env=env, on_line=self._line)

    def _asked(self, words: Sequence[str], place: bool) -> tuple[tuple[str, ...], float, Mapping[str, str]]:
        where = ("-C", self.place) if place else ()
        safe = [part for setting in (*SAFE, f"safe.directory={self.place}") for part in ("-c", setting)]
        argv = ("git", *where, *safe, *words, *(() if place else ("--", self.place)))
        env = {k: v for k, v in self.target.surroundings().items() if not k.startswith("GIT_") or k in _KEPT}
        timeout_s = FETCH_S if words[0] in ("fetch", "checkout", "ls-remote") else LOOK_S
        return argv, timeout_s, {**env, **SURROUNDINGS}

    def must(self, *words: str, place: bool = True) -> str:
        done = self.run(*words, place=place)
        if done.status != 0:
            raise self.failed(done)
        return done.out

    def says(self, *words: str) -> str:
        """Its answer, "" where it has none."""
        argv, timeout_s, env = self._asked(words, True)
        status, text = answer(self.target, argv, timeout_s=timeout_s, env=env)
        if status == NOT_FOUND:
            raise StepError(*NO_GIT)
        return text if status == 0 else ""

    def meaning(self, ref: str) -> str:
        """The commit that the ref means in this clone."""
        tries = (ref,) if COMMIT.fullmatch(ref) else (f"refs/tags/{ref}", f"refs/remotes/origin/{ref}")
        found = (self.says("rev-parse", "--verify", "--quiet", f"{each}^{{commit}}") for each in tries)
        return next(filter(None, found), "")

    def folder(self) -> str:
        return self.says("rev-parse", "--show-toplevel")

    def tidy(self) -> None:
        """Locks that a killed git left; nobody else works in a clone that is being made."""
        self.target.run(("find", f"{self.place}/.git", "-name", "*.lock", "-delete"), timeout_s=LOOK_S, env={})

    def failed(self, done: CommandResult) -> StepError:
        if done.absent:
            return StepError(*NO_GIT)
        if done.hung:
            return StepError("git did not end in two hours and was stopped", git_words.AGAIN)
        sentence, step = git_words.understood(done.out + done.err)
        verb = next((w for w in done.argv if w in ("init", "fetch", "checkout", "ls-remote", "config")), "git")
        return StepError(redact(f"git {verb}: {sentence}"), step)

    def _line(self, text: str) -> None:
        for part in text.split("\r")[-1:]:
            if part.strip():
                self.say(redact(part.strip()))


_KEPT = ("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_PROXY_SSL_CAINFO", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")
