"""Rollouts, judging and studies on a Ray cluster of this machine."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

import numpy as np
import ray
from full_store import NOTHING_SPILLED, full_store
from ray.cluster_utils import Cluster

import gce
from gce.adapters.executors import ray_workers
from gce.adapters.executors.ray_workers import RayWorkers
from gce.adapters.models.wrappers.workers import in_a_thread
from gce.app.cli import main
from gce.app.settings.records import ExecutorSettings
from gce.app.training import ahead, loop, sampling
from gce.app.training.updates import learn
from gce.app.wiring.executors import executor_of
from gce.domain.serialization import to_plain
from gce.errors import BadInput, GceError, MissingExtra
from gce.testing.contracts.executor import check_executor

pytestmark = [
    pytest.mark.ray,
    # Ray leaves pipes and files of its processes open.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
TESTS = Path(__file__).parent


class Nodes:
    """A head without CPUs and nodes with one each; their processes find the tests."""

    def __init__(self) -> None:
        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": 100 << 20}
            | NOTHING_SPILLED,
        )
        self.nodes: list[Any] = []
        self.add()
        self.add()

    def add(self) -> None:
        self.nodes.append(self.cluster.add_node(num_cpus=1, object_store_memory=100 << 20))

    def kill(self) -> None:
        self.cluster.remove_node(self.nodes.pop(0), allow_graceful=False)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, os.environ.get("PYTHONPATH", "").split(":"))])
    found = Nodes()
    yield found
    ray.shutdown()
    found.cluster.shutdown()


@pytest.fixture
def two(nodes: Nodes) -> RayWorkers:
    """The workers that runs of these settings get."""
    found = executor_of(ExecutorSettings(**where(nodes)))
    assert isinstance(found, RayWorkers)
    return found


def where(nodes: Nodes) -> dict[str, Any]:
    return {"kind": "ray", "workers": 2, "address": nodes.cluster.address}


def test_ray_keeps_the_contract_of_executors(two: RayWorkers) -> None:
    check_executor(lambda: two)


def process_number(_spec: int) -> list[int]:
    time.sleep(0.2)
    return [os.getpid()]


def test_work_is_done_by_both_workers_which_stay(two: RayWorkers) -> None:
    found = [set(two.map(process_number, range(4))) for _ in range(2)]
    assert found[0] == found[1] and len(found[0]) == 2 and os.getpid() not in found[0]


def end_once(spec: tuple[str, int]) -> list[int]:
    mark, number = spec
    if number == 3 and not os.path.exists(mark):
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return [number, number]


def timed(spec: int) -> Iterator[tuple[int, float, float]]:
    began = time.time()
    time.sleep(0.4)
    yield spec, began, time.time()


def quick(spec: tuple[int, float, float]) -> Iterator[tuple[int, float, float]]:
    yield spec


def test_workers_are_busy_while_their_results_wait_for_other_work(two: RayWorkers) -> None:
    """As shares do, whose answers are judged by the same workers: a verdict may wait behind a share."""
    list(two.map(timed, range(8)))  # Both have started.
    found = list(two.map(quick, in_a_thread(two.map(timed, range(8)))))
    assert sorted(spec for spec, _, _ in found) == list(range(8))
    seconds = max(ended for _, _, ended in found) - min(began for _, began, _ in found)
    assert seconds < 0.75 * sum(ended - began for _, began, ended in found)


def test_what_a_dying_worker_had_is_done_again_and_nothing_comes_twice(two: RayWorkers, tmp_path: Path) -> None:
    said: list[str] = []
    two.say = said.append
    found = list(two.map(end_once, [(str(tmp_path / "mark"), number) for number in range(300)]))
    assert sorted(found) == sorted([*range(300), *range(300)])
    assert found[::2] == found[1::2]
    assert any("died, and is replaced" in line and "attempt 2 of 4" in line for line in said)


def always_end(_spec: int) -> list[int]:
    os._exit(9)


def test_work_that_ends_every_worker_is_given_up(two: RayWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_workers, "RETRIES", 1)
    with pytest.raises(GceError, match="begun 2 times and its worker died each time"):
        list(two.map(always_end, [1]))
    assert sorted(two.map(abs_of, [-1, 2])) == [1, 2], "and others go on"


def test_a_worker_that_dies_while_it_starts_is_replaced(two: RayWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    for retries in (3, 0):
        monkeypatch.setattr(ray_workers, "RETRIES", retries)
        said: list[str] = []
        two.say = said.append
        two.close()
        two._start()
        for worker in two._workers:
            ray.kill(worker.process)
        if retries:
            assert sorted(two.map(abs_of, [-1, 2])) == [1, 2]
            assert any("died while it started, and is replaced" in line for line in said)
        else:
            with pytest.raises(GceError, match="a worker cannot be started"):
                list(two.map(abs_of, [-1, 2]))
    two.close()


def abs_of(spec: int) -> list[int]:
    return [abs(spec)]


def lacking(_spec: int) -> list[int]:
    raise MissingExtra("mlx", "mlx")


def test_what_work_raises_is_raised_here(two: RayWorkers) -> None:
    with pytest.raises(MissingExtra, match="mlx is not installed"):
        list(two.map(lacking, [1]))


def length(spec: Any) -> list[int]:
    return [len(spec)]


def megabyte(_spec: Any) -> list[Any]:
    return [np.zeros(1 << 20, np.uint8)]


def beside(_spec: Any, *, held: Any) -> list[int]:
    return [len(held)]


def test_an_object_store_that_is_full_is_one_line_wherever_it_is(nodes: Nodes, two: RayWorkers) -> None:
    big = np.zeros(1 << 20, np.uint8)
    here, there = r"full on the machine of this run, and so is the disk", r"full at worker \d"
    assert len(set(two.map(process_number, range(4)))) == 2
    with full_store(nodes.cluster.head_node):
        for work, spec in ((partial(beside, held=big), 0), (length, big), (megabyte, 0)):
            with pytest.raises(GceError, match=here):
                list(two.map(work, [spec]))
    with full_store(nodes.nodes[0]), full_store(nodes.nodes[1]):
        for work, spec in ((partial(beside, held=big), 0), (length, big), (megabyte, 0)):
            with pytest.raises(GceError, match=there):
                list(two.map(work, [spec]))
    assert [len(found) for found in two.map(megabyte, range(4))] == [1 << 20] * 4


def lose_once(mark: str) -> list[int]:
    if not os.path.exists(mark):
        Path(mark).touch()
        raise ray.exceptions.ObjectFetchTimedOutError("ff", None, "")
    return [1]


def test_work_whose_function_or_results_ray_has_lost_is_done_again(two: RayWorkers, tmp_path: Path) -> None:
    """As where the network fails between a worker and the node that has them."""
    assert list(two.map(lose_once, [str(tmp_path / "mark")])) == [1]


def slow(spec: int) -> list[int]:
    time.sleep(0.2)
    return [spec]


def test_specifications_are_taken_no_faster_than_they_are_worked_on(two: RayWorkers) -> None:
    taken: list[int] = []

    def specs() -> Iterator[int]:
        for number in range(20):
            taken.append(number)
            yield number

    for done, _ in enumerate(two.map(slow, specs()), 1):
        assert len(taken) <= done + 4


SMALL: dict[str, Any] = {
    "task": "toy_task:ADDITION",
    "model": "toy_task:careless",
    "rollouts": {"problems": 12, "samples": 4, "second_wave": 4},
    "optimizer": {"updates": 2},
    "stopping": {"iterations": 2},
    "evaluation": {"dev": 3, "test": 6},
}


def kept(executor: Mapping[str, Any], **more: Any) -> tuple[str, bytes]:
    """A run's records, seconds left out, and the arrays that it learned."""
    return kept_of(gce.train(**SMALL | more, executor=executor, progress=False))


