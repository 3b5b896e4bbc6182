"""The client: requests, pages, faults and how one logs in."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.kubernetes.fake_api import NAMESPACE, FakeApi, Reply
from training_services.base import ServiceError, ServiceUnavailable
from training_services.kubernetes import client
from training_services.kubernetes.client import (
    CONFIG_MAPS,
    JOBS,
    PODS,
    SECRETS,
    ApiError,
    Cluster,
    WatchEvent,
)


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"a": "b"}}, **fields}


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def write(path: Path, config: dict[str, Any]) -> None:
    path.write_text(json.dumps(config), encoding="utf-8")


async def refusal(cluster: Cluster) -> str:
    with pytest.raises(ServiceError) as caught:
        await cluster.list(JOBS, NAMESPACE)
    return str(caught.value)


async def test_objects_are_made_read_changed_and_deleted(fake: FakeApi, connected: Cluster) -> None:
    made = await connected.create(SECRETS, NAMESPACE, named("s", stringData={"a": "1", "b": "2"}))
    assert made["metadata"]["uid"]
    patched = await connected.patch(SECRETS, NAMESPACE, "s", {"stringData": {"a": None, "c": "3"}})
    assert patched["stringData"] == {"b": "2", "c": "3"}
    assert await connected.get(SECRETS, NAMESPACE, "s") == patched
    assert await connected.get(SECRETS, NAMESPACE, "other") is None
    assert not await connected.delete(SECRETS, NAMESPACE, "s", uid="another")
    assert await connected.delete(SECRETS, NAMESPACE, "s", uid=made["metadata"]["uid"])
    assert not await connected.delete(SECRETS, NAMESPACE, "s")
    assert fake.asked("delete", "secrets")[1].body == {
        "propagationPolicy": "Background",
        "preconditions": {"uid": made["metadata"]["uid"]},
    }


async def test_a_dry_run_makes_nothing(fake: FakeApi, connected: Cluster) -> None:
    await connected.create(JOBS, NAMESPACE, named("j"), dry_run=True)
    assert fake.objects("jobs") == []
    assert fake.asked("create", "jobs")[0].query == {"dryRun": "All", "fieldValidation": "Strict"}


async def test_what_an_object_owns_goes_with_it(fake: FakeApi, connected: Cluster) -> None:
    await connected.create(JOBS, NAMESPACE, named("j"))
    await connected.create(JOBS, NAMESPACE, {"metadata": {"name": "other"}})
    assert await connected.delete(JOBS, NAMESPACE, "j", propagation="Foreground")
    assert [job["metadata"]["name"] for job in fake.objects("jobs")] == ["other"]
    assert [pod["metadata"]["labels"]["job-name"] for pod in fake.objects("pods")] == ["other"]


async def test_a_list_comes_in_pages(
    fake: FakeApi, connected: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAGE", 2)
    for number in range(5):
        fake.put("configmaps", named(f"c{number}"))
    listing = await connected.list(CONFIG_MAPS, NAMESPACE, label_selector="a=b")
    assert [item["metadata"]["name"] for item in listing.items] == [f"c{number}" for number in range(5)]
    assert listing.resource_version == "6"
    assert len(fake.asked("list", "configmaps")) == 3


async def test_a_list_whose_pages_have_got_too_old_begins_anew(
    fake: FakeApi, connected: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAGE", 1)
    for number in range(2):
        fake.put("configmaps", named(f"c{number}"))
    fake.fail("list", "configmaps", Reply(410, "Expired", "too old"))
    assert len((await connected.list(CONFIG_MAPS, NAMESPACE)).items) == 2


async def test_what_the_cluster_refuses_is_said_with_verb_and_resource(
    fake: FakeApi, connected: Cluster
) -> None:
    fake.fail("create", "jobs", Reply(403, "Forbidden", "exceeded quota: q, used: pods=1, limited: pods=1"))
    with pytest.raises(ApiError) as caught:
        await connected.create(JOBS, NAMESPACE, named("j"))
    assert str(caught.value) == (
        "the cluster does not allow creating jobs in namespace trials: "
        "exceeded quota: q, used: pods=1, limited: pods=1"
    )
    await connected.create(JOBS, NAMESPACE, named("j"))
    with pytest.raises(ApiError, match=r'has refused creating jobs in .*: jobs "j" already exists') as caught:
        await connected.create(JOBS, NAMESPACE, named("j"))
    assert (caught.value.status, caught.value.reason) == (409, "AlreadyExists")


async def test_an_overloaded_server_is_asked_again_when_it_says(fake: FakeApi, connected: Cluster) -> None:
    fake.fail("list", "jobs", Reply(429, "TooManyRequests", "slow down", retry_after="0"), times=2)
    fake.fail("list", "jobs", Reply(503, "ServiceUnavailable", "starting", retry_after="0"))
    assert (await connected.list(JOBS, NAMESPACE)).items == []
    assert len(fake.asked("list", "jobs")) == 4


async def test_a_server_that_stays_unwell_is_unavailable(fake: FakeApi, connected: Cluster) -> None:
    fake.fail("list", "jobs", Reply(500, "InternalError", "etcdserver: no leader"))
    assert await refusal(connected) == (
        f"the Kubernetes API server at {fake.url} cannot answer now (500): etcdserver: no leader"
    )
    fake.fail("list", "jobs", Reply(429, "TooManyRequests", "slow down", retry_after="0"), times=client.TRIES)
    assert "cannot answer now (429): slow down" in await refusal(connected)


async def test_a_connection_that_is_cut_is_made_again_but_nothing_is_created_twice(
    fake: FakeApi, connected: Cluster
) -> None:
    fake.cut("list", "jobs")
    assert (await connected.list(JOBS, NAMESPACE)).items == []
    fake.cut("create", "jobs")
    with pytest.raises(ServiceUnavailable, match="the server has closed the connection"):
        await connected.create(JOBS, NAMESPACE, named("j"))
    assert len(fake.asked("create", "jobs")) == 1


async def test_a_server_that_is_down_is_unreachable_and_found_again(
    fake: FakeApi, connected: Cluster
) -> None:
    await connected.list(JOBS, NAMESPACE)
    fake.stop()
    sentence = f"the Kubernetes API server at {fake.url} cannot be reached: connection refused"
    assert await refusal(connected) == sentence
    fake.start()
    assert (await connected.list(JOBS, NAMESPACE)).items == []


async def test_a_server_that_does_not_answer_is_given_up(
    fake: FakeApi, connected: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = connected._request

    def impatient(*args: Any, **options: Any) -> Any:
        return request(*args, **options)._replace(read_s=0.2)

    monkeypatch.setattr(connected, "_request", impatient)
    with fake.hold("list", "jobs"):
        assert (await refusal(connected)).endswith("cannot be reached: the server has not answered in time")


async def test_slow_requests_do_not_hold_up_the_loop(fake: FakeApi, connected: Cluster) -> None:
    with fake.hold("list", "jobs"):
        slow = asyncio.create_task(connected.list(JOBS, NAMESPACE))
        await asyncio.to_thread(fake.wait_for, "list", "jobs")
        assert (await connected.list(PODS, NAMESPACE)).items == []
        assert not slow.done()
    assert (await slow).items == []


async def test_logs_are_the_text_as_it_is(fake: FakeApi, connected: Cluster) -> None:
    fake.logs["p"] = b'one\n["two"]\n\xff\n'
    assert await connected.pod_log(NAMESPACE, "p", container="trial") == 'one\n["two"]\n\ufffd\n'
    assert await connected.pod_log(NAMESPACE, "p", tail_lines=2) == '["two"]\n\ufffd\n'
    assert fake.asked("log", "pods")[1].query == {
        "limitBytes": "1048576",
        "tailLines": "2",
    }


async def collect(cluster: Cluster, events: list[WatchEvent], opened: asyncio.Event, **options: Any) -> None:
    batches = cluster.watch(PODS, NAMESPACE, resource_version="1", **options)
    async with contextlib.aclosing(batches):
        async for batch in batches:
            opened.set()
            events += batch


async def test_a_watch_brings_changes_until_its_time_is_over(fake: FakeApi, connected: Cluster) -> None:
    events: list[WatchEvent] = []
    opened = asyncio.Event()
    watching = asyncio.create_task(collect(connected, events, opened, timeout_s=1, label_selector="a=b"))
    await opened.wait()
    fake.put("pods", named("p"))
    fake.put("pods", {"metadata": {"name": "other"}})
    fake.remove("pods", "p")
    await watching
    assert [(event.type, event.object["metadata"]["name"]) for event in events] == [
        ("ADDED", "p"),
        ("DELETED", "p"),
    ]
    assert fake.asked("watch", "pods")[0].query["allowWatchBookmarks"] == "true"


@pytest.mark.parametrize(
    ("fault", "error", "sentence"),
    [
        (FakeApi.expire_watches, ApiError, "too old resource version"),
        (FakeApi.drop_watches, ServiceUnavailable, "the server has closed the connection"),
        (FakeApi.freeze, ServiceUnavailable, "the server has not answered in time"),
    ],
)
async def test_a_watch_that_breaks_says_how(
    fake: FakeApi,
    connected: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[FakeApi], None],
    error: type[Exception],
    sentence: str,
) -> None:
    monkeypatch.setattr(client, "WATCH_SLACK_S", 0.2)
    opened = asyncio.Event()
    watching = asyncio.create_task(collect(connected, [], opened, timeout_s=1))
    await opened.wait()
    fault(fake)
    with pytest.raises(error, match=sentence):
        await watching


async def test_a_watch_from_too_long_ago_is_refused(fake: FakeApi, connected: Cluster) -> None:
    fake.compact()
    with pytest.raises(ApiError) as caught:
        await collect(connected, [], asyncio.Event())
    assert caught.value.status == 410


async def test_a_login_that_has_run_out_is_made_anew(tmp_path: Path) -> None:
    with FakeApi(token="first") as fake:
        cluster = Cluster(fake.kubeconfig(tmp_path), None, {})
        await cluster.list(JOBS, NAMESPACE)
        assert (cluster.server, cluster.namespace, cluster.context) == (fake.url, NAMESPACE, "fake")
        fake.token = "second"
        assert await refusal(cluster) == (
            "the cluster does not accept our login for listing jobs in namespace trials: "
            "log in again (Unauthorized)"
        )
        fake.kubeconfig(tmp_path)
        assert (await cluster.list(JOBS, NAMESPACE)).items == []
        await cluster.close()


async def test_the_context_of_the_first_login_is_kept(fake: FakeApi, tmp_path: Path) -> None:
    path = Path(fake.kubeconfig(tmp_path))
    cluster = Cluster(str(path), None, {})
    await cluster.connect()
    config = read(path)
    config["current-context"] = "elsewhere"
    config["contexts"].append({"name": "elsewhere", "context": {"cluster": "none", "user": "u"}})
    write(path, config)
    fake.cut("create", "jobs")
    with contextlib.suppress(ServiceUnavailable):
        await cluster.create(JOBS, NAMESPACE, named("j"))
    assert (await cluster.list(JOBS, NAMESPACE)).items == []
    await cluster.close()


async def test_a_login_command_runs_in_the_creators_environment(tmp_path: Path) -> None:
    with FakeApi(token="from-the-command") as fake:
        path = Path(fake.kubeconfig(tmp_path))
        config = read(path)
        api = "client.authentication.k8s.io/v1"
        config["users"][0]["user"] = {"exec": {"command": "log-in", "apiVersion": api, "args": ["x"]}}
        write(path, config)
        said = {"apiVersion": api, "kind": "ExecCredential", "status": {"token": "TOKEN"}}
        script = tmp_path / "log-in"
        script.write_text(f"#!/bin/sh\necho '{json.dumps(said)}' | sed s/TOKEN/$TOKEN/\n")
        script.chmod(0o755)
        environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TOKEN": fake.token or ""}
        cluster = Cluster(str(path), None, environ)
        assert (await cluster.list(JOBS, NAMESPACE)).items == []
        await cluster.close()
        assert read(path) == config, "nothing of the environment is written there"
        script.write_text("#!/bin/sh\nexit 3\n")
        with pytest.raises(
            ServiceUnavailable, match="the login command 'log-in' of context 'fake' has returned no"
        ):
            await Cluster(str(path), None, environ).connect()


def certificate(path: Path) -> Path:
    """A key and a certificate for 127.0.0.1, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    addresses = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1))
        .not_valid_after(datetime(2120, 1, 1))
        .add_extension(addresses, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(private + made.public_bytes(Encoding.PEM))
    return path


def service_account(folder: Path, **files: str) -> Path:
    """The files that a pod finds there."""
    folder.mkdir()
    for name, text in {"token": "old", "namespace": "trials\n", **files}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


async def test_in_a_pod_its_service_account_is_used_and_its_token_read_again(tmp_path: Path) -> None:
    tls = certificate(tmp_path / "tls.pem")
    account = service_account(tmp_path / "account", **{"ca.crt": tls.read_text(encoding="utf-8")})
    with FakeApi(token="old", tls=tls) as fake:
        environ = {
            "HOME": str(tmp_path),
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(fake.port),
        }
        cluster = Cluster(None, None, environ, service_account=account)
        assert (await cluster.list(JOBS, NAMESPACE)).items == []
        assert (cluster.server, cluster.namespace, cluster.context) == (fake.url, "trials", None)
        fake.token = "new"
        (account / "token").write_text("new", encoding="utf-8")
        opened = asyncio.Event()
        watching = asyncio.create_task(collect(cluster, [], opened))
        await opened.wait()
        watching.cancel()
        await asyncio.wait([watching])
        readers = [thread for thread in threading.enumerate() if thread.name == "kubernetes watch"]
        for reader in readers:
            await asyncio.to_thread(reader.join, 30)
        assert not any(reader.is_alive() for reader in readers), "it does not wait for the watch's end"
        await cluster.close()


async def test_a_certificate_that_is_not_trusted_is_told(tmp_path: Path) -> None:
    with FakeApi(tls=certificate(tmp_path / "tls.pem")) as fake:
        cluster = Cluster(fake.kubeconfig(tmp_path), None, {})
        assert (await refusal(cluster)).endswith(
            "cannot be reached: the server's certificate is not trusted (self-signed certificate)"
        )
        await cluster.close()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [", "is not YAML"),
        ("[]", "is not valid"),
        (
            "users: [{name: u, user: {token: geheim}}]\ncurrent-context: c",
            "has no context 'c'; its contexts: none",
        ),
        (
            "users: [{name: u, user: {token: geheim}}]\ncurrent-context: c\n"
            "contexts: [{name: c, context: {cluster: x, user: u}}, {context: 3}]",
            "is not valid",
        ),
        (
            "users: [{name: u, user: {token: geheim}}]\ncurrent-context: c\n"
            "contexts: [{name: c, context: {cluster: x, user: u}}]\nclusters: []",
            "context 'c' cannot be used",
        ),
        (
            "current-context: c\ncontexts: [{name: c, context: {cluster: x, user: u}}]\n"
            "clusters: [{name: x, cluster: {server: 'https://h', certificate-authority: ca.crt}}]",
            "File does not exist: .*/ca.crt",
        ),
    ],
)
async def test_a_kubeconfig_that_is_of_no_use_is_told_without_its_secrets(
    tmp_path: Path, text: str, sentence: str
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ServiceUnavailable, match=sentence) as caught:
        await Cluster(str(path), None, {}).connect()
    assert str(path) in str(caught.value)
    assert "geheim" not in f"{caught.value!r} {caught.value.__cause__!r}"


async def test_where_there_is_no_kubeconfig_it_is_said(tmp_path: Path) -> None:
    for given, environ, sentence in (
        (None, {}, "no cluster is configured: KUBECONFIG is not set"),
        (
            None,
            {"KUBECONFIG": "/nowhere/a:/nowhere/b"},
            "the kubeconfig /nowhere/a:/nowhere/b does not exist",
        ),
        ("/nowhere/c", {}, "the kubeconfig /nowhere/c does not exist"),
    ):
        cluster = Cluster(given, None, {"HOME": str(tmp_path), **environ}, service_account=tmp_path)
        with pytest.raises(ServiceUnavailable, match=sentence):
            await cluster.connect()


async def test_a_server_that_is_no_api_server_is_told(fake: FakeApi, connected: Cluster) -> None:
    with pytest.raises(ApiError, match="could not find the requested resource"):
        await connected.list(client.Resource("nodes", "/api/v1"), NAMESPACE)
