"""A job from what a person asks for: names, degrees, switches.  What is not said is assumed, and that is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envcheck.core.errors import UsageError
from launch.catalogue import configs, devices, frameworks, models
from launch.catalogue.architecture import Model
from launch.catalogue.devices import Device
from launch.catalogue.frameworks import Framework
from launch.memory import quantised
from launch.memory.job import Adapter, Layout, PlannedJob, Precision, Recompute
from launch.memory.states import moments
from launch.planner import legal, words
from launch.planner.card_memory import CardMemory

METHODS = words.METHODS
PARALLEL = ("tp", "pp", "vpp", "ep")  # degrees that a plain trainer does not have


@dataclass(frozen=True)
class Machine:
    """The cards at hand: how many, of what kind, GiB of each and GiB that others hold on the fullest of them; `said`
    is what of them was assumed; `parted`: each is cut into instances, whose size is not told."""

    device: Device
    cards: int
    memory_gib: float
    used_gib: float | None = None
    said: str = ""
    each: tuple[CardMemory, ...] = ()
    parted: bool = False


def pick_model(name: str) -> Model:
    """A folder with a config.json, or a name of the catalogue."""
    place = Path(name)
    if place.is_dir() or place.suffix == ".json":
        return configs.read(place)
    return models.find(name)


def pick_framework(name: str | None, model: Model, wants_degrees: bool, device: Device) -> tuple[Framework, str]:
    """By name; else ERNIE is trained with its own kit, a layout with degrees by a Megatron kind, the rest by
    a trainer."""
    if name:
        found = frameworks.find(name)
        if not found:
            raise UsageError(f"--framework {name} is not known", f"choose one of {', '.join(framework_names())}")
        return found, ""
    known = frameworks.frameworks()
    if model.name.startswith("ernie"):
        return known["paddle"], "framework: ERNIEKit on Paddle, as the model's publisher trains it"
    if wants_degrees:
        kind = device.parallel_framework
        return known[kind], f"framework: {kind}, since tensor, pipeline or expert degrees are given"
    return known["generic"], "framework: Hugging Face trainer, with PEFT for adapters"


def framework_names() -> list[str]:
    """What --framework takes, as people write it."""
    return sorted({word for f in frameworks.frameworks().values() for word in f.names if " " not in word})


def precision(f: Framework, optimizer: str = "adamw") -> Precision:
    master = 0.0 if f.weight == 4.0 else f.master
    return Precision(f.weight, f.gradient, master, moments(optimizer, f.weight, master))


def build(machine: Machine, model_name: str, method: str, asked: Mapping[str, Any]) -> PlannedJob:
    """The job; `asked` holds the options that were given, by name."""
    job = draft(machine, model_name, method, asked)
    refuse(job)
    return job


def draft(machine: Machine, model_name: str, method: str, asked: Mapping[str, Any]) -> PlannedJob:
    """The job as it was asked for, whether or not the framework would take it."""
    model = pick_model(model_name)
    words.checked("method", method, METHODS)
    words.checked("optimizer", asked.get("optimizer"), words.OPTIMIZERS)
    degrees = {k: asked.get(k) for k in (*PARALLEL, "cp")}
    f, why = pick_framework(asked.get("framework"), model, wants_degrees(asked), machine.device)
    assumed = [text for text in (why, machine.said, devices.assumed_card(machine.device)) if text]
    if model.name not in models.tables():
        assumed += configs.said(Path(model_name))
    tp, pp, vpp, ep, cp = (degrees[k] or 1 for k in (*PARALLEL, "cp"))
    layout = Layout(tp, pp, vpp, ep, asked.get("etp"), cp, machine.cards)
    tuner = method.rpartition("-")[2]
    trains_all = not tuner.startswith(words.TUNERS)
    job = PlannedJob(
        model=model,
        framework=f,
        device=machine.device if machine.used_gib is None else replace(machine.device, idle_gib=machine.used_gib),
        memory_gib=machine.memory_gib,
        layout=layout,
        method="full" if trains_all else "lora",
        pairs=method.startswith(words.PAIRS),
        reference=trains_all and method.startswith(words.REFERENCED),
        precision=precision(f, asked.get("optimizer") or "adamw"),
        sharding=sharding(asked, f, layout, assumed),
        offload=words.offload(asked.get("offload")),
        recompute=recompute(asked, assumed),
        seq_len=asked.get("seq_len") or default_length(model, assumed),
        micro_batch=asked.get("micro_batch") or 1,
        grad_accum=asked.get("grad_accum"),
        adapter=adapter(asked, model, trains_all, assumed),
        quant=quant(asked, method, f, machine.device, trains_all),
        flash=asked.get("flash", True),
        fused_loss=asked["fused_loss"] if asked.get("fused_loss") is not None else f.name == "paddle",
        sequence_parallel=layout.tp > 1,
        optimizer=asked.get("optimizer") or "adamw",
        meter="smi",
        assumed=tuple(assumed),
    )
    job = replace(job, assumed=(*assumed, *devices.assumed_links(job.device, machine.cards)))
    contradictions(asked, method, machine, trains_all)
    return job


def refuse(job: PlannedJob) -> None:
    """Raise what the framework would refuse, all of it in one message."""
    against = list(legal.refusals(job))
    if against:
        raise UsageError("; ".join(against), "change the named options, or let --search choose a layout")


def wants_degrees(asked: Mapping[str, Any]) -> bool:
    """Whether degrees are said, or swept, that a plain trainer does not have."""
    swept = (asked.get("sweep") or "").partition("=")[0].strip().lstrip("-")
    return swept in PARALLEL or any((asked.get(k) or 1) > 1 for k in PARALLEL)


def contradictions(asked: Mapping[str, Any], method: str, machine: Machine, trains_all: bool) -> None:
    """Refuse options that the method or the card cannot have, by the names that were typed."""
    if trains_all:
        for name in ("lora_rank", "lora_targets"):
            if asked.get(name):
                raise UsageError(
                    f"--{name.replace('_', '-')} {asked[name]}: --method {method} trains the whole model, no adapters",
                    "leave it out, or use --method lora",
                )
    used = asked.get("used_gib")
    if used is not None and not used < machine.memory_gib:
        raise UsageError(
            f"--used-gib {used:g}: a card has {machine.memory_gib:g} GiB", f"from 0 to below {machine.memory_gib:g}"
        )
    optimizer = asked.get("optimizer") or ""
    if "8bit" in optimizer and not machine.device.four_bit:
        raise UsageError(
            f"--optimizer {optimizer}: bitsandbytes has no kernels for {machine.device.name}", "use adamw or adafactor"
        )


def sharding(asked: Mapping[str, Any], f: Framework, layout: Layout, assumed: list[str]) -> str:
    said = asked.get("sharding")
    if said:
        return words.sharding(str(said), f)
    if layout.dense_shards > 1 and "dist_opt" in f.sharded:
        assumed.append("sharding: optimizer states over the data-parallel group (stage1)")
        return "dist_opt"
    if layout.dense_shards > 1 and "fsdp" in f.sharded and "tp" in f.degrees:
        assumed.append(f"sharding: FSDP over the data-parallel group, as {f.name} has it by default")
        return "fsdp"
    return "none"


def recompute(asked: Mapping[str, Any], assumed: list[str]) -> Recompute:
    said = asked.get("recompute")
    if not said:
        assumed.append("recompute: full, as fine-tuning recipes have it")
    return Recompute(words.checked("recompute", said, words.RECOMPUTES) or "full")


def default_length(model: Model, assumed: list[str]) -> int:
    length = 8192 if model.name.startswith("ernie") else 2048
    length = min(length, model.max_positions or length)
    assumed.append(f"sequence length: {length} tokens; name your longest sample with --seq-len")
    return length


def adapter(asked: Mapping[str, Any], model: Model, trains_all: bool, assumed: list[str]) -> Adapter:
    if trains_all:
        return Adapter()
    rank = asked.get("lora_rank")
    targets, note = words.targets(asked.get("lora_targets"), model)
    if not rank:
        rank = 32
        assumed.append(f"adapters: rank 32{'' if asked.get('lora_targets') else ' on all linear layers'}")
    if note:
        assumed.append(note)
    return Adapter(rank, targets)


def quant(asked: Mapping[str, Any], method: str, f: Framework, device: Device, trains_all: bool) -> str:
    """The full name of the quantised base; qlora without a name is the framework's own habit."""
    said = asked.get("quant") or ""
    if said in ("", "none") and not method.endswith("qlora"):
        return ""
    option = f"--quant {said}" if said else f"--method {method}"
    if trains_all:
        raise UsageError(f"{option}: a quantised base cannot be trained in full", "use --method qlora")
    name = words.base(said, f)
    if name in quantised.LIFTED and not device.four_bit:
        other = [n for n in f.quants if n not in quantised.LIFTED]
        raise UsageError(
            f"{option}: bitsandbytes has no kernels for {device.name}",
            f"use --quant {' or '.join(other)}, or --method lora" if other else "use --method lora",
        )
    return name


def on_nodes(machine: Machine, nodes: int | None, cards_said: bool) -> Machine:
    """The cards spread evenly over that many machines; more than they can hold are refused."""
    if nodes is None:
        return machine
    holds = machine.device.cards_per_node
    cards = machine.cards if cards_said else machine.cards * nodes
    if cards > nodes * holds:
        raise UsageError(
            f"--cards {cards} on --nodes {nodes}: a node holds {holds}", f"at least {-(-cards // holds)} nodes"
        )
    if cards % nodes:
        raise UsageError(
            f"--cards {cards} on --nodes {nodes}: each node has equally many",
            f"a multiple of {nodes}, up to {nodes * holds}",
        )
    return replace(machine, cards=cards, device=replace(machine.device, cards_per_node=cards // nodes))
