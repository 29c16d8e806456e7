"""Variables that a script reads but never sets: who could set them, and the effect if nobody does."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from functools import cached_property

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.script_model import UNKNOWN, ShellCommand, ShellScript, VariableUse
from envcheck.core.lint.wrappers import program_name
from envcheck.core.messages import NOTHING, Message, _
from envcheck.scripts.vendor_words import join_patterns, load_vendor_words

# Variables that platforms set and people also set themselves: kubeflow's PyTorchJob in each pod (MASTER_ADDR,
# MASTER_PORT, WORLD_SIZE, RANK), others for each node.  Two of them indicate a platform.
_PLATFORM = frozenset(
    ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "NNODES", "NPROC_PER_NODE")
)
# torch.distributed.run sets these for each worker that it starts, not for the script that starts it.
_WORKERS = frozenset(("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK"))
# From a profile, a module, a toolkit's set-up, a scheduler, or personal secrets, which do not belong in a script.
_USUAL = re.compile(
    r"LD_LIBRARY_PATH|LIBRARY_PATH|CPATH|PYTHONPATH|MANPATH|"
    r"\w*_proxy|\w*_PROXY|SSH_\w+|MAIL|PS[1-4]|SGE_\w+|PE_HOSTFILE|NSLOTS|NHOSTS|JOB_ID|JOB_NAME|JOB_COMPLETION_INDEX|"
    r"PMIX_\w+|MPI_\w+|FLUX_\w+|COBALT_\w+|PET_\w+|POD_\w+|RAY_\w+|CI|CI_\w+|GITHUB_\w+|BATCH_\w+|TRAINER_\w+|PADDLE_\w+|"
    r"SCRATCH|ARCH|\w*(TOKEN|KEY|SECRET|PASSWORD|PASSWD)|"
    + join_patterns(*(words.outside_variables for words in load_vendor_words().values()))
)
_SAYS = ("echo", "printf", "log", "info", "warn", "true", ":", "logger")  # without effect if the word is empty
_FILES = frozenset(
    ("cp", "mv", "mkdir", "rsync", "tar", "ln", "chmod", "chown", "cat", "source", ".", "touch", "find", "ls")
)
_FILES |= {"cd", "pushd", "scp", "tee", "unzip", "bash", "sh", "python", "python3"}


@dataclass(frozen=True)
class VariableReads:
    """A script's variables where they are read; shared queries about these places are cached."""

    script: ShellScript
    context: LintContext

    @cached_property
    def _commands(self) -> dict[int, ShellCommand]:
        """Place of a read → the innermost command that contains it."""
        longest = sorted(self.script.commands, key=lambda each: each.start - each.end)
        return {use.start: each for each in longest for use in each.uses}

    @cached_property
    def _redirects(self) -> set[int]:
        """Places of reads in the names of files that the shell opens."""
        spans = sorted((each.start, each.end) for one in self.script.commands for each in one.redirects if each.target)
        places = (use.start for use in self.script.uses)
        return {at for at in places if (n := bisect.bisect_right(spans, (at, 1 << 62))) and at < spans[n - 1][1]}

    @cached_property
    def _documented(self) -> set[str]:
        """Words of comments and help texts: their author knows what is set outside."""
        said = [text for _unused, _unused, text in self.script.comments]
        said += [
            word.text for command in self.script.commands if program_name(command) in _SAYS for word in command.words
        ]
        return {word for text in said for word in re.findall(r"\w+", text)}

    @cached_property
    def _platform(self) -> set[str]:
        return {each.name for each in self.script.uses if not each.bound} & _PLATFORM

    @cached_property
    def _strict(self) -> list[tuple[int, bool]]:
        """Start of each command → whether set -u is active."""
        return sorted((each.start, "nounset" in each.shell) for each in self.script.commands)

    def is_missing(self, use: VariableUse) -> bool:
        """Return whether no profile, platform or reader of the comments would set this name."""
        name = use.name
        if not self.script.block.is_script or _USUAL.fullmatch(name) or name in self._documented:
            return False
        if name in _PLATFORM and len(self._platform) > 1:
            return False
        facts = self.context.machine.facts
        command = self._commands.get(use.start)
        idle = command is not None and program_name(command) in _SAYS and not self.stops_script(use)
        return name not in (facts.environment if facts and facts.environment else {}) and not idle

    def stops_script(self, use: VariableUse) -> bool:
        """Return whether the script stops there, because set -u is active in any of its forms."""
        own = self._commands.get(use.start)
        number = bisect.bisect_right(self._strict, (use.start, True))
        return "nounset" in own.shell if own else bool(number) and self._strict[number - 1][1]

    def is_always_reached(self, use: VariableUse) -> bool:
        """Return whether the place is always executed."""
        command = self._commands.get(use.start)
        return command is not None and not (command.branch or command.function or command.guarded)

    def describe_effect(self, use: VariableUse) -> Message:
        """The effect of an empty value in this place."""
        command = self._commands.get(use.start)
        if use.start in self._redirects:
            return _("the shell has no file to open and does not start the command")
        if command is None:
            return _("it is empty")
        word = next((each for each in command.words if each.start <= use.start < each.end), None)
        job = any(each.script is self.script and each.command is command for each in self.context.jobs)
        before = [each.text for each in command.words if word is not None and each.end <= word.start][-1:]
        if word is not None and job and before and before[0][:1] == "-" and not use.quoted and word.text == UNKNOWN:
            return _("{before} takes the next word as its value, or has no value", before=before[0])
        if word is not None and (program_name(command) in _FILES or re.search(rf"{UNKNOWN}/|/{UNKNOWN}", word.text)):
            rest = word.text.replace(UNKNOWN, "")
            return (
                _("the path becomes {rest}", rest=rest[:80])
                if rest.strip("/") or "/" in rest
                else _("a path is missing")
            )
        return _("it is empty")

    def is_rank_of_node(self, use: VariableUse) -> bool:
        """Whether RANK is used where a node rank belongs."""
        command = self._commands.get(use.start)
        words = command.words if command else ()
        place = next((n for n, word in enumerate(words) if word.start <= use.start < word.end), 0)
        near = words[place].raw + words[place - 1].raw if place else ""
        return use.name == "RANK" and bool(re.search(r"node[_-]rank", near, re.IGNORECASE))


def describe_setter(name: str) -> Message:
    """Return the platform that sets a variable, as a clause; empty for other variables."""
    if name not in _PLATFORM | _WORKERS:
        return NOTHING
    if name in _WORKERS:
        return _("set by Kubeflow in each pod, and by torchrun only in its workers, not in the script that starts them")
    return _("set by cluster platforms on each node, but not on a standalone machine")
