"""What the server refuses, and that nothing of a client or a model is ever more than text."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

pytest.importorskip("starlette")
pytest.importorskip("jinja2")
pytest.importorskip("httpx2")
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient

from gce.adapters.runs.run_directory import RunDirectory
from gce.app.settings.records import TrainSettings
from gce.app.web import rendering
from gce.app.web.address import Address
from gce.app.web.application import application
from gce.app.web.rendering import error_page
from gce.app.web.safety import LIMITS, Keys, Safety
from gce.app.web.settings import WebSettings
from gce.domain.serialization import to_plain
from gce.errors import BadInput

HOST = "http://localhost:8800"
TOKEN = "0123456789abcdef-secret"

HOSTILE = [
    "<script>alert(1)</script>",
    "</pre></article><script src=//evil.example></script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "<svg/onload=alert(1)>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<style>*{background:url(//evil.example)}</style>",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<a href=javascript:alert(1)>x</a>",
    "<form action=//evil.example><button>x</button></form>",
    "<!--><script>alert(1)</script>-->",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "{{ 7 * 191 }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}",
    "${7*191}#{7*191}<%= 7*191 %>",
    "\u202egnp.exe\u2066\u200f",
    "\x00null\x00",
    "\x1b[2J\x1b]0;title\x07",
    "\ud800 lone",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "=cmd|' /C calc'!A0",
    "\u2028\u2029line\rfeed",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "]]><script>alert(1)</script>",
    "javascript:alert(1)//",
    "<x" * 2000,
    "a\u0300" * 2000,
    "</textarea><style>*{display:none}</style>",
]
PATHS = [
    "/runs/../../etc/passwd",
    "/runs/..%2f..%2fetc%2fpasswd",
    "/runs/%2e%2e",
    "/runs/linked",
    "/runs/inner",
    "/runs/%00",
    "/static/../application.py",
    "/static/..%2fapplication.py",
    "/static/%2e%2e/safety.py",
    "/static//etc/passwd",
    "/runs/x/figures/..%2f..%2frun.sqlite",
    "/studies/..%2f..",
    "/runs/x/answers/rollouts/..%2f0",
    "/jobs/..%2f..%2fpasswd",
]
HOSTS = ["evil.example", "evil.example:8800", "localhost.evil.example", "127.0.0.1.nip.io", "", "192.0.2.1", "[::"]
ORIGINS = ["null", "http://evil.example", "http://localhost:9999", "http://[", "localhost:8800"]
LENGTHS = ["-1", "1e9", "9" * 5000]
TOKENS: list[str | bytes] = [f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer", "Bearer \u00e9".encode()]


def test_there_are_sixty_payloads() -> None:
    """Besides them, `test_web_api` sends malformed JSON, and two bodies here are too large and one too slow."""
    assert len([*HOSTILE, *PATHS, *HOSTS, *ORIGINS, *LENGTHS, *TOKENS]) >= 60


def record(text: str, n: int) -> dict[str, Any]:
    verdict = {
        "status": "wrong",
        "score": 0.0,
        "evaluator": text,
        "version": "1",
        "violations": [{"kind": text, "message": text, "about": [text]}],
    }
    return {
        "key": f"{n}{text}",
        "problem": f"scheduling/grounded/train/T0/0/{n}",
        "digest": "d",
        "tier": text,
        "prompt": [{"role": "user", "content": text}],
        "text": f"{text}\nAnswer: {text}",
        "reasoning": text,
        "tokens": 3,
        "finish_reason": text,
        "policy": text,
        "right": False,
        "outcome": "wrong",
        "verdicts": [verdict],
        "iteration": 1,
        "admitted": False,
        "shown": False,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run whose names and answers are hostile, and with links that lead out of it."""
    root = tmp_path_factory.mktemp("served")
    outside = tmp_path_factory.mktemp("outside")
    settings = {**to_plain(TrainSettings()), "task": HOSTILE[0], "preset": HOSTILE[2]}
    for place in (root / "<svg onload=alert(1)>{{7*191}}", outside / "secret-run"):
        with RunDirectory.create(place, {"settings": settings, "versions": {HOSTILE[4]: HOSTILE[7]}}) as run:
            for n, text in enumerate(HOSTILE):
                run.append("rollouts", record(text, n))
            run.commit(1, None, {})
    (root / "linked").symlink_to(outside / "secret-run")
    (root / "inner").mkdir()
    (root / "inner" / "run.sqlite").symlink_to(outside / "secret-run" / "run.sqlite")
    (outside / "passwd").write_text("top secret")
    return root


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    with TestClient(application(WebSettings(folder)), base_url=HOST, raise_server_exceptions=False) as found:
        yield found


