"""What kind of bytes a log has, and inputs that may never end."""
