# A process that holds on to its sandbox's files in one way, and after a while tries to write by it.
#
#   writer.py WAY PROJECT    holds, makes /tmp/ready, waits for /tmp/go, writes what happened to /tmp/report, and stays
#
# Whatever it manages to write belongs to what came after the snapshot, and never to the snapshot.
import array
import ctypes
import fcntl
import json
import mmap
import os
import socket
import sys
import threading
import time

way, project = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
held = os.path.join(project, "held")
sub = os.path.join(project, "sub")
keep = []
# Nothing is held but what the way is about.
os.chdir("/")
# What is said and heard is in memory, which is no part of a snapshot. Who is rooted elsewhere finds it by a descriptor only.
tmp = os.open("/tmp", os.O_RDONLY | os.O_DIRECTORY) if way == "rooted" else None


def opened(path=held, flags=os.O_RDWR):
    return os.open(path, flags, 0o644)


def mapped(protection):
    fd = opened()
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    address = libc.mmap(None, 4096, protection, mmap.MAP_SHARED, fd, 0)
    assert address != ctypes.c_void_p(-1).value
    os.close(fd)
    return address


def sent(fd):
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    os.close(fd)
    return one, other


def received(pair):
    _, ancillary, _, _ = pair[1].recvmsg(1, socket.CMSG_SPACE(4))
    return array.array("i", ancillary[0][2])[0]


def write_by_name(name, flags=os.O_WRONLY | os.O_CREAT, content=b"AFTER", **at):
    fd = os.open(name, flags, 0o644, **at)
    os.write(fd, content)
    os.close(fd)


def link_by_descriptor(fd):
    at_fdcwd, follow = -100, 0x400
    to = os.path.join(project, "linked-later").encode()
    if libc.linkat(at_fdcwd, f"/proc/self/fd/{fd}".encode(), at_fdcwd, to, follow) != 0:
        raise OSError(ctypes.get_errno(), "linkat")


def work_in(fd):
    """Everything one can do in a directory."""
    return {
        "create": lambda: write_by_name("made-later", dir_fd=fd),
        "open": lambda: write_by_name("inner", os.O_WRONLY, dir_fd=fd),
        "mkdir": lambda: os.mkdir("dir-later", dir_fd=fd),
        "symlink": lambda: os.symlink("x", "link-later", dir_fd=fd),
        "rename": lambda: os.rename("moved", "moved-later", src_dir_fd=fd, dst_dir_fd=fd),
        "unlink": lambda: os.unlink("doomed", dir_fd=fd),
        "link": lambda: os.link("inner", "linked-later", src_dir_fd=fd, dst_dir_fd=fd),
        "mode": lambda: os.chmod("inner", 0o600, dir_fd=fd),
        "reopen": lambda: write_by_name(f"/proc/self/fd/{fd}/by-proc"),
        "list": lambda: os.listdir(f"/proc/self/fd/{fd}"),
        "time": lambda: os.utime("inner", (1, 1), dir_fd=fd),
    }


def work_on(fd):
    """Everything one can do with a file."""
    return {
        "write": lambda: os.pwrite(fd, b"AFTER", 0),
        "truncate": lambda: os.ftruncate(fd, 3),
        "mode": lambda: os.fchmod(fd, 0o600),
        "attribute": lambda: os.setxattr(fd, "user.later", b"1"),
        "time": lambda: os.utime(fd, (1, 1)),
        "allocate": lambda: os.posix_fallocate(fd, 0, 10000),
        "reopen": lambda: write_by_name(f"/proc/self/fd/{fd}", os.O_WRONLY),
        "link": lambda: link_by_descriptor(fd),
    }


def descriptor():
    fd = opened()
    return lambda: work_on(fd)


def appending():
    fd = opened(flags=os.O_WRONLY | os.O_APPEND)
    return lambda: {"write": lambda: os.write(fd, b"AFTER")}


def reading():
    fd = opened(flags=os.O_RDONLY)
    return lambda: work_on(fd)


def path_only():
    fd = opened(flags=os.O_PATH)
    return lambda: work_on(fd)


def mapping():
    address = mapped(mmap.PROT_READ | mmap.PROT_WRITE)
    return lambda: {"write": lambda: ctypes.memmove(address, b"AFTER", 5)}