def run_of(client: TestClient) -> str:
    """The address of the only run that is served."""
    found = set(re.findall(r'href="(/runs/[^"/]+)"', client.get("/").text))
    assert len(found) == 1
    return str(found.pop())


def csrf(client: TestClient, page: str = "/login") -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', client.get(page).text)
    assert found is not None
    return found[1]


class Tags(HTMLParser):
    """The tags of a page with their attributes, as a browser reads them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


# fmt: off
TAGS = {
    "a", "article", "b", "body", "button", "code", "datalist", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "head", "header", "html", "img", "input", "label",
    "legend", "li", "link", "main", "mark", "meta", "nav", "ol", "option", "p", "polyline", "pre", "progress", "script",
    "section", "select", "small", "span", "sup", "summary", "svg", "table", "tbody", "td", "textarea", "th", "thead",
    "title", "tr", "ul",
}
# fmt: on


def is_plain(page: str) -> bool:
    """Whether the page has the templates' tags and attributes alone, no computed template and nothing that hides."""
    for tag, attributes in Tags(page).found:
        places = [attributes.get(name, "/") for name in ("href", "src", "action")]
        if tag not in TAGS or any(name.startswith("on") or name in ("style", "srcdoc") for name in attributes):
            return False
        if not all(place == "" or re.match(r"/(?!/)|[?#]", place) for place in places) or "http-equiv" in attributes:
            return False
        if tag == "script" and not re.fullmatch(r"/static/[a-z]+\.js", attributes.get("src", "")):
            return False
    shown = re.sub(r'(?s)<textarea.*?</textarea>|value="[^"]*"', "", page)  # What is to be edited stays as it is.
    hidden = re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069\u2028\u2029]", shown)
    return hidden is None and "1337" not in re.sub("[0-9a-f]{8,}", "", page)


def test_the_check_of_pages_finds_what_it_is_for() -> None:
    bad = (
        "<script>1</script>",
        "<svg onload=x>",
        "<p style='x'>",
        "<iframe>",
        "<a href=javascript:x>",
        "1337",
        "\u202e",
    )
    assert not any(map(is_plain, bad))


