//! Archives that mean harm: each is refused for the right reason, and nothing outside the directory is touched.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;
use support::raw::*;
use support::{Scene, as_ordinary_user, assert_same, is_root, own_marks, snapshot, unpacked};
use whatif_archive::{ArchiveError as E, Limits, Options};
use whatif_overlay::Format;
use whatif_types::Explain;

struct Case {
    name: String,
    archive: Vec<u8>,
    options: Options,
    is_right: fn(&E) -> bool,
}

/// `refused!(cases, "name", archive, pattern)`, with options if they matter.
macro_rules! refused {
    ($cases:ident, $name:expr, $archive:expr, $error:pat) => {
        refused!($cases, $name, $archive, options(), $error)
    };
    ($cases:ident, $name:expr, $archive:expr, $options:expr, $error:pat) => {
        $cases.push(Case {
            name: $name.to_string(),
            archive: $archive,
            options: $options,
            is_right: |error| matches!(error, $error),
        })
    };
}

fn options() -> Options {
    Options { marks: own_marks(), keep_owners: false, limits: Limits::default() }
}

fn limited(limits: Limits) -> Options {
    Options { limits, ..options() }
}

/// One file with this name, in a record if it does not fit or has a NUL.
fn named(name: &[u8]) -> Vec<u8> {
    let mut item = file("", b"x");
    item.path = name.to_vec();
    if name.len() > 100 || name.contains(&0) {
        item.records.push((b"path".to_vec(), name.to_vec()));
    }
    archive_of(vec![item])
}

fn attribute(name: &str, value: &[u8]) -> Vec<u8> {
    archive_of(vec![file("a/f", b"x").with(&format!("SCHILY.xattr.{name}"), value)])
}

fn mark(item: Item, name: &str, value: &[u8]) -> Vec<u8> {
    archive_of(vec![item.with(&format!("WHATIF.overlay.{name}"), value)])
}

/// The right manifest for one layer, and a body with something else done to it.
fn body_with(items: &[Item], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = body(items);
    change(&mut bytes);
    archive(&manifest(vec![entry("a", items)]), &bytes)
}

/// A header that is changed after it was made, with a right checksum.
fn header_with(change: impl FnOnce(&mut [u8; 512])) -> Vec<u8> {
    let items = [directory("a"), file("a/f", b"")];
    let mut header = items[1].header();
    change(&mut header);
    body_with(&items, |bytes| bytes[512..1024].copy_from_slice(&summed(header)))
}

fn names() -> Vec<Case> {
    let mut cases = Vec::new();
    let long_component = ["a/", &"n".repeat(256)].concat();
    let long_path = ["a", &"/dddddddddddddddddddd".repeat(220)].concat();
    refused!(cases, "parent directory", named(b"a/../../canary/new"), E::Name { .. });
    refused!(cases, "parent directory first", named(b"../canary/new"), E::Name { .. });
    refused!(cases, "parent directory last", named(b"a/.."), E::Name { .. });
    refused!(cases, "absolute", named(b"/tmp/whatif-archive-new"), E::Name { .. });
    refused!(cases, "absolute after the layer", named(b"a//etc/x"), E::Name { .. });
    refused!(cases, "dot", named(b"a/./x"), E::Name { .. });
    refused!(cases, "nothing", named(b""), E::Name { .. });
    refused!(cases, "slash at the end", named(b"a/x/"), E::Name { .. });
    refused!(cases, "NUL", named(b"a/x\0/y"), E::Name { .. });
    refused!(cases, "long component", named(long_component.as_bytes()), E::Name { .. });
    refused!(cases, "long path", named(long_path.as_bytes()), E::Limit { .. });
    refused!(cases, "parent directory in a record", archive_of(vec![file("a/f", b"").with("path", b"a/../x")]), E::Name { .. });
    refused!(cases, "another name in a record", archive_of(vec![file("a/f", b"").with("path", b"a/g")]), E::Malformed { .. });
    refused!(cases, "name twice", archive_of(vec![file("a/f", b"").with("path", b"a/f")]), E::Malformed { .. });
    refused!(cases, "bytes behind a name", header_with(|h| h[50] = b'x'), E::Malformed { .. });
    refused!(cases, "prefix before a name", header_with(|h| h[345..347].copy_from_slice(b"..")), E::Malformed { .. });
    cases
}

