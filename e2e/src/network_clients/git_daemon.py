# Git's own protocol: every connection is handed to a daemon of its own, so that none outlives this.
import os, socket, subprocess, sys, threading

address, port, root = sys.argv[1:]
safe = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
listener = socket.create_server((address, int(port)))


def serve(stream):
    with stream:
        command = ["git", "daemon", "--inetd", "--export-all", "--base-path=" + root]
        subprocess.run(command, stdin=stream, stdout=stream, stderr=subprocess.DEVNULL, env={**os.environ, **safe})


print("ready")
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
