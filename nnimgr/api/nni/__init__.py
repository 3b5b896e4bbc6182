"""NNI's own REST routes: below ``/api/v1/nni`` and, for each experiment, ``/e/<id>/api/v1/nni``.

NNI has one experiment per port. So routes without an experiment's id concern the experiment that was created
or resumed last on this server.
"""
