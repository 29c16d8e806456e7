"""Who runs a training: this machine, hosts over ssh, Slurm or Kubernetes."""
