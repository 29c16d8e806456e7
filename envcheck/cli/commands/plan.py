"""envcheck plan: check whether a job fits in memory, and find the smallest change that makes it fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import click

from envcheck.cli import options
from envcheck.cli.job_argument import SELECTING, JobCommand, job_argument, read_own_job
from envcheck.cli.json_document import print_document
from envcheck.cli.number_types import Gib, WholeNumber
from envcheck.cli.option_groups import OptionGroup
from envcheck.cli.requests import EITHER, Request, command, flag, option
from envcheck.core import language
from envcheck.core.errors import UndeterminedError, UsageError
from envcheck.core.lint.own_job import OwnJob, ValueState
from envcheck.core.messages import _, join
from envcheck.vendors.names import accelerator_choice, device_names, resolve_device

if TYPE_CHECKING:
    from envcheck.core.facts import Facts
    from envcheck.job.definition import Job
    from launch.memory.planned_job import PlannedJob
    from launch.planner import LaunchPlan
    from launch.planner.host_spread import CombinedHosts
    from launch.planner.resolve import PlannedMachine

SIZES = {"seq_len", "micro_batch", "grad_accum", "lora_rank"}  # options that replace a value of an own job
FILLABLE = ("model", "method")  # options that fill what an own job does not state
NUMBER = WholeNumber(1, 1_000_000)
TOKENS, BATCH = WholeNumber(1, 100_000_000), WholeNumber(1, 65_536)  # the methods in launch.planner.layout_rules
SIZE_HINT = _("Set the memory size of the instance with --memory-gib.")
DESCRIBED = ("cards", "nodes", "cards_per_node", "memory_gib", "used_gib")  # devices of described machines
MOST_NAMED_ROWS = 20  # of a table, on the screen
A_FILE = click.Path(path_type=Path)


def read_hardware(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Return the vendor, or the name of a card in the device table (a click callback)."""
    from launch.catalogue import devices

    try:
        return resolve_device(value)
    except UsageError:
        return devices.find_named_device(value).name


def list_hardware() -> Iterable[str]:
    from launch.catalogue import devices

    return (*device_names(), *devices.list_device_words())


def layout_option(*words: str, **more: Any) -> Any:
    return option(*words, group=OptionGroup.LAYOUT, **more)


def degree_option(word: str, **more: Any) -> Any:
    return layout_option(word, type=NUMBER, metavar="COUNT", **more)


@dataclass(frozen=True, kw_only=True)
class ModelsOptions(options.JsonOption):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("list_models",)

    list_models: bool = flag(
        "--list-models", group=OptionGroup.OUTPUT, is_common=True, help="List all known models and exit."
    )


@dataclass(frozen=True, kw_only=True)
class OutputOption(Request):
    output: Path | None = options.output_option()


