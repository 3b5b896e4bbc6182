"""Requests and answers about the server itself."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from nnimgr.api.models.base import Model, Request


class Login(Request):
    code: str = Field(max_length=200)


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
