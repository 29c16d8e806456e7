"""envcheck plan: will this job fit, on these cards, and what is the smallest change that makes it fit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envcheck.cli import options
from envcheck.core import language
from envcheck.core.version import SCHEMA_VERSION
from envcheck.fleet import argv as fleet_words

if TYPE_CHECKING:
    from envcheck.core.errors import UntoldError
    from envcheck.core.facts import Facts
    from envcheck.job.job import Job
    from launch.memory.job import PlannedJob
    from launch.planner import LaunchPlan
    from launch.planner.resolve import Machine
    from launch.planner.spread import Spread

NUMBER = click.IntRange(1, 1_000_000)
TOKENS, BATCH = click.IntRange(1, 100_000_000), click.IntRange(1, 65_536)  # as launch.planner.legal has them
DESCRIBED = ("cards", "nodes", "memory_gib", "used_gib")  # of machines that are not asked


@click.command()
@options.model
@options.method
@options.device
@options.framework
@options.recipes_folder
@options.variant
@options.node_role
@options.fleet
@click.option("--cards", type=NUMBER, help="How many cards (Iluvatar: dies); else those of this machine.")
@click.option("--nodes", type=NUMBER, help="How many machines those cards are in.")
@click.option("--memory-gib", type=click.FloatRange(0.5, 4096), help="Memory of one card; else this machine's.")
@click.option("--used-gib", type=click.FloatRange(0, 4096), help="In use on a card before the job; else as idle.")
@click.option("--tp", type=NUMBER, help="Tensor parallel degree.")
@click.option("--pp", type=NUMBER, help="Pipeline stages.")
@click.option("--vpp", type=NUMBER, help="Chunks of an interleaved pipeline.")
@click.option("--ep", type=NUMBER, help="Expert parallel degree.")
@click.option("--etp", type=NUMBER, help="Tensor parallel degree of the experts; else as --tp.")
@click.option("--cp", type=NUMBER, help="Context parallel degree.")
@click.option("--sharding", "--zero", "sharding", help="none, stage1, stage2, stage3 (or 0 to 3), fsdp.")
@click.option("--offload", help="optimizer, tensorwise, params, activations; joined by +.")
@click.option("--recompute", help="full, selective, none.")
@click.option("--seq-len", type=TOKENS, help="Tokens of the longest sample.")
@click.option("--micro-batch", type=BATCH, help="Samples of one forward pass of one card.")
@click.option("--grad-accum", type=BATCH, help="Micro batches of one step.")
@click.option("--lora-rank", type=NUMBER)
@click.option("--lora-targets", help="all-linear, qkv, qv, attn, mlp, or modules: q_proj,v_proj.")
@click.option("--quant", help="nf4, int4, int8, wint4/8, ...: a quantised base under adapters.")
@click.option("--optimizer", help="adamw, adamw8bit, muon, ...")
@click.option("--flash/--no-flash", default=True, help="A flash attention kernel.")
@click.option("--fused-loss/--no-fused-loss", default=None, help="A chunked loss (Liger, cut cross entropy).")
@click.option("--list-models", is_flag=True, help="Name the models that it knows, and stop.")
@click.option("--search", is_flag=True, help="Rank all layouts that the framework accepts.")
@click.option("--sweep", metavar="NAME=A..B", help="seq-len=2048..131072, micro-batch=1,2,4, ...")
@click.option("--explain", is_flag=True, help="The formula and source of every term.")
@click.option(
    "--calibrate", type=click.Path(exists=True, path_type=Path), help="Runs of train: correct by what they measured."
)
@click.option("--rows", type=click.Path(path_type=Path), help="A CSV of jobs; predictions go to -o.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A picture (.svg, .png), or the CSV of --rows.")
@options.json_output
def plan(**asked: Any) -> int:
    """Would it fit, here or on a machine that is described; why; and what would.

    Exit code 0: fits. 1: does not fit. 2: asked wrongly. 3: cannot be told.

    \b
    envcheck plan --model 21b --method lora                                     on this machine's cards
    envcheck plan --model 300b --method sft --device npu --cards 128 --memory-gib 64 --tp 8 --pp 16 --offload optimizer
    envcheck plan --model ./my-model --method lora --device nvidia --cards 8 --search
    envcheck plan --model qwen-7b --method lora --device npu --cards 1 --sweep seq-len=512..32768
    envcheck plan --rows jobs.csv -o predictions.csv
    envcheck plan --model 300b --method sft --hosts node[01-08]                 on the cards of eight machines, over ssh
    """
    from envcheck.core.errors import UntoldError, UsageError

    if asked["list_models"]:
        _alone("--list-models", "--json")
        return _models(asked["as_json"])
    if asked["rows"]:
        _alone("--rows", "-o")
        return _rows(asked)
    if not (asked["model"] and asked["method"]):
        raise UsageError("plan needs --model and --method", "as in envcheck plan --model 21b --method lora")
    if asked["sweep"] and asked["search"]:
        raise UsageError("--sweep and --search are two questions", "ask one after the other")
    if asked["calibrate"] and (asked["sweep"] or asked["search"]):
        raise UsageError("--calibrate corrects one plan, no --sweep or --search", "leave one of them out")
    if asked["output"] and asked["output"].suffix.lower() not in (".svg", ".png"):
        raise UsageError(f"-o {asked['output']}: only .svg and .png can be drawn", "name a file that ends in .svg")
    one = not (asked["sweep"] or asked["search"])
    seen = _examined(asked)
    try:
        machine, job = _laid_out(seen, asked)
    except UntoldError as err:
        if one:
            err.document = _untold_document(err, seen)
        raise
    if asked["sweep"]:
        return _sweep(job, asked)
    return _search(job, asked) if asked["search"] else _one(machine, job, asked, seen)


def _alone(option: str, with_it: str) -> None:
    """UsageError for what would not be read beside the option."""
    from envcheck.cli.commands.provision import _given
    from envcheck.core.errors import UsageError

    for other in _given():
        if other not in (option, with_it):
            raise UsageError(f"{other} would not be read beside {option}", "leave one of them out")


def _models(as_json: bool) -> int:
    import json

    from launch.catalogue import models

    found, short = models.listed(), {full: name for name, full in models.SHORT.items()}
    if as_json:
        keys = ("name", "hub_id", "parameters", "short")
        rows = [dict(zip(keys, (*one, short.get(one[0])), strict=True)) for one in found]
        click.echo(json.dumps({"schema": SCHEMA_VERSION, "models": rows}, indent=1))
        return 0
    for name, hub_id, count in found:
        also = "  " + language.say(f"(also {short[name]})") if name in short else ""
        click.echo(f"{name:24} {count / 1e9:8.2f}e9  {hub_id}{also}")
    return 0


def _rows(asked: dict[str, Any]) -> int:
    from envcheck.core.errors import UsageError
    from launch.planner import table

    if not asked["output"]:
        raise UsageError("--rows needs -o FILE.csv for the predictions", "add -o predictions.csv")
    rows = table.read(asked["rows"])
    if asked["output"].exists() and asked["output"].samefile(asked["rows"]):
        raise UsageError(f"-o {asked['output']} is the table that is asked about", "name another file")
    if odd := table.unknown(rows):
        click.echo(language.say(f"envcheck: not read: column {', '.join(odd)}"), err=True)
    table.write(map(table.predict, rows), asked["output"])
    return 0


@dataclass(frozen=True)
class PlannedFor:
    """Where the job is planned for: the hosts of --hosts, the machine that this runs on, or neither where one is
    described.  `job` is the recipe's job for this machine."""

    spread: Spread | None = None
    facts: Facts | None = None
    job: Job | None = None


