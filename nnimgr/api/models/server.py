"""Requests and answers about the server itself."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field, model_validator

from nnimgr.api.models.base import Model, Request


class Login(Request):
    """One of them: a code works once, the token always."""

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
    url_prefix: str = Field(description="what stands before NNI's routes; empty: nothing")
    needs_token: bool = Field(description="false: everybody on its machine may do everything")


class LoginAddress(Model):
    url: str = Field(description="signs a browser in, once; or the server's own, if it needs no token")
    needs_token: bool
