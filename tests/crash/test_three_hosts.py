"""A run over three hosts whose network fails ends as one in a single process, with the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("ray")

from crash import hosts, three_hosts
from crash.forked_trainers import TESTS

pytestmark = pytest.mark.ray
COMMAND = (sys.executable, "-m", "crash.three_hosts")


@pytest.mark.slow
def test_lost_connections_and_partitions_change_nothing_and_nothing_stays_behind() -> None:
    if missing := hosts.lacking():
        pytest.skip(missing)
    command = [*COMMAND, "--losses", "10", "--partitions", "2", "--seed", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        said, _ = run.communicate(timeout=600)
    assert run.returncode == 0, said
    assert said.splitlines()[-1].startswith("10 connections lost, 2 short and 0 long partitions in "), said
    assert said.endswith("0 lost, 0 doubled, 0 differences\n"), said
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert f"gce-{run.pid}-" not in left


def test_what_is_missing_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", ["three_hosts"])
    with pytest.raises(
        SystemExit, match=r"need root$|ip \(package iproute2\) and nft \(package nftables\), not found$"
    ):
        three_hosts.main()
