"""Options and objectives of the commands."""
