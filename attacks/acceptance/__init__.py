"""One script for each issue: its conditions, each with pass or fail."""
