"""Names of images."""

from __future__ import annotations


def image_tag(image: str) -> str:
    """registry:5000/name:tag@sha256:… → tag."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]
