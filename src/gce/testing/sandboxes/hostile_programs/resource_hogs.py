"""Programs that take more time, memory, processes, output or disk than they may."""

from __future__ import annotations

from gce.testing.sandboxes.hostile_programs.records import Attack, take

__all__ = ["RESOURCE_HOGS"]

# fmt: off
RESOURCE_HOGS: tuple[Attack, ...] = (
    take("an endless loop", """
def f(x):
    while True: pass
"""),
    take("an endless loop at import", "while True: pass"),
    take("an endless loop that ignores signals", """
import signal
for s in range(1, 64):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
def f(x):
    while True: pass
"""),
    take("an endless sleep", """
import time
def f(x): time.sleep(10**6)
"""),
    take("a stop", """
import os, signal
def f(x): os.kill(os.getpid(), signal.SIGSTOP)
"""),
    take("an endless thread", """
import threading, time
def f(x):
    threading.Thread(target=time.sleep, args=(10**6,)).start()
    return 0
"""),
    take("much memory", "def f(x): return len([0] * 10**10)"),
    take("memory bit by bit", """
def f(x):
    kept = []
    while True: kept.append(bytearray(10**7))
"""),
    take("a huge power", "def f(x): return 7 ** 10**9"),
    take("a huge number as text", "def f(x): return 10**5000"),
    take("deep recursion", "def f(x): return f(x) + 1"),
    take("deeper recursion", """
import sys
sys.setrecursionlimit(10**9)
def f(x): return f(x) + 1
"""),
    take("a list in itself", """
def f(x):
    v = []
    v.append(v)
    return v
"""),
    take("a deep list", """
def f(x):
    v = []
    for _ in range(10**5): v = [v]
    return v
"""),
    take("a long value", "def f(x): return 'a' * 10**8"),
    take("much output", """
import sys, os
def f(x):
    line = 'x' * 10**6
    for _ in range(10**4):
        print(line); os.write(2, line.encode())
    return 0
"""),
    take("a regular expression", """
import re
def f(x): return bool(re.match('(a+)+$', 'a' * 60 + 'b'))
"""),
    take("forks", """
import os
def f(x):
    n = 0
    while n < 200:
        if os.fork() == 0:
            import time; time.sleep(10**6)
        n += 1
    return 'ESCAPED'
""", only_isolated=True),
    take("a fork bomb", """
import os
def f(x):
    while True:
        try: os.fork()
        except OSError: pass
""", only_isolated=True),
    take("a child that outlives it", """
import os, time
def f(x):
    if os.fork() == 0:
        os.setsid()
        while True:
            time.sleep(0.05)
            open('{scratch}/alive', 'a').write('x')
    return 0
""", only_isolated=True),
    take("a full disk", """
def f(x):
    for n in range(10**4):
        open(f'/tmp/{n}', 'wb').write(b'x' * 2**20)
    return 'ESCAPED'
""", only_isolated=True),
    take("a large file", """
def f(x):
    open('/tmp/large', 'wb').write(b'x' * 2**26)
    return 'ESCAPED'
""", only_isolated=True),
    take("many open files", """
def f(x):
    kept = [open('/dev/null') for _ in range(10**4)]
    return 'ESCAPED'
"""),
)
# fmt: on
