"""Hostile programs: what a candidate tries instead of an answer, for `gce.testing.runner_contract`.

Each should define `f(x)` as x * x + 1 and does something else: it claims to be right, takes more than it may, or
reaches for what is not its own, and then returns "ESCAPED".
"""

from __future__ import annotations

from attrs import frozen

__all__ = ["ATTACKS", "EQUAL_TO_ALL", "Attack"]


@frozen
class Attack:
    """One program."""

    name: str
    source: str
    """`{scratch}`, `{port}` and `{pid}` stand for a directory of this machine with a secret, a port on which it
    listens, and a process of it."""
    only_isolated: bool = False
    """Whether it takes a sandbox to withstand it: limits, and judging outside, do not."""


def _claim(name: str, source: str, *, only_isolated: bool = False) -> Attack:
    return Attack(f"claim: {name}", source, only_isolated)


def _take(name: str, source: str, *, only_isolated: bool = False) -> Attack:
    return Attack(f"take: {name}", source, only_isolated)


def _reach(name: str, body: str) -> Attack:
    """`body` is what `f` does; what it raises is no escape, and what it gets through to is."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return Attack(f"reach: {name}", f'def f(x):\n{lines}\n    return "ESCAPED"\n', only_isolated=True)


SAYING = """
import sys
def f(x):
    frame = sys._getframe()
    while 'say_fd' not in frame.f_locals: frame = frame.f_back
    say, token, fd = (frame.f_locals[name] for name in ('say', 'token', 'say_fd'))
    {then}
