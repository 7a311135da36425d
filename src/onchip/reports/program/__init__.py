"""Tables, timelines and pages of plans."""
