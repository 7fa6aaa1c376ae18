//! Archives that `export` would not have written: they bring files, and decide nothing (XF-05).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::XattrFlags;
use serde_json::{Value, json};
use whatif_archive::{ArchiveError, Layer, Limits, Manifest, Options};
use whatif_e2e::{Outcome, World, as_root, as_root_and_user, not_on, wait_for};
use whatif_overlay::Format;

as_root_and_user!(
    the_project_is_the_importers,
    the_backend_is_the_importers,
    nothing_is_granted_by_an_archive,
    trees_lie_where_sandboxes_have_files,
    a_layer_has_the_shape_of_a_layer,
    a_forged_start_hides_no_command,
    a_forged_start_changes_nothing_unseen,
    a_mark_of_a_tree_itself_deletes_nothing,
);
as_root!(a_renamed_directory_shows_nothing_that_is_covered);

/// An archive taken apart.
struct Forged<'w> {
    w: &'w World,
    about: Value,
    ids: Vec<String>,
    directory: PathBuf,
}

impl<'w> Forged<'w> {
    /// Of what a sandbox is now.
    fn of(w: &'w World, sandbox: &str) -> Self {
        let (archive, directory) = (w.home.join("genuine.whatif"), w.dir.join("forged"));
        w.json(["export", "--force", sandbox, "-o", "../genuine.whatif"]);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).expect("a fresh directory");
        let options = Options { marks: marks(w), keep_owners: w.is_root(), limits: Limits::default() };
        let judge = |_: &Manifest| Ok::<_, ArchiveError>(());
        let input = fs::File::open(&archive).expect("it was written");
        let (extracted, ()) = whatif_archive::read(input, &directory, &options, judge, &mut |_| {}).expect("it is genuine");
        let ids = extracted.manifest.layers.iter().map(|layer| layer.id.clone()).collect();
        Self { w, about: extracted.manifest.about, ids, directory }
    }

    fn layer(&self) -> PathBuf {
        self.directory.join(self.ids.last().expect("it changed something"))
    }

    fn details(&mut self) -> &mut Value {
        &mut self.about["details"]
    }

    /// Puts it together again, with digests that are right, and imports it.
    fn import(&self, options: &[&str]) -> Outcome {
        let copied = self.about["details"]["copied_trees"].as_array().into_iter().flatten().map(Value::to_string);
        let copied: Vec<String> = copied.collect();
        let layer = |id: &String| Layer {
            id: id.clone(),
            directory: self.directory.join(id),
            marks: marks(self.w),
            copied: copied.clone(),
            instead: Vec::new(),
            without: Vec::new(),
        };
        let layers: Vec<Layer> = self.ids.iter().map(layer).collect();
        let mut bytes = Vec::new();
        whatif_archive::write(&mut bytes, self.about.clone(), &layers, &mut |_| {}).expect("it can be written");
        self.w.write(self.w.home.join("forged.whatif"), bytes);
        self.w.whatif(["import", "../forged.whatif", "--name", "forged"]).args(options).go()
    }

    /// It is, and nothing of it stays.
    #[track_caller]
    fn is_refused(&self, options: &[&str]) -> Outcome {
        let before = layers(self.w);
        let refused = self.import(options).fails_with_hint(125);
        let is_gone =
            wait_for(Duration::from_secs(60), || (layers(self.w) <= before && self.w.transient().is_empty()).then_some(()));
        assert!(is_gone.is_some(), "layers {before} → {}, half done: {:?}", layers(self.w), self.w.transient());
        refused
    }
}

fn marks(w: &World) -> Format {
    if w.is_root() { Format::Trusted } else { Format::User }
}

fn layers(w: &World) -> usize {
    fs::read_dir(w.layers()).map_or(0, Iterator::count)
}

/// What new sandboxes get need not be asked for.
fn asked<'b>(w: &World, backend: &'b str) -> Vec<&'b str> {
    if backend == w.backend() { Vec::new() } else { vec!["--backend", backend] }
}

/// Those that work here.
fn backends(w: &World) -> Vec<&'static str> {
    let has_fuse = w.has("fuse-overlayfs") && w.outside("exec 3<>/dev/fuse").code == 0;
    if has_fuse { vec!["overlay", "fuse", "copy"] } else { vec!["overlay", "copy"] }
}

