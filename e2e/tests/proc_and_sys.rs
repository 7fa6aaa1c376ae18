//! Attack group PS: `/proc` and `/sys`.

use whatif_e2e::{World, as_root_and_user, needs, on_other_backends};

as_root_and_user!(
    no_setting_of_the_kernel_can_be_written,
    nothing_in_proc_and_sys_opens_for_writing,
    only_processes_of_the_sandbox_are_visible,
    the_keeper_cannot_be_looked_into,
    the_launcher_cannot_be_overwritten,
    sensitive_files_are_masked,
    what_is_for_root_only_cannot_be_read,
    masks_cannot_be_lifted,
    what_a_process_writes_about_itself_stays_with_it,
    how_the_kernel_was_built_is_shown,
);
on_other_backends!(
    no_setting_of_the_kernel_can_be_written,
    nothing_in_proc_and_sys_opens_for_writing,
    what_is_for_root_only_cannot_be_read,
    the_keeper_cannot_be_looked_into,
    only_processes_of_the_sandbox_are_visible,
    the_launcher_cannot_be_overwritten,
    sensitive_files_are_masked,
    masks_cannot_be_lifted,
    what_a_process_writes_about_itself_stays_with_it,
);

/// PS-01 and PS-09, without ever writing: `access` and an open that changes nothing.
fn no_setting_of_the_kernel_can_be_written(w: &World) {
    needs!(w, "python3");
    let program = r#"
import os, errno, json
out = {}
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger"):
    try:
        os.close(os.open(path, os.O_WRONLY)); out[path] = "open"
    except OSError as e: out[path] = errno.errorcode[e.errno]
    if os.access(path, os.W_OK): out[path] += " access"
print(json.dumps(out))
"#;
    for (path, result) in w.python_inside(program).as_object().expect("an object") {
        assert!(["EROFS", "EACCES", "EPERM", "ENOENT"].iter().any(|e| result == e), "{path}: {result}");
    }
}

/// PS-02: the whole of both trees; the only exceptions are a process's own files.
fn nothing_in_proc_and_sys_opens_for_writing(w: &World) {
    needs!(w, "python3");
    let program = r#"
import os, json, re
opened, tried = [], 0
own = re.compile(r"^/proc/([0-9]+|self|thread-self)(/|$)")
for top in ("/proc", "/sys"):
    for directory, names, files in os.walk(top):
        if own.match(directory): names[:] = []; continue
        for name in files:
            path = os.path.join(directory, name)
            if os.path.islink(path): continue
            tried += 1
            try: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)); opened.append(path)
            except OSError: pass
print(json.dumps({"tried": tried, "opened": opened}))
"#;
    let result = w.python_inside(program);
    assert!(result["tried"].as_u64().expect("a count") > 300, "the trees are there: {}", result["tried"]);
    // The masks are bound over by /dev/null-like files whose writes go nowhere.
    assert_eq!(result["opened"], serde_json::json!([]));
}

/// PS-07.
fn only_processes_of_the_sandbox_are_visible(w: &World) {
    let us = std::process::id();
    let outcome =
        w.inside(&format!("ls /proc | grep -E '^[0-9]+$' | wc -l; ls -d /proc/{us} 2>&1; cat /proc/{us}/environ 2>&1; true")).ok();
    let count: u32 = outcome.stdout.lines().next().and_then(|l| l.trim().parse().ok()).expect("a count");
    assert!(count <= 6, "{count} processes are visible");
    if us > 100 {
        assert!(outcome.stdout.matches("No such file").count() == 2, "{}", outcome.stdout);
    }
}

/// PS-07, and the promise that nothing inside reaches the keeper.
fn the_keeper_cannot_be_looked_into(w: &World) {
    needs!(w, "python3");
    let program = format!(
        r#"
import os, errno, json, ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
out = {{}}
def attempt(name, f):
    try: f(); out[name] = "worked"
    except OSError as e: out[name] = errno.errorcode[e.errno]
for name in ("mem", "environ", "maps", "auxv", "stack"):
    attempt(name, lambda: open("/proc/1/" + name, "rb").read(1))
attempt("write mem", lambda: os.close(os.open("/proc/1/mem", os.O_RDWR)))
def list_descriptors():
    # Or covered by an empty directory.
    if not os.listdir("/proc/1/fd") and not os.listdir("/proc/1/task"): raise OSError(errno.ENOENT, "")
attempt("fd", list_descriptors)
attempt("root", lambda: os.listdir("/proc/1/root/"))
attempt("cwd", lambda: os.listdir("/proc/1/cwd/"))
attempt("exe", lambda: os.close(os.open("/proc/1/exe", os.O_WRONLY)))
def call(*arguments):
    if libc.syscall(*arguments) < 0: raise OSError(ctypes.get_errno(), "")
attempt("ptrace", lambda: call({ptrace}, 16, 1, 0, 0))
here = ctypes.create_string_buffer(8)
mine, theirs = (ctypes.c_size_t * 2)(ctypes.addressof(here), 8), (ctypes.c_size_t * 2)(0x400000, 8)
attempt("process_vm_readv", lambda: call(*map(ctypes.c_long, ({readv}, 1, ctypes.addressof(mine), 1, ctypes.addressof(theirs), 1, 0))))
attempt("pidfd_getfd", lambda: call({getfd}, os.pidfd_open(1), 0, 0))
attempt("kill", lambda: os.kill(1, 9))
attempt("stop", lambda: os.kill(1, 19))
out["still there"] = os.path.exists("/proc/1")
print(json.dumps(out))
"#,
        ptrace = libc::SYS_ptrace,
        readv = libc::SYS_process_vm_readv,
        getfd = libc::SYS_pidfd_getfd,
    );
    let results = w.python_inside(&program);
    assert_eq!(results["still there"], true);
    for (attempt, result) in results.as_object().expect("an object") {
        // A signal to PID 1 from inside "works" and is ignored; everything else must fail.
        let harmless = ["still there", "kill", "stop"].contains(&attempt.as_str());
        assert!(harmless || ["EPERM", "EACCES", "ENOENT", "EROFS", "ESRCH"].iter().any(|e| result == e), "{attempt}: {result}");
    }
}

