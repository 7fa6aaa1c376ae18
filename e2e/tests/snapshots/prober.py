# A process that keeps descriptors of everything it can open, waits while its sandbox is put on other layers, and then tries to
# get out by them: up from each, and up from each with a root of its own elsewhere.
#
#   prober.py HOW SOCKET CANARY…    waits for /tmp/go, writes what it found to /tmp/report
#
# HOW is `holding`, or `flying`: then the descriptors wait in the queue of a socket, where nobody can see them.
import array
import json
import os
import socket
import sys
import time

how, host_socket, *canaries = sys.argv[1:]
places = ["/", "/tmp", "/dev", "/dev/shm", "/proc", "/sys", "/etc", "/usr", os.path.expanduser("~"), os.getcwd(), "/proc/self/root", "/proc/self/cwd"]
descriptors = {}
for place in places:
    for name, flags in [("open", os.O_RDONLY | os.O_DIRECTORY), ("path", os.O_PATH)]:
        try:
            descriptors[f"{place} {name}"] = os.open(place, flags)
        except OSError:
            pass
os.chdir("/")
pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


def fly():
    for fd in descriptors.values():
        pair[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        os.close(fd)


def land():
    for name in descriptors:
        _, ancillary, _, _ = pair[1].recvmsg(1, socket.CMSG_SPACE(4))
        descriptors[name] = array.array("i", ancillary[0][2])[0]


def attempt(work):
    try:
        return work()
    except OSError as error:
        return os.strerror(error.errno)


def climb(fd):
    os.fchdir(fd)
    for _ in range(60):
        os.chdir("..")
    # From here, by names that lead through whatever is really above.
    found = [c for c in canaries if os.path.exists("." + c) or os.path.exists("./.." * 3 + c)]
    top = attempt(lambda: sorted(os.listdir(".")))
    call = attempt(lambda: socket.socket(socket.AF_UNIX).connect("." + host_socket))
    return {"found": found, "top": top, "write": attempt(lambda: write("escaped-marker")), "connect": call or "done"}


def write(name):
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT, 0o644))
    os.unlink(name)
    return "done"


def in_a_child(work):
    """A root of one's own is not given back."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, json.dumps(attempt(work)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.wait()
    return json.loads(answer or '"nothing"')


def with_another_root(fd):
    os.makedirs("/tmp/jail", exist_ok=True)
    os.chroot("/tmp/jail")
    return climb(fd)


def probe():
    results = {"canaries": [c for c in canaries if os.path.exists(c)]}
    for name, fd in descriptors.items():
        results[f"up from {name}"] = in_a_child(lambda: climb(fd))
        results[f"up from {name}, rooted elsewhere"] = in_a_child(lambda: with_another_root(fd))
    for path in ["/proc/1/root/", "/proc/1/cwd/", "/proc/1/fd", "/proc/1/environ", "/proc/1/mem", "/proc/1/map_files", "/proc/1/ns/mnt"]:
        results[path] = attempt(lambda: str(os.listdir(path)) if path.endswith(("/", "fd", "files")) else str(open(path, "rb").read(1)))
    with open("/proc/self/mountinfo") as table:
        results["mounts"] = sorted(f"{fields[4]} {fields[5]}" for fields in map(str.split, table))
    for path in ["/proc/sys/kernel/hostname", "/sys/kernel/escaped-marker", "/proc/escaped-marker", "/usr/escaped-marker"]:
        results[f"write {path}"] = attempt(lambda: write(path))
    return results


if how == "flying":
    fly()
with open("/tmp/ready", "w"):
    pass
while not os.path.exists("/tmp/go"):
    time.sleep(0.005)
if how == "flying":
    land()
with open("/tmp/report.new", "w") as file:
    json.dump(probe(), file)
os.rename("/tmp/report.new", "/tmp/report")
