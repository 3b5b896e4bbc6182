"""``platform: kubernetes`` in a file, and NNI's platforms that are converted to it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from nnimgr.config import ConfigError, ExperimentConfig, load_config, read_canonical
from nnimgr.config.preview import preview
from nnimgr.config.secrets import hide_secrets, reveal_secrets
from training_services.base import GangRole, TrialJobSpec
from training_services.kubernetes.config import KubernetesConfig
from training_services.kubernetes.manifest import secret_texts
from training_services.placement.needs import Wants

HEAD = """\
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: python3 train.py
trialConcurrency: 1
maxTrialNumber: 1
tuner: {name: Random}
"""
ENVIRON = {"API_KEY": "from-env"}
TF_JOB = "operator: tf-operator\napiVersion: v1\n"


def load(folder: Path, body: str, *, head: str = HEAD, platform: str = "kubernetes") -> ExperimentConfig:
    return read(folder, body, head=head, platform=platform)[0]


def read(
    folder: Path, body: str, *, head: str = HEAD, platform: str = "kubernetes"
) -> tuple[ExperimentConfig, list[str]]:
    """Return the configuration, and the sentences of its warnings."""
    lines = "".join(f"  {line}\n" for line in body.splitlines())
    file = folder / "exp.yml"
    file.write_text(f"{head}trainingService:\n  platform: {platform}\n{lines}")
    loaded = load_config(file, environ={"HOME": str(folder), **ENVIRON})
    return loaded.config, [str(warning) for warning in loaded.warnings]


def service(config: ExperimentConfig) -> KubernetesConfig:
    assert isinstance(config.training_service, KubernetesConfig)
    return config.training_service


def refusal(folder: Path, body: str, *, head: str = HEAD, platform: str = "kubernetes") -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, body, head=head, platform=platform)
    return str(caught.value)


def test_one_word_and_an_image(tmp_path: Path) -> None:
    config = load(tmp_path, "image: python:3.12-slim")
    assert service(config) == KubernetesConfig(image="python:3.12-slim")
    assert read_canonical(config.canonical()) == config


@pytest.mark.parametrize(
    "image",
    [
        "busybox",
        "localhost/python:h5",
        "quay.io/jupyter/scipy-notebook:python-3.12",
        "Lab.org:5000/team/a__b/c-d.e:V7",
        "[fd00::1]:5000/a",
        f"ghcr.io/a/b:1@sha256:{'0' * 64}",
    ],
)
def test_names_of_images(tmp_path: Path, image: str) -> None:
    assert service(load(tmp_path, f"image: '{image}'")).image == image


def test_paths_names_and_spellings(tmp_path: Path) -> None:
    (tmp_path / "cluster.yml").touch()
    found = service(
        load(
            tmp_path,
            """\
