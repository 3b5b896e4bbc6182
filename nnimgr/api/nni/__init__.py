"""NNI's own REST routes: below ``/api/v1/nni`` and, for each experiment, ``/e/<id>/api/v1/nni``.

The first are about the experiment that was created or resumed last on this server, since NNI has one
experiment a port.
"""
