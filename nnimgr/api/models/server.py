"""Requests and answers about the server itself."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field, model_validator

from nnimgr.api.models.base import Model, Request


class Login(Request):
    """Request to log a browser in, with either a login code or the token. A code works only once."""

    code: str | None = Field(None, max_length=200)
    token: str | None = Field(None, max_length=200)

    @model_validator(mode="after")
    def _one(self) -> Login:
        if (self.code is None) == (self.token is None):
            raise ValueError("give either a code or the token")
        return self


class ServerProfile(Model):
    version: str
    pid: int
    port: int
    started_at: datetime
    url_prefix: str = Field(description="prefix of NNI's routes; empty: no prefix")
    needs_token: bool = Field(
        description="false: all users of the server's machine have full access, without a token"
    )
    leaves: bool = Field(description="true: no experiment is active, so the server soon ends by itself")


class LoginWanted(Request):
    """Request for an address that logs a browser in."""

    page: str = Field(
        default="/",
        pattern=r"^/([A-Za-z0-9_.-][A-Za-z0-9_./-]*)?$",
        max_length=200,
        description="page of the dashboard that the browser shows after the login",
    )


class LoginAddress(Model):
    url: str = Field(description="address that logs a browser in once; without a token: the server's address")
    needs_token: bool
