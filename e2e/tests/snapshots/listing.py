# Prints what is below the working directory, as one JSON document: path to kind, mode, content, links, attributes.
import hashlib
import json
import os
import stat


def describe(path):
    meta = os.lstat(path)
    kind = stat.S_IFMT(meta.st_mode)
    attributes = {}
    for name in sorted(os.listxattr(path, follow_symlinks=False)):
        if name.startswith("user."):
            attributes[name] = os.getxattr(path, name, follow_symlinks=False).hex()
    if kind == stat.S_IFLNK:
        return f"link {os.fsencode(os.readlink(path))}"
    if kind == stat.S_IFREG:
        with open(path, "rb") as file:
            content = file.read()
        shown = repr(content) if len(content) < 60 else hashlib.sha256(content).hexdigest()
        return f"file {meta.st_mode & 0o7777:04o} {shown} {attributes or ''}"
    names = {stat.S_IFDIR: "directory", stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device"}
    return f"{names.get(kind, 'other')} {meta.st_mode & 0o7777:04o} {attributes or ''}"


def visit(path, entries):
    entries[repr(os.fsencode(path))] = describe(path)
    if stat.S_ISDIR(os.lstat(path).st_mode):
        for name in os.listdir(path):
            visit(os.path.join(path, name), entries)


entries = {}
visit(".", entries)
print(json.dumps(entries))
