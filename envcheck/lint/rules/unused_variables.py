"""Rules about the script's own variables: read but never set, set but never read, not exported."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import find_similar_name, warn, warn_or_fail
from envcheck.core.lint.script_model import Remark, ShellScript, TextFix, VariableUse
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.lint.wrappers import program_name
from envcheck.core.messages import _, verbatim
from envcheck.lint.rules.undefined_env import VariableReads, describe_setter
from envcheck.scripts.vendor_words import VISIBLE_VARIABLES, join_patterns, load_vendor_words

# Set by the shell, the system or a job platform.
_GIVEN = re.compile(
    r"HOME|PATH|PWD|OLDPWD|USER|LOGNAME|SHELL|TERM|LANG|LC_\w+|HOSTNAME|HOSTTYPE|OSTYPE|MACHTYPE|UID|EUID|PPID|RANDOM|"
    r"SECONDS|LINENO|IFS|TMPDIR|TMP|TEMP|DISPLAY|EDITOR|BASH\w*|PIPESTATUS|FUNCNAME|OPTARG|OPTIND|REPLY|COLUMNS|LINES|"
    r"SLURM_\w+|PBS_\w+|LSB_\w+|OMPI_\w+|PMI_\w+|KUBERNETES_\w+|VC_\w+|CONDA_\w+|VIRTUAL_ENV|DISTRIBUTED_\w+|"
    r"http_proxy|https_proxy|no_proxy|all_proxy|ftp_proxy|EPOCH\w+|SRANDOM|DIRSTACK|GROUPS|SHLVL|SHELLOPTS|COMP_\w+|MA_\w+|HOSTFILE|SUDO_\w+|XDG_\w+"
)


REMOVERS = ("rm", "unlink", "shred")


def is_never_set(script: ShellScript, context: LintContext, name: str) -> bool:
    """Return whether no part of the script, visible or not, can set it."""
    session = [script] if script.block.is_script else [each for each in context.scripts if not each.block.is_script]
    return not any(name in each.names or each.opaque for each in session) and not _GIVEN.fullmatch(name)


MOST_NAMES = 1000  # of a script among which a similar one is searched


def is_own_name(name: str) -> bool:
    """Return whether the name is lower case: a variable of the script, which nobody sets outside."""
    return name == name.lower() and len(name) > 1


def find_unset_variables(context: LintContext) -> Iterator[Remark]:
    for script in context.scripts:
        told: set[str] = set()
        reading = VariableReads(script, context)
        removed = {
            (use.start, use.end)
            for command in script.commands
            if program_name(command) in REMOVERS and "nounset" not in command.shell
            for use in command.uses
        }
        guarded = {use.name for use in script.uses if use.guarded}
        guarded |= {use.name for command in script.commands if command.name in ("test", "[") for use in command.uses}
        for use in script.uses:
            if use.guarded or use.bound or use.name in told | guarded or (use.start, use.end) in removed:
                continue
            remark = _judge_unset(script, context, use, reading)
            if remark:
                told.add(use.name)
                yield remark


def _judge_unset(script: ShellScript, context: LintContext, use: VariableUse, reading: VariableReads) -> Remark | None:
    if not is_never_set(script, context, use.name):
        later = next((a for a in script.assigns if a.name == use.name and a.start > use.start and not a.prefix), None)
        if later is None or not (is_own_name(use.name) or _is_own_constant(script, use)):
            return None
        if script.functions or script.opaque or any(use.name in c.environment for c in script.commands):
            return None
        return warn(
            use, _("{name} is read here but set only further down", name=use.name), _("Set it before this line.")
        )
    meant = _find_meant_name(script, use.name)
    stops = reading.stops_script(use)
    if not (is_own_name(use.name) or (meant and find_similar_name(use.name, frozenset({meant}), 0.85))):
        return _remark_outside_variable(reading, use, stops) if reading.is_missing(use) else None
    name = use.name
    if meant and stops:
        seen = _(
            "{name} is never set here: the script stops at this line (set -u); did you mean {meant}?",
            name=name,
            meant=meant,
        )
    elif meant:
        seen = _("{name} is never set here: it is empty; did you mean {meant}?", name=name, meant=meant)
    elif stops:
        seen = _("{name} is never set here: the script stops at this line (set -u)", name=name)
    else:
        seen = _("{name} is never set here: it is empty", name=name)
    do = (
        _("Write {expansion}.", expansion=f"${{{meant}}}")
        if meant
        else _("Set {name}, or write {expansion}.", name=use.name, expansion=f"${{{use.name}:?}}")
    )
    ends = stops and is_own_name(use.name) and script.block.is_script and reading.is_always_reached(use)
    return warn_or_fail(ends, use, seen, do)


def _find_meant_name(script: ShellScript, name: str) -> str:
    """A variable of the script with a similar name, or one that this name is a part of."""
    if len(script.names) > MOST_NAMES:
        return ""
    longer = (each for each in sorted(script.names) if each.endswith(f"_{name}") or each.startswith(f"{name}_"))
    return find_similar_name(name, frozenset(script.names), 0.75) or next(longer, "")


def _is_own_constant(script: ShellScript, use: VariableUse) -> bool:
    """An upper-case name that is otherwise unknown, and that the script sets unconditionally."""
    own = [assign for assign in script.assigns if assign.name == use.name]
    known = describe_setter(use.name) or _GIVEN.fullmatch(use.name) or use.name.endswith(("PATH", "OPTS", "FLAGS"))
    return use.name.isupper() and not known and not any(each.start <= use.start < each.end for each in own)


def _remark_outside_variable(reading: VariableReads, use: VariableUse, stops: bool) -> Remark:
    """An upper-case name may be set outside: the remark describes the effect if it is not."""
    name, who = use.name, describe_setter(use.name)
    effect = _("the script stops here (set -u)") if stops else reading.describe_effect(use)
    if who:
        seen = _("{name} is not set here; if unset outside, {effect} ({setter})", name=name, effect=effect, setter=who)
    else:
        seen = _("{name} is not set here; if unset outside, {effect}", name=name, effect=effect)
    if reading.is_rank_of_node(use):
        return warn(use, seen, _("RANK is a worker's number and NODE_RANK a node's: write ${NODE_RANK:?} and set it."))
    return warn(
        use,
        seen,
        _(
            "Set {name} before this line, or write {expansion} to require it.",
            name=name,
            expansion=f"${{{name}:?}}",
        ),
    )


_READERS = ("trap", "test", "[", "let", "printf", "compgen", "declare")


def find_unused_variables(context: LintContext) -> Iterator[Remark]:
    """Find values that are never read; scripts that others source are left alone."""
    for script in context.scripts:
        if not script.block.is_script or script.opaque:
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
            if assign.exported or assign.prefix or assign.name in used | seen or not is_own_name(assign.name):
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
                _("{name} is set but never read", name=assign.name),
                _("Use it, or remove it."),
            )


_ENVIRONMENT = re.compile(
    r"(HIP|ROCR)_VISIBLE_DEVICES|NPROC_PER_NODE|NNODES|NODE_RANK|MASTER_(ADDR|PORT)|FORCE_TORCHRUN|"
    r"(FLAGS|FLAGCX|PYTORCH|TORCH|HF|OMP|USE_MODELSCOPE|TOKENIZERS|WANDB)_\w+|PYTHONPATH|LD_PRELOAD|LD_LIBRARY_PATH|"
    + join_patterns(*VISIBLE_VARIABLES, *(words.exported_variables for words in load_vendor_words().values()))
)


_COUNTS = ("NPROC_PER_NODE", "NNODES", "NODE_RANK")  # which torchrun and similar launchers only accept as options


def _launcher_reads(job: TrainingJob, name: str) -> bool:
    return any(name in names for names in job.launcher.variables.values())


def _find_late_exports(script: ShellScript, context: LintContext) -> Iterator[Remark]:
    """Find variables that are exported after the last program of the script."""
    starts = [job.start for job in context.jobs if job.script is script]
    last = max((command.start for command in script.commands if command.name not in _PRINTING), default=0)
    end = max((*starts, last))
    for assign in script.assigns if starts and script.block.is_script else ():
        is_late = assign.exported and not assign.prefix and assign.start > end
        if is_late and _ENVIRONMENT.fullmatch(assign.name):
            seen = _(
                "{name} is exported after the training has started: the training does not see it", name=assign.name
            )
            yield warn(assign, seen, _("Move the line above the command."))


_PRINTING = frozenset(["echo", "printf", "date", "wait"])


def find_unexported_variables(context: LintContext) -> Iterator[Remark]:
    """Find variables without export: the program that reads them does not see them."""
    for script in context.scripts:
        yield from _find_late_exports(script, context)
        read = {use.name for use in script.uses}
        exported = {a.name for a in script.assigns if a.exported}
        told: set[str] = set()
        for assign in script.assigns:
            name = assign.name
            if not _ENVIRONMENT.fullmatch(name) or name in read | exported | told or assign.prefix or name in ("PATH",):
                continue
            starts = [job for job in context.jobs if job.script is script and job.start > assign.end]
            if not any(name not in _COUNTS or _launcher_reads(job, name) for job in starts):
                continue
            told.add(name)
            seen = _("{name} is not exported: the training does not see it, unless it was exported before", name=name)
            fix = TextFix(((assign.start, assign.start, "export "),))
            yield warn(assign, seen, verbatim(f"export {name}=..."), fix)
