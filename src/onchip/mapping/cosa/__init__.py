"""CoSA's program and its ties."""
