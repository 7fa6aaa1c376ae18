use std::fs;
use std::path::{Path, PathBuf};

use whatif_overlay::Format;

use super::*;
use crate::change::{ChangeKind, State};
use crate::node::Node;

/// Two trees: what a sandbox started from and what it has, as the paths beneath `/`.
struct Trees(PathBuf);

impl Trees {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("whatif-packages-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        Self(root)
    }

    fn write(&self, side: &str, path: &str, text: &str) {
        let path = self.0.join(side).join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, side: &str, path: &str, target: &str) {
        let path = self.0.join(side).join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    /// Of these paths, which are in order.
    fn packages(&self, paths: &[&str]) -> Packages {
        let state = |side: &str, path: &str| {
            let at = self.0.join(side).join(path.trim_start_matches('/'));
            Node::of(&at).unwrap().map(|node| State::new(node, at, Format::None))
        };
        let change = |path: &&str| Change::new(path.into(), ChangeKind::Modify, state("old", path), state("new", path));
        assert!(paths.is_sorted());
        Packages::among(&paths.iter().map(change).collect::<Vec<_>>(), Path::new("/work"))
    }
}

impl Drop for Trees {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const BASE: &str = "Package: base\nStatus: install ok installed\nVersion: 1\n\n";
const HELLO: &str = "Package: hello\nStatus: install ok installed\nVersion: 2.1\n\n";

#[test]
fn what_dpkg_brought_is_one_group_with_its_database() {
    let trees = Trees::new("dpkg");
    trees.write("old", "var/lib/dpkg/status", BASE);
    trees.write("new", "var/lib/dpkg/status", &format!("{BASE}{HELLO}"));
    trees.write("new", "var/lib/dpkg/info/hello.list", "/.\n/bin\n/bin/hello\n/usr/lib/python3/dist-packages/h/a.py\n/etc/hello\n");
    trees.link("new", "usr/bin/hi", "/etc/alternatives/hi");
    for plain in ["etc/hello", "etc/hosts", "usr/bin/hello", "usr/lib/python3/dist-packages/h/__pycache__/a.cpython-311.pyc"] {
        trees.write("new", plain, "x");
    }
    let paths = [
        "/etc/hello",
        "/etc/hosts",
        "/usr/bin/hello",
        "/usr/bin/hi",
        "/usr/lib/python3/dist-packages/h/__pycache__/a.cpython-311.pyc",
        "/var/lib/dpkg/info/hello.list",
        "/var/lib/dpkg/status",
    ];
    let packages = trees.packages(&paths);
    let [group] = packages.groups() else { panic!("{packages:?}") };
    assert_eq!((group.manager, group.files, group.counts().in_words().as_str()), (Manager::Apt, 5, "+1 package"));
    assert_eq!(group.packages, [Package { name: "hello".into(), before: None, after: Some("2.1".into()) }]);
    assert!(packages.around(Path::new("/etc/hosts")).is_none());
    assert!(["apt", "hello", "apt:hello"].into_iter().all(|word| group.is_called(word)));
    assert!(["pip:hello", "base", "apt:", ""].into_iter().all(|word| !group.is_called(word)));
}

#[test]
fn a_database_that_says_nothing_new_makes_no_group() {
    let trees = Trees::new("same");
    trees.write("old", "var/lib/dpkg/status", BASE);
    trees.write("new", "var/lib/dpkg/status", &format!("{BASE}\n"));
    assert!(trees.packages(&["/var/lib/dpkg/status"]).groups().is_empty());
}

#[test]
fn packages_of_python_are_groups_of_their_own() {
    let trees = Trees::new("pip");
    let place = "p/.venv/lib/python3.11/site-packages";
    trees.write("new", &format!("{place}/tiny-1.0.dist-info/RECORD"), "tiny.py,,\n../../../bin/tiny,,\n../../../../Makefile,,\n");
    trees.write("old", &format!("{place}/big-1.dist-info/RECORD"), "big/__init__.py,,\n");
    trees.write("new", &format!("{place}/big-2.dist-info/RECORD"), "big/__init__.py,,\n");
    for file in ["p/.venv/bin/tiny", "p/Makefile", &format!("{place}/tiny.py"), &format!("{place}/big/__init__.py")] {
        trees.write("new", file, "x");
    }
    let place = format!("/{place}");
    let paths = [
        "/p/.venv/bin/tiny".to_owned(),
        format!("{place}/big-1.dist-info/RECORD"),
        format!("{place}/big-2.dist-info/RECORD"),
        format!("{place}/big/__init__.py"),
        format!("{place}/tiny-1.0.dist-info/RECORD"),
        format!("{place}/tiny.py"),
        "/p/Makefile".to_owned(),
    ];
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let packages = trees.packages(&paths);
    let shown: Vec<(String, usize, String)> =
        packages.groups().iter().map(|g| (g.packages[0].name.clone(), g.files, g.counts().in_words())).collect();
    assert_eq!(
        shown,
        [("big".to_owned(), 3, "1 package in another version".to_owned()), ("tiny".to_owned(), 3, "+1 package".to_owned())]
    );
    assert!(packages.around(Path::new("/p/Makefile")).is_none());
}

#[test]
fn a_tree_of_node_is_one_group_and_what_is_global_is_not() {
    let trees = Trees::new("npm");
    let manifest = |version: &str| format!("{{\"version\": \"{version}\"}}");
    trees.write("old", "p/node_modules/a/package.json", &manifest("1.0.0"));
    trees.write("new", "p/node_modules/a/package.json", &manifest("2.0.0"));
    trees.write("new", "p/node_modules/a/node_modules/b/package.json", &manifest("1.0.0"));
    trees.write("new", "p/node_modules/a/test/package.json", &manifest("9.0.0"));
    trees.write("new", "u/lib/node_modules/c/package.json", &manifest("3.0.0"));
    trees.link("new", "u/bin/c", "../lib/node_modules/c/c.js");
    trees.link("new", "u/bin/other", "../lib/x");
    let packages = trees.packages(&[
        "/p/node_modules/a/node_modules/b/package.json",
        "/p/node_modules/a/package.json",
        "/p/node_modules/a/test/package.json",
        "/u/bin/c",
        "/u/bin/other",
        "/u/lib/node_modules/c/package.json",
    ]);
    let shown: Vec<(String, usize, String)> =
        packages.groups().iter().map(|g| (g.root.display().to_string(), g.files, g.counts().in_words())).collect();
    assert_eq!(
        shown,
        [
            ("/p/node_modules".to_owned(), 3, "+1 package, 1 in another version".to_owned()),
            ("/u/lib/node_modules/c".to_owned(), 2, "+1 package".to_owned())
        ]
    );
}

#[test]
fn a_forged_record_claims_nothing_that_was_there_before() {
    let trees = Trees::new("forged");
    for edited in ["p/app.py", "p/lib/site-packages/mine.py"] {
        trees.write("old", edited, "mine");
        trees.write("new", edited, "theirs");
    }
    trees.write("old", "p/lib/site-packages/gone.py", "mine");
    let forged = "app.py,,\nmine.py,,\ngone.py,,\nfoo.py,,\n.git/HEAD,,\n";
    trees.write("new", "p/foo-1.0.dist-info/RECORD", forged);
    trees.write("new", "p/lib/site-packages/foo-1.0.dist-info/RECORD", forged);
    for new in ["p/.git/HEAD", "p/lib/site-packages/.git/HEAD", "p/lib/site-packages/foo.py"] {
        trees.write("new", new, "x");
    }
    let paths = [
        "/p/.git/HEAD",
        "/p/app.py",
        "/p/foo-1.0.dist-info/RECORD",
        "/p/lib/site-packages/.git/HEAD",
        "/p/lib/site-packages/foo-1.0.dist-info/RECORD",
        "/p/lib/site-packages/foo.py",
        "/p/lib/site-packages/gone.py",
        "/p/lib/site-packages/mine.py",
    ];
    // A list that claims what was there is not believed in anything.
    assert!(trees.packages(&paths).groups().is_empty());
    trees.write("new", "p/lib/site-packages/foo-1.0.dist-info/RECORD", "foo.py,,\n.git/HEAD,,\n");
    let packages = trees.packages(&paths);
    assert_eq!(claimed(&packages, &paths), [paths[4], paths[5]]);
}

fn claimed<'a>(packages: &Packages, paths: &[&'a str]) -> Vec<&'a str> {
    paths.iter().copied().filter(|path| packages.around(Path::new(path)).is_some()).collect()
}