docker_image: lab/train:7
kubeconfig: cluster.yml
image_pull_policy: IfNotPresent
resources: {Cpu: 2, memory: 4Gi}
tolerations: [{operator: Exists}]
trialCode: archive
""",
        )
    )
    assert (found.image, found.docker_image, found.image_pull_policy) == ("lab/train:7", None, "IfNotPresent")
    assert found.kubeconfig == tmp_path / "cluster.yml"
    assert (found.resources.cpu, found.resources.memory) == ("2", "4Gi")
    assert found.trial_code is None


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("namespace: lab", "exp.yml:6:1: trainingService.image: required, but not given"),
        ("imgae: a", "exp.yml:8:3: trainingService.imgae: unknown field; did you mean 'image'?"),
        ("image: Lab/Train", "'Lab/Train' is not the name of an image"),
        ("image: 'a:'", "'a:' is not the name of an image"),
        ("image: a\nkeeperImage: a//b", "trainingService.keeperImage: 'a//b' is not the name of an image"),
        ("image: a b", "exp.yml:8:3: trainingService.image: 'a b' is not the name of an image"),
        ("image: a\ndockerImage: b", "'image' and 'dockerImage' mean the same: give one of them"),
        (
            "image: a\nimagePullPolicy: Sometimes",
            "unknown value 'Sometimes' (valid: Always, IfNotPresent, Never)",
        ),
        (
            "image: a\nimagePullSecrets: [My_Secret]",
            "imagePullSecrets[0]: 'My_Secret' is not a valid Kubernetes name",
        ),
        ("image: a\nimagePullSecrets: mine", "trainingService.imagePullSecrets: must be a list, not 'mine'"),
        ("image: a\npython: bin/python", "'bin/python' must be the name or the full path of a Python"),
        ("image: a\nnamespace: My.Lab", "exp.yml:9:3: trainingService.namespace: 'My.Lab' must be 1 to 63"),
        ("image: a\nkubeconfig: none.yml", "trainingService.kubeconfig: the file "),
        (
            "image: a\nresources: {cpu: 2 cores}",
            "resources.cpu: '2 cores' is not an amount; write one like 2",
        ),
        ("image: a\nresources: {cpu: 2Gi}", "'2Gi' is not a number of CPUs"),
        ("image: a\nresources: {memory: 512m}", "'512m' is not an amount of memory; write one like 512Mi"),
        ("image: a\nresources: {memory: 512}", "resources.memory: 512 is not an amount of memory"),
        ("image: a\nresources: {memory: 8gb}", "resources.memory: '8gb' is not an amount"),
        ("image: a\nresources: {gpu: 0.5}", "trainingService.resources.gpu: must be a whole number, not 0.5"),
        ("image: a\nresources: {gpus: 1}", "resources.gpus: unknown field; did you mean 'gpu'?"),
        (
            "image: a\nresources: {cpu: 1, requests: {cpu: 2}}",
            "exp.yml:9:34: trainingService.resources.requests.cpu: the request of 2 is more than ",
        ),
        ("image: a\nnodeSelector: {gpu: true}", "nodeSelector.gpu: must be text, not True"),
        ("image: a\nnodeSelector: {gpu: a/b}", "'a/b' is not a valid label value"),
        ("image: a\nlabels: {a/b/c: x}", "'a/b' is not a valid Kubernetes name"),
        (
            "image: a\nlabels: {nnimgr.io/trial: x}",
            "trainingService.labels: 'nnimgr.io/trial' is set by nnimgr",
        ),
        ("image: a\ntolerations: [{key: x, operator: Is}]", "tolerations[0].operator: unknown value 'Is'"),
        ("image: a\ntolerations: [{effect: NoExecute}]", "without 'key' the operator must be Exists"),
        ("image: a\naffinity: {node: {}}", "unknown kind 'node'; valid are nodeAffinity, podAffinity"),
        ("image: a\nenv: {A: 1}", "trainingService.env.A: must be text; put it in quotes"),
        ("image: a\nenv: {1: a}", "trainingService.env.1: the key 1 must be text; put it in quotes"),
        (
            "image: a\nenv: {A B: a}",
            "trainingService.env: 'A B' is not a valid name of an environment variable",
        ),
        ("image: a\nenv: {NNIMGR_KEEPER: a}", "NNIMGR_KEEPER is set by nnimgr"),
        ("image: a\nenv: {A: '${env:NOPE}'}", "env.A: the environment variable NOPE is not set"),
        ("image: a\nenv: {A: {secret: x}}", "env.A: must be a text, {secret: NAME, key: KEY}"),
        ("image: a\nenv: {A: {secrets: x, key: y}}", "env.A.secrets: unknown field; did you mean 'secret'?"),
        ("image: a\nenvFrom: [{prefix: A_}]", "envFrom[0]: give exactly one of secret, configMap, not none"),
        ("image: a\nvolumes: [{name: a, pvc: b}]", "volumes[0].mountPath: required, but not given"),
        (
            "image: a\nvolumes: [{name: a, mountPath: /a}]",
            "volumes[0]: give exactly one of pvc, configMap, secret",
        ),
        (
            "image: a\nvolumes: [{name: a, mountPath: /a, pvc: b, emptyDir: {}}]",
            "not pvc and emptyDir",
        ),
        (
            "image: a\nvolumes: [{name: a, mountPath: a, pvc: b}]",
            "'a' must be an absolute path in the container",
        ),
        (
            "image: a\nvolumes: [{name: a, mountPath: /nnimgr, pvc: b}]",
            "/nnimgr in the container is used by nnimgr",
        ),
        (
            "image: a\nvolumes: [{name: a, mountPath: /a, pvc: b}, {name: a, mountPath: /b, pvc: b}]",
            "two volumes have the same name 'a'",
        ),
        (
            "image: a\nactiveDeadline: soon",
            "trainingService.activeDeadline: 'soon' is not a number with one of",
        ),
        ("image: a\nactiveDeadline: 1h\nreuseMode: true", "limit each of them with maxTrialDuration"),
        ("image: a\ntrialCode: image", "unknown value 'image'; write archive, or a mapping with pvc"),
        ("image: a\ntrialCode: {pvc: a, image: /b}", "give exactly one of pvc, configMap, image"),
        ("image: a\ntrialCode: {pvc: a, path: ../b}", "path '../b' must be relative to the volume"),
        (
            "image: a\npodTemplate: {kind: Pod}",
            "podTemplate: unknown key 'kind'; valid are metadata and spec",
        ),
        ("image: a\npodTemplate: {spec: {restartPolicy: Always}}", "spec.restartPolicy must be Never"),
        (
            "image: a\npodTemplate: {spec: {containers: [{name: trial, command: [sh]}]}}",
            "the command of the container trial cannot be changed",
        ),
        ("image: a\npodTemplate: {spec: {volumes: null}}", "spec.volumes must be a list of mappings"),
        ("image: a\npodTemplate: {metadata: {name: x}}", "metadata.name is set by nnimgr"),
        (
            "image: a\npodTemplate: {spec: {securityContext: 3}}",
            "exp.yml:9:24: trainingService.podTemplate.spec.securityContext: must be a mapping, like ",
        ),
        (
            "image: a\ntrialGpuNumber: 0.5",
            "exp.yml:9:3: trainingService.trialGpuNumber: 0.5 of a GPU is not possible",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, body: str, sentence: str) -> None:
    assert sentence in refusal(tmp_path, body)


def test_a_part_of_a_gpu_is_refused_where_it_is_written(tmp_path: Path) -> None:
    said = refusal(tmp_path, "image: a", head=f"{HEAD}trialGpuNumber: 0.5\n")
    assert "exp.yml:6:1: trialGpuNumber: 0.5 of a GPU is not possible" in said


def test_variables_may_be_secrets(tmp_path: Path) -> None:
    body = 'image: a\nenv: {PLAIN: in-plain, KEY: "${env:API_KEY}", FAR: {secret: keys, key: api}}'
    config, secrets = hide_secrets(load(tmp_path, body))
    canonical = config.canonical()
    assert "in-plain" not in str(canonical) and "from-env" not in str(canonical)
    assert secrets == {"trainingService.env.PLAIN": "in-plain"}
    again = read_canonical(canonical)
    assert hide_secrets(again) == (again, {})
    revealed = reveal_secrets(service(again), environ=ENVIRON, base=tmp_path, secrets=secrets)
    assert secret_texts(revealed) == {"env.PLAIN": "in-plain", "env.KEY": "from-env"}


def test_null_in_a_template_is_kept(tmp_path: Path) -> None:
    body = "image: a\npodTemplate: {spec: {securityContext: {seccompProfile: null}}}"
    config = load(tmp_path, body)
    assert service(read_canonical(config.canonical())).pod_template == service(config).pod_template
    assert service(config).pod_template == {"spec": {"securityContext": {"seccompProfile": None}}}


def test_a_preview_counts_the_code_that_is_sent(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("pass\n")
    (sent,) = preview(load(tmp_path, "image: a")).members
    assert sent.machines == ("pods of a",) and sent.code_files is not None
    (there,) = preview(load(tmp_path, "image: a\ntrialCode: {image: /opt}")).members
    assert there.code_files is None


def test_kubeflow_with_one_role(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    config, warnings = read(
        tmp_path,
        f"""\
{TF_JOB}storage: {{storageType: nfs, server: nfs.lab, path: /export}}
worker:
  replicas: 1
  command: python3 mnist.py
  codeDirectory: code
  dockerImage: lab/tf:2
  gpuNumber: 1
  cpuNumber: 2
  memorySize: 4gb