def kept_of(result: gce.Result) -> tuple[str, bytes]:
    with result.run() as run:
        found: dict[str, Any] = {stream: list(run.read(stream)) for stream in ("rollouts", "traces", "iterations")}
        for record in found["iterations"]:
            del record["seconds"]
        found["test"] = run.answers("test-after")
    model: Any = result.model.model
    arrays = model.state().arrays
    return json.dumps(found), b"".join(arrays[name].tobytes() for name in sorted(arrays))


def test_a_run_on_workers_ends_with_the_bytes_of_one_in_process(nodes: Nodes) -> None:
    whole = kept({})
    assert kept(where(nodes)) == whole
    assert "policy" in whole[0] and any(whole[1])


def test_a_run_whose_worker_is_killed_again_and_again_ends_with_the_same_bytes(nodes: Nodes, two: RayWorkers) -> None:
    """A kill after every fifth share."""
    whole, kills = kept({}), 0
    inner = RayWorkers._finished

    def killing(self: RayWorkers, running: dict[Any, Any]) -> list[Any]:
        nonlocal kills
        at_work = [worker for worker in self._workers if worker.place and worker.busy]
        if at_work and sum(worker.done for worker in self._workers) >= 5 and kills < 5:
            kills += 1  # Two threads come here, the second one perhaps for a worker that is dead already.
            with suppress(ProcessLookupError):
                os.kill(int(at_work[0].place.rpartition(" ")[2]), signal.SIGKILL)
        return inner(self, running)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RayWorkers, "_finished", killing)
        assert kept(where(nodes)) == whole
    assert kills == 5


