"""A recipe's git clones in the target: verified commits, resumable, and never overwriting local work.

`git init` is followed by a mark in the clone's configuration, which is removed when the clone is complete: a run that
finds the mark continues its own work.  git's output is redacted, and hooks of the clone never run.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit
from urllib.request import url2pathname

from envcheck.core.errors import StepError, UsageError
from envcheck.core.messages import NOTHING, Message, _, join, verbatim
from envcheck.core.portable.exit_status import NOT_FOUND
from envcheck.core.process import CommandResult
from envcheck.core.secrets import redact_text
from installers.locks.lockfile import LockedCommit
from installers.plan.requirement import SatisfiedRequirement, UnmetRequirement
from installers.recipes.checkout_rules import COMMIT, find_complaints
from installers.recipes.recipe import Checkout
from installers.software import git_errors, pip_runner
from installers.targets.target import Target, read_answer

LOOK_S = 60.0
FETCH_S = 2 * 3600.0  # Paddle with its submodules is several GB
# ext:: would run a command; the speed limit ends a stalled transfer after a minute.
SAFE = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "http.lowSpeedLimit=1000", "http.lowSpeedTime=60")
SURROUNDINGS = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "LC_ALL": "C.UTF-8",
}
MAKING = "envcheck.making"
SIZE_MIB = 500  # an estimate: the size of a clone is unknown beforehand
NO_GIT = (_("git not found"), _("install git"))
Line = Callable[[str], None]

_EDITABLE = """
import importlib.metadata, json
found = [d.read_text("direct_url.json") for d in importlib.metadata.distributions()]
said = [json.loads(text) for text in found if text]
print("ENVCHECK " + json.dumps([s["url"] for s in said if s.get("dir_info", {}).get("editable")]))
"""


@dataclass(frozen=True)
class CloneState:
    """State of the clone's folder; `wanted`: the commit of the recipe's ref, "" if unknown.

    `making`: an earlier run was interrupted; `taken`: the folder has other files and is not a clone.
    """

    commit: str = ""
    wanted: str = ""
    remote: str = ""
    changed: tuple[str, ...] = ()
    making: bool = False
    taken: bool = False
    editable: bool = False

    @property
    def is_absent(self) -> bool:
        """Whether there is neither a commit nor other files."""
        return not self.commit and not self.taken


def inspect_clone(target: Target, checkout: Checkout) -> CloneState:
    """Return the state of the clone; changes nothing.  UsageError if the recipe's values are unsafe for git."""
    for field, wrong in find_complaints(checkout):
        raise UsageError(_("checkouts: {field}: {wrong}", field=field, wrong=wrong))
    git = GitRunner(target, checkout.directory)
    if ".git" not in target.list_folder(checkout.directory):
        return CloneState(taken=bool(target.list_folder(checkout.directory)))
    commit = git.read_output("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    remote = git.read_output("config", "--local", "--get", "remote.origin.url")
    making = bool(git.read_output("config", "--local", "--get", MAKING))
    if not (making or commit or remote):  # interrupted right after init, or another person's `git init`
        return CloneState(making=True) if target.list_folder(checkout.directory) == [".git"] else CloneState(taken=True)
    changed = (
        git.read_output("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")
        if not making
        else ""
    )
    return CloneState(
        commit,
        git.resolve_ref(checkout.ref),
        remote,
        tuple(changed.splitlines()),
        making,
        editable=checkout.editable and git.top_folder() in _list_editables(target),
    )


def plan_clone(checkout: Checkout, clone: CloneState) -> UnmetRequirement | SatisfiedRequirement:
    """Return the clone as a plan step: satisfied or not."""
    where, ref = checkout.directory, checkout.ref[:12] if COMMIT.fullmatch(checkout.ref) else checkout.ref
    what = _("clone {url} at {ref} into {where}", url=redact_text(checkout.url), ref=ref, where=where)
    path = shlex.quote(where)
    undo = verbatim(f"rm -r {path}" if clone.is_absent or clone.making else f"git -C {path} checkout {clone.commit}")
    if refusal := explain_refusal(checkout, clone):
        return UnmetRequirement(what, NOTHING, NOTHING, NOTHING, obstacle=refusal[0], remedy=refusal[1])
    if not clone.making and clone.commit and clone.commit == clone.wanted:
        if clone.editable or not checkout.editable:
            return SatisfiedRequirement(_("{where} is at {ref}", where=where, ref=ref))
        return UnmetRequirement(
            _("install {folder} in editable mode", folder=where),
            _("cloned, but not installed"),
            _("installed packages"),
            verbatim("pip uninstall"),
            50,
        )
    if clone.making:
        return UnmetRequirement(
            what, _("an earlier run was interrupted"), _("writes to {folder}", folder=where), undo, SIZE_MIB
        )
    if clone.commit:
        why = _("currently at {commit}", commit=clone.commit[:12])
        return UnmetRequirement(
            _("check out {ref} in {folder}", folder=where, ref=ref),
            why,
            _("files in {folder}", folder=where),
            undo,
            SIZE_MIB,
        )
    return UnmetRequirement(what, _("not cloned yet"), _("creates {folder}", folder=where), undo, SIZE_MIB)


def explain_refusal(checkout: Checkout, clone: CloneState) -> tuple[Message, Message] | None:
    """Return why the folder must not be touched and what to do; None if it may be."""
    where = checkout.directory
    if clone.taken:
        return _("{folder} is not a git clone and is not empty", folder=where), _("move these files elsewhere")
    if clone.remote and not _is_same_address(clone.remote, checkout.url):
        words = _(
            "{folder} is a clone of {there}; expected {wanted}",
            folder=where,
            there=redact_text(clone.remote),
            wanted=redact_text(checkout.url),
        )
        return words, _(
            "move the folder, or run `git -C {folder} remote set-url origin {url}`",
            folder=where,
            url=redact_text(checkout.url),
        )
    if clone.changed and not clone.making:
        listed = join(", ", (line[3:] for line in clone.changed[:3]))
        more = len(clone.changed) - 3
        words = (
            _("{folder} has local changes: {files} and {more} more", folder=where, files=listed, more=more)
            if more > 0
            else _("{folder} has local changes: {files}", folder=where, files=listed)
        )
        return words, _("commit the changes, or run `git -C {folder} stash`", folder=where)
    return None


@dataclass(frozen=True)
class CloneOptions:
    """Options of a clone: `limits` are requirement lines to keep; `note` gets the wheels that it adds.

    `locked`: all dependencies are installed already.  `source` is a git bundle on the target, used instead of the URL;
    `tools` is a folder of build dependencies, used instead of an index.  With both, no network is used.
    """

    limits: Sequence[str] = ()
    note: pip_runner.Note = lambda wheels: None
    locked: bool = False
    source: str = ""
    tools: str = ""


def update_clone(
    target: Target, checkout: Checkout, on_line: Line, terms: CloneOptions = CloneOptions()
) -> LockedCommit:
    """Check out the commit, install it if the recipe says so, and return the lock entry.

    StepError if that fails; local changes are never overwritten.
    """
    clone = inspect_clone(target, checkout)
    if refusal := explain_refusal(checkout, clone):
        raise StepError(*refusal)
    git = GitRunner(target, checkout.directory, on_line)
    commit = clone.wanted if clone.wanted and not clone.making else ""
    if not commit:
        commit = _fetch_commit(git, checkout, clone, terms.source)
    if clone.making or clone.commit != commit:
        force = ("--force",) if clone.is_absent or clone.making else ()
        git.run_checked("checkout", "--quiet", *force, "--detach", commit, "--")
    head = git.read_output("rev-parse", "--verify", "HEAD")
    if head != commit:
        raise StepError(
            _(
                "{directory} is at {head}; expected {commit}",
                directory=checkout.directory,
                head=head or _("no commit"),
                commit=commit,
            ),
            git_errors.AGAIN,
        )
    git.run_git("config", "--local", "--unset-all", MAKING)
    if checkout.editable and not clone.editable:
        _install_editable(target, git.top_folder(), on_line, terms)
    return LockedCommit(strip_credentials(checkout.url), commit, checkout.directory)


def record_ref(target: Target, checkout: Checkout, commit: str) -> None:
    """Record the commit of the recipe's ref in a clone made by commit, so that later runs need no network."""
    if not COMMIT.fullmatch(checkout.ref):
        GitRunner(target, checkout.directory).run_checked("update-ref", f"refs/remotes/origin/{checkout.ref}", commit)


def _fetch_commit(git: GitRunner, checkout: Checkout, clone: CloneState, source: str) -> str:
    """Fetch, as little as possible at first, and return the commit of the ref."""
    if clone.is_absent or clone.making:
        git.run_checked("init", "--quiet", place=False)
        git.remove_locks()
        git.run_checked("config", "--local", MAKING, "true")
        git.run_checked("config", "--local", "remote.origin.url", strip_credentials(checkout.url))
        git.run_checked("config", "--local", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    git.on_line(_("fetching {source}", source=redact_text(source or checkout.url)))
    everything = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
    shallow = () if source else tuple(_minimal_refspecs(git, checkout))
    for depth, refspecs in ((("--depth=1",), shallow), ((), everything)):
        done = (
            git.run_git("fetch", "--no-tags", "--progress", *depth, "--", source or checkout.url, *refspecs)
            if refspecs
            else None
        )
        if done and done.status == 0 and (commit := git.resolve_ref(checkout.ref)):
            return commit
        if done and done.status and not (depth and _should_fetch_all(done)):
            raise git.build_error(done)
    raise StepError(
        _("{url} has no ref {ref}", url=redact_text(checkout.url), ref=checkout.ref), _("check `ref` in the recipe")
    )


def _minimal_refspecs(git: GitRunner, checkout: Checkout) -> Iterator[str]:
    """Yield what to fetch for the ref: the commit itself, or the tag or branch of that name."""
    ref = checkout.ref
    if COMMIT.fullmatch(ref):
        yield ref
        return
    done = git.run_checked("ls-remote", "--", checkout.url, f"refs/tags/{ref}", f"refs/heads/{ref}")
    listed = {line.split("\t")[-1] for line in done.splitlines()}
    if f"refs/tags/{ref}" in listed:
        yield f"+refs/tags/{ref}:refs/tags/{ref}"
    elif f"refs/heads/{ref}" in listed:
        yield f"+refs/heads/{ref}:refs/remotes/origin/{ref}"


def _should_fetch_all(done: CommandResult) -> bool:
    """Return whether to fetch everything: the server offers no single commits or shallow clones (plain http)."""
    words = ("shallow", "not our ref", "unadvertised object", "couldn't find remote ref", "did not send all")
    return any(word in done.out + done.err for word in words)


def _install_editable(target: Target, folder: str, on_line: Line, terms: CloneOptions) -> None:
    """Install the clone; its dependencies come from the index unless a lock has provided them."""
    on_line(_("installing {folder} in editable mode", folder=folder))
    pip = pip_runner.PipRunner(target, on_line)
    if not terms.locked:
        pip_runner.install_requirements(pip, ("--editable", folder), terms.limits, terms.note)
    pip.run_pip("install", "--no-deps", *offline_options(target, terms.tools), "--editable", folder)
    if folder not in _list_editables(target):
        raise StepError(
            _("pip succeeded, but {folder} is not installed in editable mode", folder=folder),
            _("check {log}", log=target.notes_folder / "pip.log"),
        )


def offline_options(target: Target, tools: str) -> tuple[str, ...]:
    """Return pip's options to build offline: from the folder, or with the target's own setuptools if that is empty."""
    where = ("--no-index", f"--find-links={tools}") if tools else ()
    isolated = any(name.endswith(".whl") for name in target.list_folder(tools)) if tools else True
    return where if isolated else (*where, "--no-build-isolation")


def _list_editables(target: Target) -> list[str]:
    """Return the folders installed in editable mode in the target."""
    done = target.run_command((target.python, "-I", "-c", _EDITABLE), timeout_s=LOOK_S, env=target.list_variables())
    line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "ENVCHECK []")
    return [url2pathname(urlsplit(url).path) for url in json.loads(line.removeprefix("ENVCHECK "))]


def strip_credentials(url: str) -> str:
    """Return the URL without user and password, for the clone's configuration and the lock."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if parts.scheme[:4] == "http" else url


def _is_same_address(one: str, other: str) -> bool:
    a, b = (strip_credentials(url).rstrip("/").removesuffix(".git") for url in (one, other))
    return a == b


@dataclass(frozen=True)
class GitRunner:
    """Runs git in a folder of the target."""

    target: Target
    place: str
    on_line: Line = lambda line: None

    def run_git(self, *words: str, place: bool = True) -> CommandResult:
        """Run git and return its result, whatever the status; `place`: inside the folder."""
        argv, timeout_s, env = self._build_command(words, place)
        return self.target.run_command(argv, timeout_s=timeout_s, env=env, on_line=self._forward_line)

    def _build_command(self, words: Sequence[str], place: bool) -> tuple[tuple[str, ...], float, Mapping[str, str]]:
        where = ("-C", self.place) if place else ()
        safe = [part for setting in (*SAFE, f"safe.directory={self.place}") for part in ("-c", setting)]
        argv = ("git", *where, *safe, *words, *(() if place else ("--", self.place)))
        kept = (*_KEPT, *(("GIT_CONFIG_PARAMETERS",) if self.target.site.rewrites else ()))
        env = {k: v for k, v in self.target.list_variables().items() if not k.startswith("GIT_") or k in kept}
        timeout_s = FETCH_S if words[0] in ("fetch", "checkout", "ls-remote") else LOOK_S
        return argv, timeout_s, {**env, **SURROUNDINGS}

    def run_checked(self, *words: str, place: bool = True) -> str:
        """Run git and return its output; StepError if it fails."""
        done = self.run_git(*words, place=place)
        if done.status != 0:
            raise self.build_error(done)
        return done.out

    def read_output(self, *words: str) -> str:
        """Return git's output, "" if it fails; StepError if git is missing."""
        argv, timeout_s, env = self._build_command(words, True)
        status, text = read_answer(self.target, argv, timeout_s=timeout_s, env=env)
        if status == NOT_FOUND:
            raise StepError(*NO_GIT)
        return text if status == 0 else ""

    def resolve_ref(self, ref: str) -> str:
        """Return the commit of the ref in this clone; "" if unknown."""
        tries = (ref,) if COMMIT.fullmatch(ref) else (f"refs/tags/{ref}", f"refs/remotes/origin/{ref}")
        found = (self.read_output("rev-parse", "--verify", "--quiet", f"{each}^{{commit}}") for each in tries)
        return next(filter(None, found), "")

    def top_folder(self) -> str:
        """Return the root folder of the clone."""
        return self.read_output("rev-parse", "--show-toplevel")

    def remove_locks(self) -> None:
        """Delete lock files of a killed git; no other process works in a clone that is being made."""
        self.target.run_command(("find", f"{self.place}/.git", "-name", "*.lock", "-delete"), timeout_s=LOOK_S, env={})

    def build_error(self, done: CommandResult) -> StepError:
        """Return the StepError for a failed git command."""
        if done.absent:
            return StepError(*NO_GIT)
        if done.hung:
            return StepError(
                _("git did not finish within {hours:.0f} h and was stopped", hours=FETCH_S / 3600), git_errors.AGAIN
            )
        sentence, step = git_errors.explain_output(done.out + done.err)
        verb = next((w for w in done.argv if w in ("init", "fetch", "checkout", "ls-remote", "config")), "git")
        return StepError(_("git {verb}: {sentence}", verb=verb, sentence=sentence), step)

    def _forward_line(self, text: str) -> None:
        for part in text.split("\r")[-1:]:
            if part.strip():
                self.on_line(redact_text(part.strip()))


_KEPT = ("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_PROXY_SSL_CAINFO", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")
