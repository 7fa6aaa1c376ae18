//! What is read is what was written, in every respect, as root and as an ordinary user, and from one to the other.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use support::*;
use whatif_archive::{ArchiveError, Layer, Limits, Manifest, Options, measure, read_manifest};
use whatif_overlay::Format;

/// An access list: owner rwx, user 1000 r--, group r-x, mask r-x, others nothing.
fn access_list() -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in [(1_u16, 7_u16, u32::MAX), (2, 4, 1000), (4, 5, u32::MAX), (16, 5, u32::MAX), (32, 0, u32::MAX)] {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mark(path: &Path, name: &str, value: &[u8]) {
    let prefix = if own_marks() == Format::Trusted { "trusted" } else { "user" };
    set_attribute(path, &format!("{prefix}.overlay.{name}"), value);
}

/// Some of everything.
fn fill(root: &Path) {
    fs::create_dir_all(root.join("0/deep/er")).unwrap();
    fs::create_dir(root.join("base")).unwrap();
    let file = |name: &str, content: &[u8], mode: u32| {
        let path = root.join(name);
        fs::write(&path, content).unwrap();
        chmod(&path, mode);
        path
    };
    file("0/empty", b"", 0o644);
    file("0/text", b"hello\n", 0o600);
    file("0/exactly-a-block", &[7; 512], 0o444);
    file("0/large", &(0..300_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>(), 0o755);
    file("0/set-id", b"#!", 0o6755);
    let attributes = file("0/attributes", b"x", 0o644);
    set_attribute(&attributes, "user.note", b"value\n=\0");
    set_attribute(&attributes, "user.a=b%c", b"");
    set_attribute(&attributes, "user.long", &[b'v'; 1500]);
    set_attribute(&attributes, "system.posix_acl_access", &access_list());
    mark(&attributes, "origin", b"");
    let sparse = fs::File::create(root.join("0/sparse")).unwrap();
    sparse.set_len(5 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"middle", 2 << 20).unwrap();
    file("0/deep/er/linked", b"one file, three names", 0o640);
    fs::hard_link(root.join("0/deep/er/linked"), root.join("0/another")).unwrap();
    fs::hard_link(root.join("0/deep/er/linked"), root.join("0/zzz")).unwrap();
    file(&format!("0/{}", "n".repeat(255)), b"long name", 0o644);
    let long = root.join("0").join("d".repeat(200)).join("e".repeat(200));
    fs::create_dir_all(&long).unwrap();
    fs::write(long.join("f"), b"long path").unwrap();
    fs::hard_link(long.join("f"), long.join("g")).unwrap();
    fs::write(root.join("0").join(odd_name()), b"odd").unwrap();
    symlink("../../etc/passwd", root.join("0/link")).unwrap();
    symlink("t".repeat(300), root.join("0/long-link")).unwrap();
    set_mtime(&root.join("0/link"), 1_500_000_000, 123_456_789);
    pipe(&root.join("0/pipe"));
    whiteout(&root.join("0/gone"));
    // Overlayfs gives all its whiteouts one inode.
    fs::hard_link(root.join("0/gone"), root.join("0/gone-too")).unwrap();
    mark(&root.join("0/deep"), "opaque", b"y");
    set_attribute(&root.join("0/deep/er"), "system.posix_acl_default", &access_list());
    // After its content: a hard link leads into a directory that its owner may not enter afterwards.
    fs::create_dir(root.join("0/locked")).unwrap();
    fs::write(root.join("0/locked/first"), b"x").unwrap();
    fs::create_dir(root.join("0/locked/in")).unwrap();
    chmod(&root.join("0/locked/in"), 0o511);
    fs::hard_link(root.join("0/locked/first"), root.join("0/out-of-locked")).unwrap();
    chmod(&root.join("0/locked"), 0o555);
    // Nobody but root could read these back.
    if is_root() {
        chmod(&root.join("0/locked"), 0o044);
        chmod(&root.join("0/locked/in"), 0);
    }
    set_mtime(&root.join("0/empty"), -5, 250_000_000);
    set_mtime(&root.join("0/text"), 0, 0);
    set_mtime(&root.join("0/deep"), 1_234_567_890, 1);
    chmod(&root.join("0/deep"), 0o2771);
    if is_root() {
        std::os::unix::fs::lchown(root.join("0/link"), Some(33), Some(3_000_000)).unwrap();
        std::os::unix::fs::chown(root.join("0/text"), Some(1_000_000_000), Some(65_534)).unwrap();
        let able = root.join("0/able");
        fs::write(&able, b"x").unwrap();
        set_attribute(&able, "security.capability", &capability());
        mark(&root.join("0/deep/er"), "redirect", b"/some/where");
        mark(&root.join("0/deep/er"), "protattr", b"ai");
        fs::create_dir(root.join("0/beside")).unwrap();
        mark(&root.join("0/beside"), "redirect", b"neighbour");
    }
}

/// `cap_net_raw=ep`.
fn capability() -> Vec<u8> {
    [0x0200_0001_u32, 1 << 13, 0, 0, 0].iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn everything_survives() {
    let scene = Scene::new();
    let (first, second) = (scene.directory("first"), scene.directory("second"));
    fill(&first);
    fs::write(second.join("only"), b"one").unwrap();
    let layers = [layer("one", &first), layer("two", &second)];
    let (archive, written) = packed(&layers);
    assert_eq!(written.left_out, Default::default());

    let into = scene.directory("into");
    let mut told = Vec::new();
    let judge = |_: &Manifest| Ok::<_, ArchiveError>(());
    let (extracted, ()) = whatif_archive::read(&archive[..], &into, &options(), judge, &mut |bytes| told.push(bytes)).unwrap();
    assert_same(&snapshot(&into.join("one")), &snapshot(&first));
    assert_same(&snapshot(&into.join("two")), &snapshot(&second));
    assert_eq!(fs::read_dir(&into).unwrap().count(), 2);
    assert_eq!(extracted.manifest, written.manifest);
    assert_eq!(extracted.manifest.about["made"], "by a test");
    assert_eq!(told.last().copied(), Some(written.manifest.layers.iter().map(|l| l.bytes).sum()));
    assert!(told.is_sorted());

    // What lies on disk now has the digest that the manifest has.
    assert_eq!(measure(&layer("one", &into.join("one"))).unwrap(), written.manifest.layers[0]);
    // The same layers are the same archive.
    assert_eq!(packed(&[layer("one", &into.join("one")), layer("two", &into.join("two"))]).0, archive);

    let path = scene.base.join("archive");
    fs::write(&path, &archive).unwrap();
    assert_eq!(read_manifest(&path).unwrap(), (written.manifest.clone(), written.digest.clone()));
    // The beginning is enough.
    fs::write(&path, &archive[..archive.len() - 100]).unwrap();
    assert_eq!(read_manifest(&path).unwrap(), (written.manifest.clone(), written.digest.clone()));
}

#[test]
fn everything_survives_as_it_is() {
    everything_survives();
}

#[test]
fn everything_survives_as_an_ordinary_user() {
    as_ordinary_user("everything_survives_child");
}

#[test]
#[ignore = "run by another test"]
fn everything_survives_child() {
    assert!(!is_root());
    everything_survives();
}

/// Made by root, read by a user: the hard link leads into a directory that the user may not enter in the end.
#[test]
fn hard_links_lead_out_of_closed_directories() {
    as_ordinary_user("closed_directories_child");
}

#[test]
#[ignore = "run by another test"]
fn closed_directories_child() {
    assert!(!is_root());
    let scene = Scene::new();
    let into = scene.directory("into");
    let closed = |path: &str, mode: u64| raw::Item { mode, ..raw::directory(path) };
    let items = vec![
        closed("a/d", 0o600),
        closed("a/d/e", 0),
        raw::file("a/d/e/f", b"x"),
        raw::hard_link("a/g", "a/d/e/f"),
        closed("a/h", 0o500),
    ];
    unpacked(&raw::archive_of(items), &into, &options()).unwrap();
    assert_eq!(fs::read(into.join("a/g")).unwrap(), b"x");
    assert_eq!(fs::metadata(into.join("a/g")).unwrap().nlink(), 2);
    let mode = |path: &str| fs::metadata(into.join(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode("a/d"), mode("a/h")), (0o600, 0o500));
    assert!(fs::metadata(into.join("a/d/e")).is_err());
    chmod(&into.join("a/d"), 0o700);
    assert_eq!(mode("a/d/e"), 0);
}

#[test]
fn holes_come_back() {
    let scene = Scene::new();
    let (from, into) = (scene.directory("from"), scene.directory("into"));
    fs::File::create(from.join("image")).unwrap().set_len(64 << 20).unwrap();
    unpacked(&packed(&[layer("a", &from)]).0, &into, &options()).unwrap();
    let metadata = fs::metadata(into.join("a/image")).unwrap();
    assert_eq!(metadata.len(), 64 << 20);
    assert_eq!(metadata.blocks(), 0);
}

#[test]
fn any_tar_reads_it() {
    let scene = Scene::new();
    let from = scene.directory("from");
    fill(&from);
    let path = scene.base.join("plain.tar");
    let (head, body) = raw::decompressed(&packed(&[layer("one", &from)]).0);
    fs::write(&path, [head, body].concat()).unwrap();
    let into = scene.directory("into");
    let output = Command::new("tar").args(["--xattrs", "--xattrs-include=user.*", "-xpf"]).arg(&path).arg("-C").arg(&into).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.lines().all(|line| line.contains("Ignoring unknown extended header") || line.contains("implausibly old")),
        "{said}"
    );
    let check = Command::new("sha256sum").args(["-c", "manifest.sha256"]).current_dir(&into).output().unwrap();
    assert!(check.status.success());
    let plain = |tree: &Path| -> BTreeMap<_, _> {
        let strip = |mut shown: Shown| {
            let is_plain = |name: &[u8]| name.starts_with(b"user.") && !name.starts_with(b"user.overlay.");
            shown.attributes.retain(|name, _| is_plain(name.as_encoded_bytes()));
            (shown.kind, shown.content, shown.mtime, shown.first_name, shown.attributes)
        };
        snapshot(tree).into_iter().map(|(path, shown)| (path, strip(shown))).collect()
    };
    let (found, expected) = (plain(&into.join("one")), plain(&from));
    for (path, shown) in &expected {
        assert_eq!(found.get(path), Some(shown), "{}", path.display());
    }
}

#[test]
fn sockets_devices_and_foreign_marks_are_left_out_and_counted() {
    let scene = Scene::new();
    let (from, into) = (scene.directory("from"), scene.directory("into"));
    let _socket = UnixListener::bind(from.join("socket")).unwrap();
    fs::write(from.join("file"), b"x").unwrap();
    let mut devices = 0;
    let mut attributes = 0;
    if is_root() {
        // Whatever ran inside can set these, and must not be taken for overlayfs.
        set_attribute(&from, "user.overlay.opaque", b"y");
        set_attribute(&from.join("file"), "user.overlay.redirect", b"/etc");
        set_attribute(&from.join("file"), "trusted.other", b"y");
        // Bookkeeping is neither kept nor counted.
        set_attribute(&from, "trusted.overlay.impure", b"y");
        let null = rustix::fs::makedev(1, 3);
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(rustix::fs::CWD, from.join("null"), rustix::fs::FileType::CharacterDevice, mode, null).unwrap();
        (devices, attributes) = (1, 3);
    }
    let copied = ["socket", "null"].map(str::to_owned).to_vec();
    let (archive, written) = packed(&[Layer { copied, ..layer("a", &from) }]);
    assert_eq!((written.left_out.sockets, written.left_out.devices), (1, devices));
    assert_eq!(written.left_out.attributes, attributes);
    unpacked(&archive, &into, &options()).unwrap();
    let found = snapshot(&into.join("a"));
    assert_eq!(found.keys().map(|p| p.to_str().unwrap()).collect::<Vec<_>>(), ["", "file"]);
    assert!(found.values().all(|shown| shown.attributes.is_empty()));
}

#[test]
fn what_a_socket_hides_stays_hidden_but_in_a_copy() {
    let scene = Scene::new();
    let (from, into) = (scene.directory("from"), scene.directory("into"));
    let _sockets = ["0", "1"].map(|part| {
        fs::create_dir(from.join(part)).unwrap();
        UnixListener::bind(from.join(part).join("socket")).unwrap()
    });
    let (archive, written) = packed(&[Layer { copied: vec!["1".to_owned()], ..layer("a", &from) }]);
    assert_eq!(written.left_out.sockets, 2);
    unpacked(&archive, &into, &options()).unwrap();
    let found: Vec<_> = snapshot(&into.join("a")).into_keys().collect();
    assert_eq!(found, ["", "0", "0/socket", "1"].map(std::path::PathBuf::from));
}

#[test]
fn a_file_without_its_content_is_not_archived() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let from = scene.directory("from");
    fs::write(from.join("file"), b"").unwrap();
    set_attribute(&from.join("file"), "trusted.overlay.metacopy", b"");
    let error = whatif_archive::write(Vec::new(), serde_json::Value::Null, &[layer("a", &from)], &mut |_| {}).unwrap_err();
    assert!(matches!(error, ArchiveError::Unsupported { .. }), "{error:?}");
}

/// Root's layer, read as an ordinary user would, and back.
#[test]
fn marks_change_their_names_with_their_owner() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let from = scene.directory("from");
    fs::create_dir(from.join("opaque")).unwrap();
    set_attribute(&from.join("opaque"), "trusted.overlay.opaque", b"y");
    set_attribute(&from.join("opaque"), "trusted.overlay.origin", b"a handle of this machine");
    whiteout(&from.join("gone"));
    fs::write(from.join("able"), b"x").unwrap();
    // In this order: a change of owner takes capabilities away.
    std::os::unix::fs::chown(from.join("able"), Some(33), Some(33)).unwrap();
    set_attribute(&from.join("able"), "security.capability", &capability());

    let as_user = Options { marks: Format::User, keep_owners: false, limits: Limits::default() };
    let into = scene.directory("user");
    let extracted = unpacked(&packed(&[layer("a", &from)]).0, &into, &as_user).unwrap();
    assert_eq!(extracted.capabilities_left_out, 1);
    let found = snapshot(&into.join("a"));
    let marks = &found[Path::new("opaque")].attributes;
    assert_eq!(marks.len(), 2);
    assert_eq!(marks[std::ffi::OsStr::new("user.overlay.opaque")], b"y");
    assert_eq!(marks[std::ffi::OsStr::new("user.overlay.origin")], b"");
    assert_eq!((found[Path::new("gone")].kind, found[Path::new("gone")].device), ('c', 0));
    assert_eq!(found[Path::new("able")].owner, (0, 0));
    assert!(found[Path::new("able")].attributes.is_empty());

    let mut back = layer("a", &into.join("a"));
    back.marks = Format::User;
    let into = scene.directory("root");
    unpacked(&packed(&[back]).0, &into, &options()).unwrap();
    let found = snapshot(&into.join("a"));
    assert_eq!(found[Path::new("opaque")].attributes[std::ffi::OsStr::new("trusted.overlay.opaque")], b"y");
    assert_eq!(found[Path::new("opaque")].attributes.len(), 2);
}

