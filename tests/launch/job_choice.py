"""Resolve a request to a recipe and job, with the packages installed here."""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.core.facts import Facts
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve_method
from installers.recipes import catalogue
from installers.recipes.catalogue import Offer


def choose_job(request: JobRequest, installed: Mapping[str, str] | None = None) -> Offer:
    return resolve_method(request, catalogue.load_all(request.recipes), Facts(), installed)
