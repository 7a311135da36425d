"""The commands, one file each: arguments, options and exit codes."""
