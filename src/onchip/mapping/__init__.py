"""The best loop nest for a layer."""
