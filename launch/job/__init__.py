"""One training job: the request, its command and environment."""
