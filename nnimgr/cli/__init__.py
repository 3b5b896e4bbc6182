"""The command ``nnictl``: a client of the REST API, with the verbs and the wording of NNI's ``nnictl``.

Every verb is a function ``(args, terminal) -> exit code``. The module of a verb is imported only when the
verb runs, so that ``nnictl --help`` is fast.
"""