/// PS-03 (runc's CVE-2019-5736): the binary that started us, through every process that runs it.
fn the_launcher_cannot_be_overwritten(w: &World) {
    needs!(w, "python3");
    let before = std::fs::read(&w.bin).expect("it is there");
    let name = w.new_sandbox("launcher");
    let attack = r#"
import os, time
end, opened = time.time() + 1.5, 0
while time.time() < end:
    for pid in [p for p in os.listdir("/proc") if p.isdigit() and p != str(os.getpid())]:
        try: fd = os.open(f"/proc/{pid}/exe", os.O_WRONLY); os.write(fd, b"owned"); opened += 1
        except OSError: pass
print(opened)
"#;
    let attacker = w.whatif(["exec", &name, "--", "/usr/bin/python3", "-c", attack]);
    let attacking = std::thread::spawn(move || attacker.go());
    while !attacking.is_finished() {
        w.exec(&name, "true").ok();
    }
    attacking.join().expect("no panic").ok();
    assert!(std::fs::read(&w.bin).expect("it is there") == before, "the launcher was overwritten");
}

fn sensitive_files_are_masked(w: &World) {
    let script = "cat /proc/kcore /proc/keys /proc/timer_list /proc/kmsg /proc/key-users 2>/dev/null | head -c 100 | wc -c; \
                  ls /sys/firmware /sys/kernel/debug /proc/acpi 2>/dev/null | grep -v : | grep -c .; true";
    assert_eq!(w.inside(script).ok().stdout, "0\n0\n");
}

/// Root outside may read them, root inside may not.
fn what_is_for_root_only_cannot_be_read(w: &World) {
    let closed = ["kpageflags", "kpagecount", "slabinfo", "vmallocinfo", "pagetypeinfo", "tty/driver/serial"];
    let script =
        format!("cd /proc; for f in {}; do head -c 1 $f 2>/dev/null | grep -q . && echo $f; done; echo end", closed.join(" "));
    assert_eq!(w.inside(&script).ok().text(), "end");
}

/// PS-09: unmounting a mask, remounting, a second procfs, a nested user namespace.
fn masks_cannot_be_lifted(w: &World) {
    let attempts = [
        "umount /proc/sys",
        "umount -l /proc/kmsg",
        "mount -o remount,rw /proc/sys",
        "mount -o remount,rw,bind /sys",
        "mkdir -p /tmp/p && mount -t proc proc /tmp/p",
        "mkdir -p /tmp/s && mount -t sysfs sysfs /tmp/s",
        "unshare -Ur true",
        "unshare -Urm mount -t proc proc /proc",
        "unshare -p -f --mount-proc true",
    ];
    for attempt in attempts {
        let outcome = w.inside(attempt);
        assert_ne!(outcome.code, 0, "{attempt} worked");
        assert!(outcome.code < 100, "{attempt} was not really tried: {} {}", outcome.code, outcome.stderr);
    }
}

/// PS-10, KS-07: its own files in /proc, a mapping of a file of reality by way of its memory, and a page of that file in a pipe.
fn what_a_process_writes_about_itself_stays_with_it(w: &World) {
    needs!(w, "python3");
    w.write("f", "of reality\n");
    let program = r#"
import ctypes, json, os, time
for name, value in (("clear_refs", "1"), ("coredump_filter", "0x7f"), ("timens_offsets", "boottime 86400 0")):
    try:
        with open(f"/proc/self/{name}", "w") as f: f.write(value)
    except OSError: pass
fd = os.open("f", os.O_RDONLY)
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
address = libc.mmap(None, 4096, 1, 2, fd, 0)
memory = os.open("/proc/self/mem", os.O_RDWR)
os.pwrite(memory, b"mapped", address)
out, into = os.pipe()
os.splice(fd, into, 1, offset_src=0)
os.write(into, b"spliced")
print(json.dumps({"mapping": ctypes.string_at(address, 6).decode(), "pipe": os.read(out, 100).decode(), "file": open("f").read(),
    "since_boot": time.clock_gettime(time.CLOCK_BOOTTIME)}))
"#;
    let seen = w.python_inside(program);
    let uptime = std::fs::read_to_string("/proc/uptime").expect("there is one");
    let uptime: f64 = uptime.split(' ').next().and_then(|seconds| seconds.parse().ok()).expect("a number");
    assert_eq!((seen["mapping"].as_str(), seen["pipe"].as_str()), (Some("mapped"), Some("ospliced")), "both were tried: {seen}");
    assert_eq!((seen["file"].as_str(), w.read("f").as_str()), (Some("of reality\n"), "of reality\n"));
    assert!((seen["since_boot"].as_f64().expect("a number") - uptime).abs() < 1000.0, "{seen}, outside {uptime}");
}

/// Programs that build or check modules read it. Not every kernel has it.
fn how_the_kernel_was_built_is_shown(w: &World) {
    let read = "cat /proc/version; test ! -e /proc/config.gz || gzip -dc /proc/config.gz";
    let (inside, outside) = (w.inside(read).ok().stdout, w.outside(read).ok().stdout);
    assert!(inside.starts_with("Linux version"), "{inside}");
    assert!(inside == outside, "it is another one: {} instead of {} bytes", inside.len(), outside.len());
}
