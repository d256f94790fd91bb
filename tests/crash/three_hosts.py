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
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

from crash import ray_kills
from crash.forked_trainers import TESTS
from crash.hosts import Host, Hub, hosts, lacking
from crash.killing import MEMORY
from gce.adapters.runs.checkpoint_files import content_hash, file_hashes

RUNS = {
    "toy": (2.0, ray_kills.SETTINGS),
    "gce-tiny": (
        8.0,
        (
            *("--model", "gce-tiny", "--problems", "8", "--rollouts", "4", "--updates", "4", "--iterations", "1"),
            *("--dev", "4", "--test", "8", "--threads", "1"),
        ),
    ),
}
"""The longest pause between faults in seconds, and the settings."""
KINDS = ("loss", "partition", "long")
SHORT = 5.0
"""The longest partition after which Ray still has the host, in seconds."""
LONG = 90.0
"""By then Ray has given up a host: a health check waits for ten seconds, and five fail, three seconds apart."""
HANGS = 600.0
"""Seconds after the last fault within which a run must end."""
PORT = 6379
JOINED_WITHIN = 180.0
"""Seconds until Ray must have hosts again that it had given up."""
COUNT = """
import sys, ray
ray.init(sys.argv[1], logging_level="ERROR", log_to_driver=False)
sys.exit(ray.cluster_resources().get("CPU", 0.0) < float(sys.argv[2]))
"""
RAY = str(Path(sys.executable).with_name("ray"))


@dataclass
class Report(ray_kills.Compared):
    """What the network did, and what came of it."""

    faults: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    """How often each error ended a run, which was resumed then."""
    restarts: int = 0
    """How often Ray was started again on a host, which it leaves when it has been given up there."""
    replaced: int = 0
    """Workers that a run replaced."""

    def __str__(self) -> str:
        return (
            f"{self.faults['loss']} connections lost, {self.faults['partition']} short and {self.faults['long']} long "
            f"partitions in {self.runs} runs with {self.traces} traces: {self.replaced} workers replaced, "
            f"Ray restarted {self.restarts} times, {self.errors.total()} resumes, {self.lost} lost, "
            f"{self.doubled} doubled, {len(self.differences)} differences"
        )


