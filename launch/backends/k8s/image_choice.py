"""Which image a pod gets, and for which architecture of the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from envcheck.core.errors import StepError, UsageError
from envcheck.core.messages import _, join
from installers.recipes.recipe import Recipe, RecipeJob, narrow_to_role
from launch.backends.k8s import cluster_terms


@dataclass(frozen=True)
class PodImage:
    """`architecture` is the only one that the image has, as uname names it, "" for several or if unknown; `machines`
    are all that it may have."""

    name: str
    architecture: str = ""
    machines: tuple[str, ...] = ()


def choose_image(recipe: Recipe, job: RecipeJob, images: Mapping[str, str], architecture: str) -> PodImage:
    """Return the image of a role: the user's, else the recipe's. `architecture` is that of the nodes, "" for any.

    UsageError if there is none."""
    if own := images.get(job.role) or images.get(""):
        return PodImage(own, architecture, (architecture,) if architecture else ())
    image = narrow_to_role(recipe, job).image
    references = image.references if image else {}
    if not references:
        role = f"{job.role}=" if job.role else ""
        raise UsageError(
            _("recipe {name} has no container image, which --on k8s requires", name=recipe.name),
            _("specify one with --image {role}REGISTRY/NAME:TAG", role=role),
        )
    if architecture:
        if architecture not in references:
            raise UsageError(
                _(
                    "recipe {name} has no image for --arch {architecture}, only for {known}",
                    name=recipe.name,
                    architecture=architecture,
                    known=join(", ", references),
                ),
                _("use another --arch, or specify an image with --image"),
            )
        return PodImage(references[architecture], architecture, (architecture,))
    usable = [machine for machine in references if machine in recipe.hardware.architectures] or list(references)
    same = [machine for machine in usable if references[machine] == references[usable[0]]]
    return PodImage(references[usable[0]], "" if len(same) > 1 else usable[0], tuple(same))


def pin_image(image: PodImage, architecture: str) -> PodImage:
    """Return the image by digest, with the architectures that its registry has; StepError if it has not the wanted."""
    from installers.images import published_image
    from installers.images.reference import parse_reference, pin_reference

    reference = parse_reference(image.name)
    found = published_image.find_published_image(reference)
    wanted = architecture or image.architecture
    if wanted and found.architectures and wanted not in found.architectures:
        raise StepError(
            _(
                "image {image} is for {known}, not for {architecture}",
                image=image.name,
                known=join(", ", found.architectures),
                architecture=wanted,
            ),
            _("use another --arch, or specify an image with --image"),
        )
    only = found.architectures[0] if len(found.architectures) == 1 else architecture
    return replace(
        image,
        name=str(pin_reference(reference, found.digest)),
        architecture=only,
        machines=found.architectures or image.machines,
    )


def parse_architecture(text: str) -> str:
    """Return the architecture of --arch as uname names it: amd64 and x86_64 are the same."""
    return cluster_terms.to_uname_machine(text.lower())