fn the_project_is_the_importers(w: &World) {
    w.outside("mkdir -p .git sub ../other").ok();
    w.new_sandbox("s");
    w.exec("s", "echo mine > f").ok();
    let mut forged = Forged::of(w, "s");
    for project in [Path::new("/"), &w.home, &w.home.join("other"), Path::new("/etc"), Path::new("/nowhere")] {
        forged.about["project"] = json!(project);
        let refused = forged.is_refused(&[]);
        let hint = format!("--project {}", project.display());
        assert_eq!(refused.stderr.contains(&hint), project != Path::new("/nowhere"), "{}", refused.stderr);
    }
    for project in ["relative", "/../..", ""] {
        forged.about["project"] = json!(project);
        forged.is_refused(&[]);
    }

    // One that was moved works where its project is, and from elsewhere when that is said.
    w.whatif(["import", "../genuine.whatif", "--name", "here"]).cwd(&w.project.join("sub")).go().fails_with_hint(125);
    let archive = w.home.join("genuine.whatif").display().to_string();
    w.whatif(["import", &archive, "--name", "below"]).cwd(&w.project.join("sub")).go().ok();
    let refused = w.whatif(["import", &archive, "--name", "away"]).cwd(&w.home.join("other")).go().fails_with_hint(125);
    assert!(refused.stderr.contains(&format!("--project {}", w.project.display())), "{}", refused.stderr);
    let project = w.project.display().to_string();
    w.whatif(["import", &archive, "--name", "away", "--project", &project]).cwd(&w.home.join("other")).go().ok();
    for name in ["below", "away"] {
        assert_eq!(w.exec(name, "cat f").ok().text(), "mine");
    }
    w.whatif(["import", &archive, "--name", "none", "--project", "../none"]).go().fails_with_hint(125);
}

fn the_backend_is_the_importers(w: &World) {
    not_on!(w, "fuse" | "copy", "it tries all of them, and overlay is to be the default");
    let all = backends(w);
    for backend in all.iter().rev() {
        w.whatif(["new", backend, "--backend", backend]).go().ok();
        w.exec(backend, "echo mine > f").ok();
        let mut forged = Forged::of(w, backend);
        if *backend != "overlay" {
            let refused = forged.is_refused(&[]);
            assert!(refused.stderr.contains(&format!("--backend {backend}")), "{}", refused.stderr);
        }
        forged.import(&asked(w, backend)).ok();
        assert_eq!(w.exec("forged", "cat f").ok().text(), "mine", "{backend}");
        w.whatif(["rm", "forged"]).go().ok();
        for other in all.iter().filter(|other| *other != backend) {
            forged.is_refused(&["--backend", other]);
            forged.details()["backend"] = json!(other);
            // Its trees or how they were made do not fit, or its files do: then they are all that it brings.
            let outcome = forged.import(&["--backend", other]);
            if outcome.code == 0 {
                assert_eq!(w.json(["show", "forged"])["details"]["backend"], *other);
                w.whatif(["rm", "forged"]).go().ok();
            }
            forged.details()["backend"] = json!(backend);
        }
    }
}

