//! Everyday tools work inside as they do outside, and so does the file system beneath them.

use whatif_e2e::{World, as_root_and_user, needs, not_on, skip};

as_root_and_user!(
    git_works,
    cargo_builds_offline,
    npm_packs_offline,
    a_python_environment_works,
    sqlite_works,
    tar_keeps_everything,
    rsync_mirrors,
    c_programs_are_built_and_run,
    the_file_system_behaves_as_outside,
);

/// Runs a script in a copy of the project outside and inside, and expects the same output.
#[track_caller]
fn same_inside_as_outside(w: &World, script: &str) {
    let inside = w.whatif(["run", "--rm", "-q", "--", "/bin/sh", "-c", script]).go();
    assert!(std::fs::read_dir(&w.project).is_ok(), "the project is there");
    let outside = w.outside(script);
    assert_eq!(outside.code, 0, "the script itself works: {} {}", outside.stdout, outside.stderr);
    assert_eq!((inside.code, inside.stdout.as_str()), (0, outside.stdout.as_str()), "{}", inside.stderr);
}

fn git_works(w: &World) {
    not_on!(w, "copy", "it makes a worktree next to the project, where everything is read-only");
    needs!(w, "git");
    let set_up = "git init -q -b main . && git config user.email a@b.c && git config user.name n && seq 100 > a && mkdir d && seq 5 > d/b && git add . && git commit -qm first";
    w.outside(set_up).ok();
    let name = w.new_sandbox("git");
    let work = "git status --short && echo changed >> a && git mv d/b c && git status --short && git commit -qam second && git log --format=%s && \
                git checkout -q -b side HEAD~1 && git merge -q main && git stash list && git worktree add -q ../worktree && ls ../worktree && git gc -q && git fsck 2>/dev/null";
    assert_eq!(w.exec(&name, work).ok().stdout, " M a\nR  d/b -> c\nsecond\nfirst\na\nc\n");
    assert_eq!(w.outside("git log --format=%s; git branch; git status --short").ok().stdout, "first\n* main\n");
}

