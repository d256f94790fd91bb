"""Sandboxes of a container engine: what it is asked, what is measured in it, and what it is refused for."""

from __future__ import annotations

import os
import re
import time
from itertools import pairwise
from pathlib import Path

import pytest
from attrs import evolve
from container_engine import asked, install_engine
from performance_tasks import FAST, small_task, tree_of

from gce.adapters.performance import measuring as module
from gce.adapters.performance.agent_commands import why_no_sandbox
from gce.adapters.performance.measuring import Measuring
from gce.adapters.sandboxes.bubblewrap import start_bubblewrap
from gce.adapters.sandboxes.container import IMAGE, Container
from gce.adapters.sandboxes.pool import RunnerPool
from gce.app import cli
from gce.app.wiring import sandboxes as runners
from gce.domain.executions import Execution
from gce.domain.performance.decision import Decision
from gce.domain.performance.task import PerformanceTask, Source
from gce.errors import BadInput

TASK_IMAGE = "registry.example/serving:1.2"


def put_on_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def playing(folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str = "") -> Path:
    """An engine that plays containers."""
    reason = why_no_sandbox()
    if reason:
        pytest.skip(f"containers are played by bubblewrap: {reason}")
    put_on_path(install_engine(folder / "engine", mode), monkeypatch)
    return folder / "engine"


def option(words: list[str], name: str) -> list[str]:
    return [value for word, value in pairwise(words) if word == name]


def test_limits_of_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = install_engine(tmp_path / "engine", "no image")
    put_on_path(engine, monkeypatch)
    monkeypatch.setenv("SOME_API_KEY", "secret-of-mine")
    process = Container("docker").of(TASK_IMAGE, 1024)((("/somewhere", "/code"),))
    with pytest.raises(OSError, match=re.escape(f"No such image: {TASK_IMAGE}")):
        process.give({}, time.monotonic() + 300)
    process.close()
    run, remove = asked(engine)
    (name,) = option(run, "--name")
    assert remove == ["rm", "--force", name]
    before, behind = run[: run.index(TASK_IMAGE)], run[run.index(TASK_IMAGE) + 1 :]
    assert {"--rm", "--read-only", "--no-healthcheck", "--interactive"} <= set(before)
    for key, values in {
        "--pull": ["never"],
        "--network": ["none"],
        "--ipc": ["private"],
        "--cap-drop": ["ALL"],
        "--security-opt": ["no-new-privileges"],
        "--memory": ["1280m"],
        "--memory-swap": ["1280m"],
        "--pids-limit": ["32"],
        "--log-driver": ["none"],
        "--mount": ["type=bind,source=/somewhere,target=/code,readonly"],
        "--entrypoint": ["python3"],
    }.items():
        assert option(before, key) == values, key
    (user,) = option(before, "--user")
    assert 61184 <= int(user.partition(":")[0]) < 65520
    assert "http_proxy=" in option(before, "--env") and "PYTHONHASHSEED=0" in option(before, "--env")
    writable = [place for place in option(before, "--tmpfs") if ":ro" not in place]
    assert [place.partition(":")[0] for place in writable] == ["/tmp"]
    assert not {"--privileged", "--volume", "--publish"} & set(before)
    assert behind[:3] == ["-s", "-P", "-c"] and behind[4:] == ["0", "isolated"]
    assert not any("secret-of-mine" in word for word in run)


@pytest.mark.slow
def test_code_is_measured_in_the_image_of_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = playing(tmp_path, monkeypatch)
    monkeypatch.setattr(module, "CHECKED", 1)
    monkeypatch.setattr(module, "PATIENCE", 100.0)
    task = evolve(small_task(tmp_path / "task"), image=TASK_IMAGE)
    candidate = tree_of(tmp_path / "candidate", FAST)
    found = Measuring(Container("docker")).compare(
        task, tmp_path / "task" / "base", candidate, seed=1, rule=lambda rounds: Decision("partial", len(rounds) == 1)
    )
    assert found.verdict == "partial", found.fault
    assert found.rounds[0].candidate.seconds < found.rounds[0].base.seconds
    calls = asked(engine)
    started = [words for words in calls if words[0] == "run"]
    assert len(started) == 7, "the judge, tests, a workload and that of the round for both versions"
    assert all(TASK_IMAGE in words and option(words, "--memory") == ["2304m"] for words in started)
    removed = {words[2] for words in calls if words[0] == "rm"}
    assert removed == {name for words in started for name in option(words, "--name")}


@pytest.mark.slow
def test_programs_run_in_the_image_of_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = playing(tmp_path, monkeypatch)
    assert runners.why_not("docker") == ""
    with RunnerPool(runners.SANDBOXES["docker"], workers=1) as pool:
        (found,) = pool.run([Execution("def f(x): return x + 1", "f", ("[1]",), seconds=5)])
    assert [(each.status, each.text) for each in found.outcomes] == [("returned", "2")]
    assert IMAGE in asked(engine)[0]


@pytest.mark.slow
def test_an_engine_that_works_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    playing(tmp_path, monkeypatch)
    assert cli.main(["performance", "doctor", "--runner", "docker"]) == 0
    assert capsys.readouterr().out.startswith("ready")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("no image", "No such image"),
        ("loses time", "0.004 s of processor time for 0.5 s of work"),
        ("volume", "/data can be written"),
    ],
)
def test_an_engine_that_does_not_hold_is_refused_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mode: str, said: str
) -> None:
    playing(tmp_path, monkeypatch, mode)
    assert cli.main(["performance", "doctor", "--runner", "docker"]) == 2
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err


def test_an_engine_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert runners.why_not("podman") == "podman is not installed"


def test_an_image_needs_an_engine(tmp_path: Path) -> None:
    assert runners.why_not("bubblewrap", TASK_IMAGE) == f"runs no images, and a task needs {TASK_IMAGE}"
    task = evolve(small_task(tmp_path / "task"), image=TASK_IMAGE)
    with pytest.raises(BadInput, match=f"runs in the image {TASK_IMAGE}"):
        Measuring(start_bubblewrap).compare(task, tmp_path / "task" / "base", tmp_path / "task" / "human", seed=1)


@pytest.mark.parametrize("image", ["--privileged", "a b", "a,b", "$(x)"])
def test_an_image_is_no_option(image: str) -> None:
    with pytest.raises(ValueError):
        PerformanceTask(
            name="a", base=Source(directory="a"), human=Source(directory="b"), workload="x", tests="x", image=image
        )


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_real_engine(engine: str) -> None:
    """The contract over all sandboxes is that of test_runners; here, whether time is seen."""
    reason = runners.why_not(engine)
    if reason:
        pytest.skip(f"no {engine} here: {reason}")
    assert 0.45 <= Measuring(Container(engine)).check().seconds <= 1.0
