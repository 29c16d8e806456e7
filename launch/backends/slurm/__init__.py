"""Trainings as Slurm jobs: batch script, submission, preflight checks on the nodes, and state of the job."""

from launch.runs.backends import Backend, define_option

BACKEND = Backend(
    "slurm",
    "Slurm",
    record_key="slurm",
    options=(
        define_option(
            "--partition",
            is_common=True,
            multiple=True,
            metavar="NAME",
            help="Partition (give two for mixed devices).",
        ),
        define_option("--time", is_common=True, metavar="TIME", help="Time limit in sbatch format: 90, 8:00:00, 2-12."),
        define_option("--account", metavar="NAME", help="Account to charge."),
        define_option(
            "--gres", multiple=True, metavar="NAME:COUNT", help="Devices per node, if sinfo does not show them."
        ),
        define_option("--sbatch", multiple=True, metavar="OPTION", help="Extra option for sbatch (repeatable)."),
        define_option("--requeue-without-bad", is_flag=True, help="Requeue the job without the failed nodes."),
        define_option("--drain", is_flag=True, help="Drain bad nodes in Slurm, with the reason."),
    ),
)
