"""Problems, options, plans, mappings, schedules and results, with the fields of their files."""
