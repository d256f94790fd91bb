"""Golden outputs: what the program writes and prints, compared between two commits or with committed digests.

    python -m tests.golden compare main            the working tree with a commit
    python -m tests.golden compare main topic      two commits
    python -m tests.golden write                   the committed digests anew

For changes that must not change behaviour. The program is reached through its command line and the public names of
`gce` alone, so that the same code runs on commits before and after its modules move.
"""