def _examined(asked: dict[str, Any]) -> PlannedFor:
    """The hosts or this machine, asked once; nobody is asked where its cards or memory are described."""
    if fleet_words.chosen(asked):
        return PlannedFor(_spread(asked))
    if _is_described(asked):
        return PlannedFor()
    from envcheck.cli.commands import plan_job
    from envcheck.job.here import collect_facts_here
    from envcheck.job.request import JobRequest
    from envcheck.report import screen

    with screen.hint("asking the machine ..."):
        facts = collect_facts_here(JobRequest(device=asked["device"]))
    described = any(asked[name] is not None for name in DESCRIBED)
    return PlannedFor(facts=facts, job=None if described else plan_job.resolve_here(asked, facts))


def _is_described(asked: dict[str, Any]) -> bool:
    return asked["device"] != "auto" and bool(asked["cards"] or asked["memory_gib"])


def _laid_out(seen: PlannedFor, asked: dict[str, Any]) -> tuple[Machine, PlannedJob]:
    """The cards and the job on them: as the recipe has it, else in the layout that was asked for or is fastest."""
    from envcheck.cli.commands import plan_job
    from launch.planner import layouts
    from launch.planner import resolve as question

    machine = seen.spread.machine if seen.spread else _machine(asked, seen.facts)
    if seen.facts and seen.job and not asked["search"] and (own := plan_job.lay_out(seen.job, seen.facts, asked)):
        return own
    spread = question.on_nodes(machine, asked["nodes"], bool(asked["cards"]))
    offer = plan_job.find_offer(asked, machine.device.vendor)
    model = plan_job.name_model(seen.job) or asked["model"]  # a recipe's name stands for its model
    return machine, layouts.laid_out(spread, model, asked["method"], asked, offer)


