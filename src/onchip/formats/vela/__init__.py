"""What Vela, Arm's compiler for Ethos-U, prints of its allocation."""
