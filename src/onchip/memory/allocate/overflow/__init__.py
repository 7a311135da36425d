"""Several memories, static placement and minimum bytes outside."""