def _spread(asked: dict[str, Any]) -> Spread:
    """The cards of all hosts, asked over ssh."""
    from envcheck.cli.commands import fleet
    from envcheck.collect import facts
    from envcheck.core.errors import EnvcheckError, UsageError
    from envcheck.fleet import connectivity, evaluate
    from envcheck.fleet.output import Said
    from launch.planner import spread

    if told := [name for name in DESCRIBED if asked[name] is not None]:
        raise UsageError(f"--{told[0].replace('_', '-')} describes cards, and the hosts of --hosts tell theirs",
                         "leave one of them out")  # fmt: skip

    def read(said: Said) -> tuple[str, Machine | str]:
        if said.packed is None:
            return said.host, connectivity.reached(said).seen
        try:
            answers, device = evaluate.opened(said.packed)
        except EnvcheckError as err:
            return said.host, err.message
        known = facts.read(answers, device if asked["device"] == "auto" else asked["device"])
        return said.host, spread.read(known, asked["device"])

    return spread.spread(dict(fleet.each_asked(asked, read, ())))


def _machine(asked: dict[str, Any], here: Facts | None) -> Machine:
    """Described where its cards or memory are; else the one that this runs on."""
    from launch.planner import machines

    if here is None:
        return machines.described(asked["device"], asked["cards"], asked["memory_gib"], asked["used_gib"])
    from dataclasses import replace

    given = {k: asked[k] for k in ("cards", "memory_gib", "used_gib") if asked[k] is not None}
    cards = asked["cards"] and -(-asked["cards"] // (asked["nodes"] or 1))
    nodes = {"nodes": asked["nodes"]} if asked["nodes"] else {}
    found = machines.of_facts(here, asked["device"], cards, given | nodes)
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


def _one(machine: Machine, job: PlannedJob, asked: dict[str, Any], seen: PlannedFor) -> int:
    from launch.planner import machines

    found = seen.spread
    answer, advised = machines.answer(machine, job, "name an instance's size: --memory-gib"), job
    if asked["calibrate"]:
        from launch.planner import calibration

        correction = calibration.learn(asked["calibrate"])
        answer, advised = calibration.apply(answer, correction), calibration.seen(job, correction)
    if asked["output"]:
        from launch.planner.output import picture

        _save(asked["output"], picture.plan_svg(answer))
    _print(answer, None if machine.parted else advised, asked, seen)
    left_out = found is not None and found.silent and _code(answer) == 0  # it fits on those that told of theirs
    return 3 if left_out else _code(answer)


def _print(answer: LaunchPlan, advised: PlannedJob | None, asked: dict[str, Any], seen: PlannedFor) -> None:
    import json

    from envcheck.core.host_names import fold_hosts
    from launch import planner
    from launch.planner import advice, layouts, spread
    from launch.planner.output import documents, show

    found, fits = seen.spread, answer.verdict == planner.FITS
    changes = advice.fitting(advised) if advised and not fits else () if advised else None
    left = advice.room(advised) if advised and fits else None
    layout = layouts.unsaid(answer.job, asked)
    if asked["as_json"]:
        more = _of_job(seen) | documents.more(changes or (), left, layout) | (spread.document(found) if found else {})
        click.echo(json.dumps(documents.document(answer, more), indent=1))
        return
    assumed, blocked = _job_lines(seen, answer)
    for line in show.wrapped(assumed, _columns()):
        click.echo(line)
    for line in show.screen(answer, changes, left, asked["explain"], layout, _columns()):
        click.echo(line)
    for line in show.wrapped((*(spread.lines(found, fold_hosts) if found else ()), *blocked), _columns()):
        click.echo(line)


def _job_lines(seen: PlannedFor, answer: LaunchPlan) -> tuple[list[str], list[str]]:
    """For which other host the job is resolved, above the plan; and what blocks it on this one, below."""
    from envcheck.cli.commands import plan_job

    if seen.job is None:
        return [], []
    assumed = seen.job.assumed_host if seen.job.device == answer.job.device.vendor else ""
    return list(filter(None, [assumed])), list(filter(None, [plan_job.blocked_line(seen.job)]))


def _columns() -> int:
    """Of the terminal, or as COLUMNS says; 0 where what is written goes into a file or a pipe."""
    import shutil

    return shutil.get_terminal_size((0, 0)).columns


def _search(job: PlannedJob, asked: dict[str, Any]) -> int:
    import json
    from dataclasses import replace

    from launch.planner import search
    from launch.planner.output import documents, plots, show

    layouts = search.search(job if asked["grad_accum"] else replace(job, grad_accum=None))
    if asked["output"]:
        _save(asked["output"], plots.search_svg(layouts))
    if asked["as_json"]:
        click.echo(json.dumps(documents.layouts(layouts), indent=1))
    else:
        click.echo("\n".join(show.found(layouts, _columns())))
    return min((_code(found.plan) for found in layouts), default=1)


def _sweep(job: PlannedJob, asked: dict[str, Any]) -> int:
    import json

    from launch.planner import sweep
    from launch.planner.output import documents, plots, show

    points = list(sweep.sweep(job, asked["sweep"]))
    if asked["output"]:
        _save(asked["output"], plots.sweep_svg(asked["sweep"], points))
    if asked["as_json"]:
        click.echo(json.dumps(documents.points(points), indent=1))
    else:
        click.echo("\n".join(show.swept(points, _columns())))
    codes = [_code(p) for _, p in points if not isinstance(p, str)]
    return min(codes, default=2)


def _save(path: Path, svg: str) -> None:
    from envcheck.core.errors import UsageError
    from launch.planner.output import png

    drawn = png.of_svg(svg) if path.suffix.lower() == ".png" else svg.encode()
    try:
        path.write_bytes(drawn)
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror}", "name a file that can be written") from err


def _code(answer: LaunchPlan) -> int:
    from envcheck.core import errors
    from launch import planner

    codes = {planner.FITS: errors.FIT, planner.NOT: errors.UNFIT, planner.UNTOLD: errors.UNTOLD}
    return codes[answer.verdict]
