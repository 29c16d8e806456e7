"""envcheck plan: will this job fit, on these cards, and what is the smallest change that makes it fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from envcheck.cli import options
from envcheck.cli.documents import print_document
from envcheck.cli.requests import Request, command, flag, option
from envcheck.core import language
from envcheck.core.errors import UntoldError, UsageError

if TYPE_CHECKING:
    from envcheck.core.facts import Facts
    from envcheck.job.job import Job
    from launch.memory.job import PlannedJob
    from launch.planner import LaunchPlan
    from launch.planner.resolve import Machine
    from launch.planner.spread import Spread

NUMBER = click.IntRange(1, 1_000_000)
TOKENS, BATCH = click.IntRange(1, 100_000_000), click.IntRange(1, 65_536)  # as launch.planner.legal has them
DESCRIBED = ("cards", "nodes", "memory_gib", "used_gib")  # of machines that are not asked
A_FILE = click.Path(path_type=Path)


@dataclass(frozen=True, kw_only=True)
class ModelsOptions(options.JsonOption):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("list_models",)

    list_models: bool = flag("--list-models", help="Name the models that it knows, and stop.")


@dataclass(frozen=True, kw_only=True)
class OutputOption(Request):
    output: Path | None = option(
        "-o", "--output", type=A_FILE, help="A picture (.svg, .png), or the CSV of --rows.", order=options.ASKING
    )


@dataclass(frozen=True, kw_only=True)
class RowsOptions(OutputOption):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("rows",)

    rows: Path = option("--rows", type=A_FILE, help="A CSV of jobs; predictions go to -o.")


@dataclass(frozen=True, kw_only=True)
class LayoutOptions(options.FleetOptions, options.JsonOption, OutputOption, options.VariantOptions, options.JobOptions):
    """A job on cards."""

    cards: int | None = option(
        "--cards", type=NUMBER, help="How many cards (Iluvatar: dies); else those of this machine.",
        excludes=options.OVER_SSH,
    )  # fmt: skip
    nodes: int | None = option(
        "--nodes", type=NUMBER, help="How many machines those cards are in.", excludes=options.OVER_SSH
    )
    memory_gib: float | None = option(
        "--memory-gib", type=click.FloatRange(0.5, 4096), help="Memory of one card; else this machine's.",
        excludes=options.OVER_SSH,
    )  # fmt: skip
    used_gib: float | None = option(
        "--used-gib", type=click.FloatRange(0, 4096), help="In use on a card before the job; else as idle.",
        excludes=options.OVER_SSH,
    )  # fmt: skip
    tp: int | None = option("--tp", type=NUMBER, help="Tensor parallel degree.")
    pp: int | None = option("--pp", type=NUMBER, help="Pipeline stages.")
    vpp: int | None = option("--vpp", type=NUMBER, help="Chunks of an interleaved pipeline.")
    ep: int | None = option("--ep", type=NUMBER, help="Expert parallel degree.")
    etp: int | None = option("--etp", type=NUMBER, help="Tensor parallel degree of the experts; else as --tp.")
    cp: int | None = option("--cp", type=NUMBER, help="Context parallel degree.")
    sharding: str | None = option("--sharding", "--zero", help="none, stage1, stage2, stage3 (or 0 to 3), fsdp.")
    offload: str | None = option("--offload", help="optimizer, tensorwise, params, activations; joined by +.")
    recompute: str | None = option("--recompute", help="full, selective, none.")
    seq_len: int | None = option("--seq-len", type=TOKENS, help="Tokens of the longest sample.")
    micro_batch: int | None = option("--micro-batch", type=BATCH, help="Samples of one forward pass of one card.")
    grad_accum: int | None = option("--grad-accum", type=BATCH, help="Micro batches of one step.")
    lora_rank: int | None = option("--lora-rank", type=NUMBER)
    lora_targets: str | None = option(
        "--lora-targets", help="all-linear, qkv, qv, attn, mlp, or modules: q_proj,v_proj."
    )
    quant: str | None = option("--quant", help="nf4, int4, int8, wint4/8, ...: a quantised base under adapters.")
    optimizer: str | None = option("--optimizer", help="adamw, adamw8bit, muon, ...")
    flash: bool = option("--flash/--no-flash", default=True, help="A flash attention kernel.")
    fused_loss: bool | None = option(
        "--fused-loss/--no-fused-loss", default=None, help="A chunked loss (Liger, cut cross entropy)."
    )

    @property
    def asked(self) -> Mapping[str, Any]:
        """The values of all options, by the names that the planner has for them."""
        return vars(self)

    @property
    def is_described(self) -> bool:
        return self.device != "auto" and bool(self.cards or self.memory_gib)


@dataclass(frozen=True, kw_only=True)
class SearchOptions(LayoutOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("search",)

    search: bool = flag("--search", help="Rank all layouts that the framework accepts.")


@dataclass(frozen=True, kw_only=True)
class SweepOptions(LayoutOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("sweep",)

    sweep: str = option("--sweep", metavar="NAME=A..B", help="seq-len=2048..131072, micro-batch=1,2,4, ...")


@dataclass(frozen=True, kw_only=True)
class PlanOptions(LayoutOptions):
    explain: bool = flag("--explain", help="The formula and source of every term.")
    calibrate: Path | None = option(
        "--calibrate",
        type=click.Path(exists=True, path_type=Path),
        help="Runs of train: correct by what they measured.",
    )


@command(ModelsOptions, RowsOptions, SearchOptions, SweepOptions, PlanOptions)
def plan(request: ModelsOptions | RowsOptions | SearchOptions | SweepOptions | PlanOptions) -> int:
    """Would it fit, here or on a machine that is described; why; and what would.

    Exit code 0: fits. 1: does not fit, or this machine cannot run the job. 2: asked wrongly. 3: unknown.

    \b
    envcheck plan --model 21b --method lora                                     on this machine's cards
    envcheck plan --model 300b --method sft --device npu --cards 128 --memory-gib 64 --tp 8 --pp 16 --offload optimizer
    envcheck plan --model ./my-model --method lora --device nvidia --cards 8 --search
    envcheck plan --model qwen-7b --method lora --device npu --cards 1 --sweep seq-len=512..32768
    envcheck plan --rows jobs.csv -o predictions.csv
    envcheck plan --model 300b --method sft --hosts node[01-08]                 on the cards of eight machines, over ssh
    """
    if isinstance(request, ModelsOptions):
        return _models(request.as_json)
    if isinstance(request, RowsOptions):
        return _rows(request)
    if not (request.model and request.method):
        raise UsageError("plan needs --model and --method", "as in envcheck plan --model 21b --method lora")
    if request.output and request.output.suffix.lower() not in (".svg", ".png"):
        raise UsageError(f"-o {request.output}: only .svg and .png can be drawn", "name a file that ends in .svg")
    seen = _examined(request)
    try:
        machine, job = _laid_out(seen, request)
    except UntoldError as err:
        if isinstance(request, PlanOptions):
            err.document = _untold_document(err, seen)
        raise
    if isinstance(request, PlanOptions):
        return _one(machine, job, request, seen)
    return _search(job, request) if isinstance(request, SearchOptions) else _sweep(job, request)


def _models(as_json: bool) -> int:
    from launch.catalogue import models

    found, short = models.listed(), {full: name for name, full in models.SHORT.items()}
    if as_json:
        keys = ("name", "hub_id", "parameters", "short")
        rows = [dict(zip(keys, (*one, short.get(one[0])), strict=True)) for one in found]
        print_document({"models": rows})
        return 0
    for name, hub_id, count in found:
        also = "  " + language.say(f"(also {short[name]})") if name in short else ""
        click.echo(f"{name:24} {count / 1e9:8.2f}e9  {hub_id}{also}")
    return 0


def _rows(request: RowsOptions) -> int:
    from launch.planner import table

    if not request.output:
        raise UsageError("--rows needs -o FILE.csv for the predictions", "add -o predictions.csv")
    rows = table.read(request.rows)
    if request.output.exists() and request.output.samefile(request.rows):
        raise UsageError(f"-o {request.output} is the table that is asked about", "name another file")
    if odd := table.unknown(rows):
        click.echo(language.say(f"envcheck: not read: column {', '.join(odd)}"), err=True)
    table.write(map(table.predict, rows), request.output)
    return 0


@dataclass(frozen=True)
class PlannedFor:
    """Where the job is planned for: the hosts of --hosts, the machine that this runs on, or neither where one is
    described.  `job` is the recipe's job for this machine."""

    spread: Spread | None = None
    facts: Facts | None = None
    job: Job | None = None


