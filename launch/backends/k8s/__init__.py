"""Trainings as Kubernetes jobs: manifests, submission, preflight checks in every pod, and state of the job."""

import click

from launch.runs.backends import Backend, define_option

BACKEND = Backend(
    "k8s",
    "Kubernetes",
    record_key="kubernetes",
    options=(
        define_option("--namespace", is_common=True, metavar="NAME", help="Namespace (default: the context's)."),
        define_option("--context", metavar="NAME", help="Context of the kubeconfig."),
        define_option("--job-name", metavar="NAME", help="Job name (default: recipe name and time)."),
        define_option(
            "--image",
            is_common=True,
            multiple=True,
            metavar="[ROLE=]IMAGE",
            help="Container image to use instead of the recipe's.",
        ),
        define_option(
            "--storage",
            is_common=True,
            metavar="CLAIM|PATH",
            help="Volume claim or host folder for model and data.",
        ),
        define_option(
            "--resource",
            multiple=True,
            metavar="[ROLE=]NAME[:COUNT]",
            help="Resource name of the devices in this cluster.",
        ),
        define_option("--queue", metavar="NAME", help="Queue of Volcano, or kueue:NAME."),
        define_option("--no-gang", is_flag=True, help="Start without Volcano; nodes may start one by one."),
        define_option("--operator", metavar="NAME", help="Job operator, such as training, trainer or jobset."),
        define_option(
            "--arch",
            type=click.Choice(("x86_64", "aarch64", "amd64", "arm64"), case_sensitive=False),
            metavar="ARCH",
            help="Architecture: x86_64 or aarch64.",
        ),
        define_option("--pin-images", is_flag=True, help="Ask the registry and use the image by digest."),
        define_option("--patch", multiple=True, metavar="FILE", help="Change manifests (merge or JSON patch)."),
        define_option("--pull-secret", multiple=True, metavar="NAME", help="Secret for pulling the image."),
        define_option("--toleration", multiple=True, metavar="KEY[=VALUE][:EFFECT]", help="Node taint to tolerate."),
        define_option("--node-selector", multiple=True, metavar="KEY=VALUE", help="Label that the nodes must have."),
        define_option("--priority-class", metavar="NAME", help="Priority class of the pods."),
        define_option("--service-account", metavar="NAME", help="Service account of the pods."),
        define_option("--annotation", multiple=True, metavar="KEY=VALUE", help="Annotation of the job and its pods."),
        define_option("--ttl", metavar="SECONDS", help="Delete the job this long after its end."),
        define_option("--rdma", metavar="NAME[:COUNT]", help="Resource name of RDMA network cards."),
        define_option("--no-host-folders", is_flag=True, help="Mount no driver folders; the runtime adds them."),
    ),
)