""",
        head=HEAD.replace("trialCommand: python3 train.py\n", ""),
        platform="kubeflow",
    )
    found = service(config)
    assert (found.image, found.namespace, found.reuse_mode) == ("lab/tf:2", "default", True)
    assert [(volume.mount_path, volume.nfs) for volume in found.volumes] == [
        ("/tmp/mount", found.volumes[0].nfs)
    ]
    (member,) = config.members
    assert (member.job_command, member.job_directory) == ("python3 mnist.py", tmp_path / "code")
    assert (member.job_gpu_number, member.job_cpu_number, member.job_memory_size) == (1, 2, 4096)
    assert warnings[:-1] == [
        f"{tmp_path}/exp.yml:6:3: trainingService.platform: the role worker runs as plain Jobs, as with "
        "platform kubernetes: Kubeflow's operator is not used, and code and results need no shared storage; "
        "the NFS export is mounted at /tmp/mount in each pod"
    ]
    assert config.platform == "kubernetes" and read_canonical(config.canonical()) == config


def test_frameworkcontroller_with_one_role(tmp_path: Path) -> None:
    config, warnings = read(
        tmp_path,
        """\
serviceAccountName: frameworkcontroller
reuseMode: false
namespace: lab
taskRoles:
  - name: worker
    taskNumber: 1
    frameworkAttemptCompletionPolicy: {minFailedTaskCount: 1, minSucceedTaskCount: 1}
