"""Tests of the address for hosts of an engine, which is derived from the address of its server."""

from __future__ import annotations

import socket

import pytest

from training_services.own_address import own_address


@pytest.mark.parametrize(
    "server",
    [
        "https://127.0.0.1:6443",
        "https://[::1]:6443",
        "https://localhost",
        "https://no-such-name.invalid:6443",
        "https://a:port",
        "nonsense",
        "",
    ],
)
def test_what_other_machines_cannot_call_is_no_address(server: str) -> None:
    assert own_address(server) is None


def test_a_server_on_this_machine_may_have_its_hosts_here() -> None:
    assert own_address("http://127.0.0.1:8265", loopback=True) == "127.0.0.1"
    assert own_address("", loopback=True) is None


def test_an_address_of_this_machine_is_found() -> None:
    ours = own_address("https://198.51.100.7:6443")
    if ours is None:
        pytest.skip("this machine has no way to other networks")
    with socket.create_server((ours, 0), family=socket.AF_INET):
        pass
    assert own_address(f"https://{ours}:6443/path") == ours
    assert own_address(f"https://{ours}") == ours
