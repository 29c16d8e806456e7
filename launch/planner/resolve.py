"""Build a job from the options of the command line; assumed values are recorded in the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envcheck.core import suggestions
from envcheck.core.errors import UsageError
from envcheck.core.messages import NOTHING, Message, _, join
from launch.catalogue import devices, frameworks, hub_cache, model_config, model_fields, models
from launch.catalogue.architecture import Model
from launch.catalogue.devices import DeviceModel
from launch.catalogue.frameworks import Framework
from launch.memory import open_inputs, quantised
from launch.memory.planned_job import Adapter, ParallelLayout, PlannedJob, Precision, Recompute, adapt_model
from launch.memory.saved_activations import C
from launch.memory.states import moment_bytes
from launch.planner import layout_rules, option_words
from launch.planner.card_memory import CardMemory

METHODS = option_words.METHODS
PARALLEL = ("tp", "pp", "vpp", "ep")  # degrees that a plain trainer does not support


@dataclass(frozen=True)
class PlannedMachine:
    """The cards to plan for: their kind, number, size, and the GiB in use on the fullest one (None: as when idle).

    `note` lists what was assumed about them.  `each` are the cards of a real machine.  `parted`: MIG divides them into
    instances of unknown size.
    """

    device: DeviceModel
    cards: int
    memory_gib: float
    used_gib: float | None = None
    note: str = ""
    each: tuple[CardMemory, ...] = ()
    parted: bool = False


def pick_model(name: str) -> Model:
    """Return the model of its dimensions, of a folder with a config.json, of a name in the catalogue, or of one in a
    local hub cache."""
    if model_fields.has_fields(name):
        return model_fields.parse_model_fields(name)
    place = Path(name)
    if place.is_dir() or place.suffix == ".json":
        return model_config.read_model(place)
    try:
        return models.find_model(name)
    except UsageError:
        if cached := hub_cache.find_cached_model(name):
            return model_config.read_model(cached, name.rpartition("/")[2])
        raise


def list_model_assumptions(name: str, model: Model) -> list[Message]:
    """Return what is assumed about a model: of its vision tower, and of one that is not in the catalogue."""
    tower = _("vision tower: frozen; the tokens of an image are part of the sequence length")
    return [*([tower] if model.vision_params else []), *_list_read_assumptions(name, model)]


def _list_read_assumptions(name: str, model: Model) -> list[Message]:
    """Return what is assumed about a model that is not in the catalogue."""
    if model.name in models.load_tables() or model_fields.has_fields(name):
        return []
    place = Path(name)
    if place.is_dir() or place.suffix == ".json":
        return model_config.list_folder_assumptions(place)
    cached = hub_cache.find_cached_model(name)
    if cached is None:
        return []
    note = _("model: config.json of {folder}", folder=cached)
    return [note, *model_config.list_folder_assumptions(cached)]


def pick_framework(
    name: str | None, model: Model, wants_degrees: bool, device: DeviceModel
) -> tuple[Framework, Message]:
    """Return a framework and a note if it is assumed.

    By name; else ERNIEKit for ERNIE, a Megatron kind for layouts with degrees, the Hugging Face trainer for the rest.
    """
    if name:
        found = frameworks.find_framework(name)
        if not found:
            legal = framework_names()
            more = _("choose one of {legal}", legal=join(", ", legal))
            raise UsageError(_("unknown --framework {name}", name=name), suggestions.suggest(name, legal, more=more))
        return found, describe_library(found, name)
    known = frameworks.load_frameworks()
    if model.name.startswith("ernie"):
        return known["paddle"], _("framework: ERNIEKit on Paddle (used by the model's publisher)")
    if wants_degrees:
        kind = device.parallel_framework
        return known[kind], _("framework: {kind}, because tensor, pipeline or expert degrees are set", kind=kind)
    return known["generic"], _("framework: Hugging Face trainer, with PEFT for adapters")


def describe_library(framework: Framework, name: str) -> Message:
    """Return a note if the framework is a library, whose training loop is not known."""
    if not framework.is_library:
        return NOTHING
    return _("framework: {name} is a library; its loop is planned as that of a Hugging Face trainer", name=name)


def framework_names() -> list[str]:
    """Return the values of --framework."""
    return sorted({word for f in frameworks.load_frameworks().values() for word in f.names if " " not in word})


def choose_precision(f: Framework, optimizer: str = "adamw", precision: str = "") -> Precision:
    """Return the bytes per parameter that the framework keeps with this optimizer.

    `precision`: fp32 or fp16 of a framework that computes in the type of its weights, "" for the framework's usual one.
    """
    if precision == "fp32":
        return Precision(4.0, 4.0, 0.0, moment_bytes(optimizer, 4.0, 0.0), 4.0)
    master = 0.0 if f.weight == 4.0 else f.half_master if precision == "fp16" else f.master
    return Precision(
        f.weight, f.gradient, master, moment_bytes(optimizer, f.weight, master), f.weight if f.full_precision else C
    )


def doubt_flash_kernel(f: Framework, precision: str) -> Framework:
    """Return the framework; without certainty about its attention in fp32, for which FlashAttention has no kernel."""
    return replace(f, flash_doubtful=True) if precision == "fp32" else f


def build_planned_job(machine: PlannedMachine, model_name: str, method: str, asked: Mapping[str, Any]) -> PlannedJob:
    """Return the job; `asked` are the options given, by name.  Raises UsageError if it is invalid."""
    job = draft_planned_job(machine, model_name, method, asked)
    refuse_illegal(job)
    return job


def draft_planned_job(machine: PlannedMachine, model_name: str, method: str, asked: Mapping[str, Any]) -> PlannedJob:
    """Return the job as requested, even if the framework would reject it.  Raises UsageError for unknown values."""
    model = pick_model(model_name)
    method = option_words.check_choice("method", method, METHODS)
    optimizer = option_words.check_choice("optimizer", asked.get("optimizer"), option_words.OPTIMIZERS) or "adamw"
    degrees = {k: asked.get(k) for k in (*PARALLEL, "cp")}
    f, why = pick_framework(asked.get("framework"), model, wants_degrees(asked), machine.device)
    precision = asked.get("precision") or ""
    f = doubt_flash_kernel(f, precision)
    assumed = [text for text in (why, machine.note, devices.assumed_card(machine.device)) if text]
    assumed += list_model_assumptions(model_name, model)
    tp, pp, vpp, ep, cp = (degrees[k] or 1 for k in (*PARALLEL, "cp"))
    layout = ParallelLayout(tp, pp, vpp, ep, asked.get("etp"), cp, machine.cards)
    tuner = method.rpartition("-")[2]
    trains_all = not tuner.startswith(option_words.TUNERS)
    away = option_words.parse_offload(asked.get("offload"))
    job = PlannedJob(
        model=adapt_model(model, f),
        framework=f,
        device=machine.device if machine.used_gib is None else replace(machine.device, idle_gib=machine.used_gib),
        memory_gib=machine.memory_gib,
        layout=layout,
        method="full" if trains_all else "lora",
        stage=option_words.parse_stage(method),
        pairs=method.startswith(option_words.PAIRS),
        reference=trains_all and method.startswith(option_words.REFERENCED),
        precision=choose_precision(f, optimizer, precision),
        half=precision == "fp16",
        sharding=choose_sharding(asked, f, layout, assumed),
        offload=away.kinds,
        offload_share=away.share,
        offload_layers=away.layers,
        recompute=choose_recompute(asked, assumed),
        seq_len=asked.get("seq_len") or default_length(model, assumed),
        micro_batch=asked.get("micro_batch") or 1,
        grad_accum=asked.get("grad_accum"),
        adapter=choose_adapter(asked, model, trains_all, assumed),
        quant=choose_quantised_base(asked, method, f, machine.device, trains_all),
        flash=asked.get("flash", True),
        fused_loss=asked["fused_loss"] if asked.get("fused_loss") is not None else f.name == "paddle",
        sequence_parallel=None if asked.get("sequence_parallel") is None else bool(asked["sequence_parallel"]),
        optimizer=optimizer,
        meter="smi",
        assumed=tuple(assumed),
        open_inputs=frozenset(
            name for name in open_inputs.NAMES if name not in open_inputs.OF_TABLES and asked.get(name) is None
        ),
    )
    job = replace(job, assumed=(*assumed, *devices.assumed_links(job.device, machine.cards)))
    check_contradictions(asked, method, machine, trains_all)
    return quantised.cast_adapters(job)


def refuse_illegal(job: PlannedJob) -> None:
    """Raise UsageError with everything that the framework would reject, in one message."""
    reasons = list(layout_rules.list_refusals(job))
    if reasons:
        raise UsageError(join("; ", reasons), _("change these options, or choose a layout with --search"))


def wants_degrees(asked: Mapping[str, Any]) -> bool:
    """Whether degrees are given that a plain trainer does not support."""
    return any((asked.get(k) or 1) > 1 for k in PARALLEL)


def check_contradictions(asked: Mapping[str, Any], method: str, machine: PlannedMachine, trains_all: bool) -> None:
    """Raise UsageError for options that method or card do not support."""
    if trains_all:
        for name in ("lora_rank", "lora_targets"):
            if asked.get(name):
                raise UsageError(
                    _(
                        "--{option} {value}: --method {method} trains the full model and uses no adapters",
                        option=name.replace("_", "-"),
                        value=asked[name],
                        method=method,
                    ),
                    _("remove it, or use --method lora"),
                )
    used = asked.get("used_gib")
    if used is not None and not used < machine.memory_gib:
        raise UsageError(
            _("--used-gib {used:g}: a card has {memory_gib:g} GiB", used=used, memory_gib=machine.memory_gib),
            _("use at least 0 and less than {memory_gib:g}", memory_gib=machine.memory_gib),
        )
    optimizer = asked.get("optimizer") or ""
    if "8bit" in optimizer and not machine.device.four_bit:
        raise UsageError(
            _(
                "--optimizer {optimizer}: bitsandbytes has no kernels for {name}",
                optimizer=optimizer,
                name=machine.device.name,
            ),
            _("use adamw or adafactor"),
        )


def choose_sharding(asked: Mapping[str, Any], f: Framework, layout: ParallelLayout, assumed: list[str]) -> str:
    """Return the given sharding scheme or the framework's default; a default is added to `assumed`."""
    given = asked.get("sharding")
    if given:
        return option_words.parse_sharding(str(given), f)
    scheme = assume_sharding(f, layout.dense_shards)
    if scheme == "dist_opt":
        assumed.append(_("sharding: optimizer states over the data-parallel group (stage1)"))
    if scheme == "fsdp":
        assumed.append(_("sharding: FSDP over the data-parallel group ({name} default)", name=f.name))
    return scheme


