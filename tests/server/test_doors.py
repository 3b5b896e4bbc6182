"""The keepers' doors: what they serve, how keepers identify them, and the errors for unusable addresses."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import http.client
import json
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nnimgr.server import doors as doors_module
from nnimgr.server.addresses import Address
from nnimgr.server.doors import Doors
from tests.certificates import Authority
from tests.server.harness import free_port
from tests.trial_keeper.harness import oldest_python
from training_services.addresses import PrivateDoor, Reach
from training_services.base import ExperimentContext, JobEnded, JobStarted, ServiceUnavailable, TrialJobSpec
from training_services.code import pack_code
from training_services.keepers.host import KeeperHost
from training_services.keepers.http_door import KeeperDoor
from training_services.keepers.hub import KeeperHub
from training_services.keepers.jobs import StartOrder
from training_services.machines.local import LocalConfig, LocalKeeper
from training_services.machines.service import MachineService
from training_services.placement.ledger import HostLedger
from training_services.testing import CoreDouble
from training_services.tools import ServiceTools
from trial_keeper.calls import connection as connections

SYNC = "/keepers/v1/exp/local/sync"


@contextlib.asynccontextmanager
async def opened(
    folder: Path, hub: KeeperHub | None = None, *, authorities: str | None = None
) -> AsyncIterator[Doors]:
    doors = Doors(KeeperDoor(hub or KeeperHub()), folder=folder, name="8080", authorities=authorities)
    try:
        yield doors
    finally:
        if hub is not None:
            hub.close()
        await doors.close()


def trusting() -> ssl.SSLContext:
    """Return a TLS context that accepts any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def ask(door: PrivateDoor, target: str) -> int:
    """Return the status of a request over the private socket."""
    plain = socket.socket(socket.AF_UNIX)
    plain.settimeout(10)
    plain.connect(str(door.path))
    with contextlib.closing(trusting().wrap_socket(plain)) as caller:
        shown = caller.getpeercert(binary_form=True)
        assert shown is not None and hashlib.sha256(shown).hexdigest() == door.fingerprint
        connection = http.client.HTTPConnection("door")
        connection.sock = caller
        connection.request("POST", target, b"x", {"Authorization": "Bearer x"})
        return connection.getresponse().status


