"""Where an experiment's truth is kept. No query is written outside this package."""
