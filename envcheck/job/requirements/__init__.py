"""The checks `job.*`: whether a machine meets the requirements of a job (`facts.wanted`).  Pure over Facts."""