def _examined(request: LayoutOptions) -> PlannedFor:
    """The hosts or this machine, asked once; nobody is asked where its cards or memory are described."""
    if request.is_over_ssh:
        return PlannedFor(_spread(request))
    if request.is_described:
        return PlannedFor()
    from envcheck.cli.commands import plan_job
    from envcheck.job.here import collect_facts_here
    from envcheck.job.request import JobRequest
    from envcheck.report import screen

    with screen.hint("asking the machine ..."):
        facts = collect_facts_here(JobRequest(device=request.device))
    described = any(request.asked[name] is not None for name in DESCRIBED)
    return PlannedFor(facts=facts, job=None if described else plan_job.resolve_here(request.asked, facts))


def _laid_out(seen: PlannedFor, request: LayoutOptions) -> tuple[Machine, PlannedJob]:
    """The cards and the job on them: as the recipe has it, else in the layout that was asked for or is fastest."""
    from envcheck.cli.commands import plan_job
    from launch.planner import layouts
    from launch.planner import resolve as question

    machine = seen.spread.machine if seen.spread else _machine(request, seen.facts)
    if seen.facts and seen.job and not isinstance(request, SearchOptions):
        own = plan_job.lay_out(seen.job, seen.facts, request.asked)
        if own:
            return own
    spread = question.on_nodes(machine, request.nodes, bool(request.cards))
    offer = plan_job.find_offer(request.asked, machine.device.vendor)
    model = plan_job.name_model(seen.job) or request.model or ""  # a recipe's name stands for its model
    return machine, layouts.laid_out(spread, model, request.method or "", request.asked, offer)


