"""Shell script that runs one attempt of a trial, at most once, and records its exit code."""

from __future__ import annotations

import shlex
from pathlib import Path

from training_services.base import ExperimentContext, TrialJobSpec
from training_services.keepers.host import attempt_folder, start_order

__all__ = ["NOTES", "make_script"]

# folder of the files <job>.claim and <job>.exit; not in the job's folder, whose files a trial may delete
NOTES = "jobs"

_SCRIPT = """\
{{ set -u
mkdir -p {notes} {directory}/.nni || exit 97
(set -C; echo "$$" > {claim}) 2>/dev/null || exit 0  # it was started before
cd {directory} || exit 97
printf %s {parameter} > parameter.cfg
touch .nni/metrics
{environment}
(cd {code} && exec /bin/bash -c {command}) > stdout 2> stderr < /dev/null
echo $? > {ended}.new && mv {ended}.new {ended}; exit; }}
"""  # the braces prevent the shell from running a part of a script that has arrived incomplete


def make_script(context: ExperimentContext, job: TrialJobSpec, folder: Path, *, platform: str) -> str:
    """Return the shell script of a job. ``folder`` is the experiment's folder on the platform."""
    directory = folder.joinpath(*attempt_folder(job.trial_id, job.attempt))
    order = start_order(context, job, None, platform=platform)
    variables = {**order["environment"], "NNI_SYS_DIR": str(directory), "NNI_OUTPUT_DIR": str(directory)}
    lines = [
        f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}"
        for name, value in variables.items()
    ]
    notes = folder / NOTES
    return _SCRIPT.format(
        notes=shlex.quote(str(notes)),
        directory=shlex.quote(str(directory)),
        claim=shlex.quote(f"{notes}/{job.id}.claim"),
        ended=shlex.quote(f"{notes}/{job.id}.exit"),
        parameter=shlex.quote(job.parameter_text),
        environment="\n".join(lines),
        code=shlex.quote(str(order["cwd"])),
        command=shlex.quote(str(order["command"])),
    )
