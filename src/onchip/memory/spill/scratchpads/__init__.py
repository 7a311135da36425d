"""Several scratchpads, links, and states kept for the whole inference."""
