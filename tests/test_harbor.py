"""Task directories of Harbor: what is read of them, what a candidate can and cannot do, and exported tasks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from round_trips import NAMES, check_round_trip, exported

from gce.adapters.environments.harbor_files import case_of
from gce.adapters.sandboxes.container import Container
from gce.app.cli import main
from gce.app.wiring import environments
from gce.app.wiring.environments import _start_isolated, find_environment
from gce.app.wiring.sandboxes import SANDBOXES, why_not
from gce.app.wiring.tasks import find_task
from gce.domain.answers import Answer, answered_by
from gce.domain.completions import Completion
from gce.domain.problems import Problem
from gce.domain.tasks import ProblemSource, Task, draw_problems
from gce.errors import BadInput
from gce.testing.contracts.foreign_task import check_foreign_task

sandboxed = pytest.mark.skipif(all(map(why_not, SANDBOXES)), reason="no sandbox works here")

TOML = """
version = "1.0"
[metadata]
difficulty = "easy"
[verifier]
timeout_sec = 90.0
[agent]
timeout_sec = 45
[environment]
memory_mb = 1024
"""
DOCKERFILE = """
# A comment \\
FROM python:3.13-slim
RUN apt-get update && \\
    apt-get install -y jq
ENV COUNTED=words LANGUAGE=en
WORKDIR /app
COPY words.txt /app/words.txt
COPY data /data/
"""
TESTS = """#!/bin/bash
mkdir -p /logs/verifier
case "$(cat /app/count.txt 2>/dev/null)" in
  3) echo 1 > /logs/verifier/reward.txt;;
  2|4) echo '{"reward": 0.5, "other": 7}' > /logs/verifier/reward.json;;
  none) exit 3;;
  words) echo many > /logs/verifier/reward.txt;;
  *) echo 0 > /logs/verifier/reward.txt;;