@dataclass(frozen=True, kw_only=True)
class RowsOptions(OutputOption):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("rows",)

    rows: Path = option(
        "--rows", group=OptionGroup.JOB, type=A_FILE, metavar="FILE",
        help="CSV file with one job per row.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LayoutOptions(
    options.FleetOptions,
    options.JsonOption,
    OutputOption,
    options.VariantOptions,
    options.RecipeOption,
    options.JobOptions,
):
    """A job on described devices."""

    words: tuple[str, ...] = job_argument()
    own_job: OwnJob | None = None
    precision: str | None = None  # of the own job
    hardware: str = ""  # the card that --device names; `device` is then its vendor

    device: str = options.device_option(read_hardware, list_hardware)
    cards: int | None = option(
        "--cards", group=OptionGroup.MACHINE, is_common=True, type=NUMBER, metavar="COUNT",
        help="Total number of devices (Iluvatar: dies).", excludes=options.OVER_SSH,
    )  # fmt: skip
    nodes: int | None = option(
        "--nodes", group=OptionGroup.MACHINE, is_common=True, type=NUMBER, metavar="COUNT",
        help="Number of nodes with these devices.", excludes=options.OVER_SSH,
    )  # fmt: skip
    cards_per_node: int | None = option(
        "--cards-per-node", group=OptionGroup.MACHINE, type=WholeNumber(1, 1024), metavar="COUNT",
        help="Number of devices per node.", excludes=options.OVER_SSH,
    )  # fmt: skip
    memory_gib: float | None = option(
        "--memory-gib", group=OptionGroup.MACHINE, is_common=True, type=Gib(0.5, 4096), metavar="GIB",
        help="Memory of one device (default: this machine's).", excludes=options.OVER_SSH,
    )  # fmt: skip
    used_gib: float | None = option(
        "--used-gib", group=OptionGroup.MACHINE, type=Gib(0, 4096), metavar="GIB",
        help="Device memory in use before the job starts.", excludes=options.OVER_SSH,
    )  # fmt: skip
    tp: int | None = degree_option("--tp", is_common=True, help="Tensor parallel degree.")
    pp: int | None = degree_option("--pp", is_common=True, help="Pipeline parallel degree.")
    vpp: int | None = degree_option("--vpp", help="Number of virtual pipeline stages per device.")
    ep: int | None = degree_option("--ep", is_common=True, help="Expert parallel degree.")
    etp: int | None = degree_option("--etp", help="Expert tensor parallel degree (default: --tp).")
    cp: int | None = degree_option("--cp", help="Context parallel degree.")
    sharding: str | None = layout_option(
        "--sharding", "--zero", is_common=True, metavar="STAGE", help="ZeRO stage: none, stage1, stage2, stage3, fsdp."
    )
    offload: str | None = layout_option(
        "--offload", is_common=True, metavar="PARTS",
        help="Offload: optimizer, tensorwise, params, activations (join with +).",
    )  # fmt: skip
    recompute: str | None = layout_option(
        "--recompute", is_common=True, metavar="MODE", help="Activation recomputation: full, selective, none."
    )
    seq_len: int | None = layout_option(
        "--seq-len", is_common=True, type=TOKENS, metavar="TOKENS", help="Length of the longest sample."
    )
    micro_batch: int | None = layout_option(
        "--micro-batch", is_common=True, type=BATCH, metavar="COUNT", help="Samples per device and forward pass."
    )
    grad_accum: int | None = layout_option(
        "--grad-accum", type=BATCH, metavar="COUNT", help="Micro-batches per optimizer step."
    )
    lora_rank: int | None = layout_option(
        "--lora-rank", type=NUMBER, metavar="COUNT", help="Rank of the LoRA adapters."
    )
    lora_targets: str | None = layout_option(
        "--lora-targets", metavar="NAMES", help="LoRA targets: all-linear, qkv, attn, mlp, ..."
    )
    quant: str | None = layout_option("--quant", metavar="NAME", help="Base model quantization: nf4, int4, int8, ...")
    optimizer: str | None = layout_option(
        "--optimizer", metavar="NAME", help="Optimizer: adamw, adamw8bit, muon, adafactor, ..."
    )
    flash: bool = layout_option("--flash/--no-flash", default=True, help="Use a flash attention kernel.")
    fused_loss: bool | None = layout_option(
        "--fused-loss/--no-fused-loss", default=None, help="Compute the loss in chunks (as Liger does)."
    )
    sequence_parallel: bool | None = layout_option(
        "--sequence-parallel/--no-sequence-parallel",
        default=None,
        help="Split norms by tokens too (default: with --tp).",
    )

    @property
    def option_values(self) -> Mapping[str, Any]:
        """Return the values of all options under the planner's names."""
        return vars(self)

    @property
    def is_described(self) -> bool:
        return bool(self.hardware) or (
            self.device != "auto" and bool(self.cards or self.cards_per_node or self.memory_gib)
        )


