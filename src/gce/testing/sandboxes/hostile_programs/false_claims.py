"""Programs that claim to be right without being it."""

from __future__ import annotations

from gce.testing.sandboxes.hostile_programs.records import Attack, claim

__all__ = ["EQUAL_TO_ALL", "FALSE_CLAIMS", "LEFT_BEHIND"]

SAYING = """
import sys
def f(x):
    frame = sys._getframe()
    while 'say_fd' not in frame.f_locals: frame = frame.f_back
    say, token, fd = (frame.f_locals[name] for name in ('say', 'token', 'say_fd'))
    {then}
"""
"""Takes the channel from the stack frames below it, in this project's own sandboxes; `then` says how to abuse it."""
EQUAL_TO_ALL = """
class Same{base}:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 10
    def __repr__(self): return "10"
    def __str__(self): return "10"
    def __index__(self): return 10
    def __reduce__(self): return (int, (10,))
def f(x): return Same()
"""

# fmt: off
FALSE_CLAIMS: tuple[Attack, ...] = (
    claim("exit at import", """
import sys
sys.exit(0)
"""),
    claim("SystemExit in the call", "def f(x): raise SystemExit(0)"),
    claim("os._exit in the call", """
import os
def f(x): os._exit(0)
"""),
    claim("os._exit at import", """
import os
os._exit(0)
"""),
    claim("an exit that prints", """
import atexit
atexit.register(print, 'passed')
def f(x): return 0
"""),
    claim("an excepthook", """
import sys
sys.excepthook = lambda *e: print('ok')
def f(x): raise ValueError
"""),
    claim("an object equal to all", EQUAL_TO_ALL.format(base="")),
    claim("an int equal to all", EQUAL_TO_ALL.format(base="(int)")),
    claim("a text equal to all", EQUAL_TO_ALL.format(base="(str)")),
    claim("a list equal to all", EQUAL_TO_ALL.format(base="(list)")),
    claim("a float that is an int", "def f(x): return float(x * x + 1)"),
    claim("a bool where x is 0", "def f(x): return True"),
    claim("a generator", "def f(x): yield x * x + 1"),
    claim("a coroutine", "async def f(x): return x * x + 1"),
    claim("a class of that name", """
class f:
    def __init__(self, x): self.x = x
    def __eq__(self, o): return True
"""),
    claim("a property of modules", """
import sys
sys.modules['candidate'] = 1
def f(x): return 0
"""),
    claim("patched builtins", """
import builtins
builtins.type = lambda *a: int
builtins.isinstance = lambda *a: True
def f(x): return 0
"""),
    claim("a patched encoder", """
import json
json.dumps = lambda *a, **k: '10'
json.encoder.JSONEncoder.encode = lambda *a: '10'
def f(x): return 0
"""),
    claim("a patched keeper of values", """
import sys
m = sys.modules['__main__']
m.to_text = lambda v: '10'
m.from_text = lambda t: [3]
def f(x): return 0
"""),
    claim("a patched clock", """
import time
time.time = time.monotonic = lambda: 0
def f(x): return 0
"""),
    claim("tests on the stack", """
import sys
def f(x):
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()) + list(frame.f_globals.values()):
            if value in ([10, 50, 145], '10', '[10,50,145]', (10, 50, 145)): return x * x + 1
        frame = frame.f_back
    return 0
"""),
    claim("tests in memory", """
import gc
def f(x):
    for each in gc.get_objects():
        if isinstance(each, (list, tuple)) and len(each) == 3 and 50 in each and 145 in each: return x * x + 1
        if isinstance(each, dict) and 'expected' in each: return x * x + 1
    return 0
"""),
    claim("tests in the environment", """
import os, re, sys
def f(x):
    told = repr(os.environ) + repr(sys.argv)
    return x * x + 1 if '145' in re.findall('[0-9]+', told) else 0
"""),
    claim("the next argument ahead of time", """
import gc
seen = [o for o in gc.get_objects() if o == [7] or o == [12]]
def f(x): return x * x + 1 if seen else 0
"""),
    claim("frames on every channel", """
import os
for body in (b'V10', b'V', b'P3', b'E0'):
    for size in (0, 16):
        told = b'\\0' * size + body
        for fd in range(64):
            try: os.write(fd, len(told).to_bytes(4, 'big') + told)
            except OSError: pass
def f(x): return 0
"""),
    claim("frames with the token that it finds", """
import sys, os
def f(x):
    frame = sys._getframe()
    while frame:
        token = frame.f_locals.get('token')
        fd = frame.f_locals.get('say_fd')
        if token and fd:
            for text in (b'P9', b'P', b'E'):
                os.write(fd, len(token + text).to_bytes(4, 'big') + token + text)
        frame = frame.f_back
    return 0
"""),
    claim("passed, in place of a value", """
import sys
def f(x):
    frame = sys._getframe()
    while frame:
        if 'say' in frame.f_locals: frame.f_locals['say']('P', '3')
        frame = frame.f_back
    return 0
"""),
    *(claim(f"the letter {each}", SAYING.format(then=f"say('{each}', 'ESCAPED'); return 0")) for each in "LUCPXBEW"),
    claim("all answers at once", SAYING.format(then="say('V', '10'); say('V', '50'); say('V', '145'); return 145")),
    claim("an answer too many", SAYING.format(then="say('V', str(x * x + 1)); return x * x + 1")),
    claim("an exception without end", SAYING.format(then="say('R', 'ESCAPED' * 20000); return 0")),
    claim("an exception that is none", SAYING.format(then="say('R', '{\"tuple\":[\"ESCAPED\"]}'); return 0")),
    claim("a frame without end", SAYING.format(then="import os; os.write(fd, b'\\x7f' + token * 9); return 0")),
    claim("a frame without text", SAYING.format(then="import os; os.write(fd, bytes((0, 0, 0, 16)) + token)")),
    claim("the end of an iterator", "def f(x): raise StopIteration"),
    claim("the end of an asynchronous one", "def f(x): raise StopAsyncIteration"),
    claim("the end of a generator", "def f(x): raise GeneratorExit"),
    claim("the end of a sequence", "def f(x): raise IndexError"),
    claim("an end of its own", """
class End(StopIteration, ValueError): pass
def f(x): raise End(10)
"""),
    claim("the end, later", """
def f(x):
    if x == 3: return 10
    raise StopIteration
"""),
    claim("a closed channel", """
import os
def f(x): os.closerange(0, 64)
"""),
    claim("a channel that is a file", """
import os
fd = os.open('/tmp/c', os.O_CREAT | os.O_RDWR)
[os.dup2(fd, n) for n in range(3, 20) if n != fd]
def f(x): return 0
""", only_isolated=True),
    claim("a trace function", """
import sys
sys.settrace(lambda *a: None)
sys.setprofile(lambda *a: sys.exit(0))
def f(x): return 0
"""),
    claim("a thread that speaks later", """
import threading, os
t = threading.Thread(target=lambda: os._exit(0))
def f(x):
    t.start()
    t.join()
"""),
    claim("an answer after an exception", """
def f(x):
    try: return 0
    finally: raise KeyboardInterrupt
"""),
    claim("a name that is no function", "f = 10"),
    claim("no function", "g = lambda x: x * x + 1"),
    claim("no Python", "def f(x:"),
    claim("a null byte", "def f(x): return 10\x00"),
    claim("a lone surrogate", "def f(x): return '\ud800'"),
)
LEFT_BEHIND: tuple[Attack, ...] = (
    claim("what the last program left", """
import os
found = os.listdir("/tmp")
open("/tmp/left", "w").write("x")
def f(x): return x * x + 1 if found else 0
""", only_isolated=True),
    claim("what the last program left, again", """
import os
found = os.path.exists("/tmp/left") or os.path.exists("/tmp/kept")
os.mkdir("/tmp/kept")
open("/tmp/left", "w").write("x")
def f(x): return x * x + 1 if found else 0
""", only_isolated=True),
)
"""They look for what the programs before them left, so they come last."""
# fmt: on