def test_nothing_that_a_model_or_a_name_says_becomes_markup(client: TestClient) -> None:
    run = run_of(client)
    pages = ["/", run, f"{run}/answers", f"{run}/answers?q=alert", f"{run}/live", f"{run}/delete", "/studies"]
    pages += [f"{run}/answers/rollouts/{n}" for n in range(len(HOSTILE))]
    for address in pages:
        found = client.get(address)
        assert found.status_code == 200, address
        assert is_plain(found.text), address
        assert "default-src 'none'" in found.headers["content-security-policy"]
        assert "unsafe" not in found.headers["content-security-policy"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in client.get(f"{run}/answers/rollouts/0").text


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_in_an_address_becomes_markup_or_an_error(client: TestClient, text: str) -> None:
    said = text.encode("utf-8", "replace").decode()[:3000]
    run = run_of(client)
    places = {
        "/": ("q", "state", "sort", "order", "deleted"),
        f"{run}/answers": ("tier", "q", "first", "moment", "after"),
    }
    for address, names in places.items():
        found = client.get(address, params=dict.fromkeys(names, said))
        assert found.status_code == 200 and is_plain(found.text)
    assert client.get("/compare", params={"run": [said, said + "2"]}).status_code == 404
    assert client.get(f"{run}/answers/rollouts/0", params={"beside": said}).status_code in (200, 404)


@pytest.mark.parametrize("path", PATHS)
def test_no_path_of_a_client_reaches_a_file(client: TestClient, path: str) -> None:
    found = client.get(path)
    assert found.status_code in (404, 405)
    assert not re.search("secret|root:|import|SQLite", found.text)


def test_links_are_not_followed(client: TestClient) -> None:
    page = client.get("/").text
    assert "secret-run" not in page and "linked" not in page and "inner" not in page


@pytest.mark.parametrize("host", HOSTS)
def test_another_host_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1:8800", "[::1]:8800"])
def test_names_of_this_machine_are_taken(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_form_of_another_origin_is_refused_even_with_its_token(client: TestClient, origin: str) -> None:
    form = {"csrf": csrf(client)}
    assert client.post(f"{run_of(client)}/delete", data=form, headers={"origin": origin}).status_code == 403
    cross = {"sec-fetch-site": "cross-site"}
    assert client.post(f"{run_of(client)}/delete", data=form, headers=cross).status_code == 403


def test_a_form_without_its_visitors_token_is_refused(client: TestClient, folder: Path) -> None:
    address = f"{run_of(client)}/delete"
    token = csrf(client)
    for form in ({}, {"csrf": ""}, {"csrf": "0" * 64}, {"csrf": "\u00e9"}):
        assert client.post(address, data=form).status_code == 403
    assert client.post(address, files={"csrf": ("name", token.encode())}).status_code == 403
    client.cookies.clear()
    client.get("/")
    assert client.post(address, data={"csrf": token}).status_code == 403, "the token of another visitor"
    assert run_of(client) == address.removesuffix("/delete"), "the run is still there"


def test_a_run_is_deleted_and_restored(client: TestClient, folder: Path) -> None:
    run = run_of(client)
    gone = client.post(f"{run}/delete", data={"csrf": csrf(client)}, follow_redirects=False)
    assert gone.status_code == 303
    page = client.get(gone.headers["location"]).text
    assert client.get(run).status_code == 404
    found = re.search(r'action="(/trash/[^"]+/restore)"', page)
    assert found is not None
    assert client.post(found[1], data={"csrf": csrf(client)}, follow_redirects=False).status_code == 303
    assert run_of(client) == run
    assert client.post("/trash/..%2f..%2fx/restore", data={"csrf": csrf(client)}).status_code == 404


@pytest.mark.slow
def test_a_run_in_use_is_not_deleted(tmp_path: Path) -> None:
    with (
        RunDirectory.create(tmp_path / "mine", {"settings": to_plain(TrainSettings())}),
        TestClient(application(WebSettings(tmp_path)), base_url=HOST) as client,
    ):
        assert "running" in client.get("/").text
        refused = client.post(f"{run_of(client)}/delete", data={"csrf": csrf(client)})
        assert refused.status_code == 409 and (tmp_path / "mine").is_dir()
    time.sleep(1.0)  # The list is at most a second old.
    assert "interrupted" in client.get("/").text


def test_a_token_is_asked_for_and_never_shown(folder: Path) -> None:
    settings = WebSettings(folder, Address("0.0.0.0", token=TOKEN))
    assert TOKEN not in repr(settings) and TOKEN not in repr(Keys(TOKEN))
    with TestClient(application(settings), base_url=HOST) as client:
        assert client.get("/").status_code == 401
        for wrong in TOKENS:
            headers: Any = {"authorization": wrong}
            assert client.get("/", headers=headers).status_code == 401
        assert client.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert client.get("/", headers={"cookie": "gce_session=" + "0" * 64}).status_code == 401
        form = {"csrf": csrf(client), "token": "wrong"}
        assert client.post("/login", data=form, follow_redirects=False).status_code == 401
        given = client.post("/login", data={**form, "token": TOKEN}, follow_redirects=False)
        assert given.status_code == 303 and TOKEN not in str(given.headers)
        assert (
            "httponly" in given.headers["set-cookie"].lower()
            and "samesite=strict" in given.headers["set-cookie"].lower()
        )
        page = client.get("/")
        assert page.status_code == 200 and TOKEN not in page.text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_an_address_that_others_reach_needs_a_token(host: str) -> None:
    with pytest.raises(BadInput, match="expected a token"):
        Address(host)
    assert Address(host, token=TOKEN).host == host
    with pytest.raises(BadInput, match="16 to 256"):
        Address(host, token="short")


def limited(**changes: Any) -> TestClient:
    limits = evolve(LIMITS, **changes)
    middleware = Middleware(Safety, address=Address(), keys=Keys(None), refuse=error_page, limits=limits)
    return TestClient(Starlette(middleware=[middleware]), base_url=HOST)


def test_bodies_and_rates_are_limited() -> None:
    assert limited(body=100).post("/x", content=b"x" * 101).status_code == 413
    assert limited(body=100).post("/x", content=iter([b"x" * 60, b"x" * 60])).status_code == 413
    for length in LENGTHS:
        assert limited().post("/x", content=b"", headers={"content-length": length}).status_code == 413
    client = limited(rate=0.001, burst=3.0)
    assert [client.get("/x").status_code for _ in range(5)] == [404, 404, 404, 429, 429]


@pytest.mark.slow
def test_a_client_that_sends_its_body_too_slowly_is_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-u", "-m", "gce", "serve", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"127.0.0.1:(\d+)", server.stdout.readline())
        assert found is not None
        head = b"POST /api/v1/judge HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
        with socket.create_connection(("127.0.0.1", int(found[1])), timeout=30) as client:
            begun = time.monotonic()
            client.sendall(head)
            assert client.recv(100).startswith(b"HTTP/1.1 408") and time.monotonic() - begun < 15
        server.terminate()


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 0)])
def test_the_ways_to_end_the_server_end_it_without_a_word(tmp_path: Path, sent: signal.Signals, status: int) -> None:
    command = [sys.executable, "-u", "-m", "gce", "serve", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stdout.readline()
        time.sleep(0.5)  # The line is printed before the first request can be answered.
        server.send_signal(sent)
        assert server.communicate(timeout=30) == ("", "")
    assert server.returncode == status


def test_a_defect_tells_a_client_nothing(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Mapping[str, Path]:
        raise RuntimeError("/home/somebody/secret")

    monkeypatch.setattr("gce.app.web.served.Served.runs", broken)
    found = client.get("/")
    assert found.status_code == 500 and "secret" not in found.text and "Traceback" not in found.text


def test_a_damaged_run_is_listed_and_explained_in_the_terminal_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.sqlite").write_bytes(b"nothing of the kind" * 100)
    with TestClient(application(WebSettings(tmp_path)), base_url=HOST) as client:
        assert "unreadable" in client.get("/").text
        for more in ("", "/answers"):
            found = client.get(run_of(client) + more)
            assert found.status_code == 422 and str(tmp_path) not in found.text
    assert str(tmp_path) in capsys.readouterr().err


def test_templates_and_static_files_are_small_and_hold_no_inline_code() -> None:
    root = Path(rendering.__file__).parent
    for template in (root / "templates").glob("*.html"):
        text = template.read_text()
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|https?://|\|safe|autoescape", text), template
    script = "".join(each.read_text() for each in (root / "static").glob("*.js"))
    assert len(script.splitlines()) <= 400 and not re.search(r"innerHTML|eval\(|https?://", script)
