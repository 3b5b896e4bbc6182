"""What is made in the cluster, as a reader of YAML sees it."""

from __future__ import annotations

import base64
import json
import os
import runpy
import shutil
import subprocess
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from training_services.base import ServiceUnavailable
from training_services.kubernetes import manifest, syntax
from training_services.kubernetes.config import KubernetesConfig
from training_services.kubernetes.manifest import Belonging, ResourceFault
from training_services.kubernetes.template import TemplateError
from training_services.placement.needs import Wants

BELONGING = Belonging(experiment_id="k3xp", database_id="d1", namespace="lab", owner_uid="uid-1")
NOTHING = Wants(None, None, None)
GRACE = timedelta(seconds=5)

PLAIN = """
apiVersion: batch/v1
kind: Job
metadata:
  name: k3xp-abcde-1
  namespace: lab
  labels: &labels
    app.kubernetes.io/managed-by: nnimgr
    nnimgr.io/experiment: k3xp
    nnimgr.io/database: d1
    nnimgr.io/keeper: k3xp-abcde-1
    nnimgr.io/trial: abcde
    nnimgr.io/attempt: "1"
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: nnimgr-k3xp, uid: uid-1}
spec:
  backoffLimit: 0
  ttlSecondsAfterFinished: 600
  template:
    metadata: {labels: *labels}
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: 15
      securityContext: {seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: trial
        image: python:3.12
        command: [python3, -S, -E, /nnimgr/keeper/trial_keeper.pyz, wrap, /nnimgr/manager, /nnimgr/work]
        env:
        - {name: NNIMGR_EXPERIMENT, value: k3xp}
        - {name: NNIMGR_KEEPER, value: k3xp-abcde-1}
        - {name: NNIMGR_POD_REASON, value: /dev/termination-log}
        - {name: NNIMGR_POD_GRACE_S, value: "5"}
        - {name: NNIMGR_POD_WHOLE_GRACE_S, value: "15"}
        - {name: NNIMGR_KEEPER_UNREPORTED_S, value: "86400"}
        - {name: NNIMGR_POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
        resources: {}
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        volumeMounts:
        - {name: nnimgr-keeper, mountPath: /nnimgr/keeper, readOnly: true}
        - {name: nnimgr-manager, mountPath: /nnimgr/manager, readOnly: true}
        - {name: nnimgr-work, mountPath: /nnimgr/work}
      volumes:
      - name: nnimgr-keeper
        configMap: {name: nnimgr-k3xp-archive}
      - name: nnimgr-manager
        secret:
          secretName: nnimgr-k3xp
          items: [{key: k3xp-abcde-1, path: manager.json}]
          defaultMode: 0444
      - {name: nnimgr-work, emptyDir: {}}
"""

EVERYTHING = """
image: lab/train:7
imagePullPolicy: Always
imagePullSecrets: [registry]
keeperImage: lab/keeper:1
resources: {cpu: 2, memory: 4Gi, gpu: 1, requests: {cpu: 500m, memory: 1Gi}}
nodeSelector: {disk: ssd}
tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}]
serviceAccount: trainer
labels: {team: vision, kueue.x-k8s.io/queue-name: team-vision}
annotations: {sidecar.istio.io/inject: "false"}
env:
  MODE: fast
  KEY: {secret: keys, key: api}
  LEVEL: {configMap: levels, key: level, optional: true}
envFrom: [{secret: more, prefix: S3_}, {configMap: settings, optional: true}]
volumes:
- {name: data, pvc: datasets, mountPath: /data/, subPath: imagenet, readOnly: true}
- {name: settings, configMap: settings, mountPath: /settings}
- {name: certificates, secret: certificates, mountPath: /certificates}
- {name: shm, emptyDir: {medium: Memory, sizeLimit: 2Gi}, mountPath: /dev/shm}
- {name: scratch, hostPath: /scratch, mountPath: /scratch}
- {name: old, nfs: {server: nfs.lab, path: /export}, mountPath: /tmp/mount, readOnly: true}
priorityClass: batch
keepJobs: 1h
trialCode: {pvc: code, path: project, readOnly: true}
reuseMode: true
reuseIdle: 30s
orphanedAfter: 5m
podTemplate:
  metadata: {annotations: {team: vision}}
  spec:
    securityContext: {runAsUser: 1000}
    seccompProfile: null
    tolerations: [{key: nvidia.com/gpu, effect: NoExecute}, {key: spot, operator: Exists}]
    containers:
    - name: trial
      securityContext: {capabilities: null}
      volumeMounts: [{mountPath: /data, mountPropagation: None}]
    - {name: watcher, image: "lab/watcher:1"}
"""

