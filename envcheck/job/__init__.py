"""A job: what was asked for, resolved for one machine; its command, container and requirements."""
