# Makes one small package of each kind in a directory that is served as `origin`.
import base64, gzip, hashlib, io, json, os, sys, tarfile, zipfile

root, origin = sys.argv[1:]


def write(path, content):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def tar(files):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content.encode()))
    return gzip.compress(raw.getvalue())


def zipped(files):
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return raw.getvalue()


write("hello.txt", "hello from a file\n")

# pip: a simple index and a wheel.
wheel = "hello-1.0-py3-none-any.whl"
write("wheels/" + wheel, zipped({
    "hello.py": "print('hello from pip')\n",
    "hello-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
    "hello-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "hello-1.0.dist-info/RECORD": "hello.py,,\n",
}))
write("simple/hello/index.html", f"<!DOCTYPE html><html><body><a href='{origin}/wheels/{wheel}'>{wheel}</a></body></html>\n")

# npm: what a registry knows of a package, and the package.
package = {"name": "hello", "version": "1.0.0", "main": "index.js"}
archive = tar({"package/package.json": json.dumps(package), "package/index.js": "console.log('hello from npm')\n"})
write("tarballs/hello-1.0.0.tgz", archive)
integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
dist = {"tarball": origin + "/tarballs/hello-1.0.0.tgz", "integrity": integrity}
write("hello", json.dumps({"name": "hello", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {**package, "dist": dist}}}))

# cargo: a sparse index and a crate.
crate = tar({
    "hello-1.0.0/Cargo.toml": "[package]\nname = \"hello\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
    "hello-1.0.0/src/lib.rs": "// hello from cargo\n",
})
write("crates/hello-1.0.0.crate", crate)
write("index/config.json", json.dumps({"dl": origin + "/crates/{crate}-{version}.crate"}))
entry = {"name": "hello", "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(crate).hexdigest(), "features": {}, "yanked": False}
write("index/he/ll/hello", json.dumps(entry) + "\n")

# Go: what a module proxy has.
module, version = "example.test/hello", "v1.0.0"
write(f"{module}/@v/list", version + "\n")
write(f"{module}/@v/{version}.info", json.dumps({"Version": version, "Time": "2020-01-01T00:00:00Z"}))
write(f"{module}/@v/{version}.mod", f"module {module}\n")
write(f"{module}/@v/{version}.zip", zipped({
    f"{module}@{version}/go.mod": f"module {module}\n",
    f"{module}@{version}/hello.go": "package hello\n\n// Word is hello from go.\nconst Word = \"hello from go\"\n",
}))
