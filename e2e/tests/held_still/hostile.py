# A process that cannot be stopped, and goes on changing what is being looked at.
#
#   hostile.py PROJECT ELSEWHERE slow     makes files in the project, then /tmp/ready, and exchanges them for others now and then,
#                                         so that there is a chance to apply what was looked at
#   hostile.py PROJECT ELSEWHERE fast     the same with many more directories, without a pause
#
# A timer sends SIGCONT many times a second, which undoes SIGSTOP.
import ctypes
import mmap
import os
import random
import signal
import sys
import time

project, elsewhere, pace = sys.argv[1:]
is_fast = pace == "fast"
os.chdir(project)


libc = ctypes.CDLL(None, use_errno=True)


class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("notify", ctypes.c_int), ("rest", ctypes.c_char * 64)]


class Interval(ctypes.Structure):
    _fields_ = [("every_s", ctypes.c_long), ("every_ns", ctypes.c_long), ("first_s", ctypes.c_long), ("first_ns", ctypes.c_long)]


def never_stop():
    signal.signal(signal.SIGCONT, lambda *_: None)
    timer = ctypes.c_void_p()
    assert libc.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(Event(None, signal.SIGCONT, 0)), ctypes.byref(timer)) == 0
    every = 1_000_000 if is_fast else 10_000_000
    assert libc.timer_settime(timer, 0, ctypes.byref(Interval(0, every, 0, every)), None) == 0


def write(path, content):
    with open(path, "w") as file:
        file.write(content)


def replace(path, content):
    write(path + ".new", content)
    os.rename(path + ".new", path)


DIRECTORIES = [f"d{n}" for n in range(60 if is_fast else 6)]
HARMLESS, OBEYED = '{ "name": "harmless" }\n', '{ "name": "x", "scripts": { "postinstall": "evil" } }\n'


def set_out():
    for directory in DIRECTORIES:
        os.mkdir(directory)
        write(f"{directory}/id", "harmless\n")
    if is_fast:
        for directory in DIRECTORIES:
            os.symlink(elsewhere, f".{directory}")
    write("package.json", HARMLESS)
    write("mapped.txt", "fine and harmless\n")
    write("first.txt", "first\n")
    write("second.txt", "second\n")


def lead_elsewhere():
    for directory in DIRECTORIES:
        os.rename(directory, f".{directory}")
        os.symlink(elsewhere, directory)


def lead_back():
    for directory in DIRECTORIES:
        os.unlink(directory)
        os.rename(f".{directory}", directory)


def exchange_directories():
    # At no moment is a name missing, so that whoever looks always finds either the directory or the link.
    for directory in DIRECTORIES:
        if libc.renameat2(-100, directory.encode(), -100, f".{directory}".encode(), 2) != 0:
            os.rename(directory, f".{directory}.new")
            os.rename(f".{directory}", directory)
            os.rename(f".{directory}.new", f".{directory}")


set_out()
file = os.open("mapped.txt", os.O_RDWR)
page = mmap.mmap(file, 0)
page[0:4] = b"fine"
never_stop()
write("/tmp/ready", "")
while is_fast:
    exchange_directories()
while True:
    time.sleep(random.choice((0.005, 0.05, 0.5)))
    lead_elsewhere()
    replace("package.json", OBEYED)
    page[0:4] = b"EVIL"
    os.rename("first.txt", "third.txt"), os.rename("second.txt", "first.txt"), os.rename("third.txt", "second.txt")
    time.sleep(random.uniform(0, 0.01))
    lead_back()
    replace("package.json", HARMLESS)
    page[0:4] = b"fine"
