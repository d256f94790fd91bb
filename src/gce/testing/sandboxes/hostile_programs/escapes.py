"""Programs that reach beyond their sandbox, and then return "ESCAPED"."""

from __future__ import annotations

from gce.testing.sandboxes.hostile_programs.records import Attack, reach

__all__ = ["ESCAPES"]

# fmt: off
ESCAPES: tuple[Attack, ...] = (
    reach("a secret's file", "open('{scratch}/secret').read()"),
    reach("a secret through a link", """
import os
os.symlink('{scratch}/secret', '/tmp/link')
open('/tmp/link').read()
"""),
    reach("a secret's directory", """
import os
if not os.listdir('{scratch}'): raise OSError
"""),
    reach("a file outside", "open('{scratch}/written', 'w').write('x')"),
    reach("a home", """
import os
tops = [top for top in ("/home", "/root", "/Users") if os.path.isdir(top)]
home = [name for top in tops for name in os.listdir(top) if name != ".pyenv"]
if not home: raise OSError
"""),
    reach("passwords", "open('/etc/passwd').read()"),
    reach("the library", """
import os
open(os.__file__, 'a').write('# x')
"""),
    reach("its own root", """
import os
os.mkdir('/mine')
"""),
    reach("a directory of programs", """
import os
os.execv('/bin/sh', ['sh', '-c', 'true'])
"""),
    reach("installed packages", "import gce"),
    reach("other processes", """
import os
if not os.path.exists('/proc/1'): raise OSError
"""),
    reach("another process by signal", """
import os
if {pid} < 100: raise OSError  # One of its own may have that number.
os.kill({pid}, 0)
"""),
    reach("its keeper's neighbour", """
import ctypes, os
if ctypes.CDLL(None).ptrace(16, 1, 0, 0) != 0 or os.getppid() == 1: raise OSError
"""),
    reach("the descriptors of the first process", """
import ctypes
libc = ctypes.CDLL(None)
found = libc.syscall(434, 1, 0)
if found < 0 or libc.syscall(438, found, 1, 0) < 0: raise OSError
"""),
    reach("shared memory of System V", """
import ctypes
if ctypes.CDLL(None).shmget(0, 2**20, 0o1600) < 0: raise OSError
"""),
    reach("semaphores of System V", """
import ctypes
if ctypes.CDLL(None).semget(0, 100, 0o1600) < 0: raise OSError
"""),
    reach("a message queue", """
import ctypes
if ctypes.CDLL(None).msgget(0, 0o1600) < 0: raise OSError
"""),
    reach("the key ring of a session", """
import ctypes, os
number = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
if ctypes.CDLL(None).syscall(number, b"user", b"gce-probe", b"x", 1, -3) < 0: raise OSError
"""),
    reach("a socket between machines", """
import socket
socket.socket(40, socket.SOCK_STREAM)
"""),
    reach("a user namespace", """
import ctypes
if ctypes.CDLL(None).unshare(0x10000000) != 0: raise OSError
"""),
    reach("a user namespace by fork", """
import ctypes, os
number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
found = ctypes.CDLL(None).syscall(number, 0x10000011, 0, 0, 0, 0)
if found == 0: os._exit(0)
if found < 0: raise OSError
"""),
    reach("rings of the kernel", """
import ctypes
room = ctypes.create_string_buffer(120)
if ctypes.CDLL(None).syscall(425, 4, room) < 0: raise OSError
"""),
    reach("its keeper's memory", """
import ctypes, os
if ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) != 0: raise OSError
"""),
    reach("a server here", """
import socket
socket.create_connection(('127.0.0.1', {port}), 2)
"""),
    reach("a server outside", """
import socket
socket.create_connection(('192.0.2.1', 80), 1)
"""),
    reach("a name server", """
import socket
socket.getaddrinfo('example.org', 80)
"""),
    reach("a packet", """
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))
"""),
    reach("a raw socket", """
import socket
socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
"""),
    reach("an abstract socket", """
import socket
s = socket.socket(socket.AF_UNIX)
s.connect('\\0{scratch}')
"""),
    reach("root", """
import os
os.setgroups([0])
os.setuid(0)
if os.getuid() == 0: open('{scratch}/root', 'w')
"""),
    reach("a mount", """
import ctypes
if ctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None) != 0: raise OSError
"""),
    reach("a chroot", """
import os
os.chroot('/tmp')
"""),
    reach("a device", """
import os
os.mknod('/tmp/disk', 0o60600, os.makedev(8, 0))
"""),
    reach("the host's name", """
import socket
socket.sethostname('taken')
"""),
    reach("shared memory", """
import os
if not os.path.exists('/dev/shm'): raise OSError
"""),
    reach("higher priority", """
import os
if os.nice(0) >= 0: os.nice(-5)
"""),
    reach("a priority in real time", """
import os
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
"""),
    reach("a larger limit", """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40))
"""),
    reach("a file that is open", """
import os
for fd in range(3, 64):
    try: os.lseek(fd, 0, 0)
    except OSError: continue
    break
else: raise OSError
"""),
)
# fmt: on
