"""A plan, a search and a sweep in words, tables and bars for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from envcheck.core import language
from envcheck.core.language.width import columns, wrap
from launch.memory import GIB, meter
from launch.memory.job import PlannedJob
from launch.memory.phases import Phase
from launch.planner import LaunchPlan, cards, speed
from launch.planner.advice import Change, Room
from launch.planner.output.terms import TERMS
from launch.planner.reductions import options
from launch.planner.search import Found, front, gib
from launch.planner.words import SAID

WIDTH = 60
NO_BREAK = "\u00a0"
MARKS = {"fits": "fits", "does-not-fit": "does not fit", "cannot-tell": "cannot tell"}


def gib_of(size: float) -> str:
    return f"{size / GIB:.1f}"


def headline(plan: LaunchPlan) -> list[str]:
    j, x = plan.job, plan.job.layout
    degrees = " ".join(f"{n}{getattr(x, n)}" for n in ("tp", "pp", "vpp", "ep", "cp") if getattr(x, n) > 1)
    model = f"{j.model.name} ({j.model.params / 1e9:.2f}e9 parameters)"
    kind = f"{x.cards} x {round(j.memory_gib, 2):g} GiB {j.device.name}"
    ways = [f"sharding {SAID[j.sharding]}", f"recompute {j.recompute.kind}"]
    ways += [f"offload {'+'.join(sorted(j.offload))}"] if j.offload else []
    free = f"{j.device.idle_gib:.1f} in use - {meter.context(j) / GIB:.1f} context and communication"
    return [
        f"{language.say(MARKS[plan.verdict])}{language.say(': ')}{language.say(plan.reason)}",
        _row("job", model, *trained(j), f"{j.seq_len} tokens", f"micro batch {j.micro_batch}", j.framework.name),
        _row("cards", kind, *filter(None, [degrees]), *ways),
        f"  a card    {round(j.memory_gib, 2):g} GiB - {free} = {max(0.0, plan.usable) / GIB:.1f} GiB for tensors",
        *cards.said(plan, MARKS),
        f"  a node    {plan.host / GIB:.0f} GiB of host memory, {plan.disk / 1e9:.0f} GB of disk: "
        "weights, and its part of a checkpoint",
    ]


def _row(label: str, *parts: str) -> str:
    """The parts, each in the chosen language, behind their label."""
    return f"  {_said(label, 10)}{language.say(', ').join(map(language.say, parts))}"


def trained(job: PlannedJob) -> Iterator[str]:
    """What is trained, with what beside it."""
    words = "full" if job.trains_all else f"LoRA rank {job.adapter.rank} on {job.adapter.targets}"
    yield words + (f" over {job.quant}" if job.quant else "")
    yield from ["preference pairs"] if job.pairs else []
    yield from ["a frozen reference beside"] if job.reference else []


def wrapped(lines: Iterable[str], width: int) -> Iterator[str]:
    """Lines in the chosen language, cut to the terminal, what is cut indented below; width 0: as they are."""
    for line in map(language.say, lines):
        if not width or columns(line) <= width:
            yield line.replace(NO_BREAK, " ")
            continue
        lead = line[: len(line) - len(line.lstrip(" "))]
        yield from (part.replace(NO_BREAK, " ") for part in wrap(line.lstrip(" "), max(width, 20), lead, " " * 6))


def shown(plan: LaunchPlan) -> list[Phase]:
    """The phases of the first stage, of the one that decides, and of the last."""
    stages = {0, plan.deciding.stage, plan.job.layout.pp - 1}
    return [phase for phase in plan.phases if phase.stage in stages]


def bars(plan: LaunchPlan, width: int = 0) -> list[str]:
    """One line per phase and stage: letters stand for terms, the bar ends where tensors may end."""
    room = min(WIDTH, max(8, width - 38)) if width else WIDTH
    scale = max(plan.usable, plan.deciding.total) / room
    lines = []
    for phase in shown(plan):
        mark = ">" if phase is plan.deciding else " "
        lines.append(
            f"{mark} {_said(phase.name, 16)} {language.say('stage')} {phase.stage:<3}"
            f"|{bar(phase, scale, plan.usable)} {gib_of(phase.total)}"
        )
    used = [n for n in TERMS if any(n == name and size > scale / 2 for p in plan.phases for name, size in p.terms)]
    key = "  " + "  ".join(f"{TERMS[name].letter} {language.say(name)}".replace(" ", NO_BREAK) for name in used)
    return [*lines, *wrapped([key], width)]


def _said(text: str, wide: int) -> str:
    """In the chosen language, and so many columns."""
    said = language.say(text)
    return said + " " * (wide - columns(said))


def bar(phase: Phase, scale: float, usable: float) -> str:
    drawn, total = "", 0.0
    for name, size in phase.terms:
        total += size
        drawn += TERMS[name].letter * (round(total / scale) - len(drawn))
    edge = max(0, round(usable / scale))
    drawn = drawn.ljust(max(edge, len(drawn)))
    return drawn[:edge] + "|" + drawn[edge:]


def breakdown(terms: Iterable[tuple[str, float]]) -> str:
    """Terms in GiB, largest first."""
    some = sorted((term for term in terms if term[1] > 0.005 * GIB), key=lambda term: -term[1])
    return "   ".join(f"{language.say(name)} {gib_of(size)}".replace(" ", NO_BREAK) for name, size in some)


def explained(plan: LaunchPlan) -> list[str]:
    """Every term of the deciding phase with formula and source, and the framework's own sources."""
    lines = []
    for name, size in sorted(plan.shown.terms, key=lambda term: -term[1]):
        if size > 0.005 * GIB:
            term = TERMS[name]
            formula, source = language.say(term.formula), language.say(term.source)
            lines.append(f"  {_said(name, 22)}{gib_of(size):>7} GiB  {formula}  [{source}]")
    lines += [f"  {key:22}         {text}" for key, text in plan.job.framework.sources.items()]
    return lines


