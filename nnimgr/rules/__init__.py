"""Pure rules of an experiment: facts, the state that results from them, and the plan for the next steps."""
