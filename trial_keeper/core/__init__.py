"""The keeper's decisions: a state machine without I/O, which takes inputs and returns orders ("effects")."""