/// Whatever an archive says about what its sandbox may have.
fn nothing_is_granted_by_an_archive(w: &World) {
    w.write(w.home.join(".ssh/id_ed25519"), "very-secret");
    w.write("letters", "dear");
    w.new_sandbox("s");
    w.exec("s", "echo mine > f").ok();
    let genuine = w.json(["show", "s"])["details"].clone();
    let mut forged = Forged::of(w, "s");
    let granted = json!({
        "cwd": format!("{}/../../..", w.project.display()),
        "labels": { "a": "b" }, "net": "host", "exposed": ["~/.ssh"], "masked": ["letters", "~/letters\u{1b}[2J"],
        "carried_env": ["SECRET_TOKEN"], "set_env": ["OTHER"], "keeper_pid": 1, "auto_snapshot": true,
        "command": ["rm", "-rf"], "exit_code": 7, "error": "no", "transient": true, "disposable": true,
        "limits": { "memory": 1 << 30, "pids": 5 }, "identity": { "kind": "same" },
    });
    for (name, value) in granted.as_object().expect("it is one") {
        forged.details()[name] = value.clone();
    }
    let imported = forged.import(&[]).ok();
    let script = "cat letters f; cat ~/.ssh/id_ed25519; echo $SECRET_TOKEN";
    let seen = w.whatif(["exec", "forged", "--", "/bin/sh", "-c", script]).env("SECRET_TOKEN", "very-secret").go();
    assert_eq!(seen.stdout, "dearmine\n\n");
    assert!(imported.stderr.contains("letters") && !imported.stderr.contains('\u{1b}'), "{}", imported.stderr);
    let shown = w.json(["show", "forged"])["details"].clone();
    assert_eq!(genuine["masked"], json!([]));
    // Which range of ids it has is its own.
    assert_eq!(shown["identity"]["kind"], genuine["identity"]["kind"]);
    for field in ["net", "network", "backend", "limits", "cwd", "labels", "masked", "exposed", "carried_env", "set_env"] {
        assert_eq!(shown[field], genuine[field], "{field}");
    }
    assert_eq!(w.json(["snapshots", "forged"]).as_array().map(Vec::len), Some(0), "a snapshot before each command");
    w.whatif(["rm", "forged"]).go().ok();
    forged.import(&["--mask", &w.project.join("letters").display().to_string()]).ok();
    assert_eq!(w.exec("forged", "cat letters; cat f").stdout, "mine\n");
}

fn trees_lie_where_sandboxes_have_files(w: &World) {
    not_on!(w, "fuse" | "copy", "the archive is forged from one of overlay");
    for backend in backends(w) {
        w.write(w.home.join(".ssh/id_ed25519"), "very-secret");
        w.whatif(["new", backend, "--backend", backend]).go().ok();
        w.exec(backend, "echo mine > f").ok();
        let mut forged = Forged::of(w, backend);
        let trees = forged.details()["trees"].clone();
        let tree = trees[0].as_str().expect("it has one").to_owned();
        let ssh = w.home.join(".ssh").display().to_string();
        let (state, above) = (w.state.display().to_string(), format!("{}/..", w.home.display()));
        for bad in ["/proc/sys", "/sys", "/dev/shm", "/tmp", "/tmp/there", "/run", "relative", &ssh, &state, &above, &tree] {
            forged.details()["trees"].as_array_mut().expect("they are a list").push(json!(bad));
            forged.is_refused(&asked(w, backend));
            forged.details()["trees"] = trees.clone();
        }
        // One tree in the place of another, and one that is a copy elsewhere.
        forged.details()["trees"][0] = json!("/proc");
        forged.is_refused(&asked(w, backend));
        forged.details()["trees"] = trees.clone();
        let copied = forged.details()["copied_trees"].clone();
        let last = trees.as_array().map_or(0, Vec::len) - 1;
        forged.details()["copied_trees"] = if copied == json!([]) { json!([0, last]) } else { json!([]) };
        forged.is_refused(&asked(w, backend));
        forged.details()["copied_trees"] = copied;
        forged.import(&asked(w, backend)).ok();
        w.whatif(["rm", "--yes", "forged", backend]).go().ok();
    }
}

/// What lies in the place of something else.
enum Spoilt<'p> {
    Link(&'p Path),
    File,
    Directory,
}