def changes(found: Iterable[Change], width: int = 0) -> list[str]:
    """One line each: what to add to the command, in words, the need, the cost in time; two where that is too wide."""
    found = tuple(found)
    wide = max((len(c.options) for c in found), default=0)
    lines = []
    for c in found:
        what = language.say(", and ").join(map(language.say, c.what.split(", and ")))
        slower = language.say(f"step x {c.slower:.2f}")
        cost = f"{what}{language.say(': ')}{c.plan.need_gib:.1f} GiB{language.say(', ')}{slower}"
        one = f"  {c.options:{wide}}  {cost}"
        lines += [one] if not width or columns(one) <= width else [f"  {c.options}", f"      {cost}"]
    return lines


def room(left: Room) -> str:
    """What a job that fits could still grow to, and how few cards would hold it."""
    fewer = options(left.fewer)
    cards = f"{left.cards} card{'s' if left.cards > 1 else ''} would do" + (f" ({fewer})" if fewer else "")
    return f"  room: up to {left.seq_len} tokens, or micro batch {left.micro_batch}; {cards}"


def found(layouts: Iterable[Found], width: int = 0) -> list[str]:
    """The search as a table; * marks the Pareto front of memory against time, > the asked layout."""
    layouts = tuple(layouts)
    best = front(layouts)
    lines = []
    for one in layouts:
        mark = (">" if one.own else " ") + ("*" if one in best else " ")
        verdict = _said(MARKS[one.plan.verdict], 12)
        lines.append(f"{mark} {one.step.total:8.1f} s {gib(one):6.1f} GiB  {verdict} {one.name}")
    return list(wrapped([*lines, *(f"  {text}" for text in speed.said(layouts[0].plan.job))], width))


def screen(
    plan: LaunchPlan,
    advice: Iterable[Change] | None,
    left: Room | None,
    explain: bool = False,
    layout: Mapping[str, str] | None = None,
    width: int = 0,
) -> Iterator[str]:
    """The whole answer for a terminal; `advice` None: nothing was sought; `layout` are the options of a layout that
    nobody said, `width` its columns."""
    advice = None if advice is None else tuple(advice)
    yield from wrapped(headline(plan), width)
    yield ""
    yield from bars(plan, width)
    yield ""
    yield from wrapped(
        [
            f"  {_said('tensors', 10)}{breakdown(plan.deciding.terms)}",
            f"  {_said('beside', 10)}{breakdown(plan.outside)}",
        ],
        width,
    )
    if explain:
        yield from wrapped(("", "what each term is, and where it comes from:", *explained(plan)), width)
    if left:
        yield from ("", *wrapped([room(left)], width))
    if plan.verdict != "fits" and advice is not None:
        some, none = (
            "what would fit, least loss of speed first:",
            "no change fits, nor two or three cheap ones together",
        )
        yield from ("", language.say(some if advice else none))
        yield from changes(advice, width)
    assumed = [f"  {language.say('assumed')} {language.say(text)}" for text in plan.job.assumed]
    if layout:
        assumed.append(f"  {language.say('in full')} {options(layout)}")
    yield from ("", *wrapped(assumed, width)) if assumed else ()


Point = tuple[int, LaunchPlan | str]


def swept(points: Iterable[Point], width: int = 0) -> list[str]:
    """A sweep as a table with bars."""
    points = list(points)
    most = max((p.deciding.total for _, p in points if not isinstance(p, str)), default=1.0)
    lines = []
    for value, plan in points:
        if isinstance(plan, str):
            lines.append(f"{value:>10}  {language.say('refused: ')}{language.say(plan)}")
            continue
        scale = max(most, plan.usable) / (min(40, max(5, width - 68)) if width else 40)
        bar = "#" * round(plan.deciding.total / scale)
        verdict, where = _said(MARKS[plan.verdict], 12), language.say(plan.where)
        lines.append(f"{value:>10} {plan.need_gib:7.1f} GiB  {verdict} {bar}  {where}")
    return list(wrapped(lines, width))