#[test]
fn a_list_claims_nothing_that_reality_has_unchanged() {
    let trees = Trees::new("unchanged");
    let place = trees.0.join("real/lib/python3/site-packages");
    fs::create_dir_all(place.join("known")).unwrap();
    fs::write(trees.0.join("real/lib/python3/site-packages/known/a.py"), "mine").unwrap();
    let record = place.join("foo-1.0.dist-info/RECORD").display().to_string();
    trees.write("new", &record, "foo.py,,\nknown,,\n");
    assert_eq!(trees.packages(&[&record]).groups().len(), 1, "directories may be shared");
    trees.write("new", &record, "foo.py,,\nknown/a.py,,\n");
    assert!(trees.packages(&[&record]).groups().is_empty());
}

#[test]
fn what_is_compiled_belongs_to_a_package_if_its_source_does() {
    let trees = Trees::new("compiled");
    let place = "v/lib/python3/site-packages";
    trees.write("new", &format!("{place}/z-1.0.dist-info/RECORD"), "z.py,,\nold.py,,\n");
    trees.write("new", &format!("{place}/z.py"), "x");
    trees.write("new", &format!("{place}/__pycache__/z.cpython-311.pyc"), "x");
    trees.write("old", &format!("{place}/__pycache__/old.cpython-311.pyc"), "x");
    trees.write("new", &format!("{place}/__pycache__/old.cpython-311.pyc"), "y");
    trees.link("new", &format!("{place}/__pycache__/z.sh"), "../../../../x");
    let paths = [
        format!("/{place}/__pycache__/old.cpython-311.pyc"),
        format!("/{place}/__pycache__/z.cpython-311.pyc"),
        format!("/{place}/__pycache__/z.sh"),
        format!("/{place}/z-1.0.dist-info/RECORD"),
        format!("/{place}/z.py"),
    ];
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    assert_eq!(claimed(&trees.packages(&paths), &paths), [paths[1], paths[3], paths[4]]);
}

