"""Client of the server on this machine, which the command line and ``nni.experiment`` use.

``servers`` finds or starts the server of a port. ``calls`` sends requests to it. ``experiments`` creates,
resumes and views experiments.
"""
