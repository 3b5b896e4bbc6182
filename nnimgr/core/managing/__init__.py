"""Manages all experiments of a server: opens, supervises, lists, changes and deletes experiments."""