fn structure() -> Vec<Case> {
    let mut cases = Vec::new();
    let through = vec![link("a/l", "../../canary"), file("a/l/new", b"x")];
    refused!(cases, "through a link", archive_of(through), E::NoDirectory { .. });
    refused!(cases, "through a link to the root", archive_of(vec![link("a/l", "/"), directory("a/l/tmp")]), E::NoDirectory { .. });
    refused!(cases, "beneath a file", archive_of(vec![file("a/f", b"x"), file("a/f/g", b"x")]), E::NoDirectory { .. });
    refused!(cases, "without a directory", archive_of(vec![file("a/b/c", b"x")]), E::NoDirectory { .. });
    refused!(cases, "file twice", archive_of(vec![file("a/f", b"x"), file("a/f", b"y")]), E::OutOfOrder { .. });
    refused!(cases, "directory twice", archive_of(vec![directory("a/d"), directory("a/d")]), E::OutOfOrder { .. });
    refused!(cases, "file over directory", archive_of(vec![directory("a/d"), file("a/d", b"x")]), E::OutOfOrder { .. });
    refused!(cases, "directory over file", archive_of(vec![file("a/d", b"x"), directory("a/d")]), E::OutOfOrder { .. });
    refused!(cases, "directory over link", archive_of(vec![link("a/l", "/etc"), directory("a/l")]), E::OutOfOrder { .. });
    let later = vec![directory("a/d"), file("a/d/f", b"x"), file("a/e", b"x"), link("a/d", "/etc")];
    refused!(cases, "link over directory", archive_of(later), E::OutOfOrder { .. });
    refused!(cases, "not sorted", archive_of(vec![file("a/g", b"x"), file("a/f", b"y")]), E::OutOfOrder { .. });
    refused!(cases, "the layer twice", archive_of(vec![directory("a")]), E::OutOfOrder { .. });
    cases
}

fn kinds() -> Vec<Case> {
    let mut cases = Vec::new();
    let hard =
        |to: &str| archive_of(vec![directory("a/d"), file("a/f", b"x"), link("a/l", "../../canary/file"), hard_link("a/z", to)]);
    refused!(cases, "hard link outside", hard("a/../../canary/file"), E::Name { .. });
    refused!(cases, "hard link to an absolute path", hard("/etc/passwd"), E::Name { .. });
    refused!(cases, "hard link to a link", hard("a/l"), E::HardLink { .. });
    refused!(cases, "hard link through a link", hard("a/l/x"), E::HardLink { .. });
    refused!(cases, "hard link to a directory", hard("a/d"), E::HardLink { .. });
    refused!(cases, "hard link to itself", hard("a/z"), E::HardLink { .. });
    refused!(cases, "hard link to nothing", hard("a/nothing"), E::HardLink { .. });
    refused!(cases, "hard link to no name", hard(""), E::Name { .. });
    refused!(cases, "hard link beneath a file", hard("a/f/x"), E::HardLink { .. });
    let both = [directory("a"), file("a/f", b"x"), directory("b"), hard_link("b/f", "a/f")];
    let two = manifest(vec![entry("a", &both[..2]), entry("b", &both[2..])]);
    refused!(cases, "hard link to another layer", archive(&two, &body(&both)), E::HardLink { .. });
    let able = Item { mode: 0o4755, ..hard_link("a/z", "a/f") };
    refused!(cases, "hard link with a mode", archive_of(vec![file("a/f", b"x"), able]), E::Malformed { .. });
    let empty_link = archive_of(vec![link("a/l", "")]);
    refused!(cases, "link to nothing", empty_link, E::Malformed { .. });
    let cut_link = archive_of(vec![link("a/l", "x").with("linkpath", b"y\0z")]);
    refused!(cases, "link with a NUL", cut_link, E::Malformed { .. });
    let device = |flag, device| archive_of(vec![Item { device, ..item("a/x", flag) }]);
    refused!(cases, "character device", device(b'3', (1, 1)), E::Device { .. });
    refused!(cases, "device with a minor number only", device(b'3', (0, 5)), E::Device { .. });
    refused!(cases, "block device", device(b'4', (8, 0)), E::Device { .. });
    refused!(cases, "block device 0:0", device(b'4', (0, 0)), E::Device { .. });
    for flag in [0, b'7', b'D', b'K', b'L', b'M', b'S', b'V', b'X', b'g', b'A'] {
        refused!(cases, format!("kind {flag}"), archive_of(vec![item("a/x", flag)]), E::Malformed { .. });
    }
    refused!(
        cases,
        "records for records",
        body_with(&[directory("a")], |b| _ = b.splice(..0, pax(&record(b"path", b"x")))),
        E::Malformed { .. }
    );
    let directory_with_content = Item { content: vec![b'x'; 512], ..directory("a/d") };
    refused!(cases, "directory with content", archive_of(vec![directory_with_content]), E::Malformed { .. } | E::Mismatch { .. });
    cases
}

