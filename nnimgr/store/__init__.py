"""Storage of an experiment in its database. All SQL queries on this database are in this package."""
