"""What a place is where a training runs, and with which environment it runs there."""