fn attributes() -> Vec<Case> {
    let mut cases = Vec::new();
    for name in [
        "security.selinux",
        "security.ima",
        "security.capability2",
        "system.nfs4_acl",
        "system.posix_acl_default",
        "trusted.overlay.opaque",
        "trusted.other",
        "user.overlay.opaque",
        "user.overlay.redirect",
        "user.",
        "btrfs.compression",
        "os2.x",
        "",
        "user.nul\0l",
    ] {
        refused!(cases, format!("attribute {name:?}"), attribute(name, b"y"), E::Attribute { .. });
    }
    refused!(
        cases,
        "attribute of a link",
        archive_of(vec![link("a/l", "x").with("SCHILY.xattr.user.x", b"y")]),
        E::Attribute { .. }
    );
    refused!(
        cases,
        "attribute of a whiteout",
        archive_of(vec![whiteout("a/w").with("SCHILY.xattr.user.x", b"y")]),
        E::Attribute { .. }
    );
    let able = directory("a/d").with("SCHILY.xattr.security.capability", &[1; 20]);
    refused!(cases, "capability of a directory", archive_of(vec![able]), E::Attribute { .. });
    refused!(cases, "broken access list", attribute("system.posix_acl_access", b"nonsense"), E::Io { .. });
    refused!(
        cases,
        "attribute twice",
        archive_of(vec![file("a/f", b"").with("SCHILY.xattr.user.x", b"1").with("SCHILY.xattr.user.x", b"2")]),
        E::Malformed { .. }
    );
    refused!(
        cases,
        "attributes not sorted",
        archive_of(vec![file("a/f", b"").with("SCHILY.xattr.user.y", b"1").with("SCHILY.xattr.user.x", b"2")]),
        E::Malformed { .. }
    );
    refused!(cases, "attribute that is escaped for nothing", attribute("user.%41", b"1"), E::Malformed { .. });
    refused!(cases, "huge attribute", attribute("user.x", &[b'v'; 70_000]), E::Attribute { .. });
    for record in
        ["comment", "GNU.sparse.major", "LIBARCHIVE.xattr.user.x", "SCHILY.acl.access", "WHATIF", "ctime", "uname", "hdrcharset"]
    {
        refused!(cases, format!("record {record}"), archive_of(vec![file("a/f", b"").with(record, b"1")]), E::Malformed { .. });
    }
    for broken in [&b"x"[..], b"0 a=b\n", b"99 path=a\n", b"6 a=bc", b"-1 a=b\n", b"5 ab\n"] {
        let items = [directory("a"), file("a/f", b"")];
        let archive = body_with(&items, |bytes| _ = bytes.splice(512..512, pax(broken)));
        refused!(cases, format!("records {:?}", String::from_utf8_lossy(broken)), archive, E::Malformed { .. });
    }
    let items = [directory("a"), file("a/f", b"")];
    let mut header = file("PaxHeaders/records", b"");
    (header.flag, header.mode, header.seconds, header.announced) = (b'x', 0o644, 0, Some(7 << 30));
    let huge = body_with(&items, |bytes| _ = bytes.splice(512..512, header.bytes()));
    refused!(cases, "huge records", huge, E::Limit { .. });

    let unknown = ["metacopy", "upper", "nlink", "impure", "uuid", "overlay.opaque", "", "x"];
    for name in unknown {
        refused!(cases, format!("mark {name:?}"), mark(directory("a/d"), name, b"y"), E::Mark { .. });
    }
    let root = || Options { marks: Format::Trusted, ..options() };
    for redirect in ["", "/", "..", "../x", "/../etc", "/a//b", "/a/./b", "a/b", "/a/", "x\0y", "."] {
        refused!(
            cases,
            format!("redirect to {redirect:?}"),
            mark(directory("a/d"), "redirect", redirect.as_bytes()),
            root(),
            E::Mark { .. }
        );
    }
    let far = ["/x".repeat(2100)].concat();
    refused!(cases, "endless redirect", mark(directory("a/d"), "redirect", far.as_bytes()), root(), E::Mark { .. });
    let user = Options { marks: Format::User, ..options() };
    refused!(cases, "redirect for a user", mark(directory("a/d"), "redirect", b"/x"), user, E::Unsupported { .. });
    refused!(cases, "redirect of a file", mark(file("a/f", b""), "redirect", b"/x"), root(), E::Mark { .. });
    refused!(cases, "opaque file", mark(file("a/f", b""), "opaque", b"y"), E::Mark { .. });
    refused!(cases, "opaque in another way", mark(directory("a/d"), "opaque", b"z"), E::Mark { .. });
    refused!(cases, "origin with a handle", mark(file("a/f", b""), "origin", b"\x00\xfb\x1d\x00"), E::Mark { .. });
    refused!(cases, "whiteout with content", mark(file("a/f", b"x"), "whiteout", b"y"), E::Mark { .. });
    refused!(cases, "protected in another way", mark(file("a/f", b""), "protattr", b"z"), E::Mark { .. });
    cases
}

