# Prints the information below the working directory as one JSON document: path to kind, mode, owner, hash and tokens.
#
# A token is a word that one edit put somewhere, and no other edit ever puts anywhere: a line of a file (t1), the target of a
# link (l1), the value of an attribute (x1), the id in an access control list (u1).
import hashlib
import json
import os
import re
import stat
import struct

TOKEN = re.compile(rb"\b[tlx]\d+\b")
FIRST_ID = 100000


def tokens_of_acl(path, name):
    try:
        value = os.getxattr(path, name, follow_symlinks=False)
    except OSError:
        return []
    entries = struct.iter_unpack("<HHI", value[4:])
    return [f"u{id}" for _, _, id in entries if FIRST_ID <= id < 2 * FIRST_ID]


def tokens_of_attributes(path):
    found = []
    for name in os.listxattr(path, follow_symlinks=False):
        if name.startswith("user.k"):
            found += [t.decode() for t in TOKEN.findall(os.getxattr(path, name, follow_symlinks=False))]
        elif name.startswith("system.posix_acl"):
            found += tokens_of_acl(path, name)
    return found


def describe(path):
    meta = os.lstat(path)
    kind = stat.S_IFMT(meta.st_mode)
    content = b""
    if kind == stat.S_IFLNK:
        content = os.fsencode(os.readlink(path))
    elif kind == stat.S_IFREG:
        with open(path, "rb") as file:
            content = file.read()
    names = {stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFDIR: "directory"}
    return {
        "kind": names.get(kind, "special"),
        "mode": 0 if kind == stat.S_IFLNK else meta.st_mode & 0o7777,
        "owner": [meta.st_uid, meta.st_gid],
        "tokens": sorted({t.decode() for t in TOKEN.findall(content)} | set(tokens_of_attributes(path))),
        "hash": hashlib.sha256(content).hexdigest()[:16],
    }


def visit(path, entries):
    entries[repr(os.fsencode(path))] = describe(path)
    if stat.S_ISDIR(os.lstat(path).st_mode):
        for name in os.listdir(path):
            if name != ".git":
                visit(os.path.join(path, name), entries)


entries = {}
visit(".", entries)
print(json.dumps(entries))
