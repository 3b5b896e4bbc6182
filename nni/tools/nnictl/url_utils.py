"""Functions that return URLs of the REST API on this machine, named as in NNI."""

from __future__ import annotations

from functools import partial

__all__ = [
    "check_status_url",
    "cluster_metadata_url",
    "experiment_url",
    "export_data_url",
    "format_url_path",
    "get_local_urls",
    "import_data_url",
    "metric_data_url",
    "set_prefix_url",
    "tensorboard_url",
    "trial_job_id_url",
    "trial_jobs_url",
]

BASE_URL = "http://localhost"
API_ROOT_URL = "/api/v1/nni"

METRIC_DATA_API = "/metric-data"
CHECK_STATUS_API = "/check-status"
CLUSTER_METADATA_API = "/experiment/cluster-metadata"
IMPORT_DATA_API = "/experiment/import-data"
EXPERIMENT_API = "/experiment"
TRIAL_JOBS_API = "/trial-jobs"
EXPORT_DATA_API = "/export-data"
TENSORBOARD_API = "/tensorboard"


def format_url_path(path: str | None) -> str:
    """Return the path of the REST API, after a URL prefix if one is given."""
    return API_ROOT_URL if path is None else f"/{path}{API_ROOT_URL}"


def set_prefix_url(prefix_path: str | None) -> None:
    """Make all URLs from this module start with a URL prefix."""
    global API_ROOT_URL
    API_ROOT_URL = format_url_path(prefix_path)


def _url(api: str, port: int | str) -> str:
    return f"{BASE_URL}:{port}{API_ROOT_URL}{api}"


metric_data_url = partial(_url, METRIC_DATA_API)
check_status_url = partial(_url, CHECK_STATUS_API)
cluster_metadata_url = partial(_url, CLUSTER_METADATA_API)
import_data_url = partial(_url, IMPORT_DATA_API)
experiment_url = partial(_url, EXPERIMENT_API)
trial_jobs_url = partial(_url, TRIAL_JOBS_API)
export_data_url = partial(_url, EXPORT_DATA_API)
tensorboard_url = partial(_url, TENSORBOARD_API)


def trial_job_id_url(port: int | str, job_id: str) -> str:
    """Return the URL of a trial in the REST API."""
    return f"{trial_jobs_url(port)}/{job_id}"


def get_local_urls(port: int | str, prefix: str | None) -> list[str]:
    """Return the URLs at which a browser on this machine can open the dashboard."""
    return [f"http://127.0.0.1:{port}{prefix or ''}"]
