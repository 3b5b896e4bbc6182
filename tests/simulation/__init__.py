"""Deterministic simulation: the product's own classes on a virtual clock, with faults everywhere else.

``world.World(seed).run()`` is one life of an experiment; ``python -m tests.simulation --help`` runs many.
"""
