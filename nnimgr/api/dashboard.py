"""Files of the dashboard: one page for all addresses, and the assets of that page.

The files are built into ``nnimgr/webui`` (see ``webui/README.md``), each with a compressed copy. An asset's
name contains a hash of its content, so that a browser requests it only once.
"""

from __future__ import annotations

import mimetypes
from importlib import resources
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, RedirectResponse, Response

from nnimgr.api.dependencies import NotFound, Parts

__all__ = ["missing_page", "page", "router"]

router = APIRouter(include_in_schema=False)

_FOLDER = Path(str(resources.files("nnimgr"))) / "webui"
_ADDRESSES = ("/", "/new", "/compare", "/resources", "/experiments/{path:path}")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_NOT_BUILT = (
    "This installation does not contain the dashboard: install nnimgr again, from its wheel or with "
    "'pip install .' from a checkout. The REST API works; see /docs."
)


async def page(request: Request) -> Response:
    """Return the dashboard's only page. Its code reads the address and shows the right view."""
    answer = _file("index.html", request)
    if answer is None:
        return Response(_NOT_BUILT, status_code=503, media_type="text/plain")
    answer.headers["content-security-policy"] = _POLICY
    return answer


async def missing_page(request: Request) -> Response | None:
    """Return the dashboard's page, with status 404, to a browser that has opened an unknown address.

    Return None for other clients.
    """
    wanted = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    if not wanted or request.url.path.startswith("/api/"):
        return None
    answer = await page(request)
    answer.status_code = 404 if answer.status_code == 200 else answer.status_code
    return answer


for _address in _ADDRESSES:
    router.add_api_route(_address, page, methods=["GET"])


@router.get("/assets/{name}")
async def asset(name: str, request: Request) -> Response:
    """Return an asset of the dashboard's page, such as a script or a style sheet."""
    answer = _file(f"assets/{name}", request)
    if answer is None:
        raise NotFound(f"The dashboard has no file {name}.")
    answer.headers["cache-control"] = "private, max-age=31536000, immutable"
    return answer


async def _unversioned(request: Request) -> Response:
    """Return one of the few files whose names do not contain a hash of their content."""
    answer = _file(request.url.path[1:], request)
    if answer is None:
        raise NotFound(f"There is no {request.url.path} here.")
    return answer


for _address in ("/icon.svg", "/theme.js"):
    router.add_api_route(_address, _unversioned, methods=["GET"])


async def _nnis_page(parts: Parts, request: Request) -> Response:
    """Redirect an address of NNI's own web page to the experiment that was created or resumed last."""
    latest = parts.manager.latest
    tail = "/trials" if request.url.path == "/detail" else ""
    return RedirectResponse("/" if latest is None else f"/experiments/{latest}{tail}")


for _address in ("/oview", "/detail"):
    router.add_api_route(_address, _nnis_page, methods=["GET"])


@router.get("/experiment")
async def nnis_list() -> Response:
    """Redirect NNI's address of the list of experiments to the dashboard's list of experiments."""
    return RedirectResponse("/")


@router.get("/netron/{path:path}")
async def netron(path: str) -> Response:
    """Answer that nnimgr does not send models to netron.app, the viewer on the internet that NNI uses."""
    sentence = "nnimgr sends no model to netron.app: download the trial's model.onnx and open it there."
    return Response(sentence, status_code=404, media_type="text/plain")


def _file(path: str, request: Request) -> FileResponse | None:
    """Return a file of the dashboard, compressed if the browser accepts that. Return None if there is no such
    file.
    """
    found = _FOLDER / path
    try:
        if not found.is_file() or not found.resolve().is_relative_to(_FOLDER.resolve()):
            return None
    except OSError:  # the path is too long or not possible as a file name
        return None
    media_type = mimetypes.guess_type(found.name)[0] or "application/octet-stream"
    packed = found.with_name(f"{found.name}.gz")
    headers = {"vary": "accept-encoding"}
    if "gzip" in request.headers.get("accept-encoding", "") and packed.is_file():
        return FileResponse(packed, media_type=media_type, headers={**headers, "content-encoding": "gzip"})
    return FileResponse(found, media_type=media_type, headers=headers)
