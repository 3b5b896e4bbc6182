"""Storage of an experiment in its database. All SQL queries on it are in this package."""
