"""How one logs in to a cluster, and sends one request: the one module that knows the ``kubernetes`` library.

It is imported in a thread when it is needed first, for the library is large. All here blocks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import urllib3.exceptions
import yaml
from kubernetes.client.api_client import ApiClient
from kubernetes.client.configuration import Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config import incluster_config, kube_config
from kubernetes.config.config_exception import ConfigException

from training_services.base import ServiceUnavailable
from training_services.kubernetes.exchange import Answer, Request

__all__ = ["Login", "log_in"]

# These have no types.
KubeConfigMerger: Any = kube_config.KubeConfigMerger
KubeConfigLoader: Any = kube_config.KubeConfigLoader
InClusterConfigLoader: Any = incluster_config.InClusterConfigLoader

CONNECT_S = 5.0
CONNECTIONS = 32


class Login:
    """Where the API server is, and the library's client, which knows how to log in there."""

    failures = (urllib3.exceptions.HTTPError, ApiException, ConfigException, OSError)

    def __init__(self, configuration: Configuration, context: str | None, namespace: str) -> None:
        configuration.retries = False  # it is we who say what may be repeated
        configuration.keep_alive = True  # a peer that has vanished is noticed
        configuration.connection_pool_maxsize = CONNECTIONS
        self.server = str(configuration.host)
        self.context = context
        self.namespace = namespace
        self._api: Any = ApiClient(configuration)

    def send(self, request: Request) -> Answer:
        """Any answer that the server gives. Raises one of ``failures``."""
        sent = self._api.param_serialize(
            request.method,
            request.path,
            query_params=list(request.query.items()),
            header_params={"Accept": "application/json, */*", "Content-Type": request.content_type},
            body=None if request.body is None else dict(request.body),
            auth_settings=["BearerToken"],
        )
        response = self._api.call_api(*sent, _request_timeout=(CONNECT_S, request.read_s)).response
        if request.stream and response.status == 200:
            return Answer(200, None, b"", stream=response)
        pause_s = _seconds(response.headers.get("Retry-After"))
        return Answer(response.status, pause_s, response.data, _parsed(response.data))

    @staticmethod
    def was_cut(error: BaseException) -> bool:
        """Whether the connection ended before an answer, as one does that was idle for too long."""
        return isinstance(error, urllib3.exceptions.ProtocolError)

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._api.close()


def log_in(
    kubeconfig: str | None, context: str | None, environ: Mapping[str, str], service_account: Path
) -> Login:
    """Read the files and run the login command, if there is one. Raises ServiceUnavailable."""
    home = Path(environ.get("HOME") or Path.home())
    named = kubeconfig or environ.get("KUBECONFIG") or ""
    paths = [home / path.removeprefix("~/") for path in named.split(os.pathsep) if path]
    found = [path for path in paths or [home / ".kube" / "config"] if path.is_file()]
    if found:
        return _from_files(found, context, environ)
    if kubeconfig is None and (service_account / "token").is_file():
        return _from_account(service_account, environ)
    if paths:
        raise ServiceUnavailable(f"the kubeconfig {named} does not exist: see kubeconfig and KUBECONFIG")
    raise ServiceUnavailable(
        "there is no way to a cluster: KUBECONFIG is not set, ~/.kube/config does not exist, and this server "
        "does not run in a pod with a service account"
    )


def _from_files(paths: list[Path], context: str | None, environ: Mapping[str, str]) -> Login:
    title = "the kubeconfig " + os.pathsep.join(map(str, paths))
    configuration = Configuration()
    try:
        whole = KubeConfigMerger(os.pathsep.join(map(str, paths))).config
        current = context or whole.safe_get("current-context")
        names = [each["name"] for each in whole["contexts"].value]
    except yaml.YAMLError as error:
        raise ServiceUnavailable(f"{title} is no YAML: {getattr(error, 'problem', None)}") from None
    except OSError as error:
        raise ServiceUnavailable(f"{title} cannot be read: {error.strerror}") from None
    except Exception:  # odd content, which the library's messages quote, secrets and all
        raise ServiceUnavailable(f"{title} is not valid: kubectl config view shows what it has") from None
    if current not in names:
        known = ", ".join(sorted(map(str, names))) or "none"
        raise ServiceUnavailable(f"{title} has no context {current!r}; its contexts: {known}")
    try:
        loader = KubeConfigLoader(whole, active_context=current, config_base_path=None)
        command = _login_command(loader, environ)
        loader.load_and_set(configuration)
        namespace = loader.current_context["context"].get("namespace") or "default"
    except Exception as error:
        missing = str(error) if str(error).startswith("File does not exist") else "see its user and cluster"
        raise ServiceUnavailable(f"{title}: context {current!r} cannot be used: {missing}") from None
    if command is not None and not (configuration.api_key or configuration.cert_file):
        raise ServiceUnavailable(
            f"{title}: the login command {command!r} of context {current!r} has given no credentials: "
            "the server's log has what it said"
        )
    return Login(configuration, str(current), str(namespace))


def _login_command(loader: Any, environ: Mapping[str, str]) -> str | None:
    """The command that the user's entry names, made to run in the environment of the experiment's creator."""
    user = loader._user
    if not user or "exec" not in user:
        return None
    config = user["exec"].value
    own = {item["name"]: item["value"] for item in config.get("env") or ()}
    config["env"] = [{"name": name, "value": value} for name, value in {**environ, **own}.items()]
    return str(config["command"])


def _from_account(account: Path, environ: Mapping[str, str]) -> Login:
    configuration = Configuration()
    try:
        loader = InClusterConfigLoader(
            account / "token", account / "ca.crt", environ={**os.environ, **environ}
        )
        loader.load_and_set(configuration)
        namespace = (account / "namespace").read_text(encoding="utf-8").strip()
    except (ConfigException, OSError) as error:
        raise ServiceUnavailable(f"the service account of this pod cannot be used: {error}") from None
    return Login(configuration, None, namespace)


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        return None
