"""A script's own variables: read and never set, set and never read, not handed on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Fix, Remark, Script, Use
from envcheck.core.lint.remarks import graded, near, warn
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.lint.wrappers import bare
from envcheck.lint.rules.undefined_env import Reading, whose
from envcheck.scripts.vendor_words import VISIBLE_VARIABLES, join_patterns, vendor_words

# Set by the shell, the system or a job platform.
_GIVEN = re.compile(
    r"HOME|PATH|PWD|OLDPWD|USER|LOGNAME|SHELL|TERM|LANG|LC_\w+|HOSTNAME|HOSTTYPE|OSTYPE|MACHTYPE|UID|EUID|PPID|RANDOM|"
    r"SECONDS|LINENO|IFS|TMPDIR|TMP|TEMP|DISPLAY|EDITOR|BASH\w*|PIPESTATUS|FUNCNAME|OPTARG|OPTIND|REPLY|COLUMNS|LINES|"
    r"SLURM_\w+|PBS_\w+|LSB_\w+|OMPI_\w+|PMI_\w+|KUBERNETES_\w+|VC_\w+|CONDA_\w+|VIRTUAL_ENV|DISTRIBUTED_\w+|"
    r"http_proxy|https_proxy|no_proxy|all_proxy|ftp_proxy|EPOCH\w+|SRANDOM|DIRSTACK|GROUPS|SHLVL|SHELLOPTS|COMP_\w+|MA_\w+|HOSTFILE|SUDO_\w+|XDG_\w+"
)


REMOVERS = ("rm", "unlink", "shred")


def never_set(script: Script, context: LintContext, name: str) -> bool:
    """No part of the script gives it a value, and nothing that it cannot see may."""
    session = [script] if script.block.script else [each for each in context.scripts if not each.block.script]
    return not any(name in each.names or each.opaque for each in session) and not _GIVEN.fullmatch(name)


def own_name(name: str) -> bool:
    """Written small: a variable of the script's own, which nobody sets from outside."""
    return name == name.lower() and len(name) > 1


def unset(context: LintContext) -> Iterator[Remark]:
    for script in context.scripts:
        told: set[str] = set()
        reading = Reading(script, context)
        removed = {
            (use.start, use.end)
            for command in script.commands
            if bare(command) in REMOVERS and "nounset" not in command.shell
            for use in command.uses
        }
        guarded = {use.name for use in script.uses if use.guarded}
        guarded |= {use.name for command in script.commands if command.name in ("test", "[") for use in command.uses}
        for use in script.uses:
            if use.guarded or use.bound or use.name in told | guarded or (use.start, use.end) in removed:
                continue
            remark = _unset(script, context, use, reading)
            if remark:
                told.add(use.name)
                yield remark


def _unset(script: Script, context: LintContext, use: Use, reading: Reading) -> Remark | None:
    if not never_set(script, context, use.name):
        later = next((a for a in script.assigns if a.name == use.name and a.start > use.start and not a.prefix), None)
        if later is None or not (own_name(use.name) or _own_capitals(script, use)):
            return None
        if script.functions or script.opaque or any(use.name in c.environment for c in script.commands):
            return None
        return warn(use, f"{use.name} is read here and given a value only further down", "Set it above.")
    meant = near(use.name, frozenset(script.names), 0.75) or next(
        (name for name in sorted(script.names) if name.endswith(f"_{use.name}") or name.startswith(f"{use.name}_")), ""
    )
    stops = reading.stops(use)
    if not (own_name(use.name) or (meant and near(use.name, frozenset({meant}), 0.85))):
        return _from_outside(reading, use, stops) if reading.missing(use) else None
    seen = f"{use.name} is never given a value here: it is empty" + (f"; is {meant} meant?" if meant else "")
    stop = ", and the script stops there (set -u)" if stops else ""
    do = f"Write ${{{meant}}}." if meant else f"Set {use.name}, or write ${{{use.name}:?}}."
    ends = stops and own_name(use.name) and script.block.script and reading.sure(use)
    return graded(ends, use, seen + stop, do)


