"""What an endpoint is, what it answers where it cannot, and the OpenAPI document of all of them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from attrs import NOTHING, evolve, frozen
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gce import __version__
from gce.app.options import Count
from gce.app.settings.fields import settings_in
from gce.app.web.api.schemas import parameters_of, schema_of
from gce.app.web.desk import Busy
from gce.app.web.jobs import TooManyJobs
from gce.app.web.launching import Taken
from gce.app.wiring.files import parse_json
from gce.domain.serialization import from_plain, to_plain
from gce.errors import BadInput, GceError, SettingError

__all__ = ["Endpoint", "Given", "document", "plain_response", "problem", "route"]

PROBLEM = "application/problem+json"
JSON = "application/json"


@frozen(kw_only=True)
class Given:
    """What a client gave, checked."""

    request: Request
    asked: Any = None
    """The record of the body, or of the query."""
    settings: Mapping[str, Any] = {}
    """Settings of a training run, where the endpoint takes them."""


@frozen(kw_only=True)
class Endpoint:
    """One method on one path."""

    path: str
    handle: Callable[[Given], Awaitable[Response | Any]]
    """Returns plain data, or a response."""
    help: str
    method: str = "GET"
    query: type | None = None
    body: type | None = None
    bodies: Mapping[str, type] = {}
    """By the field `type` of the body, where what else it has depends on that."""
    takes_settings: bool = False
    """Whether the body has the settings of a training run beside the fields of its record."""
    status: int = 200
    media: str = JSON
    gives: Mapping[str, Any] = {"type": "object"}
    """Schema of what it answers."""
    errors: tuple[int, ...] = ()
    refuses: Callable[[int, str, Mapping[str, str]], Response] | None = None
    """What it answers where it cannot, where that is no problem document."""


def plain_response(data: Any, status: int = 200, *, media: str = JSON) -> Response:
    """Plain data as JSON in ASCII, which any text goes through."""
    return Response(json.dumps(data, allow_nan=False), status, media_type=media)


def problem(status: int, detail: str = "", fields: Mapping[str, str] | None = None) -> Response:
    """A problem document (RFC 9457); `fields` says what was expected of which field."""
    found: dict[str, Any] = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    found |= {"detail": detail} if detail else {}
    found |= {"errors": [{"field": name, "expected": words} for name, words in fields.items()]} if fields else {}
    return plain_response(found, status, media=PROBLEM)


def route(endpoint: Endpoint) -> Route:
    """The endpoint as a route."""
    refused = endpoint.refuses or problem

    async def answer(request: Request) -> Response:
        try:
            found = await endpoint.handle(await _given(endpoint, request))
        except HTTPException as error:
            return refused(error.status_code, "", {})
        except SettingError as error:
            return refused(422, "A value cannot be used.", {error.setting: error.expected})
        except _NotAsExpected as error:
            return refused(error.status, error.detail, {})
        except Taken:
            return refused(409, "There is a run of that name.", {})
        except TooManyJobs:
            return refused(429, "The queue of jobs is full.", {})
        except Busy:
            return refused(503, "It took too long, or too many are waiting.", {})
        except BadInput:
            status = 404 if 404 in endpoint.errors else 422
            return refused(status, "There is nothing of that name, or the names do not go together.", {})
        return found if isinstance(found, Response) else plain_response(to_plain(found), endpoint.status)

    return Route(endpoint.path, answer, methods=[endpoint.method])


class _NotAsExpected(GceError):
    """A request that is not what the endpoint takes; the text is made for the client."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


async def _given(endpoint: Endpoint, request: Request) -> Given:
    given = Given(request=request)
    if endpoint.query is not None:
        names = [name for name, _ in request.query_params.multi_items()]
        if len(set(names)) < len(names):
            raise _NotAsExpected(422, "A parameter is given twice.")
        asked = {name: _read(endpoint.query, name, text) for name, text in request.query_params.items()}
        given = evolve(given, asked=_record(endpoint.query, asked))
    elif request.query_params:
        raise _NotAsExpected(422, "There are no parameters here.")
    if endpoint.body is None and not endpoint.bodies:
        return given
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise _NotAsExpected(415, f"The body has to be {JSON}.")
    try:
        data = parse_json(await request.body(), "the body")
    except BadInput as error:
        raise _NotAsExpected(400, "The body is not JSON in UTF-8 with finite numbers.") from error
    if not isinstance(data, dict):
        raise _NotAsExpected(422, "The body has to be a JSON object.")
    settings = data.pop("settings", {}) if endpoint.takes_settings else {}
    if not isinstance(settings, dict):
        raise _NotAsExpected(422, "The settings have to be a JSON object.")
    body = endpoint.body or _by_type(endpoint.bodies, data)
    return evolve(given, asked=_record(body, data), settings=settings)