@contextlib.asynccontextmanager
async def ending_tls(tls: ssl.SSLContext, door: str) -> AsyncIterator[str]:
    """Run a proxy that ends TLS before a door ("https://host:port"), as an ingress does.

    Yield its address.
    """
    host, _, port = door.removeprefix("https://").rpartition(":")
    passing: set[asyncio.Task[None]] = set()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(1 << 16):
                writer.write(chunk)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(writer.transport.abort)
            inner = await asyncio.open_connection(host, int(port), ssl=trusting(), server_hostname="")
            stack.callback(inner[1].transport.abort)
            await asyncio.gather(pass_on(reader, inner[1]), pass_on(inner[0], writer))

    def called(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passing.add(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(called, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)


def call(reach: Reach, folder: Path, *, fingerprint: str | None) -> int:
    """Return the status of a keeper's call at this address."""
    manager = folder / "manager.json"
    said = {"token": "t", "fingerprint": fingerprint, "authorities": reach.authorities}
    manager.write_text(json.dumps({"urls": [reach.urls[0] + SYNC], **said}))
    server = connections.connect(str(manager), turn=0, timeout_s=10)
    with contextlib.closing(server.connection):
        headers = {**server.headers, "Content-Length": "1"}
        return server.connection.request("POST", server.path, headers, [b"x"]).status


async def test_the_private_socket_serves_the_keepers_routes_and_nothing_else(tmp_path: Path) -> None:
    async with opened(tmp_path) as doors:
        door = await doors.private()
        assert door == await doors.private()
        assert door.path.stat().st_mode & 0o077 == 0
        assert await asyncio.to_thread(ask, door, SYNC) == 401
        for target in ("/", "/api/v1/experiments", "/login"):
            assert await asyncio.to_thread(ask, door, target) == 404
    assert not door.path.exists()


async def test_this_machines_keepers_call_at_a_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / ("x" * 120)  # longer than the kernel allows for a socket's path
    home.mkdir()
    for folder in (tmp_path, home):
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as left:
            monkeypatch.chdir(folder)
            left.bind("keepers-8080.sock")  # left by a server that was killed
        async with opened(folder) as doors:
            reach = await doors.local()
            assert reach is await doors.local()
            assert (reach.fingerprint, reach.authorities) == (None, None)
            path = folder / "keepers-8080.sock"
            assert path.stat().st_mode & 0o777 == 0o600
            assert await asyncio.to_thread(call, reach, tmp_path, fingerprint=None) == 401
        assert not path.exists()


async def test_a_closed_connection_is_not_opened_again_without_its_checks(tmp_path: Path) -> None:
    async with opened(tmp_path) as doors:
        for reach in (await doors.local(), await doors.network("127.0.0.1")):
            manager = tmp_path / "manager.json"
            said = {"urls": [reach.urls[0] + SYNC], "token": "t", "fingerprint": reach.fingerprint}
            manager.write_text(json.dumps(said))
            server = await asyncio.to_thread(connections.connect, str(manager), turn=0, timeout_s=10)
            server.connection.close()  # as after an answer with "Connection: close"
            with pytest.raises(ConnectionError):
                server.connection.request("POST", server.path, server.headers, [b"x"])


async def test_a_killed_servers_socket_is_replaced(tmp_path: Path) -> None:
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as left:
        left.bind(str(tmp_path / "door-8080.sock"))
    async with opened(tmp_path) as doors:
        assert await asyncio.to_thread(ask, await doors.private(), SYNC) == 401


async def test_a_home_with_a_long_name_has_a_private_socket_too(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 120)
    home.mkdir()
    async with opened(home) as doors:
        assert await asyncio.to_thread(ask, await doors.private(), SYNC) == 401


async def test_the_network_door_is_known_by_its_fingerprint(tmp_path: Path) -> None:
    async with opened(tmp_path) as doors:
        reach = await doors.network("127.0.0.1")
        assert reach is await doors.network("127.0.0.1")
        assert reach.urls[0].startswith("https://127.0.0.1:")
        assert await asyncio.to_thread(call, reach, tmp_path, fingerprint=reach.fingerprint) == 401
        with pytest.raises(connections.CallFailed, match="is not the server that this keeper belongs to"):
            await asyncio.to_thread(call, reach, tmp_path, fingerprint="0" * 64)
        with pytest.raises(connections.CallFailed, match="no fingerprint"):
            await asyncio.to_thread(call, reach, tmp_path, fingerprint=None)
        with pytest.raises(connections.CallFailed, match="at which a server proves who it is"):
            plain = Reach(["http" + reach.urls[0].removeprefix("https")])
            await asyncio.to_thread(call, plain, tmp_path, fingerprint=None)


async def test_who_says_nothing_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors_module, "FIRST_REQUEST_S", 0.05)
    async with opened(tmp_path) as doors:
        reader, writer = await asyncio.open_unix_connection(
            (await doors.private()).path, ssl=trusting(), server_hostname=""
        )
        writer.write(b"POST /keepers/v1/exp/local/sync HTTP/1.1\r\nHost:")
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()


async def test_port_and_certificate_stay_over_restarts(tmp_path: Path) -> None:
    async with opened(tmp_path) as doors:
        first = await doors.network("127.0.0.1")
        again = await doors.network(first.urls[0].removeprefix("https://"))
        assert again.urls == first.urls
    async with opened(tmp_path) as doors:
        assert await doors.network("127.0.0.1") == first
    assert (tmp_path / "door.pem").stat().st_mode & 0o777 == 0o600
    taken = socket.socket()
    with contextlib.closing(taken):
        taken.bind(("127.0.0.1", int(first.urls[0].rpartition(":")[2])))
        taken.listen()
        async with opened(tmp_path) as doors:
            other = await doors.network("127.0.0.1")
    assert other.urls != first.urls and other.fingerprint == first.fingerprint


async def test_a_port_that_was_named_is_taken_or_missed(tmp_path: Path) -> None:
    port = free_port()
    async with opened(tmp_path) as doors:
        assert (await doors.network(f"localhost:{port}")).urls == [f"https://localhost:{port}"]
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        async with opened(tmp_path) as doors:
            with pytest.raises(ServiceUnavailable, match=f"port {port} of 127.0.0.1 is already in use"):
                await doors.network(f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("192.0.2.7", "192.0.2.7 is not an address of this machine"),
        ("[2001:db8::7]:9000", "nniManagerIp"),
        ("no-such-name.invalid", "nniManagerIp no-such-name.invalid cannot be resolved"),
        ("10.0.0.5:", "no port after its colon"),
        ("10.0.0.5:99999", "no port from 1 to 65535"),
        ("[fe80::1", "neither an address nor"),
        ("http://10.0.0.5", "nniManagerIp 'http://10.0.0.5' must begin with https://"),
        ("https://", "nniManagerIp 'https://' must be an address like https://host"),
        ("https://a:port", "must be an address like https://host"),
        ("https://a/b?c", "must be an address like https://host"),
        ("https://user@a", "must be an address like https://host"),
        ("https://a b", "must be an address like https://host"),
        ("", "is not an address"),
    ],
)
async def test_an_address_that_will_not_do_is_told_in_a_sentence(
    tmp_path: Path, address: str, sentence: str
) -> None:
    async with opened(tmp_path) as doors:
        with pytest.raises(ServiceUnavailable, match=sentence.replace("(", r"\(")):
            await doors.network(address)


