"""Core of the server: one runner per experiment, the only writer of the experiment's database.

A runner applies facts (records of what has happened) to the state and plans the next steps. It commits all
facts at once, and then carries out the commands.
"""