/// The kernel itself takes what comes out of an archive for what went in.
#[test]
fn an_overlay_on_the_layer_shows_the_same() {
    let scene = Scene::new();
    let script = r#"set -e; cd "$1"; mkdir lower upper work merged into
        mkdir lower/renamed lower/replaced; echo low > lower/renamed/file; echo low > lower/replaced/file; echo low > lower/gone
        mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work,redirect_dir=on,index=off,metacopy=off merged
        mv merged/renamed merged/moved; echo new > merged/moved/new; rm merged/gone
        rm -r merged/replaced; mkdir merged/replaced; echo new > merged/replaced/new; umount merged"#;
    let again = r#"set -e; cd "$1"; mount -t overlay overlay -o lowerdir=into/a:lower,redirect_dir=on merged; cd merged
        find . -type f | sort | xargs grep ."#;
    let run = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]).arg(&scene.base);
        command.output().unwrap()
    };
    let made = run(script);
    if !is_root() || !made.status.success() {
        assert!(!is_root() || !Path::new("/proc/filesystems").exists() || !has_overlay(), "{made:?}");
        return;
    }
    unpacked(&packed(&[layer("a", &scene.base.join("upper"))]).0, &scene.base.join("into"), &options()).unwrap();
    let shown = run(again);
    assert!(shown.status.success(), "{shown:?}");
    let expected = "./moved/file:low\n./moved/new:new\n./replaced/new:new\n";
    assert_eq!(String::from_utf8_lossy(&shown.stdout), expected);
}

