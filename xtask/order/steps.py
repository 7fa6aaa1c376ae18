"""Runs a command instruction by instruction, and writes down where it was for the first time: an address a line, in order.

Only within the program itself, which is linked at a fixed address. What it starts is not followed.
"""

import ctypes
import os
import signal
import sys

TRACEME, PEEKUSER, SINGLESTEP = 0, 3, 9
# Of the instruction pointer in the user area.
RIP = 16 * 8
# Where a program at a fixed address lies.
LOWEST, HIGHEST = 0x200000, 0x10000000

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

output, command = sys.argv[1], sys.argv[2:]
child = os.fork()
if child == 0:
    libc.ptrace(TRACEME, 0, None, None)
    os.execv(command[0], command)

seen = set()
order = []
ptrace, waitpid = libc.ptrace, os.waitpid
_, status = waitpid(child, 0)
passed_on = 0
while not (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
    address = ptrace(PEEKUSER, child, RIP, None)
    if LOWEST <= address < HIGHEST and address not in seen:
        seen.add(address)
        order.append(address)
    ptrace(SINGLESTEP, child, None, passed_on)
    _, status = waitpid(child, 0)
    stopped_by = os.WSTOPSIG(status) if os.WIFSTOPPED(status) else signal.SIGTRAP
    passed_on = 0 if stopped_by == signal.SIGTRAP else stopped_by

with open(output, "w") as file:
    file.writelines(f"{address:x}\n" for address in order)
sys.exit(os.waitstatus_to_exitcode(status))
