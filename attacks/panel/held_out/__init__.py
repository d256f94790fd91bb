"""A held-out set of verifiers, written without sight of the attacks: `bugs` with one bug each, `sound` with none."""
