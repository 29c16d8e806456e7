"""Trainings as jobs of Slurm: written as a script for sbatch, submitted, looked after, and each node's look before."""
