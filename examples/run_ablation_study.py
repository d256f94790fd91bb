"""What each part of the loop is worth: eleven conditions, three seeds; stopped, it goes on where it was.

python examples/run_ablation_study.py            (an hour and a half on two cores)
python examples/run_ablation_study.py --quick    (three conditions, one seed, three minutes)
"""

import sys

from gce.app.cli import main

quick = ["--conditions", "full,shuffled,no-reasoning", "--seeds", "0", "--iterations", "1", "--test", "10"]
study = ["--dir", "studies/quick", *quick] if "--quick" in sys.argv else ["--dir", "studies/ablations"]
sys.exit(main(["ablate", *study]))