fn has_overlay() -> bool {
    fs::read_to_string("/proc/filesystems").unwrap().contains("overlay")
}

#[test]
fn a_layer_that_changes_meanwhile_is_an_error() {
    let scene = Scene::new();
    let from = scene.directory("from");
    fs::write(from.join("file"), b"before").unwrap();
    let mut calls = 0;
    let result = whatif_archive::write(Vec::new(), serde_json::Value::Null, &[layer("a", &from)], &mut |_| {
        calls += 1;
        if calls == 1 {
            fs::write(from.join("file"), b"after!").unwrap();
        }
    });
    assert!(matches!(result, Err(ArchiveError::Changed { .. })), "{result:?}");
}

#[test]
fn ids_that_are_no_names_are_refused() {
    let scene = Scene::new();
    let from = scene.directory("from");
    for id in ["", ".", "..", "a/b", "a b", "ä", &"x".repeat(65)] {
        let result = whatif_archive::write(Vec::new(), serde_json::Value::Null, &[layer(id, &from)], &mut |_| {});
        assert!(matches!(result, Err(ArchiveError::LayerId { .. })), "{id}: {result:?}");
    }
    let twice = [layer("a", &from), layer("a", &from)];
    let result = whatif_archive::write(Vec::new(), serde_json::Value::Null, &twice, &mut |_| {});
    assert!(matches!(result, Err(ArchiveError::Manifest { .. })), "{result:?}");
}

