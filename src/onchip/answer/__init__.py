"""Problems, options, plans, mappings, schedules and results, and the fields of their files."""
