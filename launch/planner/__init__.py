"""Estimate whether a training job fits in memory, and which changes make it fit; `plan` is the entry point."""

from launch.planner.machines import plan
from launch.planner.verdict import FITS, NOT, UNTOLD, LaunchPlan

__all__ = ["FITS", "NOT", "UNTOLD", "LaunchPlan", "plan"]
