"""Variables that a script reads and nothing in it sets: who could, and what their lack does."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from functools import cached_property

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import UNKNOWN, Command, Script, Use
from envcheck.core.lint.wrappers import bare
from envcheck.scripts.vendor_words import join_patterns, vendor_words

# What platforms set where they start a script, in the names that people give by hand as well: kubeflow's PyTorchJob in
# each pod (MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK), others for each node.  Two of them tell that one is meant.
_PLATFORM = frozenset(
    ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "NNODES", "NPROC_PER_NODE")
)
# torch.distributed.run sets these for each worker that it starts, not for the script that starts it.
_WORKERS = frozenset(("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK"))
# From a profile, a module, a toolkit's set-up, a scheduler, or a person's own secrets, which belong in no script.
_USUAL = re.compile(
    r"LD_LIBRARY_PATH|LIBRARY_PATH|CPATH|PYTHONPATH|MANPATH|"
    r"\w*_proxy|\w*_PROXY|SSH_\w+|MAIL|PS[1-4]|SGE_\w+|PE_HOSTFILE|NSLOTS|NHOSTS|JOB_ID|JOB_NAME|JOB_COMPLETION_INDEX|"
    r"PMIX_\w+|MPI_\w+|FLUX_\w+|COBALT_\w+|PET_\w+|POD_\w+|RAY_\w+|CI|CI_\w+|GITHUB_\w+|BATCH_\w+|TRAINER_\w+|PADDLE_\w+|"
    r"SCRATCH|ARCH|\w*(TOKEN|KEY|SECRET|PASSWORD|PASSWD)|"
    + join_patterns(*(words.outside_variables for words in vendor_words().values()))
)
_SAYS = ("echo", "printf", "log", "info", "warn", "true", ":", "logger")  # without effect where a word is empty
_FILES = frozenset(
    ("cp", "mv", "mkdir", "rsync", "tar", "ln", "chmod", "chown", "cat", "source", ".", "touch", "find", "ls")
)
_FILES |= {"cd", "pushd", "scp", "tee", "unzip", "bash", "sh", "python", "python3"}


@dataclass(frozen=True)
class Reading:
    """A script's variables at the places where they are read; what is asked at each of them is gathered once."""

    script: Script
    context: LintContext

    @cached_property
    def _commands(self) -> dict[int, Command]:
        """By where a variable is read: the innermost command in whose words it stands."""
        longest = sorted(self.script.commands, key=lambda each: each.start - each.end)
        return {use.start: each for each in longest for use in each.uses}

    @cached_property
    def _redirects(self) -> set[int]:
        """Where a variable is read in the name of a file that the shell opens."""
        spans = sorted((each.start, each.end) for one in self.script.commands for each in one.redirects if each.target)
        places = (use.start for use in self.script.uses)
        return {at for at in places if (n := bisect.bisect_right(spans, (at, 1 << 62))) and at < spans[n - 1][1]}

    @cached_property
    def _documented(self) -> set[str]:
        """Words of comments and lines of help: their writer knows what comes from outside."""
        said = [text for _, _, text in self.script.comments]
        said += [word.text for command in self.script.commands if bare(command) in _SAYS for word in command.words]
        return {word for text in said for word in re.findall(r"\w+", text)}

    @cached_property
    def _platform(self) -> set[str]:
        return {each.name for each in self.script.uses if not each.bound} & _PLATFORM

    @cached_property
    def _strict(self) -> list[tuple[int, bool]]:
        """Where each command starts, and whether -u holds there."""
        return sorted((each.start, "nounset" in each.shell) for each in self.script.commands)

    def missing(self, use: Use) -> bool:
        """A name that nobody gives who may be at work: no profile, no platform, nobody who reads the comments."""
        name = use.name
        if not self.script.block.script or _USUAL.fullmatch(name) or name in self._documented:
            return False
        if name in _PLATFORM and len(self._platform) > 1:
            return False
        facts = self.context.machine.facts
        command = self._commands.get(use.start)
        idle = command is not None and bare(command) in _SAYS and not self.stops(use)
        return name not in (facts.environment if facts and facts.environment else {}) and not idle

    def stops(self, use: Use) -> bool:
        """The script ends at it: set -u, in whatever way it is written, holds there."""
        own = self._commands.get(use.start)
        number = bisect.bisect_right(self._strict, (use.start, True))
        return "nounset" in own.shell if own else bool(number) and self._strict[number - 1][1]

    def sure(self, use: Use) -> bool:
        """The place is reached in any case."""
        command = self._commands.get(use.start)
        return command is not None and not (command.branch or command.function or command.guarded)

    def effect(self, use: Use) -> str:
        """What an empty value does at that place."""
        command = self._commands.get(use.start)
        if use.start in self._redirects:
            return "the shell has no file to open, and does not start the command"
        if command is None:
            return "it is empty"
        word = next((each for each in command.words if each.start <= use.start < each.end), None)
        job = any(each.script is self.script and each.command is command for each in self.context.jobs)
        before = [each.text for each in command.words if word is not None and each.end <= word.start][-1:]
        if word is not None and job and before and before[0][:1] == "-" and not use.quoted and word.text == UNKNOWN:
            return f"{before[0]} takes the next word for its value, or has none"
        if word is not None and (bare(command) in _FILES or re.search(rf"{UNKNOWN}/|/{UNKNOWN}", word.text)):
            rest = word.text.replace(UNKNOWN, "")
            return f"the path is {rest[:80]}" if rest.strip("/") or "/" in rest else "a path is lacking"
        return "it is empty"

    def rank_of_node(self, use: Use) -> bool:
        """RANK where a node's number belongs."""
        command = self._commands.get(use.start)
        words = command.words if command else ()
        place = next((n for n, word in enumerate(words) if word.start <= use.start < word.end), 0)
        near = words[place].raw + words[place - 1].raw if place else ""
        return use.name == "RANK" and bool(re.search(r"node[_-]rank", near, re.IGNORECASE))


def whose(name: str) -> str:
    """Who sets a name that platforms set, for a sentence; "" for other names."""
    if name not in _PLATFORM | _WORKERS:
        return ""
    if name in _WORKERS:
        return "kubeflow sets it for a pod, torchrun for its workers alone and not for the script that starts it"
    return "a platform sets it for each node, and nobody does on a machine of your own"
