"""envcheck plan: will this job fit, on these cards, and what is the smallest change that makes it fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envcheck.cli import options
from envcheck.core import language
from envcheck.core.version import SCHEMA_VERSION
from envcheck.fleet import argv as fleet_words

if TYPE_CHECKING:
    from launch.memory.job import Job
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
    from envcheck.core.errors import UsageError

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
    found = _spread(asked) if fleet_words.chosen(asked) else None
    machine = found.machine if found else _machine(asked)
    job = _job(machine, asked)
    if asked["sweep"]:
        return _sweep(job, asked)
    return _search(job, asked) if asked["search"] else _one(machine, job, asked, found)


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


def _job(machine: Machine, asked: dict[str, Any]) -> Job:
    from launch.planner import layouts
    from launch.planner import resolve as question

    spread = question.on_nodes(machine, asked["nodes"], bool(asked["cards"]))
    return layouts.laid_out(spread, asked["model"], asked["method"], asked)


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


def _machine(asked: dict[str, Any]) -> Machine:
    """Described where its cards or memory are; else the one that this runs on."""
    from launch.planner import machines

    if asked["device"] != "auto" and (asked["cards"] or asked["memory_gib"]):
        return machines.described(asked["device"], asked["cards"], asked["memory_gib"], asked["used_gib"])
    from dataclasses import replace

    from envcheck.collect import facts, machine
    from envcheck.report import screen

    with screen.hint("asking the machine ..."):
        here = facts.gather(machine.here(), asked["device"])
    given = {k: asked[k] for k in ("cards", "memory_gib", "used_gib") if asked[k] is not None}
    cards = asked["cards"] and -(-asked["cards"] // (asked["nodes"] or 1))
    nodes = {"nodes": asked["nodes"]} if asked["nodes"] else {}
    found = machines.of_facts(here, asked["device"], cards, given | nodes)
    told = "memory_gib" in given
    return replace(
        found, **given, each=found.each if given.keys() <= {"cards"} else (), parted=found.parted and not told
    )


def _one(machine: Machine, job: Job, asked: dict[str, Any], found: Spread | None = None) -> int:
    from launch.planner import machines

    answer, advised = machines.answer(machine, job, "name an instance's size: --memory-gib"), job
    if asked["calibrate"]:
        from launch.planner import calibration

        correction = calibration.learn(asked["calibrate"])
        answer, advised = calibration.apply(answer, correction), calibration.seen(job, correction)
    if asked["output"]:
        from launch.planner.output import picture

        _save(asked["output"], picture.plan_svg(answer))
    _print(answer, None if machine.parted else advised, asked, found)
    left_out = found is not None and found.silent and _code(answer) == 0  # it fits on those that told of theirs
    return 3 if left_out else _code(answer)


def _print(answer: LaunchPlan, advised: Job | None, asked: dict[str, Any], found: Spread | None = None) -> None:
    import json

    from envcheck.fleet.hosts import folded
    from launch import planner
    from launch.planner import advice, layouts, spread
    from launch.planner.output import documents, show

    fits = answer.verdict == planner.FITS
    changes = advice.fitting(advised) if advised and not fits else () if advised else None
    left = advice.room(advised) if advised and fits else None
    layout = layouts.unsaid(answer.job, asked)
    if asked["as_json"]:
        more = documents.more(changes or (), left, layout) | (spread.document(found) if found else {})
        click.echo(json.dumps(documents.document(answer, more), indent=1))
        return
    for line in show.screen(answer, changes, left, asked["explain"], layout, _columns()):
        click.echo(line)
    for line in show.wrapped(spread.lines(found, folded) if found else (), _columns()):
        click.echo(line)


def _columns() -> int:
    """Of the terminal, or as COLUMNS says; 0 where what is written goes into a file or a pipe."""
    import shutil

    return shutil.get_terminal_size((0, 0)).columns


def _search(job: Job, asked: dict[str, Any]) -> int:
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


def _sweep(job: Job, asked: dict[str, Any]) -> int:
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
