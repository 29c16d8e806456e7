"""The one judge of what a job, `facts.wanted`, requires of a machine: the checks `job.*`, pure over Facts."""
