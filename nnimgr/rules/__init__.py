"""The rules of an experiment, pure: facts, the state they add up to, and the plan that follows from it."""
