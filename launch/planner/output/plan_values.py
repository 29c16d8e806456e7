"""JSON documents of a plan, a search and a sweep; bytes are integers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from envcheck.core.version import SCHEMA_VERSION
from launch.planner import LaunchPlan, card_verdicts, speed, verdict
from launch.planner.advice import Headroom, LayoutChange
from launch.planner.output.terminal_text import Point
from launch.planner.reductions import format_options
from launch.planner.search import LayoutResult, find_pareto_front, format_layout_options


def build_plan_document(plan: LaunchPlan, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the plan for JSON, with the keys of `more`."""
    j, x = plan.job, plan.job.layout
    return {
        "schema": SCHEMA_VERSION,
        "verdict": plan.verdict,
        "reason": plan.reason,
        "model": j.model.name,
        "parameters": j.model.params,
        "framework": j.framework.name,
        "device": j.device.name,
        "layout": {"tp": x.tp, "pp": x.pp, "vpp": x.vpp, "ep": x.ep, "cp": x.cp, "cards": x.cards},
        "peak": {"phase": plan.deciding.name, "stage": plan.deciding.stage},
        "need_bytes": {"minimum": round(plan.low), "expected": round(plan.deciding.total), "maximum": round(plan.high)},
        "interval_bytes": dict(zip(("low", "high"), map(round, plan.interval), strict=True)),
        "usable_bytes": round(plan.usable),
        "other_bytes": {name: round(size) for name, size in plan.outside},
        "meter_bytes": round(plan.shown.total),
        "host_bytes_per_node": round(plan.host),
        "disk_bytes_per_node": round(plan.disk),
        "cards": card_verdicts.list_card_values(plan),
        "assumed": list(j.assumed),
        "open_inputs": [
            {"name": one.what, "settings": one.settings, "low_bytes": round(one.low), "high_bytes": round(one.high)}
            for one in verdict.list_open_spreads(plan)
        ],
        "phases": [
            {"phase": p.name, "stage": p.stage, "bytes": {name: round(size) for name, size in p.terms if size}}
            for p in plan.phases
        ],
        **(more or {}),
    }


def add_schema(values: dict[str, Any]) -> dict[str, Any]:
    """Return a document without a plan."""
    return {"schema": SCHEMA_VERSION, **values}


def list_advice_values(advice: Iterable[LayoutChange], left: Headroom | None) -> dict[str, Any]:
    """Return fitting changes, or the headroom, for JSON; options are those to add to the command."""
    if left:
        known = {"seq_len": left.seq_len, "micro_batch": left.micro_batch, "min_cards": left.cards}
        return {"headroom": {**known, "min_cards_options": format_options(left.fewer)}}
    return {
        "changes": [
            {
                "options": c.options,
                "description": c.what,
                "framework_options": c.settings,
                "need_bytes": round(c.plan.deciding.total),
                "step_time_ratio": round(c.slower, 3),
            }
            for c in advice
        ]
    }


def build_layouts_document(found_layouts: Iterable[LayoutResult]) -> dict[str, Any]:
    """Return a search for JSON."""
    found_layouts = tuple(found_layouts)
    best = find_pareto_front(found_layouts)
    return {
        "schema": SCHEMA_VERSION,
        **speed.list_timing_values(found_layouts[0].plan.job),
        "layouts": [
            {
                "options": one.name,
                "verdict": one.plan.verdict,
                "need_bytes": round(one.plan.deciding.total),
                "step_s": round(one.step.total, 3),
                "tokens_per_second": round(one.tokens_per_second),
                "requested": one.is_requested,
                "pareto_optimal": one in best,
            }
            for one in found_layouts
        ],
    }


def build_points_document(swept_points: Iterable[Point]) -> dict[str, Any]:
    """Return a sweep for JSON."""
    return {
        "schema": SCHEMA_VERSION,
        "points": [
            {"value": value, "error": plan}
            if isinstance(plan, str)
            else {
                "value": value,
                "verdict": plan.verdict,
                "need_bytes": round(plan.deciding.total),
                "framework": plan.job.framework.name,
                "options": format_layout_options(plan.job),
            }
            for value, plan in swept_points
        ],
    }