#[test]
fn what_a_person_keeps_in_the_project_is_never_of_a_package() {
    let trees = Trees::new("kept");
    for (path, before, after) in [
        ("work/node_modules/a/package.json", "{\"version\": \"1\"}", "{\"version\": \"2\"}"),
        ("work/node_modules/a/x.js", "mine", "theirs"),
        ("u/node_modules/a/package.json", "{\"version\": \"1\"}", "{\"version\": \"2\"}"),
        ("u/node_modules/a/x.js", "1", "2"),
        ("u/node_modules/b/x.js", "mine", "theirs"),
    ] {
        trees.write("old", path, before);
        trees.write("new", path, after);
    }
    trees.write("new", "work/node_modules/a/new.js", "x");
    let paths = [
        "/u/node_modules/a/package.json",
        "/u/node_modules/a/x.js",
        "/u/node_modules/b/x.js",
        "/work/node_modules/a/new.js",
        "/work/node_modules/a/package.json",
        "/work/node_modules/a/x.js",
    ];
    let packages = trees.packages(&paths);
    assert_eq!(claimed(&packages, &paths), [paths[0], paths[1], paths[3]], "another package's file, and the project's own");
}

#[test]
fn a_project_in_a_package_is_not_part_of_it() {
    let trees = Trees::new("around");
    trees.write("old", "node_modules/work/package.json", "{\"version\": \"1\"}");
    trees.write("new", "node_modules/work/package.json", "{\"version\": \"2\"}");
    let state = |side: &str| {
        let at = trees.0.join(side).join("node_modules/work/package.json");
        Node::of(&at).unwrap().map(|node| State::new(node, at, Format::None))
    };
    let change = || Change::new("/node_modules/work/package.json".into(), ChangeKind::Modify, state("old"), state("new"));
    assert_eq!(Packages::among(&[change()], Path::new("/elsewhere")).groups().len(), 1);
    assert!(Packages::among(&[change()], Path::new("/node_modules/work")).groups().is_empty());
}

#[test]
fn a_name_in_dpkgs_status_is_no_path() {
    let trees = Trees::new("names");
    let forged = trees.0.join("forged").display().to_string();
    fs::create_dir_all(&trees.0).unwrap();
    fs::write(format!("{forged}.list"), "/usr/bin/git\n").unwrap();
    trees.write("old", "var/lib/dpkg/status", BASE);
    trees.write("new", "var/lib/dpkg/status", &format!("{BASE}{HELLO}{}", HELLO.replace("hello", &forged)));
    trees.write("new", "var/lib/dpkg/info/base.postinst", "x");
    trees.write("new", "var/lib/dpkg/info/hello.postinst", "x");
    trees.write("old", "usr/bin/git", "1");
    trees.write("new", "usr/bin/git", "2");
    let paths = ["/usr/bin/git", "/var/lib/dpkg/info/base.postinst", "/var/lib/dpkg/info/hello.postinst", "/var/lib/dpkg/status"];
    let packages = trees.packages(&paths);
    assert_eq!(claimed(&packages, &paths), [paths[2], paths[3]]);
    assert_eq!(packages.groups()[0].packages.len(), 1);
}

#[test]
fn the_name_of_a_manager_is_no_package() {
    let group = |manager, name: &str| PackageGroup {
        manager,
        root: "/r".into(),
        packages: vec![Package { name: name.to_owned(), before: None, after: Some("1".to_owned()) }],
        files: 1,
    };
    let (pip, npm) = (group(Manager::Pip, "req"), group(Manager::Npm, "pip"));
    assert!(pip.is_called("pip") && !npm.is_called("pip") && npm.is_called("npm:pip"));
    assert!(pip.is_called("req") && pip.is_called("pip:req") && !group(Manager::Npm, "pip:req").is_called("pip:req"));
}
