"""Trainings as jobs of Slurm: written as a script for sbatch, submitted, looked after, and each node's look before."""

from launch.runs.backends import Backend, option

BACKEND = Backend(
    "slurm",
    "Slurm",
    record_key="slurm",
    options=(
        option("--partition", multiple=True, metavar="NAME", help="Slurm: this partition; twice for mixed cards."),
        option("--time", metavar="TIME", help="Slurm: at most so long, as sbatch says it: 90, 8:00:00, 2-12."),
        option("--account", metavar="NAME", help="Slurm: who pays for it."),
        option(
            "--gres", multiple=True, metavar="NAME:N", help="Slurm: the cards of a node, where sinfo does not tell."
        ),
        option("--sbatch", multiple=True, metavar="OPTION", help="Slurm: a further option of sbatch; several times."),
        option("--requeue-without-bad", is_flag=True, help="Slurm: after a failed look, again without the bad nodes."),
        option("--drain", is_flag=True, help="Slurm: operators' jobs take bad nodes out of use, with the reason."),
    ),
)