def _own_capitals(script: Script, use: Use) -> bool:
    """A name in capitals that nobody else knows, and that the script itself sets without a look at what it was."""
    own = [assign for assign in script.assigns if assign.name == use.name]
    known = whose(use.name) or _GIVEN.fullmatch(use.name) or use.name.endswith(("PATH", "OPTS", "FLAGS"))
    return use.name.isupper() and not known and not any(each.start <= use.start < each.end for each in own)


def _from_outside(reading: Reading, use: Use, stops: bool) -> Remark:
    """A name in capitals may come from whoever starts the script: told as what happens where it does not."""
    name, who = use.name, whose(use.name)
    does = "the script stops here (set -u)" if stops else reading.effect(use)
    seen = f"nothing here sets {name}: where it does not come from outside, {does}"
    seen += f"; {who}" if who else ""
    if reading.rank_of_node(use):
        return warn(use, seen, "RANK is a worker's number, NODE_RANK a node's: write ${NODE_RANK:?}, and set it.")
    return warn(use, seen, f"Set {name} above, or write ${{{name}:?}}, which says that it is wanted.")


_READERS = ("trap", "test", "[", "let", "printf", "compgen", "declare")


def unused(context: LintContext) -> Iterator[Remark]:
    """A value that is given and never read; scripts that others read are left alone."""
    for script in context.scripts:
        if not script.block.script or script.opaque:
            continue
        texts = (w.text for c in script.commands if c.name in _READERS for w in c.words)
        used = {use.name for use in script.uses} | set(re.findall(r"[A-Za-z_]\w*", " ".join(texts)))
        arithmetic = set(
            re.findall(
                rb"\w+",
                b" ".join(re.findall(rb"\(\(.{0,200}?\)\)|\$\{!?\w+\[.{0,80}?\]|\[\[.{0,200}?\]\]", script.block.raw)),
            )
        )
        seen: set[str] = set()
        for assign in script.assigns:
            if assign.exported or assign.prefix or assign.name in used | seen or not own_name(assign.name):
                continue
            if (
                assign.name.encode() in arithmetic
                or assign.name == "_"
                or any(c.name == assign.name for c in script.commands)
            ):
                continue
            seen.add(assign.name)
            yield warn(
                assign,
                f"{assign.name} is given a value that nothing reads",
                "Use it where it is meant, or take it away.",
            )


_ENVIRONMENT = re.compile(
    r"(HIP|ROCR)_VISIBLE_DEVICES|NPROC_PER_NODE|NNODES|NODE_RANK|MASTER_(ADDR|PORT)|FORCE_TORCHRUN|"
    r"(FLAGS|FLAGCX|PYTORCH|TORCH|HF|OMP|USE_MODELSCOPE|TOKENIZERS|WANDB)_\w+|PYTHONPATH|LD_PRELOAD|LD_LIBRARY_PATH|"
    + join_patterns(*VISIBLE_VARIABLES, *(words.exported_variables for words in vendor_words().values()))
)


_COUNTS = ("NPROC_PER_NODE", "NNODES", "NODE_RANK")  # which torchrun and its like are told by options alone


def _reads(job: TrainingJob, name: str) -> bool:
    return any(name in names for names in job.launcher.variables.values())


def not_exported(context: LintContext) -> Iterator[Remark]:
    """Set for the shell alone: the program that should read it does not see it."""
    for script in context.scripts:
        read = {use.name for use in script.uses}
        exported = {a.name for a in script.assigns if a.exported}
        told: set[str] = set()
        for assign in script.assigns:
            name = assign.name
            if not _ENVIRONMENT.fullmatch(name) or name in read | exported | told or assign.prefix or name in ("PATH",):
                continue
            starts = [job for job in context.jobs if job.script is script and job.start > assign.end]
            if not any(name not in _COUNTS or _reads(job, name) for job in starts):
                continue
            told.add(name)
            seen = f"{name} is not exported: unless it was before, the training does not see it"
            fix = Fix(((assign.start, assign.start, "export "),))
            yield warn(assign, seen, f"export {name}=...", fix)
