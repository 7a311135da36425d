"""Programs and files for other tools; a backend uses the public API only."""
