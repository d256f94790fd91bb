"""`gce audit-environments`: bounded, resumed, confirmed by scripts and second judges, and a page that is only text."""

from __future__ import annotations

import json
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from attrs import evolve

import gce
from gce.adapters.sandboxes.process import Program, environment_of
from gce.adapters.system.bounded_commands import Ended
from gce.app.cli import main
from gce.app.evaluation import environment_audits
from gce.app.evaluation.environment_audit import (
    AuditFinding,
    EnvironmentAudit,
    Level,
    Request,
    _Auditor,
    audit_environment,
    evidence,
    judges_of,
)
from gce.app.evaluation.environment_audits import (
    AUDIT_FILE,
    EnvironmentAudits,
    audit_environments,
    gravest,
    read_audits,
)
from gce.app.reports.environment_audits import audits_page, audits_summary
from gce.app.wiring.environments import AUDITED, Reproduced, find_environment
from gce.app.wiring.sandboxes import SANDBOXES, why_not
from gce.domain.serialization import from_plain, to_plain
from gce.domain.tasks import ProblemSource
from gce.domain.tasks.own import answer_of
from gce.errors import BadInput
from gce.testing.verifiers.bench import Finding

HOSTILE = "</details><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u202e\ud800\x1b[2J"
FINDING = AuditFinding(
    "critical", "critical", "false accept", "blind", "constant", "always nan", "k", "asked", "7", "nan", "a judge"
)
AUDIT = EnvironmentAudit("gcd", "audited", verdicts=100, failed=5, findings=(FINDING,))
AUDITS = EnvironmentAudits("reasoning-gym", "0.1.25", "0.2.0", 0, ("gcd", "lcm"), (AUDIT,))


class Seen(HTMLParser):
    """Elements of a page, with those that can act, and attributes that a browser runs."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.acting: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.acting += [name for name, _ in attrs if name.startswith("on") or name in ("src", "href")]


def seen(page: str) -> Seen:
    found = Seen()
    found.feed(page)
    return found


def test_all_that_comes_from_a_framework_is_text() -> None:
    """The same elements as with harmless texts, and nothing that acts but the page's own script."""
    values = to_plain(FINDING)
    kept = ("severity", "panel_severity", "confirmed")
    hostile = from_plain(AuditFinding, {name: value if name in kept else HOSTILE for name, value in values.items()})
    audit = evolve(
        AUDIT,
        name=HOSTILE,
        reason=HOSTILE,
        findings=(hostile,),
        notes=(HOSTILE,),
        levels=(Level(HOSTILE, "fail", HOSTILE),),
        not_checked=(HOSTILE,),
        found={HOSTILE: 1},
    )
    found = seen(
        audits_page(evolve(AUDITS, framework=HOSTILE, version=HOSTILE, audits=(audit, evolve(audit, status="time"))))
    )
    assert found.tags.count("script") == 1 and "img" not in found.tags and not found.acting
    assert not any(each in audits_page(evolve(AUDITS, audits=(audit,))) for each in ("\x1b", "\u202e", "\ud800"))


def test_the_page_shows_the_gravest_first_and_has_filters() -> None:
    clean = EnvironmentAudit("lcm", "audited")
    hung = EnvironmentAudit("jugs", "time", "it took more than 180 s, in: check: blind")
    doubt = EnvironmentAudit("ab", "audited", findings=(evolve(FINDING, severity="doubtful"),))
    page = audits_page(evolve(AUDITS, audits=(clean, hung, doubt, AUDIT)))
    places = [page.index(f"<b>{name}</b>") for name in ("gcd", "ab", "jugs", "lcm")]
    assert places == sorted(places)
    assert 'class="filter"' in page and '<option value="critical">' in page and "it took more than 180 s" in page
    assert [gravest(each) for each in (AUDIT, doubt, clean)] == [0, 3, 5]


def test_the_summary_counts_findings_coverage_and_what_is_left() -> None:
    lines = audits_summary(AUDITS)
    assert "1 of 2 environments" in lines[0] and "95.00 % of 100 answers have a verdict" in lines[0]
    assert lines[1].startswith("findings: 1 critical; environments by their gravest: 1 critical")
    assert lines[3] == "not audited: 0; no record yet: 1"
    assert lines[-1] == "  gcd: critical false accept (1)"


