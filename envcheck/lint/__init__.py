"""`envcheck lint`: find mistakes in launch scripts and training configurations, line by line."""
