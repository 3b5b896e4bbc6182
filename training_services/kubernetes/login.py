"""Logs in to a cluster and sends requests. No other module uses the ``kubernetes`` library.

A thread imports this module on first use, because the library is large. All functions here block.
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

# The type is Any because these classes of the kubernetes library have no type annotations.
KubeConfigMerger: Any = kube_config.KubeConfigMerger
KubeConfigLoader: Any = kube_config.KubeConfigLoader
InClusterConfigLoader: Any = incluster_config.InClusterConfigLoader

CONNECT_S = 5.0
CONNECTIONS = 32


class Login:
    """Connection to the API server as one user. The ``kubernetes`` library adds the user's credentials."""

    failures = (urllib3.exceptions.HTTPError, ApiException, ConfigException, OSError)

    def __init__(self, configuration: Configuration, context: str | None, namespace: str) -> None:
        configuration.retries = False  # the caller decides what may be repeated
        configuration.keep_alive = True  # TCP keep-alive detects a peer that has vanished
        configuration.connection_pool_maxsize = CONNECTIONS
        self.server = str(configuration.host)
        self.context = context
        self.namespace = namespace
        self._api: Any = ApiClient(configuration)

    def send(self, request: Request) -> Answer:
        """Send the request and return the answer, also if its status is an error.

        Raises one of ``failures``.
        """
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
        """Return True if the error says that the connection was closed before an answer came."""
        return isinstance(error, urllib3.exceptions.ProtocolError)

    def close(self) -> None:
        """Close the connections that no request uses."""
        self._api.close()


def log_in(
    kubeconfig: str | None, context: str | None, environ: Mapping[str, str], service_account: Path
) -> Login:
    """Log in with the credentials in the kubeconfig, or else with the service account of this pod.

    The kubeconfig may name a command that returns the credentials. Raises ServiceUnavailable.
    """
    home = Path(environ.get("HOME") or Path.home())
    named = kubeconfig or environ.get("KUBECONFIG") or ""
    paths = [home / path.removeprefix("~/") for path in named.split(os.pathsep) if path]
    found = [path for path in paths or [home / ".kube" / "config"] if path.is_file()]
    if found:
        return _from_files(found, context, environ)
    if kubeconfig is None and (service_account / "token").is_file():
        return _from_account(service_account, environ)
    if paths:
        raise ServiceUnavailable(f"the kubeconfig {named} does not exist: check kubeconfig and KUBECONFIG")
    raise ServiceUnavailable(
        "no cluster is configured: KUBECONFIG is not set, ~/.kube/config does not exist, and this server "
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
        raise ServiceUnavailable(f"{title} is not YAML: {getattr(error, 'problem', None)}") from None
    except OSError as error:
        raise ServiceUnavailable(f"{title} cannot be read: {error.strerror}") from None
    except Exception:  # the library's messages quote the kubeconfig, including secrets
        raise ServiceUnavailable(f"{title} is not valid: see: kubectl config view") from None
    if current not in names:
        known = ", ".join(sorted(map(str, names))) or "none"
        raise ServiceUnavailable(f"{title} has no context {current!r}; its contexts: {known}")
    try:
        loader = KubeConfigLoader(whole, active_context=current, config_base_path=None)
        command = _login_command(loader, environ)
        loader.load_and_set(configuration)
        namespace = loader.current_context["context"].get("namespace") or "default"
    except Exception as error:
        missing = str(error) if str(error).startswith("File does not exist") else "check its user and cluster"
        raise ServiceUnavailable(f"{title}: context {current!r} cannot be used: {missing}") from None
    if command is not None and not (configuration.api_key or configuration.cert_file):
        raise ServiceUnavailable(
            f"{title}: the login command {command!r} of context {current!r} has returned no credentials: "
            "its output is in the server's log"
        )
    return Login(configuration, str(current), str(namespace))


def _login_command(loader: Any, environ: Mapping[str, str]) -> str | None:
    """Return the command in the kubeconfig that returns the user's credentials, or None.

    The command is changed to run with the environment of the experiment's creator.
    """
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
