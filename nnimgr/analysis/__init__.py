"""Questions about all trials of an experiment, answered from numpy columns in a separate process."""
