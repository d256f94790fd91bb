"""A training run over three hosts whose network fails, compared with a run in one process.

    PYTHONPATH=tests python -m crash.three_hosts --delay-ms 5 --losses 20 --partitions 3 --long 1 --seed 1

The hosts are network namespaces of this machine (root, iproute2, nftables). The first has the head of a Ray cluster and
the process of the run, the others a worker each. At random moments of the run a TCP connection is reset, or a host is
cut off: for up to five seconds, after which Ray goes on with it, or for so long that Ray gives it up. A run that ends
with an error is resumed. What it leaves is compared byte by byte, times aside, and its traces are counted.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crash import ray_kills
from crash.forked_trainers import TESTS
from crash.hosts import Host, Hub, hosts, lacking
from crash.killing import MEMORY

RUNS = {
    "toy": ray_kills.SETTINGS,
    "gce-tiny": (
        *("--model", "gce-tiny", "--problems", "8", "--rollouts", "4", "--iterations", "1", "--dev", "4"),
        *("--test", "8", "--threads", "1", "--updates", "4"),
    ),
}
KINDS = ("loss", "partition", "long")
SHORT = 5.0
"""The longest partition after which Ray still has the host, in seconds."""
LONG = 90.0
"""By then Ray has given up a host: a health check waits for ten seconds, and five fail, three seconds apart."""
TOO_EARLY = "workers need 2 CPUs, and the Ray cluster has"
"""What a run says before all hosts have joined."""
PORT = 6379
RAY = str(Path(sys.executable).with_name("ray"))


@dataclass
class Report:
    """What the network did, and what came of it."""

    faults: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    """How often each error ended a run, which was resumed then."""
    rejoined: int = 0
    """How often Ray was started again on a host that it had given up."""
    traces: int = 0
    lost: int = 0
    doubled: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.faults['loss']} connections lost, {self.faults['partition']} short and {self.faults['long']} long "
            f"partitions in {self.runs} runs with {self.traces} traces: {self.rejoined} hosts joined again, "
            f"{self.errors.total()} resumes, {self.lost} lost, {self.doubled} doubled, "
            f"{len(self.differences)} differences"
        )


class Cluster:
    """Ray on the hosts, started again where it ended, as systemd would."""

    def __init__(self, machines: list[Host], folder: Path) -> None:
        self._machines, self._folder = machines, folder
        self._nodes: list[subprocess.Popen[Any]] = []
        for machine in machines:
            self._nodes.append(self._start(machine))
            self._wait_for_head()

    @property
    def address(self) -> str:
        """That of the head."""
        return f"{self._machines[0].address}:{PORT}"

    def tend(self) -> int:
        """Start Ray where it has ended; return on how many hosts."""
        ended = [place for place, node in enumerate(self._nodes) if node.poll() is not None]
        assert 0 not in ended, "the head has ended"
        for place in ended:
            self._machines[place].kill_all()
            self._nodes[place] = self._start(self._machines[place])
        return len(ended)

    def _start(self, machine: Host) -> subprocess.Popen[Any]:
        head = machine is self._machines[0]
        where = ["--head", "--port", str(PORT), "--include-dashboard=false"] if head else ["--address", self.address]
        options = ["--num-cpus", "0" if head else "1", "--object-store-memory", str(ray_kills.STORE)]
        folder = self._folder / machine.address
        command = [RAY, "start", *where, *options, "--node-ip-address", machine.address, "--temp-dir", str(folder)]
        with open(self._folder / f"{machine.address}.log", "a") as log:
            return machine.begin([*command, "--disable-usage-stats", "--block"], stdout=log, stderr=log)

    def _wait_for_head(self) -> None:
        limit = time.monotonic() + 60.0
        probe = f"import socket; socket.create_connection(({self._machines[0].address!r}, {PORT}), 1.0)"
        while self._machines[0].begin([sys.executable, "-c", probe], stderr=subprocess.DEVNULL).wait():
            assert time.monotonic() < limit, (self._folder / f"{self._machines[0].address}.log").read_text()
            time.sleep(0.2)


def break_and_compare(
    home: Path,
    faults: dict[str, int],
    *,
    seed: int,
    delay: float = 0.0,
    kind: str = "toy",
    say: Callable[[str], None] = lambda _: None,
) -> Report:
    """Runs over three hosts, until so many `faults` of each kind have happened, each compared when it ends."""
    rng, report = random.Random(seed), Report()
    left = [name for name, count in faults.items() for _ in range(count)]
    rng.shuffle(left)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    train = [sys.executable, "-m", "gce.app.train"]
    quiet = subprocess.run([*train, *RUNS[kind], "--run-dir", str(home / "whole")], capture_output=True, text=True)
    assert quiet.returncode == 0, quiet.stderr
    whole = ray_kills.left_of(home / "whole")
    with hosts(3, delay=delay) as (hub, machines):
        cluster = Cluster(machines, home)
        on_ray = [*RUNS[kind], "--executor", "ray", "--workers", "2", "--address", cluster.address]
        while left or not report.runs:
            run = home / f"run{report.runs}"
            while True:
                arguments = ["--resume"] if (run / "run.sqlite").exists() else on_ray
                with open(home / "log", "w") as log:
                    driver = machines[0].begin([*train, *arguments, "--run-dir", str(run)], stdout=log, stderr=log)
                while driver.poll() is None:
                    time.sleep(rng.uniform(0.1, 2.0))
                    report.rejoined += cluster.tend()
                    if left and (run / "run.sqlite").exists() and driver.poll() is None:
                        said = break_it(left[-1], hub, rng.choice(machines), driver, rng)
                        if said:
                            report.faults[left.pop()] += 1
                            say(f"{run.name}: {said}")
                if driver.returncode == 0:
                    break
                error = (home / "log").read_text().strip().splitlines()[-1]
                assert error.startswith("gce train: "), (home / "log").read_text()[-9000:]
                if TOO_EARLY in error:
                    time.sleep(1.0)
                    continue
                say(f"{run.name}: {error}")
                report.errors[error] += 1
            found = ray_kills.left_of(run)
            keys, expected = ([each["key"] for each in each["traces"]] for each in (found, whole))
            report.runs, report.traces = report.runs + 1, report.traces + len(keys)
            report.lost += len(set(expected) - set(keys))
            report.doubled += len(keys) - len(set(keys))
            report.differences += [f"{run.name}: {name}" for name in whole if found.get(name) != whole[name]]
            say(f"{run.name}: ended, {report}")
    return report


def break_it(fault: str, hub: Hub, host: Host, driver: subprocess.Popen[Any], rng: random.Random) -> str:
    """Do it, and return what it was; nothing where it could not be done."""
    if fault == "loss":
        return hub.reset_one(rng)
    seconds, refusing = LONG if fault == "long" else rng.uniform(0.1, SHORT), rng.random() < 0.5
    with hub.partition(host, refusing=refusing):
        limit = time.monotonic() + seconds
        while driver.poll() is None and time.monotonic() < limit:
            time.sleep(0.05)
    return f"{host.address} cut off for {seconds:.1f} s, {'refusing' if refusing else 'silent'}"


def main() -> None:
    """Print each fault and the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=5.0, help="of what is sent, in each direction (default 5)")
    parser.add_argument("--losses", type=int, default=20, help="connections that are reset (default 20)")
    parser.add_argument("--partitions", type=int, default=3, help=f"partitions of up to {SHORT:g} s (default 3)")
    parser.add_argument("--long", type=int, default=0, help=f"partitions of {LONG:g} s, or to the end of a run (default 0)")
    parser.add_argument("--run", choices=sorted(RUNS), default="toy", help="what is trained (default toy)")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if missing := lacking():
        sys.exit(missing)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="h") as folder:
        report = break_and_compare(
            Path(folder),
            dict(zip(KINDS, (given.losses, given.partitions, given.long), strict=True)),
            seed=given.seed,
            delay=given.delay_ms / 1000,
            kind=given.run,
            say=lambda text: print(text, flush=True),
        )
    print(*report.differences, *(f"{count} times: {error}" for error, count in report.errors.items()), sep="\n")
    print(report)
    sys.exit(bool(report.differences or report.lost or report.doubled))


if __name__ == "__main__":
    main()