ALL_OF_IT = """
restartPolicy: Never
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 15
securityContext: {seccompProfile: {type: RuntimeDefault}, runAsUser: 1000}
serviceAccountName: trainer
priorityClassName: batch
imagePullSecrets: [{name: registry}]
nodeSelector: {disk: ssd}
tolerations:
- {key: nvidia.com/gpu, operator: Exists, effect: NoExecute}
- {key: spot, operator: Exists}
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}]
initContainers:
- name: nnimgr-install
  image: lab/keeper:1
  imagePullPolicy: Always
  command: [/nnimgr-keeper/lib/ld.so, --inhibit-cache, --library-path, /nnimgr-keeper/lib,
    /nnimgr-keeper/bin/python3, -I, -S, /nnimgr-keeper/install.py, /nnimgr/keeper]
  securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
  volumeMounts: [{name: nnimgr-keeper, mountPath: /nnimgr/keeper}]
containers:
- name: trial
  image: lab/train:7
  imagePullPolicy: Always
  command: [/nnimgr/keeper/lib/ld.so, --inhibit-cache, --library-path, /nnimgr/keeper/lib,
    /nnimgr/keeper/bin/python3, -I, -S, /nnimgr/keeper/trial_keeper.pyz, wrap, /nnimgr/manager, /nnimgr/work]
  env:
  - {name: NNIMGR_EXPERIMENT, value: k3xp}
  - {name: NNIMGR_KEEPER, value: k3xp-pool-4zq9xw}
  - {name: NNIMGR_POD_REASON, value: /dev/termination-log}
  - {name: NNIMGR_POD_GRACE_S, value: "5"}
  - {name: NNIMGR_POD_WHOLE_GRACE_S, value: "15"}
  - {name: NNIMGR_KEEPER_UNREPORTED_S, value: "300"}
  - {name: NNIMGR_KEEPER_ORPHAN_S, value: "300"}
  - {name: NNIMGR_KEEPER_IDLE_S, value: "30"}
  - {name: NNIMGR_POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
  - {name: MODE, valueFrom: {secretKeyRef: {name: nnimgr-k3xp, key: env.MODE}}}
  - {name: KEY, valueFrom: {secretKeyRef: {name: keys, key: api}}}
  - {name: LEVEL, valueFrom: {configMapKeyRef: {name: levels, key: level, optional: true}}}
  envFrom:
  - {prefix: S3_, secretRef: {name: more}}
  - {configMapRef: {name: settings, optional: true}}
  resources:
    limits: {cpu: "2", memory: 4Gi, nvidia.com/gpu: "1"}
    requests: {cpu: 500m, memory: 1Gi, nvidia.com/gpu: "1"}
  securityContext: {allowPrivilegeEscalation: false}
  volumeMounts:
  - {name: nnimgr-keeper, mountPath: /nnimgr/keeper, readOnly: true}
  - {name: nnimgr-manager, mountPath: /nnimgr/manager, readOnly: true}
  - {name: nnimgr-work, mountPath: /nnimgr/work}
  - {name: nnimgr-code, mountPath: /nnimgr/code, subPath: project, readOnly: true}
  - {name: data, mountPath: /data, subPath: imagenet, readOnly: true, mountPropagation: None}
  - {name: settings, mountPath: /settings}
  - {name: certificates, mountPath: /certificates}
  - {name: shm, mountPath: /dev/shm}
  - {name: scratch, mountPath: /scratch}
  - {name: old, mountPath: /tmp/mount, readOnly: true}
- {name: watcher, image: "lab/watcher:1"}
volumes:
- {name: nnimgr-keeper, emptyDir: {}}
- name: nnimgr-manager
  secret:
    secretName: nnimgr-k3xp
    items: [{key: k3xp-pool-4zq9xw, path: manager.json}]
    defaultMode: 0444
- {name: nnimgr-work, emptyDir: {}}
- {name: nnimgr-code, persistentVolumeClaim: {claimName: code, readOnly: true}}
- {name: data, persistentVolumeClaim: {claimName: datasets, readOnly: true}}
- {name: settings, configMap: {name: settings}}
- {name: certificates, secret: {secretName: certificates}}
- {name: shm, emptyDir: {medium: Memory, sizeLimit: 2Gi}}
- {name: scratch, hostPath: {path: /scratch}}
- {name: old, nfs: {server: nfs.lab, path: /export, readOnly: true}}
"""


