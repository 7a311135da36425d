"""States each operator kind once, and derives loop nests, slicing axes and footprints from the statement."""