@pytest.mark.parametrize(
    ("check", "defect", "opinion", "judged"),
    [
        ("blind", "false accept", None, False),
        ("blind", "false accept", False, True),
        ("blind", "false accept", True, False),
        ("own answers", "false reject", None, True),
        ("exploits", "false reject", True, False),
        ("determinism", "not repeatable", None, True),
        ("types", "runs the answer", None, True),
    ],
)
def test_a_finding_needs_a_second_judge(check: str, defect: str, opinion: bool | None, judged: bool) -> None:
    """The scorer on the same thing is none: without another opinion a false accept is doubtful."""
    assert bool(evidence(Finding(check, "", "said", defect=defect), opinion)) is judged


@pytest.mark.parametrize(("paid", "severity"), [(1.0, "high"), (0.75, "doubtful")])
def test_what_is_paid_in_part_stays_doubtful_whoever_calls_it_wrong(paid: float, severity: str) -> None:
    """The scorer calls it wrong, too: a second judge confirms what is called right alone."""
    rows = [{"prompt": f"What is 2 times {n}?", "answer": str(2 * n)} for n in range(40)]
    task = gce.task(rows, lambda answer, row: 1.0 if answer == row["answer"] else paid, extract=("tag", "answer"))
    source = ProblemSource(task)
    (problem,) = source.first(next(iter(task.presets)), "all", "test", 1)
    digits = answer_of(problem.instance) + "7"
    text = f"<answer>{digits}</answer>"
    doubt = Finding("near misses", "a digit appended", "", problem.key, text, severity="doubtful")
    auditor = _Auditor(
        task,
        source,
        lambda _row, _answer: Reproduced("script", str(paid), "", True),
        lambda row, text: text == f"<answer>{row['answer']}</answer>",
    )
    found = auditor._audited(evolve(doubt, defect="false accept"))
    assert (found.severity, found.panel_severity, found.confirmed) == (severity, "high", "yes")
    assert found.judge == ("a second judge" if paid == 1.0 else "")