""",
        platform="frameworkcontroller",
    )
    found = service(config)
    assert (found.service_account, found.reuse_mode, found.namespace) == ("frameworkcontroller", False, "lab")
    assert (found.image, found.volumes) == ("msranni/nni:latest", [])
    assert config.members[0].job_command == "python3 train.py"
    assert "FrameworkController is not used" in warnings[0]


def test_several_roles_of_kubeflow_become_a_gang(tmp_path: Path) -> None:
    config, warnings = read(
        tmp_path,
        f"""\
{TF_JOB}ps: {{command: python3 ps.py, dockerImage: "lab/ps:1", cpuNumber: 2}}
worker: {{replicas: 2, command: python3 train.py, dockerImage: "lab/tf:2", gpuNumber: 1, memorySize: 4gb}}
""",
        head=HEAD.replace("trialCommand: python3 train.py\n", ""),
        platform="kubeflow",
    )
    assert (service(config).image, service(config).reuse_mode) == ("lab/tf:2", False)
    gang = config.gang_of_trials()
    assert gang is not None and (gang.nodes, gang.sizes_of_roles) == (3, "worker:2,ps:1")
    assert gang.roles == (
        GangRole(
            name="worker", replicas=2, command="python3 train.py", gpus=1, memory=4096, image="lab/tf:2"
        ),
        GangRole(name="ps", command="python3 ps.py", cpus=2, image="lab/ps:1"),
    )
    assert config.limits().exit_barrier == timedelta(seconds=5)
    assert "each trial is a gang of the roles worker (2), ps (1), with a Job for each pod" in warnings[0]
    (member,) = config.members
    assert member.job_command == "python3 train.py"
    wants = [Wants(None, None, None, member.own_needs).of_job(part(number)) for number in range(3)]
    assert wants == [Wants(1, None, 4096)] * 2 + [Wants(None, 2, None)]
    assert config.platform == "kubernetes" and read_canonical(config.canonical()) == config


def test_several_roles_in_the_first_format_of_nni(tmp_path: Path) -> None:
    file = tmp_path / "exp.yml"
    file.write_text("""\
authorName: me
experimentName: e
trialConcurrency: 1
maxExecDuration: 1h
maxTrialNum: 1
trainingServicePlatform: kubeflow
searchSpacePath: space.json
useAnnotation: false
tuner: {builtinTunerName: Random}
trial:
  codeDir: code
  master: {replicas: 1, command: ./lead, gpuNum: 0, cpuNum: 1, memoryMB: 512, image: "lab/pt:1"}
  worker: {replicas: 2, command: ./work, gpuNum: 1, cpuNum: 1, memoryMB: 512, image: "lab/pt:1"}
kubeflowConfig:
  operator: pytorch-operator
  apiVersion: v1
  storage: nfs
  nfs: {server: nfs.lab, path: /export}
