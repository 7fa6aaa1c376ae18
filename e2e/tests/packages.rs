//! What a package manager installed inside is shown as what it is, and taken or left as a whole. All with real package managers,
//! without a network.

use serde_json::Value;
use whatif_e2e::{OuterRoot, World, as_root, as_root_and_user, needs, schema};

as_root_and_user!(
    packages_of_python_are_taken_by_their_names,
    a_package_of_npm_comes_with_its_programs,
    a_package_cannot_claim_what_is_not_its_own,
    a_package_that_does_not_exist_is_a_mistake,
    half_of_a_package_is_said_to_be_one,
    the_report_names_the_options_that_take_a_package,
    ignored_files_of_a_package_are_folded_too,
);
as_root!(what_apt_installs_is_taken_as_a_whole, what_cargo_installs_comes_with_its_list);

/// Makes `$1-$2.whl`: a module, and a program that prints its version.
const WHEEL: &str = r#"
import sys, zipfile
name, version = sys.argv[1:]
info = f"{name}-{version}.dist-info"
with zipfile.ZipFile(f"{name}-{version}-py3-none-any.whl", "w") as wheel:
    files = {
        f"{name}/__init__.py": f"def main(): print('{name} {version}')\n",
        f"{name}/data.txt": "data\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    for path, text in files.items(): wheel.writestr(path, text)
    wheel.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"]))
"#;

fn wheel(w: &World, name: &str, version: &str) {
    w.program("/usr/bin/python3").args(["-c", WHEEL, name, version]).cwd(&w.home).go().ok();
}

/// Manager, names of the packages, files.
fn groups(document: &Value) -> Vec<(String, Vec<String>, u64)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = |group: &Value| group["packages"].as_array().into_iter().flatten().map(|p| text(&p["name"])).collect();
    let all = document["packages"].as_array().unwrap_or_else(|| panic!("no packages: {document}")).iter();
    all.map(|group| (text(&group["manager"]), names(group), group["files"].as_u64().unwrap_or_default())).collect()
}

fn reasons(document: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    document["left_out"].as_array().into_iter().flatten().map(|l| (text(&l["path"]), text(&l["reason"]))).collect()
}

const PIP: &str = "/usr/bin/python3 -m pip install --quiet --no-index --user --break-system-packages --no-warn-script-location";

