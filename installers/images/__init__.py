"""The container engine and its images: registry look-ups, pulls by digest, removal."""
