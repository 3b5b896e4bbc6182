"""One writer per experiment: facts are folded into the state, a plan follows, one commit, then the acts."""