async def test_a_slow_name_server_holds_up_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    getaddrinfo = loop.getaddrinfo

    async def resolve(host: str, port: int | None, *, type: int) -> Any:
        if host == "slow.invalid":
            asked.set()
            await asyncio.Event().wait()
        return await getaddrinfo(host, port, type=type)

    monkeypatch.setattr(loop, "getaddrinfo", resolve)
    async with opened(tmp_path) as doors:
        slow = asyncio.create_task(doors.network("slow.invalid"))
        await asked.wait()
        await doors.network("127.0.0.1")
        await doors.local()
        assert not slow.done()
        slow.cancel()
        monkeypatch.setattr("nnimgr.server.doors.RESOLVE_S", 0.0)
        sentence = "slow.invalid cannot be resolved: the name server has not answered within 0 s"
        with pytest.raises(ServiceUnavailable, match=f"^nniManagerIp {sentence}$"):
            await doors.network("slow.invalid")


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("10.0.0.5", ("10.0.0.5", None)),
        ("10.0.0.5:9000", ("10.0.0.5", 9000)),
        ("fe80::1%eth0", ("fe80::1%eth0", None)),
        ("[fe80::1]", ("fe80::1", None)),
        ("[fe80::1]:9000", ("fe80::1", 9000)),
        ("head.example.org:9000", ("head.example.org", 9000)),
    ],
)
def test_addresses_are_taken_apart(text: str, parsed: tuple[str, int | None]) -> None:
    assert Address.parse(text) == parsed


async def test_a_damaged_certificate_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "door.pem").write_text("nonsense")
    async with opened(tmp_path) as doors:
        with pytest.raises(ServiceUnavailable, match="delete the file to get a new one"):
            await doors.network("127.0.0.1")


async def test_the_door_that_stands_open_is_everybodys(tmp_path: Path) -> None:
    port = free_port()
    async with opened(tmp_path) as doors:
        await doors.listen(f"0.0.0.0:{port}")
        for address in ("127.0.0.1", f"127.0.0.1:{port}", "127.0.0.2"):
            reach = await doors.network(address)
            assert reach.urls == [f"https://{address.partition(':')[0]}:{port}"]
            assert await asyncio.to_thread(call, reach, tmp_path, fingerprint=reach.fingerprint) == 401
        with pytest.raises(ServiceUnavailable, match=r"192\.0\.2\.7 is not an address of this machine"):
            await doors.network("192.0.2.7")
        other = await doors.network(f"127.0.0.1:{free_port()}")
        assert other.urls[0] != reach.urls[0] and other.fingerprint == reach.fingerprint
        with pytest.raises(ServiceUnavailable, match=f"--keepers-listen: port {port} of "):
            await doors.listen(f"127.0.0.1:{port}")
        with pytest.raises(ServiceUnavailable, match=r"--keepers-listen '0\.0\.0\.0' needs a port"):
            await doors.listen("0.0.0.0")
        with pytest.raises(ServiceUnavailable, match="--keepers-listen '::1]' is not an address"):
            await doors.listen("::1]")