fn packages_of_python_are_taken_by_their_names(w: &World) {
    needs!(w, "python3", "pip");
    ["tiny", "other"].iter().for_each(|name| wheel(w, name, "1.0"));
    wheel(w, "tiny", "1.1");
    w.sandbox_with("s", &format!("{PIP} ~/tiny-1.0-py3-none-any.whl ~/other-1.0-py3-none-any.whl; echo x > mine"));
    let document = w.json(["diff", "s"]);
    schema::expect("diff", &document);
    schema::expect("status", &w.json(["status", "s"]));
    let shown: Vec<_> = groups(&document).into_iter().map(|(manager, names, _)| (manager, names)).collect();
    assert_eq!(shown, [("pip".to_owned(), vec!["other".to_owned()]), ("pip".to_owned(), vec!["tiny".to_owned()])], "{document:#}");
    let listed = w.whatif(["diff", "s"]).go().ok().stdout;
    assert!(listed.contains("pip: +2 packages in ") && listed.contains("(other 1.0, tiny 1.0)"), "{listed}");
    assert!(!listed.contains("data.txt") && listed.contains("mine"), "{listed}");
    let status = w.whatif(["status", "s"]).go().ok().stdout;
    assert!(status.contains("pip: +2 packages"), "{status}");
    assert_eq!(groups(&w.json(["status", "s"])).len(), 2);
    // Its program is in a place that needs an approval of its own, so a name alone takes nothing of it.
    w.apply(&["s", "--package", "tiny"]).ok().says("in a package with something that needs its own approval");
    assert_eq!(w.outside("ls -A ~/.local 2>/dev/null").stdout, "");
    // One of them, and nothing else.
    let planned = w.json(["apply", "s", "--package", "tiny", "--risky", "--dry-run"]);
    schema::expect("apply", &planned);
    let is_whole = planned["packages"][0]["left_out"] == 0 && planned["packages"][0]["taken"] == planned["packages"][0]["files"];
    assert!(is_whole && groups(&planned).len() == 1, "{planned:#}");
    let applied = w.apply(&["s", "--package", "pip:tiny", "--risky"]).ok();
    assert!(applied.stdout.contains("pip: +1 package") && applied.stdout.contains("(tiny 1.0)"), "{applied:?}");
    assert_eq!(w.outside("~/.local/bin/tiny").ok().text(), "tiny 1.0");
    // What else there is is said, and that it is applied already is no mistake.
    assert!(applied.stderr.contains("not on the package's list of files:"), "{}", applied.stderr);
    for name in ["tiny", "pip:tiny"] {
        let again = w.apply(&["s", "--package", name]).ok().stdout;
        assert!(again.contains(&format!("nothing to apply from s: {name} was applied before")), "{again}");
    }
    assert!(!w.project.join("mine").exists(), "what nobody asked for stays out");
    w.apply(&["s", "--package", "npm:tiny"]).fails_with_hint(2).says("no package called 'npm:tiny'");
    assert_eq!(
        w.outside("ls ~/.local/bin mine 2>/dev/null").stdout.trim(),
        format!("{}:\ntiny", w.home.join(".local/bin").display())
    );
    w.apply(&["s", "--package", "pip", "--risky"]).ok();
    assert_eq!(w.outside("~/.local/bin/other").ok().text(), "other 1.0");
    // Another version takes the place of the first.
    w.sandbox_with("u", &format!("{PIP} ~/tiny-1.1-py3-none-any.whl"));
    let listed = w.whatif(["diff", "u"]).go().ok().stdout;
    assert!(listed.contains("pip: 1 package in another version in ") && listed.contains("(tiny 1.0 → 1.1)"), "{listed}");
    w.apply(&["u", "--outside", "--risky"]).ok();
    assert_eq!(w.outside("~/.local/bin/tiny; ls -d ~/.local/lib/python3*/site-packages/tiny-* | wc -l").ok().text(), "tiny 1.1\n1");
    w.sandbox_with("r", "/usr/bin/python3 -m pip uninstall --quiet --yes --break-system-packages tiny");
    let report = w.whatif(["diff", "r"]).go().ok().stdout;
    assert!(report.contains("pip: -1 package") && report.contains("(tiny removed)"), "{report}");
    w.apply(&["r", "--package", "tiny", "--risky"]).ok();
    assert_eq!(w.outside("ls ~/.local/bin").ok().text(), "other");
}

const TARBALL: &str = "mkdir -p ~/left && cd ~/left && echo '{\"name\":\"left\",\"version\":\"1.2.3\",\"bin\":{\"left\":\"run.js\"}}' > package.json && \
    printf '#!/usr/bin/env node\\nconsole.log(\"left 1.2.3\")\\n' > run.js && echo read > README && npm pack --silent --pack-destination ~";