#[derive(Clone, Debug)]
enum Node {
    File(Vec<u8>, u32, i64),
    Link(String),
    Whiteout,
    Pipe,
    Same,
    Directory(u32, bool, BTreeMap<String, Node>),
}

fn node() -> impl Strategy<Value = Node> {
    let mode = prop_oneof![Just(0o644), Just(0o755), Just(0o4711), Just(0o400)];
    let leaf = prop_oneof![
        5 => (proptest::collection::vec(any::<u8>(), 0..1500), mode, any::<i32>()).prop_map(|(c, m, t)| Node::File(c, m, t.into())),
        1 => "[a-z/.]{1,130}".prop_map(Node::Link),
        1 => Just(Node::Whiteout),
        1 => Just(Node::Pipe),
        1 => Just(Node::Same),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let mode = prop_oneof![Just(0o755), Just(0o700), Just(0o2775), Just(0o1777), Just(0o555)];
        (mode, any::<bool>(), names(inner)).prop_map(|(m, o, c)| Node::Directory(m, o, c))
    })
}

fn names(node: impl Strategy<Value = Node>) -> impl Strategy<Value = BTreeMap<String, Node>> {
    proptest::collection::btree_map("[a-c.=%]{1,3}x|[ -.0-~]{90,110}y", node, 0..6)
}