async def test_what_leads_here_from_elsewhere_is_told_as_it_is(tmp_path: Path) -> None:
    async with opened(tmp_path) as doors:
        here = await doors.network("127.0.0.1")
        reach = await doors.network("https://nnimgr.example.org/a/")
    assert reach == Reach(["https://nnimgr.example.org/a"], here.fingerprint, "")
    async with opened(tmp_path, authorities="PEM") as doors:
        assert (await doors.network("https://nnimgr.example.org")).authorities == "PEM"


async def test_who_ends_tls_before_the_door_has_to_be_vouched_for(tmp_path: Path) -> None:
    authority, stranger = Authority(), Authority()
    async with (
        opened(tmp_path, authorities=authority.pem) as doors,
        ending_tls(
            authority.server("localhost", tmp_path), (await doors.network("127.0.0.1")).urls[0]
        ) as url,
        ending_tls(authority.server("elsewhere", tmp_path), url) as misnamed,
    ):
        reach = await doors.network(url)

        async def calls(reach: Reach) -> int:
            return await asyncio.to_thread(call, reach, tmp_path, fingerprint=reach.fingerprint)

        assert await calls(reach) == 401
        with pytest.raises(
            connections.CallFailed, match=r"no authority .* vouches for the certificate: .*issuer"
        ):
            await calls(reach._replace(authorities=stranger.pem))
        with pytest.raises(connections.CallFailed, match=r"no authority .* vouches for the certificate"):
            await calls(reach._replace(authorities=""))
        with pytest.raises(connections.CallFailed, match="is not the server that this keeper belongs to"):
            await calls(reach._replace(authorities=None))
        with pytest.raises(connections.CallFailed, match="Hostname mismatch"):
            await calls(await doors.network(misnamed))


@pytest.mark.parametrize("behind", [False, True], ids=["straight", "behind-what-ends-tls"])
async def test_a_keeper_works_through_the_network_door(tmp_path: Path, behind: bool) -> None:
    hub, authority = KeeperHub(), Authority()
    async with (
        opened(tmp_path, hub, authorities=authority.pem) as doors,
        contextlib.AsyncExitStack() as stack,
    ):
        address = "127.0.0.1"
        if behind:
            door = (await doors.network(address)).urls[0]
            address = await stack.enter_async_context(
                ending_tls(authority.server("localhost", tmp_path), door)
            )
            address += "/a/prefix"
        tools = ServiceTools(hub=hub, ledger=HostLedger(), doors=doors)
        (tmp_path / "code").mkdir()
        (tmp_path / "code" / "word").write_text("hello\n")
        context = ExperimentContext(
            experiment_id="door",
            directory=tmp_path / "door",
            trial_command='cat word; read -r word < "$NNI_SYS_DIR/../gate"; echo $word',
            trial_code_directory=tmp_path / "code",
            trial_gpu_number=None,
            python=oldest_python() or sys.executable,
            environ={**os.environ, "NNIMGR_HOME": str(tmp_path / "home")},
        )
        code = pack_code(context.trial_code_directory, context.directory).order
        (context.directory / "trials").mkdir()
        os.mkfifo(context.directory / "trials" / "gate")

        class Far(LocalKeeper):
            read_log = KeeperHost.read_log

            async def reach(self) -> Reach:
                return await tools.doors.network(address)

            def start_order(self, job: TrialJobSpec, gpus: tuple[int, ...]) -> StartOrder:
                return {**super().start_order(job, gpus), "code": code}

        core = CoreDouble()
        service = MachineService(context, tools, [Far(context, LocalConfig(), tools)])
        await core.open(service)
        job_id = core.submit("aaaa1")
        await core.seen(JobStarted, job_id)
        chunks = service.read_log(job_id, "stdout", follow=True)
        assert await anext(chunks) == b"hello\n"
        await asyncio.to_thread((context.directory / "trials" / "gate").write_text, "go\n")
        assert [chunk async for chunk in chunks] == [b"go\n"]
        assert (await core.seen(JobEnded, job_id)).exit_code == 0
        await core.close(detach=False)


def test_the_certificate_is_one_that_a_client_can_read(tmp_path: Path) -> None:
    from nnimgr.server.certificate import keep_certificate

    first = keep_certificate(tmp_path / "door.pem")
    assert keep_certificate(tmp_path / "door.pem") == first
    assert ssl.DER_cert_to_PEM_cert(first) in (tmp_path / "door.pem").read_text()