fn cargo_builds_offline(w: &World) {
    let Some(path) = toolchain(w) else { return };
    w.write("Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    w.write("src/main.rs", "fn main() { println!(\"built inside\"); }\n");
    let script = "cargo build --offline --quiet && ./target/debug/tiny && touch src/main.rs && cargo build --offline --quiet && ./target/debug/tiny";
    let name = w.new_sandbox("cargo");
    let build = w.whatif(["exec", &name, "--", "/bin/sh", "-c", script]).env("PATH", path).go().ok();
    assert_eq!(build.stdout, "built inside\nbuilt inside\n");
    assert!(!w.project.join("target").exists());
}

/// The directory of cargo and rustc that this identity can use, in a search path. A toolchain in root's home is closed to others.
fn toolchain(w: &World) -> Option<String> {
    let sysroot = std::process::Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let bin = format!("{}/bin", String::from_utf8_lossy(&sysroot.stdout).trim());
    if w.outside(&format!("test -x {bin}/cargo && test -x {bin}/rustc")).code != 0 {
        if w.is_root() {
            skip("cargo is not installed");
        } else {
            // Not for the want of a tool: this user may not read it, and that is as it should be.
            assert_ne!(w.inside(&format!("ls {bin}")).code, 0, "what is closed outside is closed inside");
        }
        return None;
    }
    Some(format!("{bin}:/usr/local/bin:/usr/bin:/bin"))
}

fn npm_packs_offline(w: &World) {
    not_on!(w, "copy", "npm keeps a cache in the home, which is read-only");
    needs!(w, "npm");
    w.write(
        "package.json",
        "{\"name\":\"tiny\",\"version\":\"1.0.0\",\"main\":\"index.js\",\"scripts\":{\"hello\":\"node index.js\"}}",
    );
    w.write("index.js", "console.log('hello from node')\n");
    let script = "npm run --silent hello && npm pack --silent --offline && mkdir -p user && cd user && npm init -y >/dev/null && \
                  npm install --silent --offline --no-audit --no-fund ../tiny-1.0.0.tgz && node -e \"require('tiny')\"";
    let outcome = w.inside(script).ok();
    assert_eq!(outcome.stdout, "hello from node\ntiny-1.0.0.tgz\nhello from node\n");
    assert!(!w.project.join("tiny-1.0.0.tgz").exists());
}

fn a_python_environment_works(w: &World) {
    needs!(w, "python3");
    let script = "/usr/bin/python3 -m venv --without-pip env && . env/bin/activate && python -c 'import sys; print(sys.prefix)' && \
                  mkdir -p mod && echo 'x = 42' > mod/__init__.py && python -c 'import mod; print(mod.x)'";
    let outcome = w.inside(script).ok();
    assert_eq!(outcome.stdout, format!("{}/env\n42\n", w.project.display()));
}

/// WAL mode uses shared memory and locks; the journal uses rename and unlink.
fn sqlite_works(w: &World) {
    needs!(w, "sqlite3");
    w.outside("sqlite3 db 'create table t(x); insert into t values (1),(2);'").ok();
    let script = "sqlite3 db 'insert into t values (3); select sum(x) from t; pragma journal_mode=wal; insert into t values (4); select count(*) from t; pragma integrity_check;'";
    assert_eq!(w.inside(script).ok().stdout, "6\nwal\n4\nok\n");
    assert_eq!(w.outside("sqlite3 db 'select count(*) from t'").ok().text(), "2");
}

fn tar_keeps_everything(w: &World) {
    let script = "rm -rf t o a.tar && mkdir -p t/sub && seq 1000 > t/file && ln -s file t/link && ln t/file t/hard && mkfifo t/pipe && chmod 640 t/file && \
                  truncate -s 1M t/sparse && tar -S -cf a.tar t && mkdir o && tar -C o -xf a.tar && cd o && \
                  find t | sort && stat -c '%n %A %h %s' t/file t/hard t/sparse && readlink t/link && cksum t/file && cd .. && rm -rf t o a.tar";
    same_inside_as_outside(w, script);
}

fn rsync_mirrors(w: &World) {
    needs!(w, "rsync");
    let script = "rm -rf s d && mkdir -p s/x && seq 100 > s/a && seq 50 > s/x/b && ln -s a s/l && find s -exec touch -h -d 2001-01-01 {} + && rsync -a s/ d/ && echo more >> s/a && rm s/x/b && \
                  rsync -a --delete --itemize-changes s/ d/ | sort && diff -r s d && ls -R d && rm -rf s d";
    same_inside_as_outside(w, script);
}

fn c_programs_are_built_and_run(w: &World) {
    needs!(w, "gcc");
    w.write("hello.c", "#include <stdio.h>\nint main(void){puts(\"compiled\");return 0;}\n");
    assert_eq!(w.inside("gcc -O1 -o hello hello.c && ./hello").ok().text(), "compiled");
}

/// Like pjdfstest: each operation and its error, compared with reality. Every line is one case.
fn the_file_system_behaves_as_outside(w: &World) {
    needs!(w, "python3");
    // Files of a lower layer behave differently from new ones, so both kinds are tried.
    let prepare = "rm -rf lower && mkdir -p lower/dir/sub lower/empty && echo content > lower/file && echo other > lower/other && ln lower/file lower/hard && \
                   ln -s file lower/link && ln -s nowhere lower/dangling && echo x > lower/dir/sub/x && chmod 600 lower/other && truncate -s 100k lower/long";
    w.outside(prepare).ok();
    assert_eq!(
        w.inside("mv lower/dir lower/moved && cat lower/moved/sub/x && ls lower/dir 2>/dev/null | wc -l").ok().stdout,
        "x\n0\n"
    );
    w.write("semantics.py", SEMANTICS);
    let inside = w.whatif(["run", "--rm", "-q", "--", "/usr/bin/python3", "semantics.py"]).go().ok();
    let outside = w.program("/usr/bin/python3").args(["semantics.py"]).go().ok();
    assert!(outside.stdout.lines().count() > 60, "the table is long: {}", outside.stdout);
    // A directory of reality cannot be renamed in place; `mv` and its like copy instead.
    let known = |inside: &str| inside == "lower rename directory over full one -> EXDEV";
    let both = outside.stdout.lines().zip(inside.stdout.lines());
    let differences: Vec<_> = both.filter(|(o, i)| o != i && !known(i)).collect();
    assert!(
        differences.is_empty() && outside.stdout.lines().count() == inside.stdout.lines().count(),
        "(outside, inside): {differences:#?}"
    );
}

const SEMANTICS: &str = r#"
import ctypes, errno, mmap, os, stat
def case(name, f):
    try: result = f()
    except OSError as e: result = errno.errorcode[e.errno]
    print(name, "->", result)
def content(path): return open(path).read()
def write(path, text): open(path, "w").write(text)
def kind(path): s = os.lstat(path); return oct(s.st_mode), s.st_nlink, s.st_size
for where in ("lower", "fresh"):
    if where == "fresh":
        os.makedirs("fresh/dir/sub"); os.mkdir("fresh/empty"); write("fresh/file", "content\n"); write("fresh/other", "other\n")
        os.link("fresh/file", "fresh/hard"); os.symlink("file", "fresh/link"); os.symlink("nowhere", "fresh/dangling")
        write("fresh/dir/sub/x", "x\n"); os.chmod("fresh/other", 0o600); write("fresh/long", ""); os.truncate("fresh/long", 102400)
    os.chdir(where)
    def c(name, f): case(where + " " + name, f)
    c("O_EXCL on existing", lambda: os.open("file", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    c("O_EXCL on dangling link", lambda: os.open("dangling", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    c("O_NOFOLLOW on link", lambda: os.open("link", os.O_NOFOLLOW))
    c("O_DIRECTORY on file", lambda: os.open("file", os.O_DIRECTORY))
    c("open directory for writing", lambda: os.open("dir", os.O_WRONLY))
    c("mkdir existing", lambda: os.mkdir("dir"))
    c("rmdir full", lambda: os.rmdir("dir"))
    c("rmdir file", lambda: os.rmdir("file"))
    c("unlink directory", lambda: os.unlink("dir"))
    c("rename file over directory", lambda: os.rename("other", "dir"))
    c("rename directory over file", lambda: os.rename("empty", "other"))
    c("rename directory over full one", lambda: os.rename("empty", "dir"))
    c("rename into itself", lambda: os.rename("dir", "dir/sub/y"))
    c("link to directory", lambda: os.link("dir", "dirlink"))
    c("link over existing", lambda: os.link("file", "other"))
    c("symlink over existing", lambda: os.symlink("x", "other"))
    c("too long a name", lambda: write("n" * 256, ""))
    c("not a directory", lambda: os.stat("file/x"))
    c("chmod", lambda: (os.chmod("other", 0o4711), kind("other"))[1])
    c("chmod sticky directory", lambda: (os.chmod("empty", 0o1777), oct(os.stat("empty").st_mode))[1])
    c("utime", lambda: (os.utime("other", ns=(10**18 + 1, 10**18 + 2)), os.stat("other").st_mtime_ns)[1])
    c("truncate shorter", lambda: (os.truncate("long", 10), os.stat("long").st_size)[1])
    c("truncate longer", lambda: (os.truncate("long", 1 << 20), kind("long")))
    c("sparse", lambda: os.stat("long").st_blocks < 100)
    def hole():
        with open("long", "r+b") as f: f.seek(500000); f.write(b"data")
        f = os.open("long", os.O_RDONLY)
        return os.pread(f, 6, 499999), os.stat("long").st_size
    c("write into a hole", hole)
    def mapped():
        with open("long", "r+b") as f:
            m = mmap.mmap(f.fileno(), 4096); m[0:6] = b"mapped"; m.flush(); m.close()
        return content("long")[:6]
    c("mapped write", mapped)
    def append():
        a = os.open("other", os.O_WRONLY | os.O_APPEND); b = os.open("other", os.O_WRONLY | os.O_APPEND)
        os.write(a, b"1"); os.write(b, b"2"); os.close(a); os.close(b); return content("other")
    c("append twice", append)
    def unlinked():
        f = os.open("other", os.O_RDWR); os.unlink("other"); os.write(f, b"still"); os.lseek(f, 0, 0)
        return os.read(f, 5), os.fstat(f).st_nlink, os.path.exists("other")
    c("use after unlink", unlinked)
    c("create again after unlink", lambda: (write("other", "again"), content("other"))[1])
    c("rename over", lambda: (write("n", "new"), os.rename("n", "other"), content("other"), os.path.exists("n"))[2:])
    c("rename away and back", lambda: (os.rename("file", "f2"), os.rename("f2", "file"), content("file"))[2])
    c("link and unlink", lambda: (os.link("other", "second"), kind("other")[1], os.unlink("other"), kind("second")[1], content("second"))[1::2])
    c("new hard links share", lambda: (os.link("second", "third"), write("third", "shared"), content("second"), os.stat("second").st_ino == os.stat("third").st_ino)[2:])
    c("readlink", lambda: (os.readlink("link"), os.readlink("dangling")))
    c("unlink link", lambda: (os.unlink("link"), os.path.exists("file"))[1])
    c("write through dangling", lambda: (write("dangling", "made"), content("nowhere"))[1])
    c("delete in a directory, then list", lambda: (os.unlink("dir/sub/x"), os.listdir("dir/sub"))[1])
    c("remove and make again", lambda: (os.rmdir("dir/sub"), os.mkdir("dir/sub"), os.listdir("dir/sub"))[2])
    c("rename new directory", lambda: (os.mkdir("d1"), write("d1/f", "f"), os.rename("d1", "d2"), os.listdir("d2"), os.path.exists("d1"))[3:])
    c("fifo", lambda: (os.mkfifo("fifo"), stat.S_ISFIFO(os.stat("fifo").st_mode))[1])
    c("fifo without reader", lambda: os.open("fifo", os.O_WRONLY | os.O_NONBLOCK))
    c("xattr set and get", lambda: (os.setxattr("file", "user.a", b"1"), os.getxattr("file", "user.a"), os.listxattr("file"))[1:])
    c("xattr create existing", lambda: os.setxattr("file", "user.a", b"2", os.XATTR_CREATE))
    c("xattr remove", lambda: (os.removexattr("file", "user.a"), os.listxattr("file"))[1])
    c("xattr missing", lambda: os.getxattr("file", "user.none"))
    c("xattr on directory", lambda: (os.setxattr("empty", "user.d", b"d"), os.getxattr("empty", "user.d"))[1])
    c("trusted xattr", lambda: os.listxattr("dir"))
    c("temporary without a name", lambda: os.write(os.open(".", os.O_TMPFILE | os.O_RDWR), b"x"))
    c("listing", lambda: sorted(os.listdir(".")))
    c("statvfs name length", lambda: os.statvfs(".").f_namemax)
    c("negative lookup then create", lambda: (os.path.exists("later"), write("later", "l"), os.path.exists("later"))[::2])
    c("rewind and list again", lambda: [len(list(os.scandir("."))) for _ in range(2)])
    os.chdir("..")
"#;