def configured(text: str = "image: python:3.12") -> KubernetesConfig:
    return KubernetesConfig.model_validate(yaml.safe_load(text))


def one(
    config: KubernetesConfig, *, wants: Wants = NOTHING, belonging: Belonging = BELONGING
) -> dict[str, Any]:
    """The Job of a trial."""
    return manifest.job(
        config,
        belonging,
        keeper_id="k3xp-abcde-1",
        job_id="exp-abcde-1",
        wants=wants,
        grace=GRACE,
        archive="nnimgr-k3xp-archive",
    )


def pooled(config: KubernetesConfig, *, belonging: Belonging = BELONGING) -> dict[str, Any]:
    return manifest.job(config, belonging, keeper_id="k3xp-pool-4zq9xw", wants=NOTHING, grace=GRACE)


def pod(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["template"]["spec"]
    return found


def test_a_plain_job() -> None:
    assert one(configured()) == yaml.safe_load(PLAIN)


def test_a_job_with_everything() -> None:
    found = pooled(configured(EVERYTHING))
    assert pod(found) == yaml.safe_load(ALL_OF_IT)
    assert found["spec"]["ttlSecondsAfterFinished"] == 3600
    assert found["metadata"]["labels"] == {
        "team": "vision",
        "kueue.x-k8s.io/queue-name": "team-vision",
        "app.kubernetes.io/managed-by": "nnimgr",
        "nnimgr.io/experiment": "k3xp",
        "nnimgr.io/database": "d1",
        "nnimgr.io/keeper": "k3xp-pool-4zq9xw",
    }
    metadata = found["spec"]["template"]["metadata"]
    assert metadata["labels"] == found["metadata"]["labels"]
    assert metadata["annotations"] == {"sidecar.istio.io/inject": "false", "team": "vision"}


def test_what_is_merged_is_not_changed() -> None:
    config = configured(EVERYTHING)
    before = repr(config)
    assert pooled(config) == pooled(config)
    assert repr(config) == before


def test_the_deadline_and_code_in_the_image() -> None:
    config = configured(
        "{image: a, activeDeadline: 1h, trialCode: {image: /opt/project/}, python: /venv/bin/python}"
    )
    assert config.code_directory == "/opt/project"
    found = one(config)
    assert found["spec"]["activeDeadlineSeconds"] == 3600
    assert pod(found)["containers"][0]["command"][0] == "/venv/bin/python"
    assert {volume["name"] for volume in pod(found)["volumes"]} == {
        "nnimgr-keeper",
        "nnimgr-manager",
        "nnimgr-work",
    }


def test_code_in_a_config_map() -> None:
    config = configured("{image: a, trialCode: {configMap: code}}")
    found = pod(one(config))
    assert config.code_directory == "/nnimgr/code"
    assert found["volumes"][-1] == {"name": "nnimgr-code", "configMap": {"name": "code"}}
    assert found["containers"][0]["volumeMounts"][-1] == {"name": "nnimgr-code", "mountPath": "/nnimgr/code"}
    assert configured().code_directory is None


@pytest.mark.parametrize(
    ("resources", "wants", "limits", "requests"),
    [
        ("{}", NOTHING, None, None),
        ("{}", Wants(2, 1.5, 512), {"cpu": "1500m", "memory": "512Mi", "nvidia.com/gpu": "2"}, "same"),
        ("{cpu: 3, gpu: 0}", Wants(0.5, 1, None), {"cpu": "3"}, "same"),
        ("{gpu: 1, gpuResource: amd.com/gpu}", NOTHING, {"amd.com/gpu": "1"}, "same"),
        (
            "{requests: {cpu: 0.25}}",
            Wants(None, None, 64),
            {"memory": "64Mi"},
            {"memory": "64Mi", "cpu": "250m"},
        ),
        ("{cpu: 0.0001}", NOTHING, {"cpu": "1m"}, "same"),
    ],
)
def test_resources(resources: str, wants: Wants, limits: Any, requests: Any) -> None:
    config = configured(f"{{image: a, resources: {resources}}}")
    expected = (
        {} if limits is None else {"limits": limits, "requests": limits if requests == "same" else requests}
    )
    assert manifest.container_resources(config, wants) == expected


@pytest.mark.parametrize(
    ("resources", "wants", "path", "sentence"),
    [
        ("{}", Wants(0.5, None, None), ("trialGpuNumber",), "0.5 of a GPU is not possible"),
        (
            "{requests: {memory: 1Gi}}",
            Wants(None, None, 512),
            ("resources", "requests", "memory"),
            "the request of 1Gi is more than the limit of 512Mi",
        ),
    ],
)
def test_resources_that_cannot_be_had(
    resources: str, wants: Wants, path: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(ResourceFault) as caught:
        manifest.container_resources(configured(f"{{image: a, resources: {resources}}}"), wants)
    assert caught.value.path == path
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("{spec: {securityContext: none}}", ("spec", "securityContext")),
        ("{spec: {containers: [{name: trial, env: 3}]}}", ("spec", "containers", 0, "env")),
    ],
)
def test_a_template_that_does_not_fit(template: str, path: tuple[str | int, ...]) -> None:
    with pytest.raises(TemplateError) as caught:
        one(configured(f"{{image: a, podTemplate: {template}}}"))
    assert caught.value.path == path


