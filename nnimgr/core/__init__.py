"""The core: one writer per experiment, which folds facts, plans, commits once, and then acts."""
