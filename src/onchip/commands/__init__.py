"""One file for each verb: arguments, options and exit codes."""
