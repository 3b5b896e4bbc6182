"""Names of pods that are made for one job, or for one member of a gang."""

from __future__ import annotations

import re

from training_services.allocations.queues import Naming
from training_services.job_ids import job_id_of, job_of_member, member_id_of
from training_services.kubernetes.syntax import object_name

__all__ = ["PODS", "job_of_pod", "pod_name"]

_NAME = re.compile(r"(?:.*-)?([^-]+)-(\d+)(?:-m(\d+))?")


def pod_name(job_id: str) -> str:
    """Return the name of the pod, and of its keeper, for a job or a member of a gang.

    It contains no dot, unlike the id of a member, because it is a key beside others that have one.
    """
    whole, member = job_of_member(job_id)
    return object_name(f"{whole}-m{member}" if member else whole)


def job_of_pod(experiment_id: str, name: str) -> str | None:
    """Return the id of the job, or member of a gang, for which a pod with this name was made.

    Return None if the name was shortened.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return member_id_of(job_id_of(experiment_id, found[1], int(found[2])), int(found[3] or 0))


PODS = Naming("pod", pod_name, object_name)