def test_a_run_that_found_an_object_store_full_is_resumed_and_ends_with_the_same_bytes(
    nodes: Nodes, tmp_path: Path
) -> None:
    long: dict[str, Any] = {"model": "crash.ray_kills:slow", "rollouts": {**SMALL["rollouts"], "max_tokens": 2048}}
    whole, place = kept({}, **long), tmp_path / "run"
    kept(where(nodes), **long)  # Connects.
    with full_store(nodes.nodes[0]), full_store(nodes.nodes[1]), pytest.raises(GceError, match="object store is full"):
        gce.train(**SMALL | long, executor=where(nodes), progress=False, run=place)
    assert kept_of(gce.resume(place, progress=False)) == whole


def test_a_node_may_die_and_the_rest_goes_on(nodes: Nodes, two: RayWorkers, capfd: pytest.CaptureFixture[str]) -> None:
    found = []
    for done, number in enumerate(two.map(slow, range(12))):
        found.append(number)
        if done == 2:
            nodes.kill()
    assert sorted(found) == list(range(12))
    assert "raylet" not in "".join(capfd.readouterr()), "what Ray's own processes say is not printed"
    nodes.add()
    assert kept(where(nodes)) == kept({})


def test_what_raises_where_it_is_judged_has_failed(nodes: Nodes) -> None:
    with pytest.raises(GceError, match="out of order"):
        gce.train(**SMALL, evaluator="test_executors:Raising", executor=where(nodes), progress=False)


def test_a_study_is_one_job_whose_runs_survive_the_death_of_a_worker(
    nodes: Nodes, two: RayWorkers, tmp_path: Path
) -> None:
    two.close()  # A study has workers of its own, and the cluster has two CPUs.
    folder = tmp_path / "study"
    arguments = ["ablate", "--seeds", "1,2", "--conditions", "full,uniform-sampling", "--dir", str(folder)]
    arguments += ["--task", "toy_task:ADDITION", "--model", "toy_task:careless", "--problems", "6", "--test", "3"]
    arguments += ["--executor", "ray", "--workers", "2", "--address", nodes.cluster.address, "--iterations", "2"]
    inner, kills = RayWorkers._finished, 0

    def killing(self: RayWorkers, running: dict[Any, Any]) -> list[Any]:
        nonlocal kills
        begun = [each for each in self._workers if each.place and each.busy]
        if begun and not kills and any(folder.rglob("run.sqlite")):
            os.kill(int(begun[0].place.rpartition(" ")[2]), signal.SIGKILL)
            kills += 1
        return inner(self, running)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RayWorkers, "_finished", killing)
        patch.setattr(ray_workers, "_SECONDS_BETWEEN_REPORTS", 0.05)
        assert main(arguments) == 0
    own = executor_of(ExecutorSettings(**where(nodes)), show_output=True)
    assert isinstance(own, RayWorkers)
    own.close()
    assert kills == 1
    summaries = sorted(folder.rglob("summary.json"))
    assert len(summaries) == 4
    assert all("kind" not in json.loads(each.read_text())["config"]["executor"] for each in summaries)


def test_too_few_machines_and_no_cluster_are_said_in_one_line(nodes: Nodes) -> None:
    with pytest.raises(BadInput, match="3 workers need 3 CPUs, and the Ray cluster has 2"):
        list(RayWorkers(3, address=nodes.cluster.address).map(abs_of, [1]))
    with pytest.raises(BadInput, match="2 workers need 1 GPUs, and the Ray cluster has 0"):
        list(RayWorkers(2, address=nodes.cluster.address, gpus=0.5).map(abs_of, [1]))


def test_settings_that_do_not_matter_are_not_kept() -> None:
    assert set(to_plain(ExecutorSettings())) == {"runner"}


