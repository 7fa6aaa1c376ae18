"""The internet of the page about the network, in a network namespace of the test's own."""
import http.server, io, ssl, sys, threading, zipfile

PUBLIC, CERTIFICATE, KEY = sys.argv[1:4]

def wheel():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        info = "greet-1.0.dist-info"
        archive.writestr("greet.py", "print('hello')\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: scene\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"greet.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return file.getvalue()

PAGES = {
    ("example.org", "/big"): bytes(3_000_000),
    ("api.example.com", "/pub/a"): b'{"items": 3}\n',
    ("pypi.example.org", "/simple/greet/"): b'<a href="/greet-1.0-py3-none-any.whl">greet-1.0-py3-none-any.whl</a>',
    ("pypi.example.org", "/greet-1.0-py3-none-any.whl"): wheel(),
    ("localhost:5432", "/"): b"<h1>hello</h1>\n",
}

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = f"you sent: Authorization: {self.headers['Authorization']}\n".encode()
        page = PAGES.get((self.headers["Host"], self.path), said)
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.send_header("Content-Type", "text/html" if page.startswith(b"<") else "application/octet-stream")
        self.end_headers()
        if self.path == "/slow":
            threading.Event().wait()
        self.wfile.write(page)

    def log_message(self, *_):
        pass

def serve(address, port, certificate=None):
    server = http.server.ThreadingHTTPServer((address, port), Answer)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever).start()

serve(PUBLIC, 80)
serve(PUBLIC, 443, (CERTIFICATE, KEY))
serve("127.0.0.1", 5432)
print("ready", flush=True)