fn a_package_of_npm_comes_with_its_programs(w: &World) {
    needs!(w, "npm");
    w.outside(&format!("git init -q .; echo node_modules > .gitignore; echo '{{\"name\":\"p\"}}' > package.json; {TARBALL}")).ok();
    let npm = "npm install --offline --silent --no-audit --no-fund --no-update-notifier";
    w.sandbox_with("s", &format!("{npm} ~/left-1.2.3.tgz; {npm} --global --prefix ~/.local ~/left-1.2.3.tgz"));
    let document = w.json(["diff", "s"]);
    let mut names: Vec<_> = groups(&document).into_iter().map(|(manager, names, _)| (manager, names)).collect();
    names.dedup();
    assert_eq!(names, [("npm".to_owned(), vec!["left".to_owned()])], "{document:#}");
    let listed = w.whatif(["diff", "s"]).go().ok().stdout;
    assert!(listed.contains("npm: +1 package in node_modules, ") && listed.contains(" files (left 1.2.3)"), "{listed}");
    // Its programs are in `PATH` or what npm runs, so it all waits for that approval.
    let left = reasons(&w.apply(&["s", "--outside", "--json"]).ok().json());
    let readme = w.home.join(".local/lib/node_modules/left/README").display().to_string();
    let has_waited = left.iter().any(|(path, reason)| *path == readme && reason == "package");
    let is_in_path = left.iter().any(|(path, reason)| path.ends_with(".local/bin/left") && reason == "risky");
    assert!(has_waited && is_in_path, "{left:?}");
    w.apply(&["s", "--package", "left", "--risky"]).ok();
    assert_eq!(w.outside("~/.local/bin/left; node_modules/.bin/left").ok().text(), "left 1.2.3\nleft 1.2.3");
    assert_eq!(w.outside("npm ls --offline --parseable --depth 0 | wc -l").stdout.trim(), "2");
}

/// The adversary writes what a package is said to consist of.
fn a_package_cannot_claim_what_is_not_its_own(w: &World) {
    w.outside("echo all: > Makefile; echo true > ~/.bashrc; echo keep > ~/notes").ok();
    w.sandbox_with(
        "s",
        "p=~/.local/lib/python3.11/site-packages; mkdir -p $p/evil-1.dist-info $p/evil ~/.local/bin; echo x > $p/evil/a.py; \
         printf 'evil/a.py,,\\n../../../../.bashrc,,\\n../../../../notes,,\\n../../../../project/Makefile,,\\n/etc/passwd,,\\n' \
           > $p/evil-1.dist-info/RECORD; \
         echo evil >> ~/.bashrc; echo evil >> ~/notes; echo evil >> Makefile",
    );
    let document = w.json(["diff", "s"]);
    assert_eq!(groups(&document), [("pip".to_owned(), vec!["evil".to_owned()], 2)], "{document:#}");
    w.apply(&["s", "--package", "evil", "--risky"]).ok();
    assert_eq!(w.outside("cat ~/.bashrc ~/notes Makefile").ok().text(), "true\nkeep\nall:");
    // A name is what processes inside say it is.
    w.sandbox_with(
        "t",
        "p=~/.local/lib/python3.11/site-packages; mkdir \"$p/a\x1b[2J-1.dist-info\"; echo x,, > \"$p/a\x1b[2J-1.dist-info/RECORD\"",
    );
    for command in [["diff", "t"], ["status", "t"]] {
        let shown = w.whatif(command).go().ok().stdout;
        assert!(shown.contains("pip: +1 package") && !shown.contains('\x1b'), "{shown:?}");
    }
}

fn a_package_that_does_not_exist_is_a_mistake(w: &World) {
    w.sandbox_with("s", "echo x > a");
    w.apply(&["s", "--package", "hello"]).fails_with_hint(2).says("no package called 'hello'");
    assert!(!w.project.join("a").exists());
}

fn half_of_a_package_is_said_to_be_one(w: &World) {
    needs!(w, "python3", "pip");
    wheel(w, "tiny", "1.0");
    w.sandbox_with("s", &format!("{PIP} ~/tiny-1.0-py3-none-any.whl"));
    let data = w.outside("echo ~/.local/lib/python3.11/site-packages/tiny/data.txt").ok().text().to_owned();
    let planned = w.whatif(["apply", "s", "--outside", "--risky", "--exclude", &data, "--dry-run"]).go().ok();
    planned.says("only part of pip (tiny):");
    let document = w.apply(&["s", "--outside", "--risky", "--exclude", &data, "--json"]).ok().json();
    let package = &document["packages"][0];
    let count = |name: &str| package[name].as_u64().unwrap_or_default();
    assert_eq!((count("left_out"), count("taken") + 1), (1, count("files")), "{document:#}");
}