"""
"""Takes the channel from the frames below it, in this project's own sandboxes; the rest is what it does with it."""
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
ATTACKS: tuple[Attack, ...] = (
    _claim("exit at import", """
import sys
sys.exit(0)
"""),
    _claim("SystemExit in the call", "def f(x): raise SystemExit(0)"),
    _claim("os._exit in the call", """
import os
def f(x): os._exit(0)
"""),
    _claim("os._exit at import", """
import os
os._exit(0)
"""),
    _claim("an exit that prints", """
import atexit
atexit.register(print, 'passed')
def f(x): return 0
"""),
    _claim("an excepthook", """
import sys
sys.excepthook = lambda *e: print('ok')
def f(x): raise ValueError
"""),
    _claim("an object equal to all", EQUAL_TO_ALL.format(base="")),
    _claim("an int equal to all", EQUAL_TO_ALL.format(base="(int)")),
    _claim("a text equal to all", EQUAL_TO_ALL.format(base="(str)")),
    _claim("a list equal to all", EQUAL_TO_ALL.format(base="(list)")),
    _claim("a float that is an int", "def f(x): return float(x * x + 1)"),
    _claim("a bool where x is 0", "def f(x): return True"),
    _claim("a generator", "def f(x): yield x * x + 1"),
    _claim("a coroutine", "async def f(x): return x * x + 1"),
    _claim("a class of that name", """
class f:
    def __init__(self, x): self.x = x
    def __eq__(self, o): return True
"""),
    _claim("a property of modules", """
import sys
sys.modules['candidate'] = 1
def f(x): return 0
"""),
    _claim("patched builtins", """
import builtins
builtins.type = lambda *a: int
builtins.isinstance = lambda *a: True
def f(x): return 0
"""),
    _claim("a patched encoder", """
import json
json.dumps = lambda *a, **k: '10'
json.encoder.JSONEncoder.encode = lambda *a: '10'
def f(x): return 0
"""),
    _claim("a patched keeper of values", """
import sys
m = sys.modules['__main__']
m.to_text = lambda v: '10'
m.from_text = lambda t: [3]
def f(x): return 0
"""),
    _claim("a patched clock", """
import time
time.time = time.monotonic = lambda: 0
def f(x): return 0
"""),
    _claim("tests on the stack", """
import sys
def f(x):
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()) + list(frame.f_globals.values()):
            if value in ([10, 50, 145], '10', '[10,50,145]', (10, 50, 145)): return x * x + 1
        frame = frame.f_back
    return 0
"""),
    _claim("tests in memory", """
import gc
def f(x):
    for each in gc.get_objects():
        if isinstance(each, (list, tuple)) and len(each) == 3 and 50 in each and 145 in each: return x * x + 1
        if isinstance(each, dict) and 'expected' in each: return x * x + 1
    return 0
"""),
    _claim("tests in the environment", """
import os, re, sys
def f(x):
    told = repr(os.environ) + repr(sys.argv)
    return x * x + 1 if '145' in re.findall('[0-9]+', told) else 0
"""),
    _claim("the next argument ahead of time", """
import gc
seen = [o for o in gc.get_objects() if o == [7] or o == [12]]
def f(x): return x * x + 1 if seen else 0
"""),
    _claim("frames on every channel", """
import os
for body in (b'V10', b'V', b'P3', b'E0'):
    for size in (0, 16):
        told = b'\\0' * size + body
        for fd in range(64):
            try: os.write(fd, len(told).to_bytes(4, 'big') + told)
            except OSError: pass
def f(x): return 0
"""),
    _claim("frames with the token that it finds", """
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
    _claim("passed, in place of a value", """
import sys
def f(x):
    frame = sys._getframe()
    while frame:
        if 'say' in frame.f_locals: frame.f_locals['say']('P', '3')
        frame = frame.f_back
    return 0
"""),
    *(_claim(f"the letter {each}", SAYING.format(then=f"say('{each}', 'ESCAPED'); return 0")) for each in "LUCPXBEW"),
    _claim("all answers at once", SAYING.format(then="say('V', '10'); say('V', '50'); say('V', '145'); return 145")),
    _claim("an answer too many", SAYING.format(then="say('V', str(x * x + 1)); return x * x + 1")),
    _claim("an exception without end", SAYING.format(then="say('R', 'ESCAPED' * 20000); return 0")),
    _claim("an exception that is none", SAYING.format(then="say('R', '{\"tuple\":[\"ESCAPED\"]}'); return 0")),
    _claim("a frame without end", SAYING.format(then="import os; os.write(fd, b'\\x7f' + token * 9); return 0")),
    _claim("a frame without text", SAYING.format(then="import os; os.write(fd, bytes((0, 0, 0, 16)) + token)")),
    _claim("the end of an iterator", "def f(x): raise StopIteration"),
    _claim("the end of an asynchronous one", "def f(x): raise StopAsyncIteration"),
    _claim("the end of a generator", "def f(x): raise GeneratorExit"),
    _claim("the end of a sequence", "def f(x): raise IndexError"),
    _claim("an end of its own", """
class End(StopIteration, ValueError): pass
def f(x): raise End(10)
"""),
    _claim("the end, later", """
def f(x):
    if x == 3: return 10
    raise StopIteration
"""),
    _claim("a closed channel", """
import os
def f(x): os.closerange(0, 64)
"""),
    _claim("a channel that is a file", """
import os
fd = os.open('/tmp/c', os.O_CREAT | os.O_RDWR)
[os.dup2(fd, n) for n in range(3, 20) if n != fd]
def f(x): return 0
""", only_isolated=True),
    _claim("a trace function", """
import sys
sys.settrace(lambda *a: None)
sys.setprofile(lambda *a: sys.exit(0))
def f(x): return 0
"""),
    _claim("a thread that speaks later", """
import threading, os
t = threading.Thread(target=lambda: os._exit(0))
def f(x):
    t.start()
    t.join()
"""),
    _claim("an answer after an exception", """
def f(x):
    try: return 0
    finally: raise KeyboardInterrupt
"""),
    _claim("a name that is no function", "f = 10"),
    _claim("no function", "g = lambda x: x * x + 1"),
    _claim("no Python", "def f(x:"),
    _claim("a null byte", "def f(x): return 10\x00"),
    _claim("a lone surrogate", "def f(x): return '\ud800'"),
    _take("an endless loop", """
def f(x):
    while True: pass
"""),
    _take("an endless loop at import", "while True: pass"),
    _take("an endless loop that ignores signals", """
import signal
for s in range(1, 64):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
def f(x):
    while True: pass
"""),
    _take("an endless sleep", """
import time
def f(x): time.sleep(10**6)
"""),
    _take("a stop", """
import os, signal
def f(x): os.kill(os.getpid(), signal.SIGSTOP)
"""),
    _take("an endless thread", """
import threading, time
def f(x):
    threading.Thread(target=time.sleep, args=(10**6,)).start()
    return 0
"""),
    _take("much memory", "def f(x): return len([0] * 10**10)"),
    _take("memory bit by bit", """
def f(x):
    kept = []
    while True: kept.append(bytearray(10**7))
"""),
    _take("a huge power", "def f(x): return 7 ** 10**9"),
    _take("a huge number as text", "def f(x): return 10**5000"),
    _take("deep recursion", "def f(x): return f(x) + 1"),
    _take("deeper recursion", """
import sys
sys.setrecursionlimit(10**9)
def f(x): return f(x) + 1
"""),
    _take("a list in itself", """
def f(x):
    v = []
    v.append(v)
    return v
"""),
    _take("a deep list", """
def f(x):
    v = []
    for _ in range(10**5): v = [v]
    return v
"""),
    _take("a long value", "def f(x): return 'a' * 10**8"),
    _take("much output", """
import sys, os
def f(x):
    line = 'x' * 10**6
    for _ in range(10**4):
        print(line); os.write(2, line.encode())
    return 0
"""),
    _take("a regular expression", """
import re
def f(x): return bool(re.match('(a+)+$', 'a' * 60 + 'b'))
"""),
    _take("forks", """
import os
def f(x):
    n = 0
    while n < 200:
        if os.fork() == 0:
            import time; time.sleep(10**6)
        n += 1
    return 'ESCAPED'
""", only_isolated=True),
    _take("a fork bomb", """
import os
def f(x):
    while True:
        try: os.fork()
        except OSError: pass
""", only_isolated=True),
    _take("a child that outlives it", """
import os, time
def f(x):
    if os.fork() == 0:
        os.setsid()
        while True:
            time.sleep(0.05)
            open('{scratch}/alive', 'a').write('x')
    return 0
""", only_isolated=True),
    _take("a full disk", """
def f(x):
    for n in range(10**4):
        open(f'/tmp/{n}', 'wb').write(b'x' * 2**20)
    return 'ESCAPED'
""", only_isolated=True),
    _take("a large file", """
def f(x):
    open('/tmp/large', 'wb').write(b'x' * 2**26)
    return 'ESCAPED'
""", only_isolated=True),
    _take("many open files", """
def f(x):
    kept = [open('/dev/null') for _ in range(10**4)]
    return 'ESCAPED'
"""),
    _reach("a secret's file", "open('{scratch}/secret').read()"),
    _reach("a secret through a link", """
import os
os.symlink('{scratch}/secret', '/tmp/link')
open('/tmp/link').read()
"""),
    _reach("a secret's directory", """
import os
if not os.listdir('{scratch}'): raise OSError
"""),
    _reach("a file outside", "open('{scratch}/written', 'w').write('x')"),
    _reach("a home", """
import os
tops = [top for top in ("/home", "/root", "/Users") if os.path.isdir(top)]
home = [name for top in tops for name in os.listdir(top) if name != ".pyenv"]
if not home: raise OSError
"""),
    _reach("passwords", "open('/etc/passwd').read()"),
    _reach("the library", """
import os
open(os.__file__, 'a').write('# x')
"""),
    _reach("its own root", """
import os
os.mkdir('/mine')
"""),
    _reach("a directory of programs", """
import os
os.execv('/bin/sh', ['sh', '-c', 'true'])
"""),
    _reach("installed packages", "import gce"),
    _reach("other processes", """
import os
if not os.path.exists('/proc/1'): raise OSError
"""),
    _reach("another process by signal", """
import os
if {pid} < 100: raise OSError  # One of its own may have that number.
os.kill({pid}, 0)
"""),
    _reach("its keeper's neighbour", """
import ctypes, os
if ctypes.CDLL(None).ptrace(16, 1, 0, 0) != 0 or os.getppid() == 1: raise OSError
"""),
    _reach("the descriptors of the first process", """
import ctypes
libc = ctypes.CDLL(None)
found = libc.syscall(434, 1, 0)
if found < 0 or libc.syscall(438, found, 1, 0) < 0: raise OSError
"""),
    _reach("shared memory of System V", """
import ctypes
if ctypes.CDLL(None).shmget(0, 2**20, 0o1600) < 0: raise OSError
"""),
    _reach("semaphores of System V", """
import ctypes
if ctypes.CDLL(None).semget(0, 100, 0o1600) < 0: raise OSError
"""),
    _reach("a message queue", """
import ctypes
if ctypes.CDLL(None).msgget(0, 0o1600) < 0: raise OSError
"""),
    _reach("the key ring of a session", """
import ctypes, os
number = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
if ctypes.CDLL(None).syscall(number, b"user", b"gce-probe", b"x", 1, -3) < 0: raise OSError
"""),
    _reach("a socket between machines", """
import socket
socket.socket(40, socket.SOCK_STREAM)
"""),
    _reach("a user namespace", """
import ctypes
if ctypes.CDLL(None).unshare(0x10000000) != 0: raise OSError
"""),
    _reach("a user namespace by fork", """
import ctypes, os
number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
found = ctypes.CDLL(None).syscall(number, 0x10000011, 0, 0, 0, 0)
if found == 0: os._exit(0)
if found < 0: raise OSError
"""),
    _reach("rings of the kernel", """
import ctypes
room = ctypes.create_string_buffer(120)
if ctypes.CDLL(None).syscall(425, 4, room) < 0: raise OSError
"""),
    _reach("its keeper's memory", """
import ctypes, os
if ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) != 0: raise OSError
"""),
    _reach("a server here", """
import socket
socket.create_connection(('127.0.0.1', {port}), 2)
"""),
    _reach("a server outside", """
import socket
socket.create_connection(('192.0.2.1', 80), 1)
"""),
    _reach("a name server", """
import socket
socket.getaddrinfo('example.org', 80)
"""),
    _reach("a packet", """
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))
"""),
    _reach("a raw socket", """