def mapping_to_be():
    address = mapped(mmap.PROT_READ)

    def write():
        if libc.mprotect(ctypes.c_void_p(address), 4096, mmap.PROT_READ | mmap.PROT_WRITE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
        ctypes.memmove(address, b"AFTER", 5)

    return lambda: {"write": write}


def directory():
    fd = opened(sub, os.O_RDONLY | os.O_DIRECTORY)
    return lambda: work_in(fd)


def path_directory():
    fd = opened(sub, os.O_PATH | os.O_DIRECTORY)
    return lambda: work_in(fd)


def standing():
    os.chdir(sub)
    return lambda: work_in(os.open(".", os.O_RDONLY))


def flying_file():
    pair = sent(opened())
    return lambda: work_on(received(pair))


def flying_directory():
    pair = sent(opened(sub, os.O_RDONLY))
    return lambda: work_in(received(pair))


def unlinked():
    fd = opened(os.path.join(project, "gone"), os.O_RDWR | os.O_CREAT)
    os.unlink(os.path.join(project, "gone"))
    return lambda: work_on(fd)


def nameless():
    fd = opened(sub, os.O_TMPFILE | os.O_RDWR)
    os.write(fd, b"nameless")
    return lambda: work_on(fd)


def rooted():
    os.chroot(sub)
    return lambda: work_in(os.open("/", os.O_RDONLY))


def thread():
    """A thread with a working directory and descriptors of its own; what the process shows are the main thread's."""
    stands, goes, done = threading.Event(), threading.Event(), threading.Event()

    def run():
        assert libc.unshare(0x200 | 0x400) == 0
        os.chdir(sub)
        stands.set()
        goes.wait()
        try:
            report(work_in(os.open(".", os.O_RDONLY)))
        finally:
            done.set()

    threading.Thread(target=run, daemon=True).start()
    stands.wait()
    return lambda: {"thread": lambda: (goes.set(), done.wait())}


def orphaned_thread():
    """A process whose main thread has ended: its own entries in /proc are empty."""
    os.chdir(sub)

    def run():
        time.sleep(0.1)
        serve(lambda: work_in(os.open(".", os.O_RDONLY)))

    threading.Thread(target=run).start()
    libc.syscall(60, 0)  # exit, of this thread alone


def storm():
    """Children that write, without an end, from before the snapshot until after it."""
    if os.fork() == 0:
        n = 0
        while True:
            n += 1
            if os.fork() == 0:
                with open(os.path.join(sub, f"storm-{n % 50}"), "w") as file:
                    file.write(str(n))
                os._exit(0)
            while n % 8 == 0:
                try:
                    if os.waitpid(-1, os.WNOHANG)[0] == 0:
                        break
                except ChildProcessError:
                    break
    return lambda: work_in(opened(sub, os.O_RDONLY))


def locked():
    """A lock on a file that is open for reading."""
    fd = opened(flags=os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)

    def contend():
        other = opened(flags=os.O_RDONLY)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

    return lambda: {"second": contend}


def listening():
    """A socket in the project."""
    return bound(os.path.join(project, "sock"))


def listening_nearby():
    """The same, by a name that says nothing about where it is, as is usual because names of sockets are short."""
    os.chdir(project)
    attempts = bound("sock")
    os.chdir("/")
    return attempts


def bound(name):
    server = socket.socket(socket.AF_UNIX)
    server.bind(name)
    server.listen()
    keep.append(server)
    return lambda: {"connect": lambda: socket.socket(socket.AF_UNIX).connect(os.path.join(project, "sock"))}


def memory():
    """Places that are in no layer."""
    os.chdir("/tmp")
    shm = os.open("/dev/shm", os.O_RDONLY)
    dev = os.open("/dev", os.O_PATH)
    return lambda: {
        "cwd": lambda: write_by_name("by-cwd"),
        "list": lambda: os.listdir("."),
        "dirfd": lambda: write_by_name("by-fd", dir_fd=shm),
        "device": lambda: write_by_name("null", os.O_WRONLY, dir_fd=dev),
    }


def said(name):
    return name if tmp is not None else f"/tmp/{name}"


def report(attempts):
    results = {}
    for name, attempt in attempts.items():
        try:
            attempt()
            results[name] = "done"
        except OSError as error:
            results[name] = os.strerror(error.errno) if error.errno else str(error)
        except Exception as error:
            results[name] = repr(error)
    write_by_name(said("report.new"), dir_fd=tmp, content=json.dumps(results).encode())
    os.rename(said("report.new"), said("report"), src_dir_fd=tmp, dst_dir_fd=tmp)


def serve(attempts):
    write_by_name(said("ready"), dir_fd=tmp)
    while not os.path.exists("/tmp/go") if tmp is None else "go" not in os.listdir(tmp):
        time.sleep(0.005)
    try:
        results = attempts()
    except OSError as error:
        # What it held is of no use any more.
        results = {"hold": lambda: (_ for _ in ()).throw(error)}
    if way == "thread":
        results["thread"]()
    else:
        report(results)
    while True:
        time.sleep(1000)


serve(globals()[way]())
