"""Five prompting strategies on project scheduling: zero-shot, few-shot, multi-turn, simulate, and after training.

python examples/run_scheduling_experiment.py            (15 minutes on two cores)
python examples/run_scheduling_experiment.py --quick    (two minutes, few problems)
"""

import sys

from gce.app.cli import main

quick = "--quick" in sys.argv
run = "runs/scheduling-experiment-quick" if quick else "runs/scheduling-experiment"
size = ["--iterations", "1", "--dev", "0", "--test", "5"] if quick else []
if main(["train", "--run-dir", run, *size]):
    sys.exit("the run was not made: move what is in the way, or see above")
adapter = ["--adapter", f"{run}/checkpoints/last"]
strategies = "zero-shot,few-shot,multi-turn,simulate,trained"
sys.exit(main(["evaluate", "--strategies", strategies, *adapter, "--n", "5" if quick else "200"]))