fn make(path: &Path, node: &Node, first: &Path) {
    match node {
        Node::File(content, mode, time) => {
            fs::write(path, content).unwrap();
            set_attribute(path, "user.n", &content[..content.len().min(20)]);
            chmod(path, *mode);
            set_mtime(path, *time, i64::from(*mode) * 7);
        }
        Node::Link(to) => symlink(to, path).unwrap(),
        Node::Whiteout => whiteout(path),
        Node::Pipe => pipe(path),
        Node::Same => fs::hard_link(first, path).unwrap(),
        Node::Directory(mode, is_opaque, children) => {
            fs::create_dir(path).unwrap();
            children.iter().for_each(|(name, child)| make(&path.join(name), child, first));
            if *is_opaque {
                mark(path, "opaque", b"y");
            }
            chmod(path, *mode);
            set_mtime(path, 1_600_000_000, i64::from(*mode));
        }
    }
}

fn random_trees_survive(cases: u32) {
    let mut runner =
        proptest::test_runner::TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) });
    runner
        .run(&names(node()), |tree| {
            let scene = Scene::new();
            let (from, into) = (scene.directory("from"), scene.directory("into"));
            fs::write(from.join("many"), b"names").unwrap();
            tree.iter().for_each(|(name, node)| make(&from.join(name), node, &from.join("many")));
            let (archive, written) = packed(&[layer("a", &from)]);
            unpacked(&archive, &into, &options()).unwrap();
            assert_same(&snapshot(&into.join("a")), &snapshot(&from));
            assert_eq!(measure(&layer("a", &into.join("a"))).unwrap(), written.manifest.layers[0]);
            Ok(())
        })
        .unwrap();
}

#[test]
fn random_trees_survive_as_they_are() {
    random_trees_survive(150);
}

#[test]
fn random_trees_survive_as_an_ordinary_user() {
    as_ordinary_user("random_trees_child");
}

#[test]
#[ignore = "run by another test"]
fn random_trees_child() {
    assert!(!is_root());
    random_trees_survive(100);
}
