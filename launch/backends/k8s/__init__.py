"""Trainings as Kubernetes jobs: manifests, submission, preflight checks in every pod, and state of the job."""

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
        define_option("--queue", metavar="NAME", help="Queue of Volcano."),
        define_option("--no-gang", is_flag=True, help="Start without Volcano; nodes may start one by one."),
    ),
)