import socket
socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
"""),
    _reach("an abstract socket", """
import socket
s = socket.socket(socket.AF_UNIX)
s.connect('\\0{scratch}')
"""),
    _reach("root", """
import os
os.setgroups([0])
os.setuid(0)
if os.getuid() == 0: open('{scratch}/root', 'w')
"""),
    _reach("a mount", """
import ctypes
if ctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None) != 0: raise OSError
"""),
    _reach("a chroot", """
import os
os.chroot('/tmp')
"""),
    _reach("a device", """
import os
os.mknod('/tmp/disk', 0o60600, os.makedev(8, 0))
"""),
    _reach("the host's name", """
import socket
socket.sethostname('taken')
"""),
    _reach("shared memory", """
import os
if not os.path.exists('/dev/shm'): raise OSError
"""),
    _reach("higher priority", """
import os
os.nice(-5)
"""),
    _reach("a larger limit", """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40))
"""),
    _reach("a file that is open", """
import os
for fd in range(3, 64):
    try: os.lseek(fd, 0, 0)
    except OSError: continue
    break
else: raise OSError
"""),
    _claim("what the last program left", """
import os
found = os.listdir("/tmp")
open("/tmp/left", "w").write("x")
def f(x): return x * x + 1 if found else 0
""", only_isolated=True),
    _claim("what the last program left, again", """
import os
found = os.path.exists("/tmp/left") or os.path.exists("/tmp/kept")
os.mkdir("/tmp/kept")
open("/tmp/left", "w").write("x")
def f(x): return x * x + 1 if found else 0
""", only_isolated=True),
)
# fmt: on
