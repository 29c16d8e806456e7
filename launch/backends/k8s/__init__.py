"""Trainings as jobs of Kubernetes: facts of a job -> documents -> YAML, or a cluster; envcheck gates every pod."""