def _spread(request: LayoutOptions) -> Spread:
    """The cards of all hosts, asked over ssh."""
    from envcheck.cli.commands import fleet
    from envcheck.collect.fact_reader import read_facts
    from envcheck.fleet import connectivity
    from envcheck.fleet.output import HostOutput
    from launch.planner import spread

    def read(said: HostOutput) -> tuple[str, Machine | str]:
        if said.answers is None:
            return said.host, connectivity.reached(said).seen
        known = read_facts(said.answers, request.device)
        return said.host, spread.read(known, request.device)

    return spread.spread(dict(fleet.each_asked(request, read, ())))


def _machine(request: LayoutOptions, here: Facts | None) -> Machine:
    """Described where its cards or memory are; else the one that this runs on."""
    from launch.planner import machines

    if here is None:
        return machines.described(request.device, request.cards, request.memory_gib, request.used_gib)
    from dataclasses import replace

    given = {k: value for k in ("cards", "memory_gib", "used_gib") if (value := request.asked[k]) is not None}
    cards = request.cards and -(-request.cards // (request.nodes or 1))
    nodes = {"nodes": request.nodes} if request.nodes else {}
    found = machines.of_facts(here, request.device, cards, given | nodes)
    told = "memory_gib" in given
    return replace(
        found, **given, each=found.each if given.keys() <= {"cards"} else (), parted=found.parted and not told
    )


def _untold_document(err: UntoldError, seen: PlannedFor) -> dict[str, Any]:
    """The document of a plan that cannot be made."""
    from launch import planner
    from launch.planner.output import documents

    said = {"verdict": planner.UNTOLD, "reason": err.message}
    return documents.headed(said) | _of_job(seen)


def _of_job(seen: PlannedFor) -> dict[str, Any]:
    return {"job": seen.job.as_json() if seen.job else None}


def _one(machine: Machine, job: PlannedJob, request: PlanOptions, seen: PlannedFor) -> int:
    from launch.planner import machines

    found = seen.spread
    answer, advised = machines.answer(machine, job, "name an instance's size: --memory-gib"), job
    if request.calibrate:
        from launch.planner import calibration

        correction = calibration.learn(request.calibrate)
        answer, advised = calibration.apply(answer, correction), calibration.seen(job, correction)
    if request.output:
        from launch.planner.output import picture

        _save(request.output, picture.plan_svg(answer))
    _print(answer, None if machine.parted else advised, request, seen)
    code = _code_here(answer, seen)
    return 3 if found is not None and found.silent and code == 0 else code  # it fits on those that told of theirs


def _print(answer: LaunchPlan, advised: PlannedJob | None, request: PlanOptions, seen: PlannedFor) -> None:
    from envcheck.core.host_names import fold_hosts
    from launch import planner
    from launch.planner import advice, layouts, spread
    from launch.planner.output import documents, show

    found, fits = seen.spread, answer.verdict == planner.FITS
    changes = advice.fitting(advised) if advised and not fits else () if advised else None
    left = advice.room(advised) if advised and fits else None
    layout = layouts.unsaid(answer.job, request.asked)
    if request.as_json:
        more = _of_job(seen) | documents.more(changes or (), left, layout) | (spread.document(found) if found else {})
        print_document(documents.document(answer, more) | _outcome_here(answer, request, seen))
        return
    above, below = _job_lines(seen, answer)
    for line in show.wrapped(above, _columns()):
        click.echo(line)
    for line in show.screen(answer, changes, left, request.explain, layout, _columns()):
        click.echo(line)
    for line in show.wrapped((*(spread.lines(found, fold_hosts) if found else ()), *below), _columns()):
        click.echo(line)


def _job_lines(seen: PlannedFor, answer: LaunchPlan) -> tuple[list[str], list[str]]:
    """For which other host the job is resolved, and what blocks it on this one: above the plan what no provisioning
    changes, else below."""
    from envcheck.cli.commands import plan_job

    if seen.job is None:
        return [], []
    assumed = seen.job.assumed_host if seen.job.device == answer.job.device.vendor else ""
    blocked = plan_job.blocked_line(seen.job)
    above, below = (blocked, "") if seen.job.needs_another_machine else ("", blocked)
    return list(filter(None, [assumed, above])), list(filter(None, [below]))


def _code_here(answer: LaunchPlan, seen: PlannedFor) -> int:
    """The exit code: what fits in memory is no answer where the machine cannot run the job for another reason."""
    from envcheck.core.errors import UNFIT

    return UNFIT if seen.job and seen.job.needs_another_machine else _code(answer)


def _outcome_here(answer: LaunchPlan, request: PlanOptions, seen: PlannedFor) -> dict[str, Any]:
    """The end of the command for the document."""
    from envcheck.cli.commands import plan_job
    from envcheck.core.errors import outcome
    from envcheck.job.repeat_options import format_doctor_options

    if seen.job and seen.job.needs_another_machine:
        words = f"envcheck doctor {format_doctor_options(seen.job.recipe, seen.job.method, request.recipes)}"
        return outcome(_code_here(answer, seen), plan_job.blocked_line(seen.job), words)
    return _outcome(answer)


def _columns() -> int:
    """Of the terminal, or as COLUMNS says; 0 where what is written goes into a file or a pipe."""
    import shutil

    return shutil.get_terminal_size((0, 0)).columns


def _search(job: PlannedJob, request: SearchOptions) -> int:
    from dataclasses import replace

    from launch.planner import search
    from launch.planner.output import documents, plots, show

    layouts = search.search(job if request.grad_accum else replace(job, grad_accum=None))
    if request.output:
        _save(request.output, plots.search_svg(layouts))
    if request.as_json:
        print_document(documents.layouts(layouts) | _best_outcome([found.plan for found in layouts]))
    else:
        click.echo("\n".join(show.found(layouts, _columns())))
    return min((_code(found.plan) for found in layouts), default=1)


def _sweep(job: PlannedJob, request: SweepOptions) -> int:
    from launch.planner import sweep
    from launch.planner.output import documents, plots, show

    points = list(sweep.sweep(job, request.sweep))
    if request.output:
        _save(request.output, plots.sweep_svg(request.sweep, points))
    if request.as_json:
        print_document(documents.points(points) | _best_outcome([p for _, p in points if not isinstance(p, str)]))
    else:
        click.echo("\n".join(show.swept(points, _columns())))
    codes = [_code(p) for _, p in points if not isinstance(p, str)]
    return min(codes, default=2)


def _save(path: Path, svg: str) -> None:
    from launch.planner.output import png

    drawn = png.of_svg(svg) if path.suffix.lower() == ".png" else svg.encode()
    try:
        path.write_bytes(drawn)
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror}", "name a file that can be written") from err


def _outcome(answer: LaunchPlan) -> dict[str, Any]:
    """The end of the command for the document."""
    from envcheck.core.errors import outcome

    return outcome(_code(answer), answer.reason, "envcheck plan --search ranks other layouts")


def _best_outcome(answers: list[LaunchPlan]) -> dict[str, Any]:
    from envcheck.core.errors import UNFIT, outcome

    best = min(answers, key=_code, default=None)
    return outcome(UNFIT, "no layout is possible") if best is None else _outcome(best)


def _code(answer: LaunchPlan) -> int:
    from envcheck.core import errors
    from launch import planner

    codes = {planner.FITS: errors.FIT, planner.NOT: errors.UNFIT, planner.UNTOLD: errors.UNTOLD}
    return codes[answer.verdict]