esac
exit 1
"""


def write_case(place: Path, **changed: str) -> Path:
    """A task directory: how many words are in a file?"""
    files = {
        "instruction.md": "Write the number of words in /app/words.txt to /app/count.txt.\n",
        "task.toml": TOML,
        "environment/Dockerfile": DOCKERFILE,
        "environment/words.txt": "one two three\n",
        "environment/data/more.txt": "four\n",
        "tests/test.sh": TESTS,
        "solution/solve.sh": "#!/bin/bash\npython3 /solution/count.py\n",
        "solution/count.py": "open('/app/count.txt', 'w').write(str(len(open('/app/words.txt').read().split())))\n",
    }
    for name, text in {**files, **changed}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    for path in (place, *place.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return place


def test_files_variables_and_limits_are_read(tmp_path: Path) -> None:
    case = case_of(write_case(tmp_path / "count"))
    assert (case.name, case.workdir, case.places) == ("count", "/app", ("/app", "/data"))
    assert [path for path, _, _ in case.files] == ["/app/words.txt", "/data/more.txt"]
    assert case.environment == {"COUNTED": "words", "LANGUAGE": "en"}
    assert (case.agent_seconds, case.tests_seconds, case.memory) == (45, 90, 2**30)
    assert case.left_out == ("RUN apt-get update && apt-get install -y jq",)
    assert "/solution/count.py" in case.oracle and case.oracle.endswith("python3 /solution/count.py")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"task.toml": "version = "}, "task.toml"),
        ({"task.toml": TOML + "[[steps]]\nname = 'a'\n"}, "several steps"),
        ({"task.toml": TOML.replace("90.0", "'soon'")}, "timeout_sec"),
        ({"task.toml": TOML + "[environment.env]\nKEY = '${KEY}'\n"}, "host's variable for KEY"),
        ({"environment/docker-compose.yaml": "services:\n"}, "several containers"),
        ({"environment/Dockerfile": "COPY ../task.toml /app/"}, "no file '../task.toml' in environment/"),
        ({"environment/Dockerfile": "COPY nothing /app/"}, "no file 'nothing'"),
        ({"environment/Dockerfile": "WORKDIR /usr/src"}, "the task writes to /usr"),
        ({"environment/Dockerfile": "COPY /nothing /app/"}, "no file '/nothing' in environment/"),
        ({"environment/Dockerfile": "ENV"}, "expected a variable in 'ENV'"),
    ],
)
def test_what_is_not_supported_is_refused_in_one_line(changed: dict[str, str], says: str, tmp_path: Path) -> None:
    write_case(tmp_path / "count", **changed)
    with pytest.raises(BadInput, match=says) as caught:
        case_of(tmp_path / "count")
    assert "\n" not in str(caught.value)


def test_a_copy_may_begin_with_a_slash_and_artifacts_may_be_nonsense(tmp_path: Path) -> None:
    changed = {"environment/Dockerfile": "COPY /words.txt /app/", "task.toml": "artifacts = 3\n" + TOML}
    (file,) = case_of(write_case(tmp_path / "count", **changed)).files
    assert file[0] == "/app/words.txt"


def test_a_directory_without_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"expected a directory with task\.toml"):
        find_task(f"harbor:{tmp_path}")


@pytest.fixture(scope="module")
def count(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Task]:
    place = tmp_path_factory.mktemp("harbor")
    place.chmod(0o755)
    yield find_task(f"harbor:{write_case(place / 'count')}?seconds=5")
    find_environment.cache_clear()


def answered(task: Task, script: str) -> Answer:
    (problem,) = draw_problems(task, "questions", "all", "test", 1)
    said = Completion("answer", f"Here it is:\n```bash\n{script}\n```", "stop", policy="")
    return answered_by(task, problem, said, task.judge(problem, said))


@pytest.mark.slow
@sandboxed
def test_the_oracle_is_right_and_rewards_are_read(count: Task) -> None:
    (problem,) = draw_problems(count, "questions", "all", "test", 1)
    assert "one bash script between ```bash and ```" in problem.prompt[-1].content
    assert answered(count, problem.instance.row["answer"]).right
    assert answered(count, "wc -w < words.txt > count.txt").right
    assert answered(count, "cat /data/more.txt > count.txt; echo 2 > count.txt").reward == 0.5
    assert answered(count, "true").reward == 0.0


@sandboxed
@pytest.mark.parametrize(("said", "reason"), [("none", "exit status 3"), ("words", "no number")])
def test_tests_without_a_reward_fail(count: Task, said: str, reason: str) -> None:
    found = answered(count, f"echo {said} > count.txt")
    assert found.outcome == "failed" and reason in found.reason


@sandboxed
@pytest.mark.parametrize(
    "attack",
    [
        "mkdir -p /logs/verifier /tmp/logs/verifier; echo 1 > /tmp/logs/verifier/reward.txt",
        "(setsid bash -c 'while true; do echo 1 > /tmp/logs/verifier/reward.txt; done' &)",
        "ln -s /logs/verifier/reward.txt count.txt",
        "mkfifo count.txt",
        "ls /tests > count.txt; cat /tests/test.sh",
        "yes | head -c 9000000 > big; echo 3 > count.txt",
        "for i in $(seq 2000); do echo > file$i; done; echo 3 > count.txt",
        "echo 'exit 0' > /tmp/bin/cat; mkdir -p bin; printf '#!/bin/bash\\necho 3' > bin/cat; chmod +x bin/cat",
        ":(){ :|:& };:",
        "kill -9 -1",
    ],
)
def test_no_attack_makes_a_verdict_right(count: Task, attack: str) -> None:
    assert answered(count, attack).outcome in ("wrong", "failed")


IN_HOME = """#!/bin/bash
if [ -e "$HOME/left" ] || [ -e count.txt ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


@pytest.mark.slow
@sandboxed
@pytest.mark.parametrize("attack", ["touch ~/left", "cd /; rm -rf /home/user; echo > /home/user", "touch {1..2000}"])
def test_nothing_of_a_home_is_kept_and_what_cannot_be_tested_has_the_lowest_reward(attack: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    changed = {"environment/Dockerfile": "WORKDIR /home/user", "tests/test.sh": IN_HOME}
    task = find_task(f"harbor:{write_case(tmp_path / 'count', **changed)}?low=-1&high=1&admit_at=0.5&seconds=5")
    found = answered(task, attack)
    assert found.reward == (0.5 if "left" in attack else 0.0)
    assert answered(task, "touch count.txt").right


PYTEST = """#!/bin/bash
source $HOME/.local/bin/env
apt-get update && pip install pytest
uvx -p 3.13 -w pytest==8.4.1 pytest --ctrf /logs/verifier/ctrf.json /tests/test_outputs.py -rA
[ $? -eq 0 ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
"""
OUTPUTS = """
import json

def test_count():
    assert json.loads(open("/app/count.txt").read()) == 3
"""


@sandboxed
@pytest.mark.slow
def test_pytest_runs_and_imports_nothing_that_the_candidate_left(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    place = write_case(tmp_path / "count", **{"tests/test.sh": PYTEST, "tests/test_outputs.py": OUTPUTS})
    task = find_task(f"harbor:{place}")
    assert answered(task, "echo 3 > count.txt").right
    assert answered(task, "echo 4 > count.txt").outcome == "wrong"
    forged = "def loads(text):\n    return 3"
    for attack in (
        f"cat > json.py <<'END'\n{forged}\nEND\necho 4 > count.txt",
        "echo 'echo 1 > /logs/verifier/reward.txt; exit' > ~/.local/bin/env",
        "printf 'import os\\ndef pytest_runtest_call(item):\\n    os._exit(0)\\n' > conftest.py",
        "printf '[pytest]\\naddopts = --collect-only\\n' > pytest.ini; echo 4 > count.txt",
    ):
        assert answered(task, attack).outcome == "wrong", attack


@sandboxed
@pytest.mark.parametrize(
    ("command", "problem", "ended"),
    [("/bin/true", "", 0), ("/bin/false", "", 1), ("/no/such", "FileNotFoundError", 127)],
)
def test_a_command_that_cannot_be_started_is_told_from_one_that_failed(command: str, problem: str, ended: int) -> None:
    process = _start_isolated(tuple((path, path) for path in ("/bin", "/usr/bin")), "shell_inside")
    job = {"files": [], "places": [], "command": [command], "directory": "/tmp", "environment": {}, "seconds": 5}
    process.give({**job, "memory": 2**30, "collect": [], "most": 0}, time.monotonic() + 60)
    process.allow(time.monotonic() + 60)
    found = json.loads(process.exchange(b"run", 2**20))
    process.close()
    assert (found["problem"][:17], found["ended"]) == (problem, ended)


@pytest.mark.parametrize("limit", ["seconds=2.5", "wait=0", "memory=true", "memory=128.5"])
def test_a_limit_is_a_whole_number(limit: str, tmp_path: Path) -> None:
    """The system takes no other, so that no script would start."""
    place = write_case(tmp_path / "count")
    with pytest.raises(BadInput, match=f"expected {limit.partition('=')[0]} to be a whole number"):
        find_task(f"harbor:{place}?{limit}")


def test_what_a_candidate_writes_beside_the_reward_is_never_kept(tmp_path: Path) -> None:
    toml = 'artifacts = ["/logs/artifacts/count.txt", "/tmp/count.txt"]\n' + TOML
    assert case_of(write_case(tmp_path / "count", **{"task.toml": toml})).places == ("/app", "/data")


@pytest.mark.slow
@sandboxed
def test_a_script_that_does_not_end_is_judged_by_what_it_left(count: Task) -> None:
    assert answered(count, "echo 3 > count.txt; sleep 100").right


@sandboxed
@pytest.mark.slow
def test_a_file_in_place_of_a_script(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for number in range(8):
        files = {"instruction.md": f"Task {number}: how many words?", "solution/count.txt": "3"}
        write_case(tmp_path / "tasks" / f"count{number}", **files)
    task = find_task(f"harbor:{tmp_path / 'tasks'}?writes=count.txt")
    check_foreign_task(task, problems=1)
    (problem,) = draw_problems(task, "questions", "all", "test", 1)
    assert "the contents of /app/count.txt" in problem.prompt[-1].content


@pytest.mark.slow
@sandboxed
def test_an_evaluation_runs_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = write_case(tmp_path / "tasks" / "count")
    (tmp_path / "tasks").chmod(0o755)
    tmp_path.chmod(0o755)
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"text": "```bash\nwc -w < words.txt > count.txt\n```"}) + "\n")
    command = ["evaluate", "--task", f"harbor:{place.parent}", "--model", f"scripted:{script}", "--json"]
    assert main(command) == 0
    said = capsys.readouterr()
    (row,) = json.loads(said.out)["modes"].values()
    assert row["tiers"]["all"]["correct"] == row["tiers"]["all"]["n"] == 1
    assert "in place of its container image" in said.err and "not done: RUN apt-get" in said.err


def round_trip(name: str, count: int, place: Path) -> None:
    place.chmod(0o755)
    sent = exported(name, "harbor", place / "out")
    back = find_task(f"harbor:{place / 'out'}?admit_at={sent.task.admit_at}")
    tier = next(iter(back.presets["questions"])).name
    found = {each.instance.row["case"]: each for each in ProblemSource(back).first("questions", tier, "test", 99)}

    def twin(number: int) -> Problem:
        return found[f"test-{number:04}"]

    check_round_trip(sent, back, twin, count)


@pytest.mark.slow
@sandboxed
@pytest.mark.parametrize("name", NAMES[:1])
def test_a_task_that_goes_out_comes_in_with_the_same_verdicts(name: str, tmp_path: Path) -> None:
    """Each verdict takes a sandbox and a start of Python, so that there are few here."""
    round_trip(name, 5, tmp_path)


@sandboxed
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_verdicts_are_the_same(name: str, tmp_path: Path) -> None:
    round_trip(name, 1000, tmp_path)


def test_commands_of_this_machine_run_in_no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container has the programs of its image; what a model wrote never runs without a sandbox."""
    engines = [name for name, start in SANDBOXES.items() if isinstance(start, Container)]
    monkeypatch.setattr(environments, "_why_not", lambda name: "" if name in engines else "is missing")
    with pytest.raises(BadInput, match=r"bubblewrap is missing; .*; docker runs the programs of an image"):
        environments._start_isolated()
