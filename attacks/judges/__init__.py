"""Second judges of environments of other frameworks, for `gce audit-environments --judges`."""