const DEBS: &str = r#"
set -e
pack() { mkdir -p "$1/DEBIAN"; printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: n <n@example.org>\nDescription: test\n' "$1" "$2" > "$1/DEBIAN/control"
  (cd "$1"; find . -type f ! -path './DEBIAN/*' -printf '%P\n' | xargs md5sum > DEBIAN/md5sums); dpkg-deb --root-owner-group -b "$1" "$1.deb" > /dev/null; }
mkdir /debs; cd /debs
mkdir -p libtiny/usr/lib libtiny/usr/share/doc/libtiny; echo 1 > libtiny/usr/lib/libtiny.so.1.0; ln -s libtiny.so.1.0 libtiny/usr/lib/libtiny.so.1
echo doc > libtiny/usr/share/doc/libtiny/copyright; pack libtiny 1.0
mkdir -p tiny/usr/bin tiny/etc/cron.d tiny/usr/share/tiny; printf '#!/bin/sh\necho tiny\n' > tiny/usr/bin/tiny; chmod 755 tiny/usr/bin/tiny
echo '0 0 * * * root tiny' > tiny/etc/cron.d/tiny; echo conf > tiny/etc/tiny.conf; mkdir tiny/DEBIAN; echo /etc/tiny.conf > tiny/DEBIAN/conffiles; echo data > tiny/usr/share/tiny/data; pack tiny 2.0-1
"#;

fn what_apt_installs_is_taken_as_a_whole(w: &World) {
    needs!(w, "dpkg-deb", "dpkg");
    let (whatif, project) = (w.bin.display(), w.project.display());
    let script = format!(
        "{DEBS}
cd {project}
whatif={whatif}
verify() {{ dpkg -V libtiny tiny && echo verified; }}
$whatif run --keep --name s -- sh -c 'dpkg -i /debs/*.deb >/dev/null 2>&1; echo mine > mine; echo other >> /etc/motd.test' 2>&1 | grep -E 'apt:|mine|reality'
echo --- diff; $whatif diff s
echo --- status; $whatif status s
echo --- outside; $whatif apply s --outside --yes --json
dpkg -s tiny 2>/dev/null | grep Version || echo absent
test -e /usr/lib/libtiny.so.1 || echo no-link
echo --- package; $whatif apply s --package tiny --risky --yes
verify; tiny; cat /usr/lib/libtiny.so.1; dpkg -s tiny libtiny | grep -E '^(Status|Version)'
echo --- undo; $whatif undo --yes
dpkg -s tiny 2>/dev/null | grep Version || echo absent
test -e /usr/bin/tiny || echo gone
echo --- split; $whatif apply s --outside --risky --exclude /usr/share/tiny/data --yes
"
    );
    let outcome = OuterRoot::of(w).script(&script).ok();
    let part = |name: &str| {
        let from = outcome.stdout.split(&format!("--- {name}\n")).nth(1).unwrap_or_else(|| panic!("{outcome:?}"));
        from.split("--- ").next().unwrap_or_default().to_owned()
    };
    let line = "apt: +2 packages, ";
    assert!(
        outcome.stdout.split("---").next().is_some_and(|report| report.contains(line) && report.contains("mine")),
        "{outcome:?}"
    );
    let diff = part("diff");
    assert!(diff.contains(line) && diff.contains("(libtiny 1.0, tiny 2.0-1)") && diff.contains("/etc/cron.d/tiny"), "{diff}");
    assert!(!diff.contains("libtiny.so") && !diff.contains("/var/lib/dpkg/status") && diff.contains("/etc/motd.test"), "{diff}");
    assert!(part("status").contains(line), "{outcome:?}");
    // cron obeys one of its files without being asked, so none of it is there, not even what dpkg knows.
    let outside = part("outside");
    assert!(outside.ends_with("absent\nno-link\n") && outside.contains("\"reason\":\"package\""), "{outside}");
    let package = part("package");
    assert!(package.contains(line), "{package}");
    let status = "Status: install ok installed\nVersion: 2.0-1\nStatus: install ok installed\nVersion: 1.0\n";
    assert!(package.ends_with(&format!("verified\ntiny\n1\n{status}")), "{package}");
    assert!(part("undo").ends_with("absent\ngone\n"), "{outcome:?}");
    assert!(outcome.stderr.contains("only part of apt (libtiny, tiny):"), "{outcome:?}");
}

