"""Trainings as jobs of Kubernetes: facts of a job -> documents -> YAML, or a cluster; envcheck gates every pod."""

from launch.runs.backends import Backend, option

BACKEND = Backend(
    "k8s",
    "Kubernetes",
    record_key="kubernetes",
    options=(
        option("--namespace", metavar="NAME", help="Kubernetes: in this namespace, not the context's."),
        option("--context", metavar="NAME", help="Kubernetes: this context of the kubeconfig."),
        option("--job-name", metavar="NAME", help="Kubernetes: the job's name, not the recipe's with the time."),
        option("--image", multiple=True, metavar="[ROLE=]REF", help="Kubernetes: this image, not the recipe's."),
        option("--storage", metavar="CLAIM|/FOLDER", help="Kubernetes: where the recipe's own folders stand."),
        option(
            "--resource", multiple=True, metavar="[ROLE=]NAME[:N]", help="Kubernetes: what the site calls the cards."
        ),
        option("--queue", metavar="NAME", help="Kubernetes: this queue of Volcano."),
        option("--no-gang", is_flag=True, help="Kubernetes: without Volcano; the nodes may start one by one."),
    ),
)
