"""Workflows: the steps that a screen recording shows."""