fn numbers() -> Vec<Case> {
    let mut cases = Vec::new();
    let owned = |keyword: &str, id: &[u8]| archive_of(vec![file("a/f", b"").with(keyword, id)]);
    refused!(cases, "owner -1", owned("uid", b"4294967295"), E::Owner { .. });
    refused!(cases, "group above 2^31", owned("gid", b"2147483648"), E::Owner { .. });
    refused!(cases, "owner beyond all", owned("uid", b"18446744073709551615"), E::Owner { .. });
    refused!(cases, "owner below zero", owned("uid", b"-1"), E::Malformed { .. });
    refused!(cases, "owner in a record for nothing", owned("uid", b"1000"), E::Malformed { .. });
    refused!(cases, "time that is none", owned("mtime", b"yesterday"), E::Malformed { .. });
    refused!(cases, "time beyond all", owned("mtime", b"99999999999999999999"), E::Malformed { .. });
    refused!(cases, "size in a record that lies", owned("size", b"18446744073709551615"), E::Mismatch { .. } | E::Limit { .. });
    refused!(cases, "mode with a kind", archive_of(vec![Item { mode: 0o100_644, ..file("a/f", b"") }]), E::Malformed { .. });
    refused!(cases, "base-256 size", header_with(|h| h[124] = 0x80), E::Malformed { .. });
    refused!(cases, "base-256 owner", header_with(|h| h[108..116].copy_from_slice(b"\x80\0\0\0\0\0\0\x01")), E::Malformed { .. });
    refused!(cases, "size with spaces", header_with(|h| h[124..136].copy_from_slice(b"          0\0")), E::Malformed { .. });
    refused!(cases, "user name", header_with(|h| h[265..269].copy_from_slice(b"root")), E::Malformed { .. });
    refused!(cases, "GNU magic", header_with(|h| h[257..265].copy_from_slice(b"ustar  \0")), E::Malformed { .. });
    refused!(cases, "wrong checksum", body_with(&[directory("a")], |b| b[148] ^= 1), E::Malformed { .. });
    let more = Item { announced: Some(9000), ..file("a/f", b"x") };
    refused!(cases, "more announced than there is", archive_of(vec![more]), E::Mismatch { .. });
    let less = Item { announced: Some(1), ..file("a/f", b"xyz") };
    refused!(cases, "less announced than there is", archive_of(vec![less]), E::Malformed { .. });
    let items = [directory("a"), file("a/f", b"x")];
    refused!(cases, "something in the padding", body_with(&items, |b| b[1024 + 100] = 1), E::Malformed { .. });
    cases
}

