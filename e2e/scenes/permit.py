"""Runs a command on a terminal, and answers the question about a host with: for this project."""
import os, pty, sys, threading

said = b""

def answer(terminal):
    # What is typed the moment a question appears was meant for something else.
    if b"[p]roject" in said and b"allowed" not in said:
        os.write(terminal, b"p")
    if b"allowed" not in said:
        again = threading.Timer(0.5, answer, [terminal])
        again.daemon = True
        again.start()

def read(terminal):
    global said
    if not said:
        answer(terminal)
    read = os.read(terminal, 4096)
    said += read
    return read

pty.spawn(sys.argv[1:], read, lambda _: b"")
sys.exit(0 if b"allowed" in said else 1)
