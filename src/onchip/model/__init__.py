"""What an answer costs and when things happen; prices only, no search."""
