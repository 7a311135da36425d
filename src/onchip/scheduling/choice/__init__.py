"""Choice among candidate groups."""
