"""Checks of the URLs of storages."""

from __future__ import annotations

from pathlib import Path

import pytest

from training_services.checkpoint_storage.url import check_url, driver_fault


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/a/b",
        "gs://bucket",
        "file:///mnt/x",
        "sftp://me@host:22/x",
        "abfs://container@account.dfs.core.windows.net/x",
    ],
)
def test_valid_urls(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("/mnt/shared", "must be a URL such as s3://bucket/folder"),
        ("://bucket", "must be a URL such as s3://bucket/folder"),
        ("sftp://me:hidden@host/x", "must not contain a password: the storage's driver reads it from"),
        ("s3://key:hid/hidden@bucket/x", "must not contain a password: the storage's driver reads it from"),
        ("s3://bucket/x?sig=hidden", r"must not contain any of the characters \* \? \[ \] #"),
        ("simplecache::s3://bucket/x", "must be one URL"),
        ("file://mnt/x", "must have an absolute path: file:///mnt/folder, with three slashes"),
        ("s3://", "must name a bucket or a folder behind '://'"),
        ("file:///", "must name a bucket or a folder behind '://'"),
    ],
)
def test_invalid_urls(url: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault) as caught:
        check_url(url)
    assert "hidden" not in str(caught.value)


def test_drivers(tmp_path: Path) -> None:
    assert driver_fault(f"file://{tmp_path}") is None
    assert "s3://, gs://" in str(driver_fault("s4://bucket"))
    missing = driver_fault(f"file://{tmp_path}/missing")
    assert missing == f"the folder {tmp_path}/missing does not exist; create it, or mount its disk"


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = pytest.importorskip("fsspec.registry")

    def missing(protocol: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(registry, "get_filesystem_class", missing)
    assert driver_fault("s3://bucket") == (
        "the driver of s3:// is not installed for the server's Python: Install s3fs to access S3"
    )