class Cluster:
    """Ray on the hosts; a thread starts it again where it has ended, as systemd would."""

    def __init__(self, machines: list[Host], folder: Path) -> None:
        self._machines, self._folder = machines, folder
        self.restarts = 0
        self._nodes = [self._start(machine) for machine in machines]
        self._over = Event()
        self._supervisor = Thread(target=self._supervise)

    def __enter__(self) -> Cluster:
        self._supervisor.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._supervisor.join()

    @property
    def address(self) -> str:
        """That of the head."""
        return f"{self._machines[0].address}:{PORT}"

    def wait(self) -> None:
        """Wait until each host has joined."""
        limit = time.monotonic() + JOINED_WITHIN
        command = [sys.executable, "-c", COUNT, self.address, str(len(self._machines) - 1)]
        while self._machines[0].begin(command, stderr=subprocess.DEVNULL).wait():
            said = "\n".join(self._log(machine).read_text()[-3000:] for machine in self._machines)
            assert time.monotonic() < limit, f"not all hosts joined: {said}"

    def _supervise(self) -> None:
        while not self._over.wait(0.5):
            for place, machine in enumerate(self._machines[1:], 1):
                if self._nodes[place].poll() is not None:
                    machine.kill_all()
                    self._nodes[place] = self._start(machine)
                    self.restarts += 1

    def _start(self, machine: Host) -> subprocess.Popen[Any]:
        head = machine is self._machines[0]
        where = ["--head", "--port", str(PORT), "--include-dashboard=false"] if head else ["--address", self.address]
        options = ["--num-cpus", "0" if head else "1", "--object-store-memory", str(ray_kills.STORE)]
        folder = self._folder / machine.address
        command = [RAY, "start", *where, *options, "--node-ip-address", machine.address, "--temp-dir", str(folder)]
        with open(self._log(machine), "a") as log:
            return machine.begin([*command, "--disable-usage-stats", "--block"], stdout=log, stderr=log)

    def _log(self, machine: Host) -> Path:
        return self._folder / f"{machine.address}.log"


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
    pause, settings = RUNS[kind]
    left = [name for name, count in faults.items() for _ in range(count)]
    rng.shuffle(left)
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "of-three-hosts-" * 5}
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    train = [sys.executable, "-m", "gce.app.train"]
    quiet = subprocess.run([*train, *settings, "--run-dir", str(home / "whole")], capture_output=True, text=True)
    assert quiet.returncode == 0, quiet.stderr
    whole = ray_kills.left_of(home / "whole")
    say(f"in one process: {_checkpoint(home / 'whole')}")
    with hosts(3, delay=delay) as (hub, machines), Cluster(machines, home) as cluster:
        on_ray = [*settings, "--executor", "ray", "--workers", "2", "--address", cluster.address]
        while left or not report.runs:
            run = home / f"run{report.runs}"
            while True:
                cluster.wait()
                arguments = ["--resume"] if (run / "run.sqlite").exists() else on_ray
                with open(home / "log", "w") as log:
                    driver = machines[0].begin([*train, *arguments, "--run-dir", str(run)], stdout=log, stderr=log)
                limit = time.monotonic() + HANGS
                while driver.poll() is None:
                    assert time.monotonic() < limit, f"the run hangs: {(home / 'log').read_text()[-9000:]}"
                    time.sleep(rng.uniform(0.1, pause))
                    if left and (run / "run.sqlite").exists() and driver.poll() is None:
                        said = break_it(left[-1], hub, rng.choice(machines), driver, rng)
                        if said:
                            report.faults[left.pop()] += 1
                            limit = time.monotonic() + HANGS
                            say(f"{run.name}: {said}")
                written = (home / "log").read_text()
                assert "(raylet)" not in written, "what Ray's own processes say is not part of the output"
                report.replaced += written.count("is replaced")
                if driver.returncode == 0:
                    break
                error = written.strip().splitlines()[-1]
                assert error.startswith("gce train: "), written[-9000:]
                say(f"{run.name}: {error}")
                report.errors[error] += 1
            report.restarts = cluster.restarts
            report.add(run.name, ray_kills.left_of(run), whole)
            say(f"{run.name}: ended, {_checkpoint(run)}, {report}")
    return report


def break_it(fault: str, hub: Hub, host: Host, driver: subprocess.Popen[Any], rng: random.Random) -> str:
    """Do it, and return what it was; nothing where it could not be done."""
    if fault == "loss":
        return hub.reset_one(rng)
    seconds, refusing = LONG if fault == "long" else rng.uniform(0.1, SHORT), rng.random() < 0.5
    with hub.partition(host, refusing=refusing):
        began = time.monotonic()
        while driver.poll() is None and time.monotonic() < began + seconds:
            time.sleep(0.05)
        lasted = time.monotonic() - began
    if fault == "long" and lasted <= SHORT:
        return ""  # The run had ended.
    how = "refuses" if refusing else "drops"
    return f"{host.address} cut off for {lasted:.1f} of {seconds:.1f} s, {how} new connections"


def _checkpoint(run: Path) -> str:
    files = {path.name: path.read_bytes() for path in (run / "checkpoints" / "last").iterdir()}
    return f"checkpoint {content_hash(file_hashes(files))[:16]}"


def main() -> None:
    """Print each fault and the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=5.0, help="of what is sent, in each direction (default 5)")
    parser.add_argument("--losses", type=int, default=20, help="connections that are reset (default 20)")
    parser.add_argument("--partitions", type=int, default=3, help=f"partitions of up to {SHORT:g} s (default 3)")
    parser.add_argument(
        "--long", type=int, default=0, help=f"partitions of {LONG:g} s, or to the end of a run (default 0)"
    )
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
