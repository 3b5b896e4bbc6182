"""The keeper's decisions: a pure state machine that takes inputs and returns effects."""
