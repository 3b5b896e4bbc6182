"""Core of the server: one runner per experiment, the only writer of the experiment's database.

A runner applies facts to the state, plans the next steps, commits everything at once, and then acts.
"""
