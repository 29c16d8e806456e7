"""Names of container images."""

from __future__ import annotations


def extract_image_tag(image: str) -> str:
    """Return `tag` of registry:5000/name:tag@sha256:…, "" without one."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]
