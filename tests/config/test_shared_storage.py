"""``sharedStorage`` in a file: what trials can use, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnimgr.config import ConfigError, ExperimentConfig, load_config, read_canonical
from nnimgr.config.shared_storage import shared_folder
from training_services.base import SharedFolder

HEAD = """\
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: "true"
trialConcurrency: 1
maxTrialNumber: 1
goal: maximize
tuner: {name: Random}
"""
LOCAL = "trainingService: {platform: local}\n"
REMOTE = "trainingService: {platform: remote, machineList: [{host: a, user: b, password: c}]}\n"
NFS = """\
sharedStorage:
  storageType: NFS
  localMountPoint: %s
  remoteMountPoint: /mnt/there/
  localMounted: usermount
  nfsServer: 192.0.2.1
  exportedDirectory: /exported
"""


def load(tmp_path: Path, text: str) -> ExperimentConfig:
    (tmp_path / "exp.yml").write_text(text)
    loaded = load_config(tmp_path / "exp.yml", environ={"HOME": str(tmp_path)})
    assert not loaded.warnings
    return loaded.config


@pytest.mark.parametrize("service", [LOCAL, REMOTE])
@pytest.mark.parametrize("spelled", ["sharedStorage:", "shared_storage:"])
def test_nfs_that_the_user_has_mounted(tmp_path: Path, service: str, spelled: str) -> None:
    config = load(tmp_path, HEAD + service + (NFS % tmp_path).replace("sharedStorage:", spelled))
    folder = SharedFolder(local=str(tmp_path), remote="/mnt/there")
    assert shared_folder(config) == shared_folder(read_canonical(config.canonical())) == folder


def test_machines_may_have_it_although_this_one_has_not(tmp_path: Path) -> None:
    text = HEAD + REMOTE + (NFS % "/nowhere").replace("usermount", "nomount")
    found = shared_folder(load(tmp_path, text))
    assert found is not None and found.remote == "/mnt/there"


@pytest.mark.parametrize(
    ("service", "old", "new", "sentence"),
    [
        (LOCAL, "usermount", "nomount", "localMounted: trials on this machine need the storage"),
        (REMOTE, "usermount", "nnimount", "localMounted: nnimgr does not mount storage, which needs root"),
        (REMOTE, "usermount", "mounted", "localMounted: "),
        (
            REMOTE,
            "storageType: NFS",
            "storageType: AzureBlob",
            "storageType: nnimgr does not mount this storage",
        ),
        (REMOTE, "/mnt/there/", "there", "remoteMountPoint: must be an absolute path, not 'there'"),
        (REMOTE, "  remoteMountPoint: /mnt/there/\n", "", "remoteMountPoint: "),
        (REMOTE, "nfsServer", "nfsServr", "nfsServr: "),
        (LOCAL, "localMountPoint: ", "localMountPoint: /no", "localMountPoint: there is no directory /no"),
        (
            "trainingService: {platform: kubernetes, image: a}\n",
            "",
            "",
            "cannot use a shared storage: remove the field",
        ),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, service: str, old: str, new: str, sentence: str) -> None:
    text = HEAD + service + (NFS % tmp_path)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text.replace(old, new, 1) if old else text)
    (problem,) = caught.value.problems
    assert str(problem).startswith(f"{tmp_path}/exp.yml:") and sentence in str(problem)
    assert str(problem.field).startswith("sharedStorage")


def test_what_was_stored_and_never_used_stays_unused(tmp_path: Path) -> None:
    config = load(tmp_path, HEAD + LOCAL)
    stored = {**config.canonical(), "sharedStorage": {"storageType": "AzureBlob", "containerName": "c"}}
    assert shared_folder(read_canonical(stored)) is None
