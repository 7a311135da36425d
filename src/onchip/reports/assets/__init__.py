"""Templates, styles and scripts of the pages, which open offline."""
