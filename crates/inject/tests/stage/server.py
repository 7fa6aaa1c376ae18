"""A real TLS (or plain) server for the tests. Writes each request it gets, byte for byte, to a directory, and answers by its path.

Usage: server.py DIRECTORY [CERTIFICATE KEY] [PROTOCOL]; prints its port.
"""
import itertools
import os
import socket
import ssl
import sys
import threading

directory = sys.argv[1]
counter = itertools.count()


class Closed(Exception):
    pass


class Stream:
    def __init__(self, connection):
        self.connection = connection
        self.buffer = bytearray()

    def more(self):
        piece = self.connection.recv(65536)
        if not piece:
            raise Closed
        self.buffer += piece

    def until(self, mark):
        while mark not in self.buffer:
            self.more()
        end = self.buffer.index(mark) + len(mark)
        return self.take(end)

    def exactly(self, count):
        while len(self.buffer) < count:
            self.more()
        return self.take(count)

    def take(self, count):
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken


def record(number, head, body):
    temporary = os.path.join(directory, f".{number}")
    with open(temporary, "wb") as file:
        file.write(head + body)
    os.rename(temporary, os.path.join(directory, f"{number:04}"))


def read_body(stream, fields):
    if fields.get(b"transfer-encoding") == b"chunked":
        body = b""
        while True:
            line = stream.until(b"\r\n")
            size = int(line, 16)
            body += line + stream.exactly(size + 2)
            if size == 0:
                return body
    return stream.exactly(int(fields.get(b"content-length", b"0")))


def answer(connection, status, body=b"ok\n", fields=b""):
    length = b"Content-Length: %d\r\n" % len(body)
    connection.sendall(b"HTTP/1.1 " + status + b"\r\n" + length + fields + b"\r\n" + body)


def serve(connection):
    stream = Stream(connection)
    while True:
        head = stream.until(b"\r\n\r\n")
        number = next(counter)
        lines = head[:-4].split(b"\r\n")
        method, target, _ = lines[0].split(b" ")
        fields = {}
        for line in lines[1:]:
            name, value = line.split(b":", 1)
            fields[name.lower()] = value.strip()
        path, _, query = target.partition(b"?")
        if path == b"/early":
            record(number, head, b"")
            connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbig\n")
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
            return
        body = read_body(stream, fields)
        record(number, head, body)
        if path == b"/reflect":
            answer(connection, b"200 OK", head)
        elif path == b"/big":
            answer(connection, b"200 OK", b"" if method == b"HEAD" else b"x" * int(query))
        elif path == b"/chunked":
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3;a=b\r\nabc\r\n")
            connection.sendall(b"3\r\ndef\r\n0\r\nX-Sum: 1\r\n\r\n")
        elif path == b"/close":
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
            return
        elif path == b"/cut":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
            return
        elif path == b"/vanish":
            return
        elif path == b"/bye":
            answer(connection, b"200 OK")
            return
        elif path == b"/extra":
            one = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
            connection.sendall(one + b"ok\n" + one + b"no\n")
        elif path == b"/slow":
            # For ever, or until nobody is interested any more.
            while connection.recv(65536):
                pass
            return
        elif path == b"/hints":
            connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
            answer(connection, b"200 OK")
        elif path == b"/nothing":
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        elif path == b"/head":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n")
        elif path == b"/switch":
            connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst")
            connection.sendall(stream.buffer)
            while piece := connection.recv(65536):
                connection.sendall(piece)
            return
        elif path == b"/frames":
            # A message in two frames, with a ping between them.
            value = fields[b"x-key"]
            connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            connection.sendall(b"\x01\x04" + value[:4] + b"\x89\x00\x80" + bytes([len(value) - 4]) + value[4:])
            return
        elif path == b"/garbage":
            connection.sendall(b"220 mail.example ESMTP\r\n")
            return
        elif path.endswith(b"/info/refs"):
            if b"authorization" not in fields:
                answer(connection, b"401 Unauthorized", b"", b'WWW-Authenticate: Basic realm="git"\r\n')
            else:
                answer(connection, b"200 OK", b"0123456789012345678901234567890123456789\trefs/heads/main\n")
        elif path.endswith(b"/HEAD"):
            answer(connection, b"200 OK", b"ref: refs/heads/main\n")
        else:
            answer(connection, b"200 OK")


def handle(connection, context):
    try:
        if context:
            connection = context.wrap_socket(connection, server_side=True)
        serve(connection)
    except (Closed, OSError):
        pass
    try:
        # Says goodbye in TLS too.
        if isinstance(connection, ssl.SSLSocket):
            connection = connection.unwrap()
    except (OSError, ValueError):
        pass
    connection.close()


listener = socket.create_server(("127.0.0.1", 0), backlog=64)
context = None
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2], sys.argv[3])
    if len(sys.argv) > 4:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
print(listener.getsockname()[1], flush=True)
while True:
    accepted, _ = listener.accept()
    threading.Thread(target=handle, args=(accepted, context), daemon=True).start()
