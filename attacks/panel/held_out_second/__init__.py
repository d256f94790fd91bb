"""A second held-out set: 30 verifiers with one bug each, 50 without, written without sight of what attacks them."""