@pytest.mark.parametrize(
    ("program", "seed", "inside"),
    [
        ("scorers_inside", "7", "7"),
        ("scorers_inside", "random", "0"),
        ("scorers_inside", "", "0"),
        ("inside", "7", "0"),
    ],
)
def test_scorers_get_the_hash_seed_of_this_process_and_programs_do_not(
    monkeypatch: pytest.MonkeyPatch, program: Program, seed: str, inside: str
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", seed)
    assert environment_of(program)["PYTHONHASHSEED"] == inside


# All of a framework: the processes are replaced.


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three names; the list fills with those that a process was started for."""
    asked: list[str] = []

    def run(_words: object, *, given: bytes, seconds: float, **_options: object) -> Ended:
        name = json.loads(given)["name"]
        asked.append(name)
        if name == "hangs":
            return Ended(-9, b"", b"stage: check: blind\n", "time", seconds)
        if name == "ended":
            return Ended(-15, b"", b"stage: opening\n")
        if name == "ends":
            return Ended(1, b"", b"stage: opening\nMemoryError\n")
        record = EnvironmentAudit(name, "audited", judged=bool(json.loads(given)["judges"]))
        return Ended(0, b"noise\n" + json.dumps(to_plain(record)).encode() + b"\n", b"")

    monkeypatch.setattr(environment_audits, "run_bounded", run)
    monkeypatch.setattr(environment_audits, "names_in", lambda _framework: ["ends", "hangs", "works"])
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "1.0")
    return asked


def test_what_hangs_or_ends_is_a_record_with_its_reason_and_nothing_is_done_twice(
    listed: list[str], tmp_path: Path
) -> None:
    found = audit_environments("reasoning-gym", tmp_path, jobs=1)
    said = {each.name: (each.status, each.reason) for each in found.audits}
    assert said == {
        "ends": ("ended", "in opening: exit status 1, MemoryError"),
        "hangs": ("time", "it took more than 180 s, in: check: blind"),
        "works": ("audited", ""),
    }
    assert read_audits(tmp_path) == found and sorted(listed) == ["ends", "hangs", "works"]
    assert audit_environments("reasoning-gym", tmp_path, jobs=1) == found and len(listed) == 3


def test_what_the_bound_of_all_cuts_off_is_audited_by_the_next_call(listed: list[str], tmp_path: Path) -> None:
    """The hanging one has 60 s in all and 120 s of its own, so that the bound of all ends it: no record."""
    found = audit_environments("reasoning-gym", tmp_path, minutes=1, minutes_each=2, jobs=1)
    assert found.left() == ["hangs"]
    assert audit_environments("reasoning-gym", tmp_path, only=["hangs"], jobs=1).left() == []
    assert listed.count("hangs") == 2 and listed.count("works") == 1


def test_what_somebody_ended_has_no_record(listed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment_audits, "names_in", lambda _framework: ["ended", "works"])
    found = audit_environments("reasoning-gym", tmp_path, jobs=1)
    assert found.left() == ["ended"] and [each.name for each in found.audits] == ["works"]


def test_what_exceeded_its_bound_is_audited_again_with_a_longer_one_alone(listed: list[str], tmp_path: Path) -> None:
    for minutes in (1, 1, 2):
        audit_environments("reasoning-gym", tmp_path, only=["hangs"], minutes_each=minutes, jobs=1)
    assert listed == ["hangs", "hangs"]


def test_an_environment_that_has_got_a_judge_is_audited_again(listed: list[str], tmp_path: Path) -> None:
    audit_environments("reasoning-gym", tmp_path, only=["works"], jobs=1)
    judges = f"{__name__}:JUDGES"
    for _ in range(2):
        found = audit_environments("reasoning-gym", tmp_path, only=["works"], judges=judges, jobs=1)
    assert listed == ["works", "works"] and [each.judged for each in found.audits] == [True]


JUDGES = {"works": lambda _row, _response: True, "syllogism": lambda row, response: row["answer"] in response}


def test_a_folder_of_another_audit_is_refused(listed: list[str], tmp_path: Path) -> None:
    audit_environments("reasoning-gym", tmp_path, jobs=1)
    with pytest.raises(BadInput, match=r"is an audit of reasoning-gym 1.0 with gce 1.0, seed 0, not .* seed 1"):
        audit_environments("reasoning-gym", tmp_path, seed=1, jobs=1)
    (tmp_path / AUDIT_FILE).write_text('{"audits_format": 7}')
    with pytest.raises(BadInput, match="its format is not 1"):
        audit_environments("reasoning-gym", tmp_path, jobs=1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["knitting"], "reasoning-gym"),
        (["reasoning-gym", "--only", "knitting"], "no environment 'knitting'"),
        (["reasoning-gym", "--minutes", "0"], "--minutes"),
        (["reasoning-gym", "--judges", "toy_task:WORKED"], "expected a mapping"),
        (["reasoning-gym", "--judges", "no_such_module:JUDGES"], "no_such_module"),
    ],
)
def test_bad_input_is_one_line(
    listed: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["audit-environments", *arguments, "--out", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert not out and says in err.splitlines()[-1]


def test_the_command_writes_a_page_and_ends_with_3_where_something_could_not_be_audited(
    listed: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit-environments", "reasoning-gym", "--out", str(tmp_path), "--quiet"]) == 3
    assert "not audited: 2; no record yet: 0" in capsys.readouterr().out
    assert "exit status 1, MemoryError" in (tmp_path / "audit.html").read_text()
    (tmp_path / "audit.html").write_text("mine")
    assert main(["audit-environments", "reasoning-gym", "--out", str(tmp_path), "--quiet"]) == 2
    assert (tmp_path / "audit.html").read_text() == "mine"


# One environment, with its worker.

needs_sandbox = pytest.mark.skipif(all(map(why_not, SANDBOXES)), reason="no sandbox works here")


@needs_sandbox
@pytest.mark.slow
def test_a_known_defect_is_found_and_its_script_shows_it() -> None:
    """`game_of_life_halting` of reasoning-gym 0.1.25 pays every answer; its judge says that it should not."""
    pytest.importorskip("reasoning_gym")
    sys.path.insert(0, str(Path(__file__).parents[1]))
    request = Request("reasoning-gym", "game_of_life_halting", "attacks.judges.reasoning_gym:JUDGES")
    found = audit_environment(request, lambda _said: None)
    find_environment.cache_clear()
    first = min(found.findings, key=lambda each: each.severity != "critical")
    assert first.severity == "critical" and first.judge == "a second judge" and first.confirmed == "yes"
    assert len(first.script.splitlines()) == 5 and float(first.printed) == 1.0
    levels = {each.check: each.status for each in found.levels}
    assert levels["semantic.oracle_max"] == "pass" and levels["semantic.canary_floor"] == "fail"
    assert levels["statistical.adversarial_floor"] == levels["statistical.gameability_gap"] == "fail"
    assert judges_of("") == {} and AUDITED["reasoning-gym"].module == "reasoning_gym"
