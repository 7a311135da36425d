"""Options and objectives of the verbs."""