/// A link in the place of a note or of a tree would be followed by what reads or writes it.
fn a_layer_has_the_shape_of_a_layer(w: &World) {
    not_on!(w, "fuse" | "copy", "the archive is forged from one of overlay");
    let precious = w.write(w.home.join("precious"), "precious\n");
    w.write("edited", "before\n");
    for backend in backends(w) {
        w.whatif(["new", backend, "--backend", backend]).go().ok();
        w.exec(backend, "echo mine > f; echo more >> edited").ok();
        // Looked at, so that it is known what the file was before.
        w.whatif(["diff", backend]).go().ok();
        let mut spoiled = 0;
        let bad = [
            ("parts", Spoilt::Link(&precious)),
            ("base", Spoilt::Link(&w.home)),
            ("base/index", Spoilt::Link(&precious)),
            ("base/more", Spoilt::Link(&precious)),
            ("0", Spoilt::Link(&w.home)),
            ("copied-0", Spoilt::Link(&precious)),
            ("copied-0", Spoilt::File),
            ("00", Spoilt::Directory),
            ("4096", Spoilt::Directory),
        ];
        for (name, spoilt) in bad {
            let forged = Forged::of(w, backend);
            let at = forged.layer().join(name);
            if !at.parent().is_some_and(Path::is_dir) {
                continue;
            }
            let _ = fs::remove_file(&at);
            let _ = fs::remove_dir_all(&at);
            match spoilt {
                Spoilt::Link(target) => symlink(target, &at),
                Spoilt::File => fs::write(&at, "no inventory"),
                Spoilt::Directory => fs::create_dir(&at),
            }
            .expect("the name is free");
            forged.is_refused(&asked(w, backend));
            assert_eq!(fs::read(&precious).expect("it is there"), b"precious\n", "{backend}: {name}");
            spoiled += 1;
        }
        assert!(spoiled >= 7, "{backend}: {spoiled}");
        Forged::of(w, backend).import(&asked(w, backend)).ok();
        assert_eq!(w.exec("forged", "cat f edited").ok().text(), "mine\nbefore\nmore");
        w.whatif(["rm", "--yes", "forged", backend]).go().ok();
    }
}

/// Both sides of the sandbox's change have the script, reality has none.
fn a_forged_start_hides_no_command(w: &World) {
    let middle: String = (10..30).map(|i| format!("  \"k{i}\": {i},\n")).collect();
    let script = r#""scripts": {"postinstall": "evil"}"#;
    w.write("package.json", format!("{{\n{middle}  \"version\": \"1\"\n}}\n"));
    w.write("scripted", format!("{{\n{middle}  \"version\": \"1\",\n  {script}\n}}\n"));
    for backend in backends(w) {
        w.whatif(["new", backend, "--backend", backend]).go().ok();
        w.exec(backend, "cat scripted > package.json").ok();
        w.whatif(["diff", backend]).go().ok();
        let forged = Forged::of(w, backend);
        assert!(!forged.layer().join("base/watch").exists(), "{backend}: it names places of this machine");
        forge_start(&forged, "k15", |text| text.replacen("{\n", &format!("{{\n  {script},\n"), 1));
        forged.import(&asked(w, backend)).ok();
        w.apply(&["forged"]);
        assert_eq!(w.outside("grep -c evil package.json").text(), "0", "{backend}");
        w.whatif(["rm", "--yes", "forged", backend]).go().ok();
    }
}

/// What the sandbox is said to have started from has one of its two changes already.
fn a_forged_start_changes_nothing_unseen(w: &World) {
    let text: String = (10..40).map(|i| format!("line {i}\n")).collect();
    for backend in backends(w) {
        w.write("f", &text);
        w.whatif(["new", backend, "--backend", backend]).go().ok();
        w.exec(backend, "sed -i -e 's/line 12/evil 12/' -e 's/line 37/safe 37/' f").ok();
        w.whatif(["diff", backend]).go().ok();
        let forged = Forged::of(w, backend);
        forge_start(&forged, "line 37", |text| text.replace("line 37", "safe 37"));
        forged.import(&asked(w, backend)).ok();
        let shown = w.whatif(["diff", "--patch", "forged"]).go().ok().stdout;
        let digest = w.json(["diff", "forged"])["digest"].as_str().unwrap_or_default().to_owned();
        w.apply(&["forged", "--digest", &digest]);
        let real = w.outside("cat f").ok().stdout;
        for line in ["evil 12", "safe 37"] {
            let is_shown = shown.lines().any(|l| l.starts_with('+') && l.contains(line));
            let is_real = real.contains(line);
            assert!(is_shown || !is_real, "{backend}: {line} became real unseen: {shown}");
            assert!(is_real || !is_shown || real == text, "{backend}: {line} was shown and is not real: {shown}");
        }
        w.whatif(["rm", "--yes", "forged", backend]).go().ok();
    }
}

