# Git's smart protocol: every request is handed to the program that git has for it.
import http.server, os, subprocess, sys

address, port, root = sys.argv[1:]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        whole = b""
        while length := int(self.rfile.readline(), 16):
            whole += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def answer(self):
        path, _, query = self.path.partition("?")
        environment = {
            **os.environ, "GIT_PROJECT_ROOT": root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
            "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
        }
        body = self.body()
        ended = subprocess.run(["git", "http-backend"], input=body, env={**environment, "CONTENT_LENGTH": str(len(body))}, capture_output=True)
        head, _, content = ended.stdout.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        status = next((int(value.split()[0]) for name, value in fields if name == "Status"), 200)
        self.send_response(status)
        for name, value in fields:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = answer

    def log_message(self, form, *values):
        print(form % values)


server = http.server.ThreadingHTTPServer((address, int(port)), Handler)
print("ready")
server.serve_forever()
