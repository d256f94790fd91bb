"""Jobs in real processes: the queue, limits, and what is left when the server or a worker is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from gce.adapters.system.supervised import MOST_LOG, MOST_OUTPUT, birth, is_alive, supervise
from gce.app.web.jobs import FOLDER, JobRecord, Jobs, JobState, TooManyJobs
from gce.app.web.served import OWN
from gce.app.wiring.runs import open_run
from gce.errors import BadInput

TESTS = Path(__file__).parent
SERVE = (sys.executable, "-u", "-m", "gce", "serve", "--port", "0")
ITERATIONS, PROBLEMS, SAMPLES = 15, 6, 4
TRAINING = (
    *("train", "--task", "imitator:SUMS", "--model", "imitator:imitator", "--iterations", str(ITERATIONS)),
    *("--problems", str(PROBLEMS), "--rollouts", str(SAMPLES), "--dev", "4", "--test", "4", "--shifts", "0"),
)


@pytest.fixture(autouse=True)
def own_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), *filter(None, sys.path)]))


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Modules that jobs can run."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ["PYTHONPATH"]]))

    def written(name: str, source: str) -> str:
        (folder / f"{name}.py").write_text(source)
        return name

    return written


@contextmanager
def jobs_of(root: Path, **more: float | Path) -> Iterator[Jobs]:
    with closing(Jobs(root, **more)) as jobs:  # type: ignore[arg-type]
        jobs.hold()
        yield jobs


def until(jobs: Jobs, job: JobRecord, *states: JobState, seconds: float = 60.0) -> JobState:
    deadline = time.monotonic() + seconds
    while (state := jobs.status(job).state) not in states:
        assert time.monotonic() < deadline, (state, jobs.log(job))
        jobs.tick()
        time.sleep(0.02)
    return state


def submit_training(jobs: Jobs, run: str = "one") -> JobRecord:
    folder = str(jobs.root / run)
    again = ("train", "--run-dir", folder, "--resume")
    return jobs.submit("train", "sums", (*TRAINING, "--run-dir", folder), again=again, run=run)


def supervisor_of(folder: Path, job: JobRecord) -> int:
    return int(json.loads((folder / job.id / f"started-{job.attempt}.json").read_text())["pid"])


def test_a_job_runs_and_keeps_what_it_printed_and_how_it_ended(
    tmp_path: Path, programs: Callable[[str, str], str]
) -> None:
    source = "import sys\nprint('result')\nprint('said', file=sys.stderr)\nsys.exit(int(sys.argv[1]))"
    module = programs("speaks", source)
    with jobs_of(tmp_path / "runs") as jobs:
        good = jobs.submit("answer", "good", ("0",), module=module)
        bad = jobs.submit("answer", "bad", ("2",), module=module)
        assert [until(jobs, job, "done", "failed") for job in (good, bad)] == ["done", "failed"]
        assert [(jobs.output(job), jobs.log(job)) for job in (good, bad)] == 2 * [("result\n", "said\n")]
        assert [jobs.status(job).status for job in (good, bad)] == [0, 2]
        assert [job.id for job in jobs.each()] == sorted((good.id, bad.id), reverse=True)


def test_a_log_tells_attempts_apart(tmp_path: Path, programs: Callable[[str, str], str]) -> None:
    module = programs("fails", "import sys\nsys.exit('no')")
    with jobs_of(tmp_path / "runs") as jobs:
        job = jobs.submit("answer", "fails", (), module=module)
        until(jobs, job, "failed")
        job = jobs.resume(job.id)
        until(jobs, job, "failed")
        assert re.fullmatch(r"no\n-- attempt 2, [0-9-]{10} [0-9:]{5} UTC --\nno\n", jobs.log(job))


def test_a_job_waits_for_those_that_run_first_in_its_queue(tmp_path: Path) -> None:
    with jobs_of(tmp_path, at_once=0) as jobs:
        first = jobs.submit("train", "first", ())
        jobs.submit("answer", "short", ())
        second, third = (jobs.submit("train", name, ()) for name in ("second", "third"))
        jobs.cancel(second.id)
        expected = sorted((first, third), key=lambda job: job.id)
        assert jobs.ahead(expected[1]) == expected[:1] and jobs.ahead(expected[0]) == jobs.ahead(second) == []
        counts = jobs.counts()  # The short job may run already, or have ended.
        assert counts["cancelled"] == 1 and counts["queued"] in (2, 3) and counts.total() == 4
        assert not jobs.counts(first.created + 3600)


@pytest.mark.slow
def test_one_long_job_runs_at_a_time_and_a_short_one_does_not_wait_for_it(
    tmp_path: Path, programs: Callable[[str, str], str]
) -> None:
    module = programs("waits", "import time\ntime.sleep(60)")
    with jobs_of(tmp_path) as jobs:
        first, second = (jobs.submit("train", name, (), module=module) for name in ("first", "second"))
        short = jobs.submit("answer", "short", (), module=module)
        until(jobs, first, "running")
        until(jobs, short, "running")
        jobs.tick()
        assert jobs.status(second).state == "queued"
        jobs.cancel(second.id)
        assert jobs.status(second).state == "cancelled"
        for job in (first, short):
            jobs.cancel(job.id)
            assert until(jobs, job, "cancelled", "failed") == "cancelled"
        again = jobs.resume(second.id)
        until(jobs, again, "running")
        with pytest.raises(BadInput, match="this one is running"):
            jobs.resume(second.id)
        jobs.cancel(again.id)
        until(jobs, again, "cancelled")


@pytest.mark.slow
def test_a_job_ends_at_its_limits_and_what_it_says_is_bounded(
    tmp_path: Path, programs: Callable[[str, str], str]
) -> None:
    talks = "import sys\nwhile True:\n    sys.stdout.write('o' * 65536)\n    sys.stderr.write('e' * 65535 + '\\n')"
    hungry = "print(len(bytearray(2**31)))"
    with jobs_of(tmp_path, memory=2**29) as jobs:
        endless = jobs.submit("answer", "endless", (), module=programs("talks", talks), seconds=2.0)
        large = jobs.submit("answer", "large", (), module=programs("hungry", hungry))
        assert until(jobs, endless, "failed") and jobs.status(endless).why == "time"
        assert until(jobs, large, "failed", "done") == "failed"
        assert "MemoryError" in jobs.log(large)
        folder = tmp_path / FOLDER / endless.id
        assert (folder / "output").stat().st_size == MOST_OUTPUT
        assert sum((folder / name).stat().st_size for name in ("log", "log.old")) <= 2 * MOST_LOG + 2**17
        assert len(jobs.log(endless)) <= 2**16


def test_the_queue_is_bounded_and_a_folder_has_one_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gce.app.web.jobs.MOST_WAITING", 2)
    with jobs_of(tmp_path, at_once=0) as jobs:
        for name in ("first", "second"):
            jobs.submit("train", name, ())
        with pytest.raises(TooManyJobs, match="at most 2"):
            jobs.submit("train", "third", ())
        with pytest.raises(BadInput, match="another gce serve has the jobs"):
            Jobs(tmp_path).hold()


def test_jobs_that_have_long_been_over_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gce.app.web.jobs.MOST_KEPT", 1)
    with jobs_of(tmp_path, at_once=0) as jobs:
        for name in ("first", "second", "third"):
            jobs.cancel(jobs.submit("train", name, ()).id)
        jobs.tick()
        assert len(jobs.each()) == 1
        assert len([path for path in (tmp_path / FOLDER).iterdir() if path.is_dir()]) == 1


def test_an_attempt_is_claimed_once_however_many_supervisors_try(
    tmp_path: Path, programs: Callable[[str, str], str]
) -> None:
    count = tmp_path / "count"
    module = programs("counts", f"open({str(count)!r}, 'a').write('x')")
    with jobs_of(tmp_path / "runs") as jobs:
        job = jobs.submit("answer", "counts", (), module=module)
        until(jobs, job, "done")
        supervise(tmp_path / "runs" / FOLDER / job.id, job.attempt)
        assert count.read_text() == "x"


def test_a_process_that_has_another_start_time_is_not_taken_for_the_worker() -> None:
    born = birth(os.getpid())
    assert is_alive(os.getpid(), born)
    assert not is_alive(os.getpid(), born + "1")
    assert not is_alive(os.getpid(), "")
    child = subprocess.Popen([sys.executable, "-c", ""])
    while birth(child.pid):  # Until it has ended; it is not waited for yet.
        time.sleep(0.01)
    child.wait()


def test_the_servers_token_reaches_no_job(
    tmp_path: Path, programs: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GCE_TOKEN", "a secret")
    module = programs("tells", "import os\nprint(os.environ.get('GCE_TOKEN'))")
    with jobs_of(tmp_path) as jobs:
        job = jobs.submit("answer", "tells", (), module=module)
        until(jobs, job, "done")
        assert jobs.output(job) == "None\n"


@pytest.mark.slow
def test_ten_kills_of_the_server_lose_no_job_and_no_answer(tmp_path: Path) -> None:
    folder = tmp_path / OWN / "jobs"
    with jobs_of(tmp_path, folder=folder, at_once=0) as jobs:
        job = submit_training(jobs)
        waiting = submit_training(jobs, "two")
    pid = 0
    for number in range(10):
        server = subprocess.Popen([*SERVE, str(tmp_path)], stdout=subprocess.PIPE)
        assert server.stdout is not None and server.stdout.readline().startswith(b"serving ")
        if number == 0:
            while not (folder / job.id / "started-1.json").exists():
                time.sleep(0.01)
            pid = supervisor_of(folder, job)
        time.sleep(0.03 * number)
        server.send_signal(signal.SIGKILL)
        server.wait()
        server.stdout.close()
        with jobs_of(tmp_path, folder=folder, at_once=0) as jobs:
            found = jobs.find(job.id)
            assert found == job
            state = jobs.status(found).state
            assert state == ("running" if is_alive(pid, birth(pid)) else "done"), jobs.log(job)
            assert supervisor_of(folder, job) == pid
    with jobs_of(tmp_path, folder=folder) as jobs:
        for each in (job, waiting):
            assert until(jobs, each, "done", "failed", "interrupted", seconds=120) == "done", jobs.log(each)
    for name in ("one", "two"):
        with open_run(tmp_path / name) as run:
            assert len(list(run.read("rollouts"))) == ITERATIONS * PROBLEMS * SAMPLES


@pytest.mark.slow
def test_a_worker_that_was_killed_is_interrupted_and_its_run_goes_on(tmp_path: Path) -> None:
    with jobs_of(tmp_path) as jobs:
        job = submit_training(jobs)
        while not (tmp_path / "one" / "checkpoints" / "last").exists():
            assert not jobs.status(job).is_over, jobs.log(job)
            time.sleep(0.01)
        os.kill(supervisor_of(tmp_path / FOLDER, job), signal.SIGKILL)
        assert until(jobs, job, "interrupted", "done") == "interrupted"
        again = jobs.resume(job.id)
        assert again.words[-1] == "--resume"
        assert until(jobs, again, "done", "failed", seconds=120) == "done", jobs.log(again)
        with open_run(tmp_path / "one") as run:
            assert len(list(run.read("rollouts"))) == ITERATIONS * PROBLEMS * SAMPLES
        with pytest.raises(BadInput, match="this one is done"):
            jobs.resume(job.id)
