//! Users and groups that an ordinary user's sandbox does not know: programs are told what they are told outside.

use whatif_e2e::{World, as_root, as_root_and_user, as_user, needs};

as_user!(another_owner_is_not_permitted, no_other_user_can_be_become, what_is_allowed_outside_is_allowed_inside);
as_root!(root_gives_files_to_anybody);
as_root_and_user!(own_ids_and_no_change_are_always_allowed);

const TRY: &str = r#"
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
def tried(call, *arguments):
    ctypes.set_errno(0)
    arguments = [a if isinstance(a, bytes) else ctypes.c_long(a) for a in arguments]
    return 0 if libc.syscall(call, *arguments) == 0 else errno.errorcode[ctypes.get_errno()]
open("file", "w").close()
file = os.open("file", os.O_RDWR)
uid, gid = os.getuid(), os.getgid()
"#;

fn tried(w: &World, calls: &str) -> (serde_json::Value, serde_json::Value) {
    let program = format!("{TRY}\nprint(json.dumps([{calls}]))");
    w.write(w.project.join("try.py"), &program);
    let outside = w.outside("python3 try.py").ok();
    (w.python_inside(&program), serde_json::from_str(outside.text()).expect("it prints JSON"))
}

/// `chown`, in all its forms.
fn another_owner_is_not_permitted(w: &World) {
    needs!(w, "python3");
    let calls = format!(
        "tried({chown}, b'file', 0, -1), tried({chown}, b'file', -1, 0), tried({chown}, b'file', 0, 0), tried({lchown}, b'file', 4242, gid),
         tried({fchown}, file, 0, gid), tried({fchown}, file, uid, 4242), tried({fchownat}, -100, b'file', 0, -1, 0),
         tried({fchownat}, -100, b'file', -1, 77777, 0), tried({fchownat}, -100, b'file', (7 << 32) | 1, -1, 0)",
        chown = libc::SYS_chown,
        lchown = libc::SYS_lchown,
        fchown = libc::SYS_fchown,
        fchownat = libc::SYS_fchownat,
    );
    let (inside, outside) = tried(w, &calls);
    assert_eq!(inside, serde_json::json!(vec!["EPERM"; 9]));
    assert_eq!(inside, outside);
    let shell = w.inside("touch mine; chown root mine; chgrp 4242 mine; true").ok();
    assert_eq!(shell.stderr.matches("Operation not permitted").count(), 2, "{}", shell.stderr);
}

fn no_other_user_can_be_become(w: &World) {
    needs!(w, "python3");
    let calls = format!(
        "tried({setuid}, 0), tried({setgid}, 0), tried({setreuid}, uid, 0), tried({setreuid}, 0, -1), tried({setregid}, 0, gid),
         tried({setresuid}, -1, -1, 0), tried({setresuid}, 4242, uid, uid), tried({setresgid}, gid, 0, gid), tried({setresgid}, -1, -1, 77777)",
        setuid = libc::SYS_setuid,
        setgid = libc::SYS_setgid,
        setreuid = libc::SYS_setreuid,
        setregid = libc::SYS_setregid,
        setresuid = libc::SYS_setresuid,
        setresgid = libc::SYS_setresgid,
    );
    let (inside, outside) = tried(w, &calls);
    assert_eq!(inside, serde_json::json!(vec!["EPERM"; 9]));
    assert_eq!(inside, outside);
    let python = "import subprocess\ntry: subprocess.run(['true'], user=0)\nexcept PermissionError: print('not permitted')";
    assert_eq!(w.whatif(["run", "--", "/usr/bin/python3", "-c", python]).go().ok().text(), "not permitted");
}

fn what_is_allowed_outside_is_allowed_inside(w: &World) {
    needs!(w, "python3");
    let calls = format!(
        "tried({setuid}, uid), tried({setgid}, gid), tried({setresuid}, uid, -1, uid), tried({setresgid}, -1, gid, -1), tried({setuid}, -1)",
        setuid = libc::SYS_setuid,
        setgid = libc::SYS_setgid,
        setresuid = libc::SYS_setresuid,
        setresgid = libc::SYS_setresgid,
    );
    let (inside, outside) = tried(w, &calls);
    assert_eq!(inside, serde_json::json!([0, 0, 0, 0, "EINVAL"]));
    assert_eq!(inside, outside);
}

fn own_ids_and_no_change_are_always_allowed(w: &World) {
    needs!(w, "python3");
    let calls = format!(
        "tried({chown}, b'file', uid, gid), tried({chown}, b'file', -1, -1), tried({lchown}, b'file', uid, -1), tried({fchown}, file, -1, gid),
         tried({fchownat}, -100, b'file', uid, gid, 0), tried({chown}, b'missing', uid, gid)",
        chown = libc::SYS_chown,
        lchown = libc::SYS_lchown,
        fchown = libc::SYS_fchown,
        fchownat = libc::SYS_fchownat,
    );
    let (inside, outside) = tried(w, &calls);
    assert_eq!(inside, serde_json::json!([0, 0, 0, 0, 0, "ENOENT"]));
    assert_eq!(inside, outside);
}

fn root_gives_files_to_anybody(w: &World) {
    let said = w
        .inside("touch mine; chown 4242:77 mine; stat -c %u:%g mine; chown 70000 mine 2>/dev/null && stat -c %u mine || echo no")
        .ok();
    assert!(said.stdout.starts_with("4242:77\n"), "{}", said.stdout);
}
