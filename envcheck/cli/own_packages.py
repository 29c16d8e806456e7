"""Whether Python finds envcheck's own packages: other distributions have packages of the same names.

The distribution `envcheck` is another project with the import package `envcheck` and the same command; `launch`,
`probes` and `installers` are names that a user's own folder may have too.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.messages import _

PACKAGES = ("launch", "probes", "installers")
# Where installers put distributions; only there can another one have written into our folder.
SITE_FOLDERS = ("site-packages", "dist-packages")
# `envcheck-0.0.9.dist-info`; ours is `envcheck_toolkit-...`
OTHER_DISTRIBUTION = "envcheck-[0-9]*.dist-info"


def refuse_foreign_packages() -> None:
    """Raise UsageError where another distribution or folder hides or overwrites a package of ours."""
    root = Path(__file__).parents[2]
    if root.name in SITE_FOLDERS and any(root.glob(OTHER_DISTRIBUTION)):
        raise UsageError(
            _(
                "the distribution 'envcheck' in {folder} is another project and overwrites files of envcheck-toolkit",
                folder=root,
            ),
            _(
                "remove both and install this one again: {python} -m pip uninstall -y envcheck envcheck-toolkit",
                python=sys.executable,
            ),
        )
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is None or spec.origin is None or Path(spec.origin).parents[1] != root:
            found = "" if spec is None else spec.origin or ", ".join(spec.submodule_search_locations or ())
            raise UsageError(
                _(
                    "Python finds another package '{package}' before envcheck's own: {found}",
                    package=package,
                    found=found or _("none"),
                ),
                _("install envcheck into its own environment (pipx or uv tool), and clear PYTHONPATH"),
            )
