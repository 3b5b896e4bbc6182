from __future__ import annotations

import pytest

from training_services import registry
from training_services.machines.local import LocalConfig, LocalHosts, LocalService


def test_local_is_built_in() -> None:
    assert "local" in registry.platforms()
    assert registry.create("local") == (LocalConfig, LocalService, LocalHosts)
    assert registry.config_class("local") is LocalConfig
    assert registry.service_class("local") is LocalService


def test_an_unknown_platform_names_the_valid_ones() -> None:
    with pytest.raises(registry.UnknownPlatform, match=r"unknown platform 'mars'; valid are: .*local"):
        registry.create("mars")
