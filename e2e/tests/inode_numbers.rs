//! Devices and inode numbers: what a view shows is one file system to `du -x`, `find -xdev`, `tar --one-file-system`, `rsync -x`.

use serde_json::Value;
use whatif_e2e::{World, as_root, as_root_and_user, needs};

// For an ordinary user, the kernel does this only where no mask lies over a tree. The home has masks.
as_root!(
    a_tree_is_as_large_as_outside,
    a_tree_is_one_device_with_the_numbers_of_its_listings,
    numbers_stay_when_a_file_changes_and_when_the_view_is_renewed,
);
as_root_and_user!(the_system_is_as_large_as_outside, what_reality_adds_to_a_directory_of_the_sandbox_is_seen);

/// Prints, for everything below the project, its number as `path: number`, and what is wrong: another device than the project's, or
/// another number in the listing of its directory.
const WALK: &str = r#"
import json, os
top = os.stat(".")
wrong, numbers = [], {".": top.st_ino}
def walk(directory):
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            stat = os.stat(entry.path, follow_symlinks=False)
            if stat.st_dev != top.st_dev: wrong.append(entry.path + ": on another device")
            if stat.st_ino != entry.inode(): wrong.append(f"{entry.path}: listed as {entry.inode()}, is {stat.st_ino}")
            numbers[entry.path] = stat.st_ino
            if entry.is_dir(follow_symlinks=False): walk(entry.path)
walk(".")
print(json.dumps([wrong, numbers]))
"#;

fn plant(w: &World) {
    w.outside(
        "mkdir -p a/b/c empty && for i in 1 2 3 4 5 6 7 8; do echo $i > a/$i; echo $i > a/b/$i; echo $i > a/b/c/$i; done
         ln -s a link && ln a/1 a/one",
    )
    .ok();
}

#[track_caller]
fn numbers(w: &World, sandbox: &str) -> Value {
    let found: Value = serde_json::from_str(w.python(sandbox, WALK).ok().text()).expect("it prints JSON");
    assert_eq!(found[0], serde_json::json!([]));
    found[1].clone()
}

/// The system is read-only for an ordinary user, and part of the tree of root.
fn the_system_is_as_large_as_outside(w: &World) {
    for directory in ["/usr/share", "/var/lib/dpkg", "/etc/alternatives"] {
        let measure = format!("find {directory} -xdev 2>/dev/null | sort | md5sum; du -xsk {directory} 2>/dev/null; true");
        assert_eq!(w.inside(&measure).ok().stdout, w.outside(&measure).ok().stdout, "{directory}");
    }
    let split = "for f in /etc/passwd /etc/hostname; do [ $(stat -c %d $f) = $(stat -c %d /etc) ] || echo $f; done";
    assert_eq!(w.inside(split).ok().stdout, "");
}

/// In a home, masks lie over it.
fn a_tree_is_as_large_as_outside(w: &World) {
    plant(w);
    let measure = "du -xsk .; find . -xdev | wc -l; find a -xdev -type f | wc -l";
    assert_eq!(w.inside(measure).ok().stdout, w.outside(measure).ok().stdout);
    let archive = "cd .. && tar --one-file-system -cf - project | tar -tf - | sort";
    assert_eq!(w.inside(archive).ok().stdout, w.outside(archive).ok().stdout);
}

fn a_tree_is_one_device_with_the_numbers_of_its_listings(w: &World) {
    needs!(w, "python3");
    plant(w);
    let name = w.new_sandbox("numbers");
    w.exec(&name, "echo x >> a/2; echo x > a/b/new; mkdir -p made/here; touch made/here/file; mv a/b/3 a/b/c/moved; rm a/4").ok();
    let inside = numbers(w, &name);
    let outside: Value = serde_json::from_str(w.outside(&format!("python3 -c '{WALK}'")).ok().text()).expect("it prints JSON");
    for path in ["./a", "./a/1", "./a/one", "./a/b", "./a/b/c", "./a/b/c/8", "./link", "./empty"] {
        assert_eq!(inside[path], outside[1][path], "{path}");
    }
    // The home around it has masks in it, the system is another place.
    for directory in ["..", "/usr/bin", "/etc"] {
        let walk = format!("import os; os.chdir('{directory}')\n{WALK}").replace("walk(entry.path)", "pass");
        let found: Value = serde_json::from_str(w.python(&name, &walk).ok().text()).expect("it prints JSON");
        assert_eq!(found[0], serde_json::json!([]), "{directory}");
    }
}

fn numbers_stay_when_a_file_changes_and_when_the_view_is_renewed(w: &World) {
    needs!(w, "python3");
    plant(w);
    let name = w.new_sandbox("numbers");
    let before = numbers(w, &name);
    let stat = "stat -c %i a/2 a/b/3 a/b/c";
    let changed = w.exec(&name, &format!("{stat}; echo x >> a/2; chmod 600 a/b/3; chmod 700 a/b/c; {stat}")).ok();
    let lines: Vec<&str> = changed.stdout.lines().collect();
    assert_eq!(lines[..3], lines[3..]);
    w.exec(&name, "echo x > a/b/c/new").ok();
    w.outside("echo more > a/5; echo new > a/b/c/reality; echo x > t && mv t a/6").ok();
    let renewed = numbers(w, &name);
    w.whatif(["stop", &name]).go().ok();
    w.whatif(["start", &name]).go().ok();
    let restarted = numbers(w, &name);
    // What reality replaced is another file. What changed inside keeps its number later on if the file system has a UUID.
    let others = ["./a/6", "./a/2", "./a/b/3"];
    for (path, number) in before.as_object().expect("an object").iter().filter(|(path, _)| !others.contains(&path.as_str())) {
        for later in [&renewed, &restarted] {
            assert_eq!(&later[path], number, "{path}");
        }
    }
}

/// With `xino=on` it would not be.
fn what_reality_adds_to_a_directory_of_the_sandbox_is_seen(w: &World) {
    let name = w.new_sandbox("numbers");
    w.exec(&name, "mkdir made; echo x > made/file").ok();
    w.whatif(["apply", &name, "--yes"]).go().ok();
    w.outside("echo more > made/new").ok();
    assert_eq!(w.exec(&name, "ls made").ok().stdout, "file\nnew\n");
}
