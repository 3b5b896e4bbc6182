"""The variables of a gang's workers: those of torchrun, of nnimgr, and of Kubernetes' operators."""

from __future__ import annotations

import json
import os

from trial_keeper.lean import NamedTuple

HOSTFILE = ".nni/hostfile"  # in the member's folder
# roles that TensorFlow knows, and the port of each member, as tf-operator has them
_TF_ROLES = {"chief", "master", "worker", "ps", "evaluator"}
_TF_PORT = 2222
_FC_FIRST_PORT = 4000  # port of the first role, as NNI has given ports to roles in FrameworkController
# interface that communication libraries take, where they would guess a wrong one
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


class Group(NamedTuple):
    """The member of a gang that this crew is. ``counts``: number of workers of each member.

    ``roles``: each role and the number of its members, in the order of the members, such as "ps:1,worker:3";
    "" if all members are alike. ``in_pods``: each member has a pod, with an address and all ports of its own.
    """

    member: int
    counts: list[int]
    hosts: list[str]
    port: int  # where rank 0 listens
    interface: str | None = None  # network interface to the other members
    hostfile: str = ""  # path of a file with the addresses of all members, as mpirun reads it
    roles: str = ""
    in_pods: bool = False

    @property
    def first(self) -> int:
        """Rank of the first worker of this member."""
        return sum(self.counts[: self.member])


def environment(group: Group, local: int, folder: str, *, once: bool = False) -> dict[str, str]:
    """Return the variables of one worker. ``folder``: where it may write how it has failed.

    ``once``: the command runs once on each host, so that it may be torchrun itself.
    """
    rank, count, world = group.first + local, group.counts[group.member], sum(group.counts)
    nodes, leader = len(group.counts), group.hosts[0]
    found: dict[str, object] = {
        "RANK": rank, "LOCAL_RANK": local, "ROLE_RANK": rank, "GROUP_RANK": group.member,
        "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": count, "ROLE_WORLD_SIZE": world, "GROUP_WORLD_SIZE": nodes,
        "ROLE_NAME": "default", "MASTER_ADDR": leader, "MASTER_PORT": group.port,
        "TORCHELASTIC_USE_AGENT_STORE": "False", "TORCHELASTIC_ERROR_FILE": f"{folder}/error.json",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": 1,
    }  # fmt: skip
    if nodes > 1:
        found.update({
            "NNIMGR_GANG_RANK": group.member, "NNIMGR_GANG_SIZE": nodes,
            "NNIMGR_GANG_HOSTS": ",".join(group.hosts), "NNIMGR_GANG_ENDPOINT": f"{leader}:{group.port}",
            "NNIMGR_GANG_ROUND": 1 + int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
            "NNIMGR_GANG_HOSTFILE": group.hostfile,
        })  # fmt: skip
    if group.roles:
        found.update(_variables_of_roles(group, local))
    if once:
        found.update({
            "PET_NNODES": nodes, "PET_NODE_RANK": group.member, "PET_MASTER_ADDR": leader,
            "PET_MASTER_PORT": group.port, "PET_RDZV_BACKEND": "static", "PET_MAX_RESTARTS": 0,
        })  # fmt: skip
    if group.interface is not None:
        for name in _INTERFACES:
            if name not in os.environ:
                found[name] = group.interface
    if count > 1 and "OMP_NUM_THREADS" not in os.environ:
        found["OMP_NUM_THREADS"] = 1
    return {name: str(value) for name, value in found.items()}


def _variables_of_roles(group: Group, local: int) -> dict[str, object]:
    """Return the variables about the roles of the members, in particular those of Kubernetes' operators."""
    found: dict[str, object] = {}
    cluster: dict[str, list[str]] = {}
    own, first = ("", 0), 0
    for number, role in enumerate(group.roles.split(",")):
        name, _, size = role.partition(":")
        hosts = group.hosts[first : first + int(size)]
        index = group.member - first
        if 0 <= index < len(hosts):
            own = (name, index)
            counts = group.counts[first : first + len(hosts)]
            found.update({
                "ROLE_NAME": name, "ROLE_RANK": sum(counts[:index]) + local, "ROLE_WORLD_SIZE": sum(counts),
                "FC_TASKROLE_NAME": name, "FC_TASK_INDEX": index,
            })  # fmt: skip
        cluster[name] = [f"{host}:{_TF_PORT}" for host in hosts]
        if group.in_pods:
            label, port = name.upper().replace("-", "_"), _FC_FIRST_PORT + number
            addresses = ",".join(f"{host}:{port}" for host in hosts)
            found.update({f"FB_{label}_IPS": ",".join(hosts), f"FB_{label}_PORT": port})
            found[f"FB_{label}_ADDRESSES"] = addresses
        first += len(hosts)
    if group.in_pods and cluster.keys() <= _TF_ROLES:
        task = {"type": own[0], "index": own[1]}
        found["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})
    return found