fn what_cargo_installs_comes_with_its_list(w: &World) {
    let cargo = std::path::Path::new(env!("CARGO"));
    if !cargo.exists() {
        whatif_e2e::skip("the cargo that built the tests is gone");
        return;
    }
    w.write("Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.3.0\"\nedition = \"2021\"\n");
    w.write("src/main.rs", "fn main() { println!(\"tiny 0.3.0\") }\n");
    let tools = cargo.parent().expect("it is in a directory").display();
    let install = "cargo install --quiet --offline --path . --target-dir /tmp/target";
    w.sandbox_with("s", &format!("export PATH={tools}:$PATH CARGO_HOME=$HOME/.cargo; {install} 2>/dev/null"));
    let document = w.json(["diff", "s"]);
    assert_eq!(groups(&document), [("cargo".to_owned(), vec!["tiny".to_owned()], 3)], "{document:#}");
    let listed = w.whatif(["diff", "s"]).go().ok().stdout;
    assert!(listed.contains("cargo: +1 package in "), "{listed}");
    w.apply(&["s", "--package", "cargo", "--risky"]).ok();
    let list = format!("PATH={tools}:$PATH CARGO_HOME=$HOME/.cargo cargo install --list");
    assert_eq!(w.outside(&format!("~/.cargo/bin/tiny; {list} | tail -n 1")).ok().text(), "tiny 0.3.0\n    tiny");
}

fn the_report_names_the_options_that_take_a_package(w: &World) {
    needs!(w, "python3", "pip");
    wheel(w, "tiny", "1.0");
    let script = format!("{PIP} ~/tiny-1.0-py3-none-any.whl");
    let report = w.whatif(["run", "--name", "pk", "--", "/bin/sh", "-c", &script]).go().ok().stderr;
    let command = "whatif apply pk --package tiny --risky";
    assert!(report.contains(&format!("make it real: {command}\n")), "{report}");
    // The program lies elsewhere, and is one of the files all the same.
    assert!(report.contains("/site-packages, ") && report.contains(" files (tiny 1.0)"), "{report}");
    let left = w.apply(&["pk", "--outside"]).ok();
    assert!(left.stderr.contains("in a package with something") && !left.stderr.contains("dependency tree"), "{left:?}");
    w.outside(&format!("{} {} --yes", w.bin.display(), command.trim_start_matches("whatif "))).ok();
    assert_eq!(w.outside("~/.local/bin/tiny").ok().text(), "tiny 1.0");
}

fn ignored_files_of_a_package_are_folded_too(w: &World) {
    needs!(w, "python3", "pip", "git");
    wheel(w, "tiny", "1.0");
    w.outside("git init -q .; echo __pycache__ > .gitignore; /usr/bin/python3 -m venv --without-pip env").ok();
    let install = "/usr/bin/python3 -m pip --python env/bin/python install --quiet --no-index ~/tiny-1.0-py3-none-any.whl";
    w.sandbox_with("s", &format!("{install}; mkdir __pycache__; echo mine > __pycache__/mine"));
    let listed = w.whatif(["diff", "s"]).go().ok().stdout;
    assert!(listed.contains("pip: +1 package in env/lib/"), "{listed}");
    let ignored: Vec<&str> = listed.lines().filter(|line| line.ends_with("(ignored)")).collect();
    assert_eq!(ignored, ["   __pycache__/  1 file, 5 B (ignored)"], "{listed}");
}