def test_variables_of_a_template_come_beside_ours() -> None:
    variable = "{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}"
    config = configured(
        f"{{image: a, podTemplate: {{spec: {{containers: [{{name: trial, env: [{variable}]}}]}}}}}}"
    )
    names = [variable["name"] for variable in pod(one(config))["containers"][0]["env"]]
    own = ["EXPERIMENT", "KEEPER", "POD_REASON", "POD_GRACE_S", "POD_WHOLE_GRACE_S", "KEEPER_UNREPORTED_S"]
    own += ["POD_UID"]
    assert names == [*(f"NNIMGR_{name}" for name in own), "NODE"]


def test_the_keeper_knows_the_grace_of_a_template() -> None:
    config = configured("{image: a, podTemplate: {spec: {terminationGracePeriodSeconds: 120}}}")
    made = pod(one(config))
    assert made["terminationGracePeriodSeconds"] == 120
    assert {"name": "NNIMGR_POD_WHOLE_GRACE_S", "value": "120"} in made["containers"][0]["env"]


def test_the_owner_and_the_keeper_that_it_owns() -> None:
    owner = manifest.owner(BELONGING)
    assert owner["metadata"]["name"] == "nnimgr-k3xp" and "ownerReferences" not in owner["metadata"]
    found = manifest.archive(BELONGING, b"\x00zip")
    assert base64.b64decode(found["binaryData"]["trial_keeper.pyz"]) == b"\x00zip"
    name = manifest.archive_name("k3xp", b"\x00zip")
    assert found["metadata"]["name"] == name != manifest.archive_name("k3xp", b"other") and found["immutable"]
    assert found["metadata"]["ownerReferences"][0]["name"] == "nnimgr-k3xp"
    with pytest.raises(ServiceUnavailable, match="more than a ConfigMap can contain"):
        manifest.archive(BELONGING, b"x" * 1_000_001)