fn layers() -> Vec<Case> {
    let mut cases = Vec::new();
    let items = [directory("a"), file("a/f", b"x")];
    let right = entry("a", &items);
    let claiming = |change: fn(&mut serde_json::Value)| {
        let mut claimed = entry("a", &[directory("a"), file("a/f", b"x")]);
        change(&mut claimed);
        archive(&manifest(vec![claimed]), &body(&[directory("a"), file("a/f", b"x")]))
    };
    refused!(cases, "wrong digest", claiming(|l| l["digest"] = json!("0".repeat(64))), E::Mismatch { .. });
    refused!(
        cases,
        "digest in capitals",
        claiming(|l| l["digest"] = json!(l["digest"].as_str().unwrap().to_uppercase())),
        E::Mismatch { .. }
    );
    refused!(cases, "no digest", claiming(|l| l["digest"] = json!("")), E::Mismatch { .. });
    refused!(cases, "fewer entries claimed", claiming(|l| l["files"] = json!(1)), E::Mismatch { .. });
    refused!(cases, "more entries claimed", claiming(|l| l["files"] = json!(3)), E::Mismatch { .. });
    refused!(cases, "less content claimed", claiming(|l| l["bytes"] = json!(0)), E::Mismatch { .. });
    refused!(cases, "more content claimed", claiming(|l| l["bytes"] = json!(2)), E::Mismatch { .. });
    refused!(cases, "content below zero", claiming(|l| l["bytes"] = json!(-1)), E::Manifest { .. });
    refused!(cases, "endless content claimed", claiming(|l| l["bytes"] = json!(u64::MAX)), E::Limit { .. });
    for id in ["..", ".", "", "a/b", "/", "manifest.json", "x\u{0}", "ü"] {
        let archive = archive(&manifest(vec![json!({"id": id, "digest": "", "files": 1, "bytes": 0})]), &body(&[]));
        refused!(cases, format!("layer {id:?}"), archive, E::LayerId { .. });
    }
    let twice = manifest(vec![right.clone(), right.clone()]);
    refused!(cases, "layer twice in the manifest", archive(&twice, &body(&items)), E::Manifest { .. });
    let b = entry("b", &[directory("b")]);
    refused!(cases, "missing layer", archive(&manifest(vec![right.clone(), b.clone()]), &body(&items)), E::MissingLayer { .. });
    refused!(cases, "no layer at all", archive(&manifest(vec![right.clone()]), &body(&[])), E::MissingLayer { .. });
    let both = [directory("a"), file("a/f", b"x"), directory("b")];
    refused!(cases, "extra layer", archive(&manifest(vec![right.clone()]), &body(&both)), E::UnexpectedLayer { .. });
    refused!(cases, "layers in another order", archive(&manifest(vec![b, right.clone()]), &body(&both)), E::UnexpectedLayer { .. });
    let loose = [directory("a"), file("a/f", b"x"), file("c/f", b"x")];
    refused!(cases, "file of an unknown layer", archive(&manifest(vec![right.clone()]), &body(&loose)), E::UnexpectedLayer { .. });
    refused!(
        cases,
        "file before its layer",
        archive(&manifest(vec![right.clone()]), &body(&loose[1..])),
        E::UnexpectedLayer { .. }
    );
    let again = [directory("a"), file("a/f", b"x"), own_file("manifest.json", b"{}")];
    refused!(cases, "second manifest", archive(&manifest(vec![right.clone()]), &body(&again)), E::UnexpectedLayer { .. });
    refused!(
        cases,
        "a layer that is a file",
        archive(&manifest(vec![entry("a", &[file("a", b"")])]), &body(&[file("a", b"")])),
        E::NoDirectory { .. }
    );
    let linked = [link("a", "../canary"), file("a/new", b"x")];
    refused!(cases, "a layer that is a link", archive(&manifest(vec![entry("a", &linked)]), &body(&linked)), E::NoDirectory { .. });
    cases
}

