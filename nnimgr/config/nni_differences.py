"""Table of the fields of a configuration that nnimgr treats differently from NNI 3.0.

``differences`` returns the entries of the table that apply to a file, each with its place in the file. An
entry without ``todo`` needs no action. ``docs/reference/nni.md`` has all differences, including those that
are not about a field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnimgr.config import nni_finders as find
from nnimgr.config.nni_file import NniFile
from nnimgr.config.nni_finders import Finder
from nnimgr.config.problems import Problem

__all__ = ["TABLE", "Difference", "Entry", "differences"]

_NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Difference between NNI and nnimgr in one field of a configuration.

    ``nni`` continues a sentence that begins with "NNI", and ``here`` a sentence that begins with "nnimgr".
    "{value}" in these texts is replaced by the field's value. ``todo``: what the user has to do. ``todo_v1``:
    the same for a file in the first format, which has other fields.
    """

    name: str
    find: Finder
    nni: str
    here: str
    todo: str = _NOTHING
    todo_v1: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Difference that applies to a file, and the place of the field in the file."""

    entry: Entry
    place: Problem
    value: object
    first_format: bool

    @property
    def todo(self) -> str:
        in_v1 = self.entry.todo_v1 if self.first_format else None
        return in_v1 or self.entry.todo

    @property
    def nni(self) -> str:
        return self._filled(self.entry.nni)

    @property
    def here(self) -> str:
        return self._filled(self.entry.here)

    @property
    def needs_work(self) -> bool:
        """Return whether the user who wrote the file has to change or decide something."""
        return not self.todo.startswith(_NOTHING)

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.place.file, self.place.line) if part is not None)
        sentence = f"NNI {self.nni}; nnimgr {self.here}. To do: {self.todo}."
        return ": ".join(part for part in (place, self.place.field, sentence) if part)

    def _filled(self, sentence: str) -> str:
        return sentence.replace("{value}", str(self.value))


def differences(file: NniFile) -> list[Difference]:
    """Return the differences from NNI that apply to a file, in the order of its lines."""
    found: dict[tuple[str, Problem], Difference] = {}
    v1 = file.first is not None
    for entry in TABLE:
        for field in entry.find(file):
            place = field.problem()  # two fields of the second format may come from one field of the first
            found.setdefault(
                (entry.name, place), Difference(entry=entry, place=place, value=field.value, first_format=v1)
            )
    return sorted(found.values(), key=lambda each: (each.place.file != file.path, each.place.line or 0))


_OVER_SSH = ("remote",)
_AS_JOBS = ("kubeflow", "frameworkcontroller")
_NUMERIC = ("choice", "randint", "uniform", "quniform")
_REPEATS = "repeats sets, and does not know of running trials"

_FORMAT: Sequence[Entry] = (
    Entry(
        name="v1",
        find=find.first_format("trainingServicePlatform"),
        nni="converts this first format (v1), and names the converted fields in errors",
        here="converts the first format (v1), too, and names the lines and fields of this file in errors",
        todo="nothing; to keep the second format (v2), save what nnictl create --dry-run prints",
    ),
    Entry(
        name="v1 maxTrialDuration",
        find=find.first_format("maxTrialDuration"),
        nni="loses this field when it converts the file, so trials run without a limit",
        here="stops a trial after {value}",
        todo="remove the field if trials may run longer",
    ),
    Entry(
        name="v1 multiPhase",
        find=find.first_format("multiPhase"),
        nni="refuses this field",
        here="lets a running trial ask for further parameter sets, as NNI 1 did",
    ),
    Entry(
        name="v1 passphrase",
        find=find.first_format("passphrase", within="machineList"),
        nni="refuses the file, because it converts this field to an unknown name",
        here="uses the passphrase for the key",
    ),
    Entry(
        name="v1 nasMode",
        find=find.first_format("trial", "nasMode"),
        nni="ignores the field",
        here="refuses this field, because nnimgr cannot search for network architectures",
        todo="remove the field if the search space has only hyperparameters",
    ),
    Entry(
        name="numbers in JSON",
        find=find.numbers_in_json,
        nni="reads a JSON file as YAML, so this value is a text",
        here="reads a JSON file as JSON, so this value is the number {value}",
        todo="nothing, unless your code expects a text; then put the value in quotes",
    ),
)

_GENERAL: Sequence[Entry] = (
    Entry(
        name="logLevel fatal",
        find=find.value("logLevel", equals="fatal"),
        nni="does not start with the log level fatal",
        here="starts, and logs only messages of the level fatal",
    ),
    Entry(
        name="output of trials",
        find=find.local_commands,
        nni="writes what a trial prints to trial.log, and leaves stdout empty",
        here="writes what a trial prints to stdout, unchanged",
        todo="nothing, unless a script reads trial.log",
    ),
    Entry(
        name="several processes",
        find=find.parallel_commands,
        nni="records the metrics of every process, so each metric comes several times",
        here="records only the metrics of the process of rank 0",
        todo="nothing; NNIMGR_REPORT_ALL_RANKS=1 in the command brings back all processes",
    ),
    Entry(
        name="failFast",
        find=find.missing("failFast"),
        nni="starts trials up to the limit even if all of them fail",
        here="stops the experiment if the first 5 trials all fail alike",
        todo='nothing; "failFast: false" turns this off',
        todo_v1=_NOTHING,
    ),
    Entry(
        name="GPUs of trials",
        find=find.gpu_numbers,
        nni="counts the GPUs that trials of this experiment use",
        here="counts the GPUs that all experiments of the server use; a trial waits for GPUs in use",
    ),
    Entry(
        name="no goal",
        find=find.no_goal,
        nni="takes the tuner's default direction without a message",
        here="takes the tuner's default direction and warns",
        todo='write "goal: minimize" or "goal: maximize"',
        todo_v1="set optimize_mode, minimize or maximize, in classArgs of the tuner",
    ),
    Entry(
        name="conflicting goals",
        find=find.conflicting_goals,
        nni="does not notice that tuner and assessor expect opposite results",
        here="warns if tuner and assessor expect opposite results",
        todo='write "goal: minimize" or "goal: maximize"',
        todo_v1="set the same optimize_mode, minimize or maximize, in classArgs of both",
    ),
)

_ALGORITHMS: Sequence[Entry] = (
    Entry(
        name="TPE",
        find=find.algorithm("tuner", "TPE"),
        nni="models each parameter alone, and counts running trials as if they had the best result",
        here="models all parameters together, and avoids sets that are running",
    ),
    Entry(
        name="TPE defaults",
        find=find.tpe_defaults,
        nni="uses constant_liar_type best, n_startup_jobs 20, n_ei_candidates 24 and gamma 0.25 by default",
        here="by default uses constant_liar_type worst, n_startup_jobs 10, n_ei_candidates 64 and gamma 1.0",
        todo="nothing; give these arguments to have other values",
    ),
    Entry(
        name="TPE nested",
        find=find.spaces_of("TPE", nested=1),
        nni="fails with choices that are nested twice or deeper",
        here="searches all nested choices",
    ),
    Entry(
        name="TPE_legacy",
        find=find.algorithm("tuner", "TPE_legacy"),
        nni="runs hyperopt 0.1.2, which knows running trials only with parallel_optimize",
        here="runs its own TPE with the same arguments, which always knows running trials",
    ),
    Entry(
        name="Anneal",
        find=find.algorithm("tuner", "Anneal"),
        nni="runs hyperopt's Anneal, which picks a good set for each parameter alone",
        here="picks one good set and varies all parameters around it; no set repeats",
    ),
    Entry(
        name="Evolution",
        find=find.algorithm("tuner", "Evolution"),
        nni=f"{_REPEATS}; it loses imported results",
        here="varies the best eighth of all results, imported ones too; no set repeats",
    ),
    Entry(
        name="GP",
        find=find.algorithm("tuner", "GP"),
        nni=f"{_REPEATS}; the model has one length for all parameters",
        here="has a length for each parameter, and scales results before kappa, xi and alpha apply",
    ),
    Entry(
        name="GP space",
        find=find.spaces_of("GP", *_NUMERIC, "loguniform", "qloguniform", choices_of_numbers=True),
        nni="cannot search this parameter with GP",
        here="searches this parameter",
    ),
    Entry(
        name="Metis",
        find=find.algorithm("tuner", "Metis"),
        nni=f"{_REPEATS}; it explores sets from mixtures of normals",
        here="explores the least known set among those that may still be the best; no set repeats",
    ),
    Entry(
        name="Metis space",
        find=find.spaces_of("Metis", *_NUMERIC, choices_of_numbers=True),
        nni="cannot search this parameter with Metis",
        here="searches this parameter",
    ),
    Entry(
        name="SMAC",
        find=find.algorithm("tuner", "SMAC"),
        nni="needs SMAC 0.x, which can no longer be installed",
        here="uses the random forest of SMAC 2",
        todo="pip install 'nnimgr[smac]'",
    ),
    Entry(
        name="SMAC space",
        find=find.spaces_of("SMAC", *_NUMERIC, "loguniform"),
        nni="cannot search this parameter with SMAC",
        here="searches this parameter",
    ),
    Entry(
        name="PBT",
        find=find.algorithm("tuner", "PBT"),
        nni="waits forever for a trial that fails before its generation ends",
        here="replaces the failed trial by a better one",
    ),
    Entry(
        name="Hyperband",
        find=find.algorithm("tuner", "Hyperband"),
        nni="runs this advisor in a process of its own, which begins again when it is restarted",
        here="runs this advisor as a tuner, which continues; trials without a result are last in a rung",
    ),
    Entry(
        name="BOHB",
        find=find.algorithm("tuner", "BOHB"),
        nni="runs this advisor in a process of its own, which begins again when it is restarted",
        here="runs this advisor as a tuner, which continues; trials without a result are last in a rung",
    ),
    Entry(
        name="left out",
        find=find.left_out,
        nni="has this tuner",
        here="does not have this tuner, and refuses the file",
        todo="name another tuner, which the error suggests",
    ),
    Entry(
        name="class of NNI",
        find=find.built_in_classes,
        nni="imports this class like any other",
        here="runs its own built-in algorithm in place of this class, and checks the arguments",
    ),
    Entry(
        name="hyperopt class",
        find=find.hyperopt,
        nni="imports this class, which runs hyperopt",
        here="runs its own TPE_legacy, Anneal or Random, as algorithm_name says",
    ),
    Entry(
        name="registered",
        find=find.registered,
        nni="does not ask a registered algorithm's validator",
        here="asks a registered algorithm's validator before the start, and refuses wrong arguments",
        todo="register the algorithm with nnimgr, too: nnictl algo register --meta FILE",
    ),
    Entry(
        name="own advisor",
        find=find.advisors_of_users,
        nni="runs an advisor in a process with a WebSocket to the manager",
        here="calls an advisor's methods without a WebSocket, and restarts an advisor that has crashed",
        todo="nothing, unless the class uses command_channel_url, which is ignored",
    ),
    Entry(
        name="assessor",
        find=find.algorithm("assessor"),
        nni="does not say why an assessor has stopped a trial",
        here="shows the assessor's sentence as the reason why a trial was stopped",
    ),
    Entry(
        name="Curvefitting",
        find=find.algorithm("assessor", "Curvefitting"),
        nni="only maximizes, and stops answering after an exception",
        here="also takes optimize_mode and goal, and limits the time of each answer",
    ),
)

_PLATFORMS: Sequence[Entry] = (
    Entry(
        name="hybrid",
        find=lambda file: [
            field for field in find.value("trainingService")(file) if isinstance(field.value, list)
        ],
        nni="gives trials to one training service after the other",
        here="places trials over all machines of all training services, and then on clusters",
    ),
    Entry(
        name="reuseMode",
        find=find.each_member("reuseMode", of=("local", "remote"), equals=True),
        nni="runs trials through agents that stay on the machines",
        here="ignores this field: its keepers always stay on the machines",
    ),
    Entry(
        name="remote machines",
        find=find.each_platform(*_OVER_SSH),
        nni="installs itself on each machine with pip, and needs a route from the machine to the manager",
        here="needs an SSH server and Python 3.8 or newer on each machine; all calls go through SSH",
        todo="check the machines: nnictl doctor --config FILE",
    ),
    Entry(
        name="remote trouble",
        find=find.each_platform(*_OVER_SSH),
        nni="fails the experiment if a machine cannot be reached, and loses trials with the connection",
        here="continues on the other machines, retries, and adopts the trials when the machine is back",
    ),
    Entry(
        name="remote code",
        find=find.code_directories,
        nni="copies the code once to each machine, for all its trials, up to 2000 files and 300 MB",
        here="gives each trial its own copy of the code",
        todo="nothing, unless trials share files through the code's directory",
    ),
    Entry(
        name="host keys",
        find=find.machines("host"),
        nni="accepts any host key",
        here="checks the host key",
        todo="log in once with ssh, which records the key",
    ),
    Entry(
        name="default keys",
        find=find.default_keys,
        nni="uses only ~/.ssh/id_rsa",
        here="uses the keys of the SSH agent, of ~/.ssh/config and of ~/.ssh",
    ),
    Entry(
        name="secrets",
        find=find.secrets,
        nni="stores this secret with the experiment, and shows it",
        here="stores this secret apart, in a file that only you can read, and never shows it",
        todo="nothing; ${env:NAME} or ${file:PATH} keeps the secret out of this file",
    ),
    Entry(
        name="nniManagerIp",
        find=find.manager_addresses,
        nni="has the machines connect to this address",
        here="has the machines call this address over TLS, instead of through the SSH connection",
        todo="remove the field, unless SSH servers forbid tunnels",
    ),
    Entry(
        name="as Jobs",
        find=find.each_platform(*_AS_JOBS),
        nni="submits jobs to an operator in the cluster",
        here="runs each trial as a plain Job, without the operator",
    ),
    Entry(
        name="several pods",
        find=find.roles_of_several_pods,
        nni="runs trials of several pods",
        here="runs the pods as members of a gang, whose first member decides how the trial ends",
    ),
    Entry(
        name="unused fields of operators",
        find=find.some_of(
            find.each_member("operator", of=_AS_JOBS),
            find.each_member("apiVersion", of=_AS_JOBS),
            find.every_role("frameworkAttemptCompletionPolicy"),
        ),
        nni="passes this field to the operator",
        here="checks this field and does not use it",
    ),
    Entry(
        name="NFS of operators",
        find=find.each_member("storage", "storageType", of=_AS_JOBS, equals="nfs"),
        nni="mounts the NFS export on the manager's machine, for code and results",
        here="needs no storage for code and results, and mounts the export only in trials, at /tmp/mount",
    ),
    Entry(
        name="Azure of operators",
        find=find.each_member("storage", "storageType", of=_AS_JOBS, equals="azureStorage"),
        nni="keeps code and results in the Azure share",
        here="needs no storage for code and results, and refuses to mount the share",
        todo='remove the section "storage"',
    ),
    Entry(
        name="foreign platform",
        find=find.foreign_platforms,
        nni="has had a training service for this platform",
        here="has no training service for this platform, and refuses the file",
        todo='write a section trainingService with the platform "kubernetes" or "remote"',
    ),
    Entry(
        name="registered platform",
        find=find.unknown_platforms,
        nni="loads a registered training service into its TypeScript manager",
        here="loads a Python module",
        todo="write the module and register it: nnictl trainingservice register --package MODULE",
    ),
    Entry(
        name="shared storage",
        find=find.value("sharedStorage"),
        nni="uses the shared storage on remote machines with reuseMode",
        here="uses the shared storage on the platforms local and remote: NNI_OUTPUT_DIR is a folder in it",
    ),
    Entry(
        name="Azure Blob",
        find=find.value("sharedStorage", "storageType", equals="AzureBlob"),
        nni="mounts the container",
        here="refuses the storage type AzureBlob",
        todo="mount the storage on all machines, and write NFS and usermount",
    ),
    Entry(
        name="nnimount",
        find=find.value("sharedStorage", "localMounted", equals="nnimount"),
        nni="mounts the storage on this machine",
        here="refuses to mount the storage, because that needs root",
        todo="mount the storage yourself, and write usermount",
    ),
    Entry(
        name="fields for mounting",
        find=find.some_of(
            find.value("sharedStorage", "nfsServer"), find.value("sharedStorage", "exportedDirectory")
        ),
        nni="mounts this export on each machine",
        here="does not use this field: the machines have the storage mounted",
        todo="mount the storage on all machines",
    ),
)

TABLE: tuple[Entry, ...] = (*_FORMAT, *_GENERAL, *_ALGORITHMS, *_PLATFORMS)
"""All differences that a field of a configuration shows."""
