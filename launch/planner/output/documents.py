"""A plan, a search and a sweep as documents for programs: bytes as whole numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from envcheck.core.version import SCHEMA_VERSION
from launch.planner import LaunchPlan, cards, speed
from launch.planner.advice import Change, Room
from launch.planner.output.show import Point
from launch.planner.reductions import options
from launch.planner.search import Found, front


def document(plan: LaunchPlan, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """Everything for programs, bytes as numbers."""
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
        "deciding": {"phase": plan.deciding.name, "stage": plan.deciding.stage},
        "need_bytes": {"least": round(plan.low), "expected": round(plan.deciding.total), "most": round(plan.high)},
        "usable_bytes": round(plan.usable),
        "beside_bytes": {name: round(size) for name, size in plan.outside},
        "reading_bytes": round(plan.shown.total),
        "host_bytes_per_node": round(plan.host),
        "disk_bytes_per_node": round(plan.disk),
        "cards": cards.document(plan),
        "assumed": list(j.assumed),
        "phases": [
            {"phase": p.name, "stage": p.stage, "bytes": {name: round(size) for name, size in p.terms if size}}
            for p in plan.phases
        ],
        **(more or {}),
    }


def headed(said: dict[str, Any]) -> dict[str, Any]:
    """A document that holds no plan."""
    return {"schema": SCHEMA_VERSION, **said}


def more(advice: Iterable[Change], left: Room | None, layout: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What would fit, or the room left, for the document; options are complete, to be added to the command."""
    layout = layout or {}
    if left:
        known = {"seq_len": left.seq_len, "micro_batch": left.micro_batch, "least_cards": left.cards}
        return {"room": {**known, "least_cards_options": options({**layout, **left.fewer}) if left.fewer else ""}}
    return {
        "changes": [
            {
                "options": options({**layout, **c.said}),
                "what": c.what,
                "need_bytes": round(c.plan.deciding.total),
                "slower": round(c.slower, 3),
            }
            for c in advice
        ]
    }


def layouts(found_layouts: Iterable[Found]) -> dict[str, Any]:
    """A search for programs."""
    found_layouts = tuple(found_layouts)
    best = front(found_layouts)
    return {
        "schema": SCHEMA_VERSION,
        **speed.document(found_layouts[0].plan.job),
        "layouts": [
            {
                "options": one.name,
                "verdict": one.plan.verdict,
                "need_bytes": round(one.plan.deciding.total),
                "step_s": round(one.step.total, 3),
                "tokens_per_second": round(one.tokens_per_second),
                "asked": one.own,
                "front": one in best,
            }
            for one in found_layouts
        ],
    }


def points(swept_points: Iterable[Point]) -> dict[str, Any]:
    """A sweep for programs."""
    return {
        "schema": SCHEMA_VERSION,
        "points": [
            {"value": value, "refused": plan}
            if isinstance(plan, str)
            else {"value": value, "verdict": plan.verdict, "need_bytes": round(plan.deciding.total)}
            for value, plan in swept_points
        ],
    }
