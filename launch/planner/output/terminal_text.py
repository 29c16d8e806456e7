"""Render a plan, a search and a sweep as text for the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from envcheck.core import language
from envcheck.core.language.width import display_width, remove_extra_blanks, wrap_text
from envcheck.core.messages import Message, _, fill, join, ngettext
from launch.catalogue.framework_options import find_framework_title
from launch.memory import GIB, intervals, meter
from launch.memory.phases import Phase
from launch.memory.planned_job import PlannedJob
from launch.planner import LaunchPlan, card_verdicts, speed, verdict
from launch.planner.advice import Headroom, LayoutChange
from launch.planner.option_words import SHARDING_NAMES, format_offload
from launch.planner.output.terms import TERMS
from launch.planner.reductions import format_options
from launch.planner.search import LayoutResult, find_pareto_front, format_layout_options, peak_gib

WIDTH = 60
BESIDE_BAR = 12  # columns of a bar's line that are neither bar nor label
LABEL_WIDTH = 10  # columns, or more for a wider label
NO_BREAK = "\u00a0"
LABEL = re.compile(r" {2}\S+(?: \S+)* {2,}(?=\S)")
MARKS = {"fits": _("fits"), "does-not-fit": _("does not fit"), "unknown": _("uncertain")}
# In a headline, where a part of the interval is on the other side of the available memory.
LIKELY = {"fits": _("fits, most likely"), "does-not-fit": _("does not fit, most likely")}


def format_gib(size: float) -> str:
    """Return bytes as GiB with one decimal, without the unit."""
    return f"{size / GIB:.1f}"


def name_verdict(plan: LaunchPlan) -> Message:
    """Return the verdict in words, with "most likely" unless the whole interval agrees with it."""
    return (MARKS if plan.is_sure else LIKELY)[plan.verdict]


def list_headline_lines(plan: LaunchPlan) -> list[str]:
    """Return the verdict, and rows about job, cards and nodes, in the selected language."""
    j, x = plan.job, plan.job.layout
    degrees = " ".join(f"{n}{getattr(x, n)}" for n in ("tp", "pp", "vpp", "ep", "cp") if getattr(x, n) > 1)
    model = _("{name} ({billions:.2f}e9 parameters)", name=j.model.name, billions=j.model.params / 1e9)
    kind = f"{x.cards} x {round(j.memory_gib, 2):g} GiB {j.device.name}"
    ways = [_("sharding {said}", said=SHARDING_NAMES[j.sharding]), _("recompute {kind}", kind=j.recompute.kind)]
    ways += [_("no sequence parallelism")] if x.tp > 1 and not j.splits_sequence else []
    ways += [_("offload {offload}", offload=format_offload(j))] if j.offload else []
    training = (*describe_training(j), _("{seq_len} tokens", seq_len=j.seq_len))
    micro_batch = _("micro batch {micro_batch}", micro_batch=j.micro_batch)
    per_card = _(
        "{memory_gib:g} GiB - {idle_gib:.1f} in use - {context_gib:.1f} context and communication "
        "= {usable_gib:.1f} GiB for tensors",
        memory_gib=round(j.memory_gib, 2),
        idle_gib=j.device.idle_gib,
        context_gib=meter.context_bytes(j) / GIB,
        usable_gib=max(0.0, plan.usable) / GIB,
    )
    host_limit = verdict.host_memory_limit(j, plan.host)
    host = (
        _("computed: {low:.0f} to {high:.0f} GiB of host memory", low=plan.host / GIB, high=host_limit / GIB)
        if host_limit > plan.host
        else _("computed: {host_gib:.0f} GiB of host memory", host_gib=plan.host / GIB)
    )
    per_node = (
        host,
        _("{disk_gib:.0f} GiB of disk for weights and its part of a checkpoint", disk_gib=plan.disk / GIB),
    )
    fullest = card_verdicts.describe_fullest_card(plan)
    rows: list[tuple[str, tuple[str, ...]]] = [
        (_("job"), (model, *training, micro_batch, j.framework.name)),
        (_("cards"), (kind, *filter(None, [degrees]), *ways)),
        (_("per card"), (per_card,)),
        (_("interval"), (describe_interval(plan),)),
        *([(_("up to"), (limit,))] if (limit := describe_limit(plan)) else []),
        *([(_("fullest"), (fullest,))] if fullest else []),
        (_("per node"), per_node),
    ]
    headline = _("{verdict}: {reason}", verdict=name_verdict(plan), reason=plan.reason)
    return [language.translate(headline), *_format_rows(rows)]


def describe_interval(plan: LaunchPlan) -> Message:
    """Return the interval of the peak of tensors, and the share of published readings of left-out sources inside."""
    low, high = plan.interval
    found = intervals.find_tensor_residuals(plan.job)
    return _(
        "{low:.1f} to {high:.1f} GiB of tensors: {share:.0f} % of {count} published readings lie within such bounds",
        low=low / GIB,
        high=high / GIB,
        share=100 * found.inside,
        count=found.readings,
    )


def describe_limit(plan: LaunchPlan) -> Message | None:
    """Return what the "up to" of the reason is, if it is above the interval; None otherwise."""
    if plan.limit is None or plan.limit <= plan.interval[1]:
        return None
    found = intervals.find_tensor_residuals(plan.job)
    return _(
        "{limit:.1f} GiB: {share:.0f} % of {count} published readings lie below such a limit",
        limit=plan.limit / GIB,
        share=100 * found.obeyed,
        count=found.readings,
    )


def describe_open_inputs(plan: LaunchPlan) -> Iterator[Message]:
    """Yield the inputs that were not given and change the need: the range, and the option or key that settles them."""
    for one in verdict.list_open_spreads(plan):
        yield _(
            "{what} not given: {low:.1f} to {high:.1f} GiB; settled by {settings}",
            what=one.what,
            low=one.low / GIB,
            high=one.high / GIB,
            settings=join(", ", one.settings.split(", ")),
        )


def _format_rows(rows: Iterable[tuple[str, Iterable[str]]]) -> Iterator[str]:
    """Yield the rows of label and parts in the selected language, with aligned parts."""
    texts = [(language.translate(label), language.translate(join(", ", parts))) for label, parts in rows]
    width = max(LABEL_WIDTH, *(display_width(label) + 2 for label, _unused in texts))
    yield from (f"  {_pad_text(label, width)}{text}" for label, text in texts)


def describe_training(job: PlannedJob) -> Iterator[str]:
    """Yield the training method, and what else preference training needs."""
    method = _("full")
    if not job.trains_all:
        method = _("LoRA rank {rank} on {targets}", rank=job.adapter.rank, targets=job.adapter.targets)
    yield _("{method}, {quant} base model", method=method, quant=job.quant) if job.quant else method
    yield from [_("preference pairs")] if job.pairs else []
    yield from [_("frozen reference model")] if job.reference else []


def wrap_lines(lines: Iterable[str], width: int) -> Iterator[str]:
    """Yield lines in the selected language, wrapped to `width` columns with indentation; 0: not wrapped."""
    for line in map(language.translate, lines):
        if not width or display_width(line) <= width:
            yield line.replace(NO_BREAK, " ")
            continue
        label = LABEL.match(line)
        column = display_width(label[0]) if label else 0
        indent = " " * (column if 0 < column <= width // 2 else 6)
        lead = line[: len(line) - len(line.lstrip(" "))] if label is None else label[0]
        words = line[len(lead) :]
        wrap = _wrap_items if NO_BREAK in words else wrap_text
        parts = wrap(words, max(width, 20), lead, indent)
        yield from (part.replace(NO_BREAK, " ") for part in parts)


def _wrap_items(text: str, width: int, lead: str, indent: str) -> list[str]:
    """Wrap items that NO_BREAK holds together; unlike wrap_text, never break within an item of Chinese text."""
    lines, line = [], lead
    for item in re.findall(r" *[^ ]+", text):
        if line.strip() and display_width(line + item) > width:
            lines.append(line)
            line = indent
        line += item if line.strip() and line != lead else item.lstrip(" ")
    return [*lines, line]


def select_phases(plan: LaunchPlan) -> list[Phase]:
    """Return the phases of the first stage, the deciding one, and the last."""
    stages = {0, plan.deciding.stage, plan.job.layout.pp - 1}
    return [phase for phase in plan.phases if phase.stage in stages]


def draw_bars(plan: LaunchPlan, width: int = 0) -> list[str]:
    """Return one bar per phase and stage, with a letter per term; | marks the memory for tensors."""
    selected = select_phases(plan)
    labels = [language.translate(plan.label_phase(phase)) for phase in selected]
    widest = max(map(display_width, labels))
    room = min(WIDTH, max(8, width - widest - BESIDE_BAR)) if width else WIDTH
    scale = max(plan.usable, plan.deciding.total) / room
    bars = [draw_bar(phase, scale, plan.usable) for phase in selected]
    lines = [f"  {language.translate(_('tensors of one card in each phase, GiB'))}"]
    for phase, label, bar in zip(selected, labels, bars, strict=True):
        mark = ">" if phase is plan.deciding else " "
        lines.append(f"{mark} {label}{' ' * (widest - display_width(label))} |{bar} {format_gib(phase.total)}")
    drawn = set("".join(bars))
    used = [(term.letter, name) for name, term in TERMS.items() if term.letter in drawn]
    key = "  " + "  ".join(f"{letter} {language.translate(name)}".replace(" ", NO_BREAK) for letter, name in used)
    return [*lines, *wrap_lines([key], width)]


def _align_right(text: str, width: int) -> str:
    """Return the translated text, aligned to the right in `width` columns."""
    return " " * (width - display_width(text)) + text


def _pad_text(text: str, width: int) -> str:
    """Return the text in the selected language, padded to `width` columns."""
    translated = language.translate(text)
    return translated + " " * (width - display_width(translated))


def draw_bar(phase: Phase, scale: float, usable: float) -> str:
    """Return the bar of a phase; `scale` is bytes per character, `usable` the bytes for tensors."""
    drawn, total = "", 0.0
    for name, size in phase.terms:
        total += size
        drawn += TERMS[name].letter * (round(total / scale) - len(drawn))
    edge = max(0, round(usable / scale))
    drawn = drawn.ljust(max(edge, len(drawn)))
    return drawn[:edge] + "|" + drawn[edge:]


def format_breakdown(terms: Iterable[tuple[str, float]]) -> str:
    """Return the terms in GiB, largest first."""
    some = sorted((term for term in terms if term[1] > 0.005 * GIB), key=lambda term: -term[1])
    return "   ".join(f"{language.translate(name)} {format_gib(size)}".replace(" ", NO_BREAK) for name, size in some)


def explain_terms(plan: LaunchPlan) -> list[str]:
    """Return every term of the deciding phase with formula and source, and the sources of the framework."""
    lines = []
    for name, size in sorted(plan.shown.terms, key=lambda term: -term[1]):
        if size > 0.005 * GIB:
            term = TERMS[name]
            formula, source = language.translate(term.formula), term.source or plan.job.device.source
            lines.append(f"  {_pad_text(name, 22)}{format_gib(size):>7} GiB  {formula}  [{source}]")
    lines += [
        f"  {key:22}         {language.translate(fill(text))}" for key, text in plan.job.framework.sources.items()
    ]
    return lines


def format_changes(changes: Iterable[LayoutChange], width: int = 0) -> list[str]:
    """Return the options to add, the change, its need and step time per change: on one line, or two.

    A change of the job's own file has no options.  A further line has the framework's settings with the same effect.
    """
    changes = tuple(changes)
    in_job = language.translate(_("(in the job)"))
    heads = [in_job if c.is_in_job else c.options for c in changes]
    wide = max((display_width(head) for head in heads), default=0)
    lines = []
    for c, head in zip(changes, heads, strict=True):
        cost = language.translate(
            _(
                "{change}: {need_gib:.1f} GiB, step time x {slower:.2f}",
                change=c.what,
                need_gib=c.plan.need_gib,
                slower=c.slower,
            )
        )
        line = f"  {head}{' ' * (wide - display_width(head))}  {cost}"
        if not width or display_width(line) <= width:
            lines.append(line)
        else:
            lines += [f"  {head}", *wrap_text(cost, max(width, 20), " " * 6, " " * 6)]
        if c.settings:
            lines += wrap_lines(
                [f"      {find_framework_title(c.plan.job.framework.name)}: {'; '.join(c.settings)}"], width
            )
    return lines


def describe_headroom(left: Headroom) -> Message:
    """Return how far a job that fits can grow, and on how few cards it fits."""
    fewer = format_options(left.fewer)
    cards = (
        ngettext(
            "{count} card is enough ({options})", "{count} cards are enough ({options})", left.cards, options=fewer
        )
        if fewer
        else ngettext("{count} card is enough", "{count} cards are enough", left.cards)
    )
    return _(
        "  headroom: up to {seq_len} tokens, or micro batch {micro_batch}; {cards}",
        seq_len=left.seq_len,
        micro_batch=left.micro_batch,
        cards=cards,
    )


def format_search(layouts: Iterable[LayoutResult], width: int = 0) -> list[str]:
    """Return the search as a table; * marks the Pareto front of memory and time, > the requested layout."""
    layouts = tuple(layouts)
    best = find_pareto_front(layouts)
    step, tensors, options = (language.translate(text) for text in (_("step time"), _("tensors"), _("options")))
    head = f"   {_align_right(step, 10)} {_align_right(tensors, 10)}  {_pad_text(_('verdict'), 12)} {options}"
    lines = [head] if layouts else []
    for one in layouts:
        mark = (">" if one.is_requested else " ") + ("*" if one in best else " ")
        answer = _pad_text(MARKS[one.plan.verdict], 12)
        lines.append(f"{mark} {one.step.total:8.1f} s {peak_gib(one):6.1f} GiB  {answer} {one.name}")
    legend = [_("*: no other layout is both faster and smaller; >: the layout without --search")] if layouts else []
    notes = map(language.translate, (*legend, *speed.describe_timing(layouts[0].plan.job)))
    return list(wrap_lines([*lines, *(f"  {text}" for text in notes)], width))


def render_plan(
    plan: LaunchPlan,
    advice: Iterable[LayoutChange] | None,
    left: Headroom | None,
    explain: bool = False,
    layout: Mapping[str, str] | None = None,
    width: int = 0,
) -> Iterator[str]:
    """Yield the plan as text.

    `advice`: fitting changes, None if they were not searched.  `left`: headroom of a job that fits.  `layout`: options
    of an assumed layout.  `width`: columns of the terminal, 0 for no limit.
    """
    advice = None if advice is None else tuple(advice)
    yield from wrap_lines(list_headline_lines(plan), width)
    yield ""
    yield from draw_bars(plan, width)
    yield ""
    yield from wrap_lines(
        [
            f"  {_pad_text(_('tensors'), 10)}{format_breakdown(plan.deciding.terms)}",
            f"  {_pad_text(_('reserved'), 10)}{format_breakdown(plan.outside)}",
        ],
        width,
    )
    if explain:
        yield from wrap_lines(("", _("Memory terms and their sources:"), *explain_terms(plan)), width)
    if left:
        yield from ("", *wrap_lines([describe_headroom(left)], width))
    if plan.verdict != "fits" and advice is not None:
        some, none = (
            _("Changes that fit, those with the same cards and base model first:"),
            _(
                "No change makes the job fit, not even two or three combined. "
                "Use more cards, or cards with more memory."
            ),
        )
        yield from ("", *wrap_lines([language.translate(some if advice else none)], width))
        yield from format_changes(advice, width)
    notes = (*plan.job.assumed, *describe_open_inputs(plan))
    assumed = [
        f"  {language.translate(_('assumed'))} {remove_extra_blanks(language.translate(text))}" for text in notes
    ]
    if layout:
        assumed.append(f"  {language.translate(_('full options'))} {format_options(layout)}")
    yield from ("", *wrap_lines(assumed, width)) if assumed else ()


Point = tuple[int, LaunchPlan | str]


def format_sweep(points: Iterable[Point], width: int = 0) -> list[str]:
    """Return the sweep as a table with bars of the tensors' memory, and the framework and layout of each value."""
    points = list(points)
    names = (_("value"), _("tensors"), _("verdict"), _("deciding phase"), _("framework"), _("options"))
    head = [language.translate(text) for text in names]
    most = max((p.deciding.total for _unused, p in points if not isinstance(p, str)), default=1.0)
    columns = f"{_align_right(head[0], 10)} {_align_right(head[1], 11)}  {_pad_text(head[2], 12)}"
    lines = [f"{columns} {head[3]}; {head[4]}, {head[5]}"] if points else []
    for value, plan in points:
        if isinstance(plan, str):
            lines.append(f"{value:>10}  {language.translate(_('rejected: {reason}', reason=plan))}")
            continue
        scale = max(most, plan.usable) / (min(40, max(5, width - 68)) if width else 40)
        bar = "#" * round(plan.deciding.total / scale)
        answer, where = _pad_text(MARKS[plan.verdict], 12), language.translate(plan.deciding_label)
        way = f"{plan.job.framework.name} {format_layout_options(plan.job)}"
        lines.append(f"{value:>10} {plan.need_gib:7.1f} GiB  {answer} {bar}  {where}; {way}")
    return list(wrap_lines(lines, width))
