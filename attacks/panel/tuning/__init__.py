"""The set that the panel was tuned on."""