fn frames() -> Vec<Case> {
    let mut cases = Vec::new();
    let items = [directory("a"), file("a/f", b"x")];
    let right = manifest(vec![entry("a", &items)]);
    let whole =
        || archive(&manifest(vec![entry("a", &[directory("a"), file("a/f", b"x")])]), &body(&[directory("a"), file("a/f", b"x")]));
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0][..], b"junk"].concat();
    let first = || compressed(&head(&manifest(vec![entry("a", &[directory("a"), file("a/f", b"x")])])));
    refused!(cases, "nothing", Vec::new(), E::Truncated);
    refused!(cases, "not compressed", body(&items), E::NotAnArchive);
    refused!(cases, "another compressed file", compressed(&[b'x'; 2000]), E::NotAnArchive);
    refused!(cases, "another tar archive", compressed(&body(&items)), E::NotAnArchive);
    refused!(cases, "garbage behind", [whole(), b"garbage".to_vec()].concat(), E::Trailing);
    refused!(cases, "zeros behind", [whole(), vec![0; 512]].concat(), E::Trailing);
    refused!(cases, "third frame", [whole(), compressed(b"x")].concat(), E::Trailing);
    refused!(cases, "empty third frame", [whole(), compressed(b"")].concat(), E::Trailing);
    refused!(cases, "skipped frame behind", [whole(), skipped.clone()].concat(), E::Trailing);
    refused!(cases, "skipped frame first", [skipped.clone(), whole()].concat(), E::NotAnArchive);
    refused!(cases, "skipped frame between", [first(), skipped, compressed(&body(&items))].concat(), E::Truncated);
    refused!(cases, "manifest only", first(), E::Truncated);
    refused!(cases, "one frame for all", compressed(&[head(&right), body(&items)].concat()), E::Trailing);
    refused!(cases, "one empty block", body_with(&items, |b| b.truncate(b.len() - 512)), E::Truncated);
    refused!(cases, "no empty block", body_with(&items, |b| b.truncate(b.len() - 1024)), E::Truncated);
    refused!(cases, "third empty block", body_with(&items, |b| b.extend([0; 512])), E::Trailing);
    refused!(cases, "more after the end", body_with(&items, |b| b.extend(file("a/g", b"").bytes())), E::Trailing);
    refused!(cases, "empty block in the middle", body_with(&items, |b| _ = b.splice(512..512, [0; 512])), E::Trailing);

    let with_line = |line: &[u8]| {
        let both = [own_file("manifest.json", &manifest(vec![])).bytes(), own_file("manifest.sha256", line).bytes()].concat();
        [compressed(&both), compressed(&body(&[]))].concat()
    };
    refused!(cases, "manifest with another digest", with_line(&[b'0'; 80]), E::Manifest { .. });
    refused!(cases, "manifest without digest", with_line(b""), E::Manifest { .. });
    refused!(cases, "another format", archive(br#"{"format": 2, "all": "different"}"#, &body(&[])), E::UnknownFormat { .. });
    refused!(
        cases,
        "format in words",
        archive(br#"{"format": "1", "about": 0, "layers": []}"#, &body(&[])),
        E::UnknownFormat { .. }
    );
    refused!(cases, "no format", archive(b"{}", &body(&[])), E::NotAnArchive);
    refused!(
        cases,
        "unknown field",
        archive(br#"{"format": 1, "about": 0, "layers": [], "x": 1}"#, &body(&[])),
        E::Manifest { .. }
    );
    refused!(cases, "no JSON", archive(b"format: 1", &body(&[])), E::Manifest { .. });
    let deep = format!(r#"{{"format": 1, "layers": [], "about": {}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    refused!(cases, "deep JSON", archive(deep.as_bytes(), &body(&[])), E::Manifest { .. });
    let endless = Item { announced: Some(6 << 30), ..own_file("manifest.json", b"{") };
    refused!(cases, "endless manifest", compressed(&endless.bytes()), E::Limit { .. });
    cases
}

fn bombs() -> Vec<Case> {
    let mut cases = Vec::new();
    let few = Limits { bytes: 1 << 20, entries: 10, path_length: 60, depth: 5 };
    let zeros = archive_of(vec![file("a/f", &vec![0; 8 << 20])]);
    assert!(zeros.len() < 10_000);
    refused!(cases, "bomb", zeros, limited(few), E::Limit { what: "bytes", .. });
    // A manifest that hides it.
    let mut claimed = entry("a", &[directory("a"), file("a/f", &vec![0; 8 << 20])]);
    claimed["bytes"] = json!(10);
    let hidden = archive(&manifest(vec![claimed]), &body(&[directory("a"), file("a/f", &vec![0; 8 << 20])]));
    refused!(cases, "hidden bomb", hidden, limited(few), E::Mismatch { .. });
    let items: Vec<Item> = (0..30).map(|n| file(&format!("a/{n:02}"), b"")).collect();
    refused!(cases, "many entries", archive_of(items), limited(few), E::Limit { what: "entries", .. });
    let hungry: Vec<Item> = (0..8).map(|n| file(&format!("a/{n}"), b"").with("SCHILY.xattr.user.x", &[7; 3000])).collect();
    let small = Limits { bytes: 20_000, ..few };
    refused!(cases, "many attributes", archive_of(hungry), limited(small), E::Limit { what: "bytes", .. });
    let down = |levels: usize| (1..=levels).map(|n| directory(&format!("a{}", "/d".repeat(n)))).collect::<Vec<_>>();
    refused!(cases, "deep", archive_of(down(6)), limited(few), E::Limit { what: "directories within each other", .. });
    refused!(
        cases,
        "long",
        archive_of(vec![file(&format!("a/{}", "n".repeat(60)), b"")]),
        limited(few),
        E::Limit { what: "bytes in a path", .. }
    );
    let deepest = (1..=100_000).step_by(1).take(2200).map(|n| {
        let path = format!("a{}", "/d".repeat(n));
        let item = directory(&path);
        if path.len() > 100 { item.with("path", path.as_bytes()) } else { item }
    });
    refused!(cases, "a hundred thousand deep", archive_of(deepest.collect()), E::Limit { .. });
    let closed: Vec<Item> = (0..10_001).map(|n| Item { mode: 0o600, ..directory(&format!("a/{n:05}")) }).collect();
    refused!(cases, "many closed directories", archive_of(closed), E::Limit { .. });
    let mut window = compressed(&head(&manifest(vec![])));
    // A frame that asks for a window of 2 GiB: magic, descriptor without a single segment, window.
    window.extend([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00]);
    refused!(cases, "huge window", window, E::Damaged { .. });
    cases
}

fn all() -> Vec<Case> {
    [names(), structure(), kinds(), attributes(), numbers(), layers(), frames(), bombs()].into_iter().flatten().collect()
}

fn each_is_refused() {
    let scene = Scene::new();
    let canary = scene.directory("canary");
    fs::write(canary.join("file"), b"precious").unwrap();
    symlink("file", canary.join("link")).unwrap();
    let before = snapshot(&canary);
    let cases = all();
    assert!(cases.len() >= 100, "{}", cases.len());
    for case in cases {
        let into = scene.directory("into");
        let Err(error) = unpacked(&case.archive, &into, &case.options) else { panic!("{} was accepted", case.name) };
        assert!((case.is_right)(&error), "{}: {error:?}", case.name);
        let explained = whatif_types::Explained::of(&error);
        assert!(!explained.code.is_empty());
        assert!(!explained.message.bytes().any(|b| b.is_ascii_control()), "{}: {}", case.name, explained.message);
        assert_same(&snapshot(&canary), &before);
        let beside: Vec<_> = fs::read_dir(&scene.base).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(beside.len(), 2, "{}: {beside:?}", case.name);
        for name in fs::read_dir(&into).unwrap().map(|e| e.unwrap().file_name()) {
            assert!(name == "a" || name == "b", "{}: {name:?}", case.name);
        }
        fs::remove_dir_all(&into).unwrap();
    }
    assert!(!std::path::Path::new("/tmp/whatif-archive-new").exists());
}

#[test]
fn each_is_refused_as_it_is() {
    each_is_refused();
}

#[test]
fn each_is_refused_as_an_ordinary_user() {
    as_ordinary_user("each_is_refused_child");
}

#[test]
#[ignore = "run by another test"]
fn each_is_refused_child() {
    assert!(!is_root());
    each_is_refused();
}

/// The writer of these tests can write right archives, too; else a refusal would mean nothing.
#[test]
fn the_same_without_malice_is_accepted() {
    let scene = Scene::new();
    let into = scene.directory("into");
    let archive = archive_of(vec![
        directory("a/d").with("SCHILY.xattr.user.x", b"1").with("WHATIF.overlay.opaque", b"y"),
        file("a/d/f", b"content").with("SCHILY.xattr.user.y", b"2"),
        file("a/f", b""),
        link("a/l", "../../canary"),
        item("a/p", b'6'),
        whiteout("a/w"),
        hard_link("a/z", "a/d/f"),
    ]);
    unpacked(&archive, &into, &options()).unwrap();
    assert_eq!(fs::read(into.join("a/z")).unwrap(), b"content");
    assert_eq!(snapshot(&into.join("a")).len(), 8);
    let nothing = raw_nothing();
    assert_eq!(unpacked(&nothing, &scene.directory("empty"), &options()).unwrap().manifest.layers, []);
}

fn raw_nothing() -> Vec<u8> {
    archive(&manifest(vec![]), &body(&[]))
}

/// What is there already is not written to, not even through a link that somebody put there.
#[test]
fn what_is_in_the_way_is_not_touched() {
    let scene = Scene::new();
    let (into, canary) = (scene.directory("into"), scene.directory("canary"));
    symlink(&canary, into.join("a")).unwrap();
    let error = unpacked(&archive_of(vec![file("a/f", b"x")]), &into, &options()).unwrap_err();
    assert!(matches!(error, E::Io { .. }), "{error:?}");
    assert_eq!(error.code(), "io_error");
    assert_eq!(fs::read_dir(&canary).unwrap().count(), 0);
}
