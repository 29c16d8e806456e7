"""Plans of provisioning as text and JSON values."""
