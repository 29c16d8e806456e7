"""Backends that run a training on other machines: ssh, Slurm and Kubernetes."""