def assume_sharding(f: Framework, dense_shards: int) -> str:
    """Return the sharding scheme of a job that gives none."""
    if dense_shards > 1 and "dist_opt" in f.sharded:
        return "dist_opt"
    return "fsdp" if dense_shards > 1 and "fsdp" in f.sharded and "tp" in f.degrees else "none"


def choose_recompute(asked: Mapping[str, Any], assumed: list[str]) -> Recompute:
    """Return the given kind of recompute or full; the default is added to `assumed`."""
    given = asked.get("recompute")
    if not given:
        assumed.append(_("recompute: full, as in most fine-tuning recipes"))
    return Recompute(option_words.check_choice("recompute", given, option_words.RECOMPUTES) or "full")


def default_length(model: Model, assumed: list[str]) -> int:
    """Return the default sequence length in tokens, and add it to `assumed`."""
    length = 8192 if model.name.startswith("ernie") else 2048
    length = min(length, model.max_positions or length)
    assumed.append(
        _("sequence length: {length} tokens; set the length of your longest sample with --seq-len", length=length)
    )
    return length


def choose_adapter(asked: Mapping[str, Any], model: Model, trains_all: bool, assumed: list[str]) -> Adapter:
    """Return rank and targets of the adapters; defaults are added to `assumed`."""
    if trains_all:
        return Adapter()
    rank = asked.get("lora_rank")
    targets, note = option_words.parse_targets(asked.get("lora_targets"), model)
    if not rank:
        rank = option_words.ADAPTER_RANK
        assumed.append(
            _("adapters: rank {rank}", rank=rank)
            if asked.get("lora_targets")
            else _("adapters: rank {rank} on all linear layers", rank=rank)
        )
    if note:
        assumed.append(note)
    return Adapter(rank, targets)