def test_an_image_brings_its_own_python() -> None:
    path = Path(__file__).parents[2] / "deploy" / "keeper-image" / "build.py"
    found = pod(one(configured("{image: a, keeperImage: k}")))
    made = runpy.run_path(str(path))
    assert found["initContainers"][0]["command"] == made["INSTALL"]
    assert found["containers"][0]["command"] == [*made["KEEPER"], "wrap", "/nnimgr/manager", "/nnimgr/work"]


def test_the_secret_and_its_changes() -> None:
    config = KubernetesConfig(image="a", env={"TOKEN": SecretStr("t0p")})
    texts = {**manifest.secret_texts(config), "k3xp-abcde-1": "{}"}
    assert texts == {"env.TOKEN": "t0p", "k3xp-abcde-1": "{}"}
    found = manifest.secret(BELONGING, texts)
    assert found["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
    assert {key: base64.b64decode(text).decode() for key, text in found["data"].items()} == texts
    assert manifest.secret_patch({"a": "x", "b": None}) == {"data": {"a": "eA==", "b": None}}
    assert "t0p" not in json.dumps(one(config))


@given(st.text())
def test_any_text_gives_names(text: str) -> None:
    name, value = syntax.object_name(text), syntax.label_value(text)
    assert len(name) <= 52 and syntax.check_namespace(name) == name
    assert value and syntax.check_label(value) == value
    assert syntax.object_name(name) == name and syntax.label_value(value) == value


@given(st.text(max_size=80), st.text(max_size=80))
def test_different_texts_give_different_names(one_text: str, other: str) -> None:
    if one_text != other:
        assert syntax.object_name(one_text) != syntax.object_name(other)
        assert syntax.label_value(one_text) != syntax.label_value(other)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("500m", "0.5"),
        (2, "2"),
        (0.5, "0.5"),
        ("1.5Gi", str(3 * 2**29)),
        ("1e3", "1000"),
        ("12E", "12e18"),
        (".5k", "500"),
    ],
)
def test_quantities(text: Any, amount: str) -> None:
    assert syntax.parse_quantity(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["", "5 Gi", "8gb", "-1", "0", "1K", True, None, "Gi", float("nan")])
def test_what_is_no_quantity(text: Any) -> None:
    with pytest.raises(ValueError, match=r"is not an amount|must be above 0"):
        syntax.parse_quantity(text)


@pytest.mark.skipif(not os.environ.get("KUBECONFIG"), reason="KUBECONFIG names no cluster")
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
@pytest.mark.parametrize("kind", ["owner", "archive", "secret", "plain", "everything"])
def test_a_real_cluster_takes_it(kind: str) -> None:
    here = Belonging(experiment_id="k3xp", database_id="d1", namespace="default", owner_uid="uid-1")
    everything = configured(EVERYTHING)
    found = {
        "owner": lambda: manifest.owner(here),
        "archive": lambda: manifest.archive(here, b"\x00zip"),
        "secret": lambda: manifest.secret(here, {"k3xp-abcde-1": "{}", **manifest.secret_texts(everything)}),
        "plain": lambda: one(configured(), belonging=here),
        "everything": lambda: pooled(everything, belonging=here),
    }[kind]()
    done = subprocess.run(
        ["kubectl", "create", "--dry-run=server", "-o", "json", "-f", "-"],
        input=json.dumps(found),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    if found["kind"] == "Job":
        _assert_within(pod(found), pod(json.loads(done.stdout)))


def _assert_within(part: Any, whole: Any) -> None:
    """What the cluster made of it has all that was asked for: it drops what it does not know."""
    if isinstance(part, dict):
        for key, value in part.items():
            assert key in whole, key
            _assert_within(value, whole[key])
    elif isinstance(part, list):
        assert len(part) == len(whole)
        for item, other in zip(part, whole, strict=True):
            _assert_within(item, other)
    else:
        assert part == whole