""")
    (tmp_path / "space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    (tmp_path / "code").mkdir()
    config = load_config(file, environ={"HOME": str(tmp_path)}).config
    gang = config.gang_of_trials()
    assert gang is not None and gang.sizes_of_roles == "master:1,worker:2"
    assert [gang.command_of(member) for member in range(3)] == ["./lead", "./work", "./work"]
    (member,) = config.members
    assert (member.job_command, member.job_directory) == ("./lead", tmp_path / "code")


def part(member: int) -> TrialJobSpec:
    return TrialJobSpec(id="e-a-1", trial_id="a", attempt=1, sequence=0, parameter_text="{}", member=member)


@pytest.mark.parametrize("first", ["worker", "ps"])
def test_several_roles_of_frameworkcontroller_become_a_gang(tmp_path: Path, first: str) -> None:
    policy = "frameworkAttemptCompletionPolicy: {minFailedTaskCount: 1, minSucceedTaskCount: 1}"
    roles = [f"- {{name: worker, taskNumber: 2, {policy}}}", f"- {{name: ps, {policy}}}"]
    body = "taskRoles:\n" + "\n".join(roles if first == "worker" else roles[::-1])
    config = load(tmp_path, body, platform="frameworkcontroller")
    gang = config.gang_of_trials()
    assert gang is not None and gang.sizes_of_roles == "worker:2,ps:1"


def test_a_gang_beside_roles_of_several_pods_is_refused(tmp_path: Path) -> None:
    found = refusal(
        tmp_path, f"{TF_JOB}worker: {{replicas: 2}}", head=HEAD + "gang: {nodes: 2}\n", platform="kubeflow"
    )
    assert "gang: cannot be used together with roles of several pods in trainingService" in found


@pytest.mark.parametrize(
    ("platform", "body", "sentence"),
    [
        ("kubeflow", f"{TF_JOB}ps: {{}}", "the operator tf-operator needs the role 'worker'"),
        ("kubeflow", f"{TF_JOB}worker: {{}}\nmaster: {{}}", "the operator tf-operator has no role 'master'"),
        (
            "kubeflow",
            "operator: mpi\nworker: {}",
            "unknown value 'mpi' (valid: tf-operator, pytorch-operator)",
        ),
        (
            "kubeflow",
            "operator: pytorch-operator\nmaster: {}\nstorage: {storageType: azureStorage, azureShare: x}",
            "exp.yml:10:3: trainingService.storage: storage of the type azureStorage cannot be mounted",
        ),
        ("kubeflow", f"{TF_JOB}worker: {{}}\nstorage: {{storageType: nfs}}", "needs 'server' and 'path'"),
        (
            "kubeflow",
            f"{TF_JOB}worker: {{comand: a}}",
            "worker.comand: unknown field; did you mean 'command'?",
        ),
        (
            "kubeflow",
            f"{TF_JOB}worker:\n  command: a\n  codeDirectory: none",
            "exp.yml:12:5: trainingService.trialCodeDirectory: the directory ",
        ),
        ("kubeflow", f"{TF_JOB}worker:\n  command: 'a ${{env:API_KEY}}'", "references are not replaced"),
        ("frameworkcontroller", "taskRoles: []", "trainingService.taskRoles: "),
        (
            "kubeflow",
            f"{TF_JOB}worker: {{codeDirectory: a}}\nps: {{codeDirectory: b}}",
            "all roles must have the same 'codeDirectory'",
        ),
        (
            "kubeflow",
            f"{TF_JOB}worker: {{}}\nps: {{gpuNumber: many}}",
            "exp.yml:11:8: trainingService.ps.gpuNumber: ",
        ),
        (
            "frameworkcontroller",
            "taskRoles: [{name: a}, {name: a}]",
            "trainingService.taskRoles: two roles of 'taskRoles' have the same name",
        ),
        (
            "frameworkcontroller",
            "taskRoles:\n- {name: a}\n"
            "- {name: b, frameworkAttemptCompletionPolicy: {minFailedTaskCount: -1}}",
            "exp.yml:8:3: trainingService.taskRoles: 'taskRoles': a trial of several pods fails when the "
            "first of them fails: set minFailedTaskCount of b to 1, not -1",
        ),
        (
            "frameworkcontroller",
            "taskRoles:\n- name: a\n  taskNumber: 3\n"
            "  frameworkAttemptCompletionPolicy: {minSucceedTaskCount: 2}",
            "a trial of several pods succeeds with the first pod of a: set minSucceedTaskCount of a to 1",
        ),
        (
            "frameworkcontroller",
            "taskRoles: [{name: 7up}, {name: b}]",
            "the name '7up' must be a letter, and then letters",
        ),
    ],
)
def test_what_nni_could_and_we_cannot(tmp_path: Path, platform: str, body: str, sentence: str) -> None:
    assert sentence in refusal(tmp_path, body, platform=platform)