def choose_quantised_base(
    asked: Mapping[str, Any], method: str, f: Framework, device: DeviceModel, trains_all: bool
) -> str:
    """Return the full name of the quantised base model, "" for none; qlora defaults to the framework's first."""
    given = asked.get("quant") or ""
    if given in ("", "none") and not method.endswith("qlora"):
        return ""
    option = f"--quant {given}" if given else f"--method {method}"
    if trains_all:
        raise UsageError(
            _("{option}: a quantised base cannot be trained in full", option=option), _("use --method qlora")
        )
    name = option_words.parse_quantised_base(given, f)
    if name in quantised.LIFTED and not device.four_bit:
        other = [n for n in f.quants if n not in quantised.LIFTED]
        raise UsageError(
            _("{option}: bitsandbytes has no kernels for {name}", option=option, name=device.name),
            _("use --quant {other}, or --method lora", other=join(_(" or "), other))
            if other
            else _("use --method lora"),
        )
    return name


def spread_over_nodes(machine: PlannedMachine, nodes: int | None, cards_given: bool) -> PlannedMachine:
    """Return the machine with its cards spread evenly over `nodes` nodes; UsageError if they do not fit.

    `cards_given`: `machine.cards` is the total, else the number per node.
    """
    if nodes is None:
        return machine
    holds = machine.device.largest_node
    cards = machine.cards if cards_given else machine.cards * nodes
    if cards > nodes * holds:
        raise UsageError(
            _("--cards {cards} with --nodes {nodes}: a node has {holds} cards", cards=cards, nodes=nodes, holds=holds),
            _(
                "use at least {least} nodes, or set --cards-per-node {each}",
                least=-(-cards // holds),
                each=-(-cards // nodes),
            ),
        )
    if cards % nodes:
        raise UsageError(
            _(
                "--cards {cards} with --nodes {nodes}: every node needs the same number of cards",
                cards=cards,
                nodes=nodes,
            ),
            _("use a multiple of {nodes}, up to {most}", nodes=nodes, most=nodes * holds),
        )
    return replace(machine, cards=cards, device=replace(machine.device, cards_per_node=cards // nodes))