/// Changes the bytes that an archive says its sandbox started from, where they contain a word.
fn forge_start(forged: &Forged<'_>, word: &str, change: impl Fn(&str) -> String) {
    let mut found = 0;
    for entry in fs::read_dir(forged.layer().join("base")).expect("something was kept") {
        let path = entry.expect("it can be listed").path();
        let text = fs::read_to_string(&path).unwrap_or_default();
        if !path.ends_with("index") && text.contains(word) {
            fs::write(&path, change(&text)).expect("it can be written");
            found += 1;
        }
    }
    assert!(found > 0, "nothing was kept that has {word}");
}

/// What lies beneath the private `/tmp` and `/run`, in the state directory, or where other file systems are mounted.
fn a_renamed_directory_shows_nothing_that_is_covered(w: &World) {
    not_on!(w, "fuse" | "copy", "the archive is forged from one of overlay");
    let real = PathBuf::from(format!("/tmp/whatif-e2e-covered-{}", std::process::id()));
    fs::write(&real, "covered").expect("root may write there");
    w.write(w.home.join(".ssh/id_ed25519"), "very-secret");
    w.outside("mkdir -p old/below; echo b > old/below/f").ok();
    w.new_sandbox("s");
    w.exec("s", "echo mine > f; mkdir shown").ok();
    let project = w.project.strip_prefix("/").expect("it is absolute");
    let state = w.state.display().to_string();
    let above = w.dir.display().to_string();
    let shown = Path::new("0").join(project).join("shown");
    let relative = Path::new("0/shown");
    let beneath = Path::new("0/run/shown");
    let bad: [(&Path, &str); 12] = [
        (&shown, "/tmp"),
        (&shown, "/run"),
        (&shown, "/run/lock"),
        (&shown, "/proc"),
        (&shown, "/sys/kernel"),
        (&shown, "/dev"),
        (&shown, "/var"),
        (&shown, &state),
        (&shown, &above),
        (relative, "tmp"),
        (beneath, "lock"),
        (Path::new("0"), "/tmp"),
    ];
    for (path, target) in bad {
        let forged = Forged::of(w, "s");
        redirect(&forged, path, target);
        forged.is_refused(&[]);
    }
    let _ = fs::remove_file(&real);

    // Where nothing is covered it is what a rename makes. Masks hold beneath it.
    let forged = Forged::of(w, "s");
    redirect(&forged, &shown, &w.home.display().to_string());
    forged.import(&[]).ok();
    assert_eq!(w.exec("forged", "cat shown/project/old/below/f; ls -A shown/.ssh 2>/dev/null").stdout, "b\n");
}

/// The kernel does not ask the root of a layer whether anything shows through it.
fn a_mark_of_a_tree_itself_deletes_nothing(w: &World) {
    not_on!(w, "fuse" | "copy", "the archive is forged from one of overlay");
    w.write("kept", "kept\n");
    w.new_sandbox("s");
    w.exec("s", "echo mine > f").ok();
    let forged = Forged::of(w, "s");
    let trees = fs::read_dir(forged.layer()).expect("it is ours").map(|entry| entry.expect("it is listed"));
    let trees: Vec<PathBuf> =
        trees.filter(|entry| entry.file_name().to_str().is_some_and(|n| n.parse::<usize>().is_ok())).map(|e| e.path()).collect();
    assert!(!trees.is_empty());
    for tree in &trees {
        marks(w).make_opaque(&fs::File::open(tree).expect("it is ours")).expect("it can be marked");
    }
    forged.import(&[]).ok();
    assert_eq!(w.exec("forged", "cat kept f").ok().stdout, "kept\nmine\n", "everything shows");
    let document = w.json(["diff", "forged"]);
    let changes: Vec<&Value> = document["changes"].as_array().expect("a list").iter().map(|change| &change["kind"]).collect();
    // Not applied here: one of the trees may be the machine's own root.
    assert_eq!(changes, ["add"], "{document}");
}

fn redirect(forged: &Forged<'_>, path: &Path, target: &str) {
    let at = forged.layer().join(path);
    fs::create_dir_all(&at).expect("it is ours");
    // A directory that was made inside shows nothing from below.
    let _ = rustix::fs::removexattr(&at, "trusted.overlay.opaque");
    rustix::fs::setxattr(&at, "trusted.overlay.redirect", target.as_bytes(), XattrFlags::empty()).expect("root may");
}