ASYNC: dict[str, Any] = {"schedule": "async", "staleness": 1}
LONGER: dict[str, Any] = {"stopping": {"iterations": 4}, "objective": {"algorithm": "grpo"}}


def records(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)["iterations"]
    return found


def test_rollouts_of_coming_iterations_are_written_with_older_weights_whatever_takes_how_long(nodes: Nodes) -> None:
    """Iterations 1 and 2 with the weights of the start, 3 with those after 1, 4 with those after 2."""
    late = kept(where(nodes) | ASYNC, **LONGER)
    assert [record.get("staleness", 0) for record in records(late[0])] == [0, 1, 1, 1]
    written: dict[int, set[str]] = {}
    for rollout in json.loads(late[0])["rollouts"]:
        written.setdefault(rollout["iteration"], set()).add(rollout["policy"])
    assert {len(policies) for policies in written.values()} == {1}, "an iteration is written by one version"
    assert written[1] == written[2] != written[3] != written[4]
    assert kept(where(nodes) | ASYNC, **LONGER) == late
    assert kept(where(nodes), **LONGER) != late
    much = kept(where(nodes) | ASYNC | {"staleness": 9}, **LONGER)
    assert [record.get("staleness", 0) for record in records(much[0])] == [0, 1, 2, 3]
    assert len({rollout["policy"] for rollout in json.loads(much[0])["rollouts"]}) == 1


def test_the_learner_works_while_the_next_rollouts_are_sampled(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    inner = sampling.sample

    def sampled(run: Any, state: Any, number: int) -> Any:
        begun.append(number)
        return inner(run, state, number)

    def slow_learn(*given: Any) -> Any:
        time.sleep(1.0)
        assert len(begun) == min(given[1] + 1, 3), "the next wave has begun"
        return learn(*given)

    monkeypatch.setattr(ahead, "sample", sampled)
    monkeypatch.setattr(loop, "learn", slow_learn)
    gce.train(**SMALL | {"stopping": {"iterations": 3}}, executor=where(nodes) | ASYNC, progress=False)
    assert begun == [1, 2, 3]


def test_a_run_with_rollouts_ahead_resumes_from_its_last_commit_and_loses_no_rollout(
    nodes: Nodes, tmp_path: Path
) -> None:
    """What was sampled and not learned from is sampled anew, with the weights of the last commit."""
    settings = SMALL | {"stopping": {"iterations": 1}}
    gce.train(**settings, executor=where(nodes) | ASYNC, run=tmp_path / "run", progress=False)
    result = gce.resume(tmp_path / "run", iterations=4, progress=False)
    with result.run() as run:
        found = [record.get("staleness", 0) for record in run.read("iterations")]
        keys = [rollout["key"] for rollout in run.read("rollouts")]
    assert found == [0, 0, 1, 1]
    assert len(keys) == len(set(keys)) and {key.split("/")[0] for key in keys} == {"1", "2", "3", "4"}
    problems = [key.rpartition("/")[0].partition("/")[2] for key in keys]
    assert max(problems.count(problem) for problem in problems) <= 8, "no problem is drawn twice"


def test_what_goes_wrong_while_sampling_ahead_ends_the_run_in_one_line(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = sampling.sample

    def failing(run: Any, state: Any, number: int) -> Any:
        if number == 2:
            raise GceError("the wave was lost")
        return inner(run, state, number)

    monkeypatch.setattr(ahead, "sample", failing)
    with pytest.raises(GceError, match="the wave was lost"):
        gce.train(**SMALL, executor=where(nodes) | ASYNC, progress=False)


def test_a_run_whose_time_is_over_drops_what_is_sampled_ahead(nodes: Nodes) -> None:
    result = gce.train(**SMALL | {"stopping": {"iterations": 500, "minutes": 0.1}}, executor=where(nodes) | ASYNC)
    assert 0 < result.summary["iterations"] < 500
    assert threading.active_count() < 20


@pytest.mark.parametrize(
    ("executor", "said"),
    [
        ({"schedule": "async"}, "--executor ray|executor.kind"),
        ({"kind": "ray", "staleness": 2}, "async"),
        ({"kind": "ray", "schedule": "async", "staleness": 0}, "staleness"),
        ({"kind": "ray", "schedule": "later"}, "sync or async|sync, async"),
    ],
)
def test_schedules_that_cannot_be_kept_are_refused(executor: dict[str, Any], said: str) -> None:
    with pytest.raises(GceError, match=said):
        gce.train(**SMALL, executor=executor, progress=False)