@dataclass(frozen=True, kw_only=True)
class SearchOptions(LayoutOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("search",)

    search: bool = flag(
        "--search", group=OptionGroup.OUTPUT, is_common=True, help="Rank all layouts that the framework accepts."
    )


@dataclass(frozen=True, kw_only=True)
class SweepOptions(LayoutOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("sweep",)

    sweep: str = option(
        "--sweep", group=OptionGroup.OUTPUT, is_common=True, metavar="NAME=RANGE",
        help="Vary an option: seq-len=512..8192, tp=1,2,4.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PlanOptions(LayoutOptions):
    explain: bool = flag(
        "--explain", group=OptionGroup.OUTPUT, is_common=True, help="Show the formula and source of each term."
    )
    calibrate: Path | None = option(
        "--calibrate",
        group=OptionGroup.MACHINE,
        type=click.Path(exists=True, path_type=Path),
        metavar="PATH",
        help="Correct the estimate with measured runs.",
    )


@command(
    ModelsOptions, RowsOptions, SearchOptions, SweepOptions, PlanOptions, cls=JobCommand,
    short_help="Check whether a job fits in memory, here or on hardware you describe.",
)  # fmt: skip
def plan(request: ModelsOptions | RowsOptions | SearchOptions | SweepOptions | PlanOptions) -> int:
    """Check whether a job fits in device memory, on this machine or on hardware you describe.

    If the job does not fit, the smallest changes that make it fit are listed.  --output draws the plan (.svg or .png);
    with --rows, it is the .csv file to write.

    --device takes a device type, or here also a card: 910b3, h200, 4090.

    Exit code 0: fits. 1: does not fit, or this machine cannot run the job. 2: usage error. 3: unknown.

    \b
    envcheck plan --model 21b --method lora    check this machine
    envcheck plan --model 21b --method lora --device h200 --cards 8
    envcheck plan --model 300b --method sft --device npu --cards 128 --tp 8
    envcheck plan --model ./mine --method lora --device nvidia --cards 8 --search
    envcheck plan my.yaml                      plan your own job
    envcheck plan --recipe my --recipes dir    plan the job of a recipe
    envcheck plan --model 21b --method lora --sweep seq-len=512..32768
    envcheck plan --rows jobs.csv -o predictions.csv
    envcheck plan --model 300b --method sft --device npu --hosts node[01-08]
    """
    if isinstance(request, ModelsOptions):
        return _print_models(request.as_json)
    if isinstance(request, RowsOptions):
        return _predict_rows(request)
    if isinstance(request, SweepOptions):
        return _sweep_option(request)
    request = _complete_job(request)
    seen = _examine_machines(request)
    machine, job = _lay_out_or_explain(seen, request)
    if isinstance(request, PlanOptions):
        return _plan_one_job(machine, job, request, seen)
    return _search_layouts(job, request)


T = TypeVar("T", bound=LayoutOptions)


def _complete_job(request: T) -> T:
    """The request with the job of its recipe or file; UsageError for one without a job."""
    request = _add_recipe_job(_add_own_job(_separate_hardware(request)))
    if not (request.model and request.method):
        raise UsageError(
            _("plan needs --model and --method"), _("for example: envcheck plan --model 21b --method lora")
        )
    if request.output and request.output.suffix.lower() not in (".svg", ".png"):
        raise UsageError(
            _("-o {output}: only .svg and .png are supported", output=request.output),
            _("specify a file that ends in .svg or .png"),
        )
    return request


def _lay_out_or_explain(seen: PlanningTarget, request: LayoutOptions) -> tuple[PlannedMachine, PlannedJob]:
    """Devices and layout; if they are unknown, what was read of an own job is shown before the error."""
    try:
        return _lay_out_job(seen, request)
    except UndeterminedError as err:
        if lines := _render_own_job(request, seen):
            click.echo("\n".join(lines))
        if isinstance(request, PlanOptions):
            err.document = _build_unknown_document(err, seen)
        raise


def _separate_hardware(request: T) -> T:
    """The request with the card of --device as `hardware` and its vendor as `device`."""
    from dataclasses import replace

    if request.device in device_names():
        return request
    if request.is_over_ssh:
        raise UsageError(
            _("--device {name} describes hardware; the hosts have their own", name=request.device),
            _("name the vendor: --device {choices}", choices=accelerator_choice()),
        )
    from launch.catalogue import devices

    card = devices.find_named_device(request.device)
    return replace(request, device=card.vendor, hardware=card.name)


def _add_own_job(request: T) -> T:
    """The request with the values of the user's own job; options of the command line win."""
    from dataclasses import replace

    own = read_own_job(request.words, request.given, fillable=FILLABLE)
    if own is None:
        return request
    own = _fill_own_job(own, request)
    given = {"device": ("--device", request.device)} if "device" in request.given else {}
    if own.nodes == 1 and request.cards:
        given |= {"cards": ("--cards", str(request.cards))}
    sizes = {value.name for value in own.values} & SIZES & request.given
    given |= {name: (f"--{name.replace('_', '-')}", str(request.option_values[name])) for name in sizes}
    own = own.settle_values(given)
    is_unplanned = own.unplanned_framework and "framework" not in request.given
    if not (own.model and own.method) or own.list_invalid() or is_unplanned:
        raise _explain_unplannable(replace(request, own_job=own), own)
    values: dict[str, Any] = {
        "model": own.model,
        "method": own.method,
        "framework": own.framework or None,
        "nodes": own.nodes,
    }
    if request.device == "auto" and own.device:
        values["device"] = own.device
    if request.is_described and not request.cards:
        values["cards"] = own.nodes * (own.cards or request.cards_per_node or 1)
    known = vars(request).keys()
    read = {**(own.divided_plan if "tp" in request.given else {}), **own.plan}
    values |= {name: value for name, value in read.items() if name in known and name not in request.given}
    if not request.is_described or own.nodes == 1:
        values.pop("nodes")
    return replace(request, own_job=own, **{name: value for name, value in values.items() if name not in request.given})


def _fill_own_job(own: OwnJob, request: LayoutOptions) -> OwnJob:
    """The job with --model and --method where it states none; UsageError where it states another one."""
    from dataclasses import replace

    from launch.catalogue import models
    from launch.planner.option_words import is_same_method

    def is_same(name: str, value: str, stated: str) -> bool:
        same_model = models.find_exact_name(value) == stated or value == stated
        return same_model if name == "model" else is_same_method(value, stated)

    filled = {name: str(request.option_values[name]) for name in FILLABLE if name in request.given}
    if own.no_training:
        return own
    for name, value in filled.items():
        stated, read = getattr(own, name), own.find_value(name)
        is_read = read is not None and read.state is ValueState.READ
        if stated and is_read and not is_same(name, value, stated):
            raise UsageError(
                _("--{name} {value}: the job sets {stated}", name=name, value=value, stated=stated),
                _("change the value in the job, or remove --{name}", name=name),
            )
    changed: dict[str, Any] = filled
    return replace(
        own.settle_values({name: (f"--{name}", value) for name, value in filled.items()}),
        **{name: getattr(own, name) or value for name, value in changed.items()},
    )


def _add_recipe_job(request: T) -> T:
    """The request with model and method of the recipe that it names, and its device unless hardware is described."""
    from dataclasses import replace

    if request.recipe is None:
        return request
    from envcheck.cli.commands import plan_job

    model, method, device = plan_job.name_recipe_job(request.option_values)
    is_given = "device" in request.given or request.is_described
    return replace(request, model=model, method=method, device=request.device if is_given else device)


def _explain_unplannable(request: LayoutOptions, own: OwnJob) -> UndeterminedError:
    """The error for a job whose model or method the planner does not know; shows what was read of it."""
    from launch.planner.own_fit import explain_unknown_job

    lacking = [f"--{name} NAME" for name in FILLABLE if not getattr(own, name)]
    is_fillable = lacking and not (own.no_training or own.unplanned_framework)
    known = _("compare it with a known job: envcheck plan --model NAME --method NAME")
    fill = _("add {options}", options=" ".join(lacking))
    correct = _("correct these values in the job")
    err = UndeterminedError(explain_unknown_job(own), correct if own.list_invalid() else fill if is_fillable else known)
    if request.as_json:
        err.document = _build_unknown_document(err, _examine_machines(request))
    else:
        from envcheck.job.own_job_text import render_own_job

        click.echo("\n".join(render_own_job(own)))
    return err


def _print_models(as_json: bool) -> int:
    from launch.catalogue import models

    found, short = models.list_models(), {full: name for name, full in models.SHORT_NAMES.items()}
    if as_json:
        keys = ("name", "hub_id", "parameters", "alias")
        rows = [dict(zip(keys, (*one, short.get(one[0])), strict=True)) for one in found]
        print_document({"models": rows})
        return 0
    lines = []
    for name, hub_id, count in found:
        also = "  " + language.translate(_("(also {short})", short=short[name])) if name in short else ""
        lines.append(f"{name:24} {count / 1e9:8.2f}e9  {hub_id}{also}")
    click.echo("\n".join(lines))
    return 0


def _predict_rows(request: RowsOptions) -> int:
    from envcheck.core import local_files
    from launch.planner import job_table

    if not request.output:
        raise UsageError(_("--rows requires -o FILE.csv for the predictions"), _("add -o predictions.csv"))
    if request.output.suffix.lower() in (".svg", ".png"):
        raise UsageError(
            _("-o {output}: --rows writes a CSV file, not a picture", output=request.output),
            _("specify a file that ends in .csv"),
        )
    rows = job_table.read_rows(request.rows)
    if request.output.exists() and request.output.samefile(request.rows):
        raise UsageError(_("-o {output} is the input table", output=request.output), _("specify another file"))
    if odd := job_table.list_unknown_columns(rows):
        click.echo(language.translate(_("envcheck: column {odd} ignored", odd=join(", ", odd))), err=True)
    predictions = list(map(job_table.predict_row, rows))
    failed = list(job_table.describe_failed_rows(predictions))
    named = [*failed, *job_table.describe_unknown_words(rows)]
    for text in named[:MOST_NAMED_ROWS]:
        click.echo(language.translate(_("envcheck: {text}", text=text)), err=True)
    if len(named) > MOST_NAMED_ROWS:
        more = _(
            "envcheck: {count} more rows with unknown words or no prediction; column `note` has them all",
            count=len(named) - MOST_NAMED_ROWS,
        )
        click.echo(language.translate(more), err=True)
    table = job_table.format_predictions(predictions)
    if str(request.output) == "-":
        click.echo(table, nl=False)
    else:
        local_files.write_file(request.output, table)
    return 0  # the table is answered: each row has its verdict, and a program that made it reads them all


@dataclass(frozen=True)
class PlanningTarget:
    """The hardware of the plan: the hosts of --hosts, this machine, or neither if it is described.

    `job` is the recipe's job for this machine.  `is_absent`: --device names devices that this machine does not have.
    """

    spread: CombinedHosts | None = None
    facts: Facts | None = None
    job: Job | None = None
    is_absent: bool = False

    @property
    def job_elsewhere(self) -> Job | None:
        """The job if this machine cannot run it and the plan is about this machine."""
        return self.job if self.job and self.job.needs_another_machine and not self.is_absent else None


def _examine_machines(request: LayoutOptions) -> PlanningTarget:
    """Collect facts of the hosts or this machine once; nothing is collected for described hardware."""
    if request.is_over_ssh:
        return PlanningTarget(_collect_spread(request))
    if request.is_described:
        return PlanningTarget()
    from envcheck.cli.commands import plan_job
    from envcheck.job.local_facts import collect_facts_here
    from envcheck.job.request import JobRequest
    from envcheck.report import screen

    with screen.show_hint(_("collecting facts from this machine ...")):
        facts = collect_facts_here(JobRequest(device=request.device))
    described = any(request.option_values[name] is not None for name in DESCRIBED)
    job = None if described else plan_job.resolve_here(request.option_values, facts)
    return PlanningTarget(
        facts=facts, job=job, is_absent=job is not None and plan_job.needs_absent_devices(job, request.device)
    )


def _lay_out_job(seen: PlanningTarget, request: LayoutOptions) -> tuple[PlannedMachine, PlannedJob]:
    """Devices and layout: the recipe's, otherwise the requested or the fastest one."""
    from envcheck.cli.commands import plan_job
    from launch.planner import default_layout
    from launch.planner import resolve as question

    machine = seen.spread.machine if seen.spread else _describe_machine(request, seen.facts)
    if seen.facts and seen.job and (seen.is_absent or not isinstance(request, SearchOptions)):
        own = plan_job.lay_out(seen.job, seen.facts, request.option_values)
        if own:
            return own
    spread = question.spread_over_nodes(machine, request.nodes, bool(request.cards))
    offer = plan_job.find_offer(request.option_values, machine.device.vendor)
    model = plan_job.name_planned_model(request.option_values, seen.job, offer)
    return machine, default_layout.choose_layout(spread, model, request.method or "", request.option_values, offer)


def _collect_spread(request: LayoutOptions) -> CombinedHosts:
    """The devices of all hosts, collected over SSH."""
    from envcheck.cli.commands import fleet
    from envcheck.collect.fact_reader import read_facts
    from envcheck.fleet import connectivity
    from envcheck.fleet.output import HostOutput
    from launch.planner import host_spread

    def read(said: HostOutput) -> tuple[str, PlannedMachine | str]:
        if said.answers is None:
            return said.host, connectivity.judge_answer(said).seen
        known = read_facts(said.answers, request.device)
        return said.host, host_spread.read_host_machine(known, request.device)

    return host_spread.combine_hosts(dict(fleet.ask_each_host(request, read, ())))


def _describe_machine(request: LayoutOptions, here: Facts | None) -> PlannedMachine:
    """The described hardware; otherwise this machine."""
    from launch.planner import machines

    per_node = request.cards_per_node
    if here is None:
        return machines.build_described_machine(
            request.hardware or request.device, request.cards, request.memory_gib, request.used_gib, per_node
        )
    from dataclasses import replace

    names = ("cards", "memory_gib", "used_gib")
    given = {name: value for name in names if (value := request.option_values[name]) is not None}
    cards = request.cards and -(-request.cards // (request.nodes or 1))
    nodes = {name: value for name in ("nodes", "cards_per_node") if (value := request.option_values[name])}
    found = machines.set_cards_per_node(
        machines.find_machine(here, request.device, cards, given | nodes), cards, per_node
    )
    told = "memory_gib" in given
    return replace(
        found, **given, each=found.each if given.keys() <= {"cards"} else (), parted=found.parted and not told
    )


def _build_unknown_document(err: UndeterminedError, seen: PlanningTarget) -> dict[str, Any]:
    """The document of a plan that cannot be computed."""
    from launch import planner
    from launch.planner.output import plan_values

    said = {"verdict": planner.UNTOLD, "reason": err.message}
    return plan_values.add_schema(said) | _build_job_values(seen)


def _build_job_values(seen: PlanningTarget) -> dict[str, Any]:
    return {"job": seen.job.as_json() if seen.job else None}


def _plan_one_job(machine: PlannedMachine, job: PlannedJob, request: PlanOptions, seen: PlanningTarget) -> int:
    from launch.planner import machines

    found = seen.spread
    answer, advised = machines.answer_for_machine(machine, job, SIZE_HINT), job
    if request.calibrate:
        from launch.planner import calibration

        correction = calibration.learn_correction(request.calibrate)
        answer, advised = calibration.correct_plan(answer, correction), calibration.adjust_card_size(job, correction)
    if request.output:
        from launch.planner.output import picture

        _save_picture(request.output, picture.draw_plan_svg(answer))
    _print_plan(answer, None if machine.parted else advised, request, seen)
    code = _get_exit_code_here(answer, seen)
    return 3 if found is not None and found.silent and code == 0 else code  # it fits on the hosts that responded


def _print_plan(answer: LaunchPlan, advised: PlannedJob | None, request: PlanOptions, seen: PlanningTarget) -> None:
    from envcheck.cli.commands import plan_job
    from envcheck.core.host_names import fold_hosts
    from launch import planner
    from launch.planner import advice, default_layout, host_spread
    from launch.planner.output import plan_values, terminal_text

    found, fits = seen.spread, answer.verdict == planner.FITS
    changes = advice.find_fitting_changes(advised) if advised and not fits else () if advised else None
    left = advice.find_headroom(advised) if advised and fits else None
    layout, kept = (
        listed(answer.job, request.option_values)
        for listed in (default_layout.list_assumed_options, default_layout.list_kept_options)
    )
    is_larger = seen.job is not None and answer.job.layout.cards > answer.job.device.cards_per_node
    if layout and (seen.is_absent or is_larger):  # the job has more nodes than this machine
        described = plan_job.list_machine_options(answer.job)
        layout, kept = described | layout, described | kept
    limits = advice.CommandLimits(
        request.nodes,
        frozenset(f"--{name.replace('_', '-')}" for name in SELECTING) if request.own_job else frozenset(),
        host_spread.list_hardware_options(found) if found else {},
    )
    changes = None if changes is None else advice.keep_layout(changes, kept, limits)
    left = advice.keep_layout_of_fewest(left, kept, limits) if left else None
    if request.as_json:
        more = (
            _build_job_values(seen)
            | plan_values.list_advice_values(changes or (), left)
            | {
                "published": [
                    f"{r.name}: {j.title}" for r, j in plan_job.list_published_jobs(answer.job, request.recipes)
                ]
            }
            | (host_spread.list_host_values(found) if found else {})
        )
        print_document(plan_values.build_plan_document(answer, more) | _describe_outcome_here(answer, request, seen))
        return
    above, below = _render_job_lines(seen, answer)
    if published := plan_job.describe_published_jobs(answer.job, request.recipes):
        below = [*below, published]
    width = _get_terminal_width()
    lines = (
        *_render_own_job(request, seen),
        *terminal_text.wrap_lines(above, width),
        *terminal_text.render_plan(answer, changes, left, request.explain, layout, width),
        *terminal_text.wrap_lines(
            (*(host_spread.format_host_lines(found, fold_hosts) if found else ()), *below), width
        ),
    )
    click.echo("\n".join(lines))  # at once: a reader of the first line does not cost the exit code


def _render_own_job(request: LayoutOptions, seen: PlanningTarget) -> list[str]:
    """The lines about what was read of the user's own job, if there is one."""
    if request.own_job is None or request.as_json:
        return []
    from envcheck.job.own_job_text import render_own_job

    return [*render_own_job(seen.job.own if seen.job and seen.job.own else request.own_job), ""]


def _render_job_lines(seen: PlanningTarget, answer: LaunchPlan) -> tuple[list[str], list[str]]:
    """Lines about the job: the other host for which it is resolved, the recipe's minimum, and what blocks it here.

    Above the plan what provisioning cannot change, below it the rest.  Requirements of this machine are left out if
    the plan is about devices that it does not have.
    """
    from envcheck.cli.commands import plan_job

    if seen.job is None:
        return [], []
    is_same = seen.job.device == answer.job.device.vendor
    assumed = seen.job.assumed_host if is_same else ""
    minimum = plan_job.describe_recipe_minimum(seen.job) if is_same else ""
    unmet = "" if seen.is_absent else plan_job.describe_unmet(seen.job)
    above, below = (unmet, "") if seen.job_elsewhere else ("", unmet)
    return list(filter(None, [assumed, above])), list(filter(None, [minimum, below]))


def _get_exit_code_here(answer: LaunchPlan, seen: PlanningTarget) -> int:
    """The exit code: fitting in memory is not enough if the machine cannot run the job for another reason."""
    from envcheck.core.errors import CHECK_FAILED

    return CHECK_FAILED if seen.job_elsewhere else _get_exit_code(answer)


def _describe_outcome_here(answer: LaunchPlan, request: PlanOptions, seen: PlanningTarget) -> dict[str, Any]:
    """Error, exit code and next step of the document."""
    from envcheck.cli.commands import plan_job
    from envcheck.core.errors import outcome_fields
    from envcheck.job.repeat_options import format_doctor_options

    if job := seen.job_elsewhere:
        words = f"envcheck doctor {format_doctor_options(job.recipe, job.method, request.recipes)}"
        return outcome_fields(_get_exit_code_here(answer, seen), plan_job.describe_unmet(job), words)
    return _describe_outcome(answer)


def _get_terminal_width() -> int:
    """The width of the terminal, or COLUMNS; 0 for a file or a pipe."""
    import shutil

    return shutil.get_terminal_size((0, 0)).columns


def _search_layouts(job: PlannedJob, request: SearchOptions) -> int:
    from dataclasses import replace

    from launch.planner import search
    from launch.planner.output import plan_values, plots, terminal_text

    layouts = search.search_layouts(job if request.grad_accum else replace(job, grad_accum=None))
    if request.output:
        _save_picture(request.output, plots.draw_search_svg(layouts))
    if request.as_json:
        print_document(
            plan_values.build_layouts_document(layouts) | _describe_best_outcome([found.plan for found in layouts])
        )
    else:
        click.echo("\n".join(terminal_text.format_search(layouts, _get_terminal_width())))
    return min((_get_exit_code(found.plan) for found in layouts), default=1)


def _sweep_option(request: SweepOptions) -> int:
    """Plan the job for each value as the command with that value does."""
    from launch.planner import machines, sweep
    from launch.planner.output import plan_values, plots, terminal_text

    axis, values = sweep.parse_axis(request.sweep)
    name = axis.replace("-", "_")
    if request.is_over_ssh and name in DESCRIBED:
        raise UsageError(_("{name} cannot be combined with {other}", name=f"--sweep {axis}", other="--hosts"), EITHER)
    seen = _examine_machines(_complete_job(_set_option(request, name, values[0])))

    def plan_value(name: str, value: int) -> LaunchPlan:
        machine, job = _lay_out_or_explain(seen, _complete_job(_set_option(request, name, value)))
        return machines.answer_for_machine(machine, job, SIZE_HINT)

    points = sweep.sweep_option(name, values, plan_value)
    if request.output:
        _save_picture(request.output, plots.draw_sweep_svg(request.sweep, points))
    if request.as_json:
        print_document(
            plan_values.build_points_document(points)
            | _describe_best_outcome([p for _unused, p in points if not isinstance(p, str)])
        )
    else:
        click.echo("\n".join(terminal_text.format_sweep(points, _get_terminal_width())))
    codes = [_get_exit_code(p) for _unused, p in points if not isinstance(p, str)]
    return min(codes, default=2)


def _set_option(request: SweepOptions, name: str, value: int) -> SweepOptions:
    """The request with this value on its command line."""
    from dataclasses import replace

    changed: dict[str, Any] = {name: value}
    return replace(request, given=request.given | {name}, **changed)


def _save_picture(path: Path, svg: str) -> None:
    from envcheck.core import local_files
    from launch.planner.output import png

    local_files.write_file(path, png.convert_svg(svg) if path.suffix.lower() == ".png" else svg)


def _describe_outcome(answer: LaunchPlan) -> dict[str, Any]:
    """Error, exit code and next step of the document."""
    from envcheck.core.errors import outcome_fields

    return outcome_fields(_get_exit_code(answer), answer.reason, "envcheck plan --search ranks other layouts")


def _describe_best_outcome(answers: list[LaunchPlan]) -> dict[str, Any]:
    from envcheck.core.errors import CHECK_FAILED, outcome_fields

    best = min(answers, key=_get_exit_code, default=None)
    return (
        outcome_fields(CHECK_FAILED, _("no parallel layout is possible")) if best is None else _describe_outcome(best)
    )


def _get_exit_code(answer: LaunchPlan) -> int:
    from envcheck.core import errors
    from launch import planner

    codes = {planner.FITS: errors.SUCCESS, planner.NOT: errors.CHECK_FAILED, planner.UNTOLD: errors.UNDETERMINED}
    return codes[answer.verdict]
