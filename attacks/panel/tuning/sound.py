"""Sound verifiers."""
VERIFIERS = {}