def _by_type(bodies: Mapping[str, type], data: dict[str, Any]) -> type:
    """The record of the body's type, which is taken out of the body."""
    named = data.pop("type", None)
    if not isinstance(named, str) or named not in bodies:
        raise SettingError("type", f"one of {', '.join(bodies)}", named, "")
    return bodies[named]


def _read(record: type, name: str, text: str) -> Any:
    """The value of a parameter; one that there is not stays as it is, and is refused with the record."""
    known = {each.name: each.kind for each in settings_in(record)}
    try:
        return known[name](text) if name in known else text
    except Exception as error:  # ArgumentTypeError, as argparse wants it.
        raise SettingError(name, known[name].expected, text, "") from error


def _record(record: type, data: Mapping[str, Any]) -> Any:
    known = {each.name: each for each in settings_in(record)}
    if unknown := [name for name in data if name not in known]:
        raise _NotAsExpected(422, f"There are {', '.join(known)}, and no field {unknown[0][:60]!a}.")
    for name, each in known.items():
        value = data.get(name, each.default)
        if isinstance(value, float) and value.is_integer() and isinstance(each.kind, Count):
            data = {**data, name: (value := int(value))}  # JSON has one kind of numbers.
        value = tuple(value) if isinstance(value, list) else value
        if not each.kind.takes(value) and (value is NOTHING or value != each.default or isinstance(value, bool)):
            raise SettingError(name, each.kind.expected, value, "")
    try:
        return from_plain(record, dict(data))
    except ValueError as error:
        raise _NotAsExpected(422, "The body is not of the shape that the document describes.") from error


def document(
    endpoints: Iterable[Endpoint], choices: Mapping[str, Sequence[str]], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The OpenAPI document of these endpoints; `choices` are what fields of a name may be on this server."""
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        found = paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
        for parameter in found["parameters"]:
            if parameter["name"] in choices:
                parameter["schema"]["enum"] = list(choices[parameter["name"]])
        for content in found.get("requestBody", {}).get("content", {}).values():
            for schema in content["schema"].get("oneOf", [content["schema"]]):
                for name in choices.keys() & schema["properties"].keys():
                    schema["properties"][name]["enum"] = list(choices[name])
    return {
        "openapi": "3.1.0",
        "info": {"title": "gce", "version": __version__, "description": "Runs, problems, answers and jobs."},
        "paths": paths,
        "components": {
            "schemas": {
                "Problem": {"type": "object", "required": ["type", "title", "status"]},
                "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
                "TrainSettings": settings,
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(each: Endpoint) -> dict[str, Any]:
    parts = [part[1:-1] for part in each.path.split("/") if part.startswith("{")]
    parameters = [{"name": part, "in": "path", "required": True, "schema": {"type": "string"}} for part in parts]
    refused = {"$ref": "#/components/schemas/Problem" if each.refuses is None else "#/components/schemas/Error"}
    unfit = [400, 413, 415] if each.body or each.bodies else [413] if each.method == "POST" else []
    errors = sorted({*each.errors, *unfit, 401, 403, 422, 429, *([404] if parts else [])})
    found: dict[str, Any] = {
        "summary": each.help,
        "operationId": f"{each.method.lower()}{each.path.replace('/', '_').translate({123: None, 125: None})}",
        "parameters": [*parameters, *(parameters_of(each.query) if each.query else [])],
        "responses": {
            str(each.status): {"description": each.help, "content": {each.media: {"schema": each.gives}}},
            **{
                str(status): {
                    "description": HTTPStatus(status).phrase,
                    "content": {(PROBLEM if each.refuses is None else JSON): {"schema": refused}},
                }
                for status in errors
            },
        },
    }
    if each.body is not None:
        schema = schema_of(each.body)
        if each.takes_settings:
            schema["properties"]["settings"] = {"$ref": "#/components/schemas/TrainSettings"}
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    elif each.bodies:
        schema = {"oneOf": [_with_type(schema_of(body), name) for name, body in each.bodies.items()]}
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    return found


def _with_type(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    properties = {"type": {"const": name}, **schema["properties"]}
    return {**schema, "properties": properties, "required": ["type", *schema.get("required", [])]}
