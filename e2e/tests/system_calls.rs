//! Attack group KS: the kernel's surface.

use whatif_e2e::{World, as_root_and_user, needs, on_other_backends};

as_root_and_user!(
    dangerous_calls_are_refused,
    unknown_calls_are_answered_as_unknown,
    no_namespace_can_be_made,
    foreign_system_call_tables_are_closed,
    every_process_is_confined,
    personalities_that_weaken_a_process_are_refused,
    addresses_can_be_the_same_each_time,
    nobody_waits_for_a_lease_of_a_sandbox,
    no_blocks_of_files_are_exchanged,
);
on_other_backends!(
    dangerous_calls_are_refused,
    no_namespace_can_be_made,
    foreign_system_call_tables_are_closed,
    every_process_is_confined,
    nobody_waits_for_a_lease_of_a_sandbox,
);

/// What Docker's default profile denies without extra capabilities, and what our own promises add.
const REFUSED: &[(&str, libc::c_long)] = &[
    ("mount", libc::SYS_mount),
    ("umount2", libc::SYS_umount2),
    ("pivot_root", libc::SYS_pivot_root),
    ("open_tree", libc::SYS_open_tree),
    ("move_mount", libc::SYS_move_mount),
    ("fsopen", libc::SYS_fsopen),
    ("fsconfig", libc::SYS_fsconfig),
    ("fsmount", libc::SYS_fsmount),
    ("fspick", libc::SYS_fspick),
    ("mount_setattr", libc::SYS_mount_setattr),
    ("setns", libc::SYS_setns),
    ("init_module", libc::SYS_init_module),
    ("finit_module", libc::SYS_finit_module),
    ("delete_module", libc::SYS_delete_module),
    ("kexec_load", libc::SYS_kexec_load),
    ("reboot", libc::SYS_reboot),
    ("bpf", libc::SYS_bpf),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("syslog", libc::SYS_syslog),
    ("acct", libc::SYS_acct),
    ("swapon", libc::SYS_swapon),
    ("swapoff", libc::SYS_swapoff),
    ("quotactl", libc::SYS_quotactl),
    ("quotactl_fd", libc::SYS_quotactl_fd),
    ("fanotify_init", libc::SYS_fanotify_init),
    ("lookup_dcookie", libc::SYS_lookup_dcookie),
    ("nfsservctl", libc::SYS_nfsservctl),
    ("vhangup", libc::SYS_vhangup),
    ("add_key", libc::SYS_add_key),
    ("request_key", libc::SYS_request_key),
    ("keyctl", libc::SYS_keyctl),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("kcmp", libc::SYS_kcmp),
    ("clock_settime", libc::SYS_clock_settime),
    ("clock_adjtime", libc::SYS_clock_adjtime),
    ("settimeofday", libc::SYS_settimeofday),
    ("mbind", libc::SYS_mbind),
    ("set_mempolicy", libc::SYS_set_mempolicy),
    ("get_mempolicy", libc::SYS_get_mempolicy),
    ("migrate_pages", libc::SYS_migrate_pages),
    ("move_pages", libc::SYS_move_pages),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_uring_register", libc::SYS_io_uring_register),
    ("clone3", libc::SYS_clone3),
    ("io_setup", libc::SYS_io_setup),
    ("memfd_secret", libc::SYS_memfd_secret),
    #[cfg(target_arch = "x86_64")]
    ("kexec_file_load", libc::SYS_kexec_file_load),
    #[cfg(target_arch = "x86_64")]
    ("iopl", libc::SYS_iopl),
    #[cfg(target_arch = "x86_64")]
    ("ioperm", libc::SYS_ioperm),
    #[cfg(target_arch = "x86_64")]
    ("modify_ldt", libc::SYS_modify_ldt),
    #[cfg(target_arch = "x86_64")]
    ("uselib", libc::SYS_uselib),
    #[cfg(target_arch = "x86_64")]
    ("ustat", libc::SYS_ustat),
    #[cfg(target_arch = "x86_64")]
    ("sysfs", libc::SYS_sysfs),
    #[cfg(target_arch = "x86_64")]
    ("_sysctl", libc::SYS__sysctl),
    #[cfg(target_arch = "x86_64")]
    ("create_module", 174),
    #[cfg(target_arch = "x86_64")]
    ("query_module", 178),
    #[cfg(target_arch = "x86_64")]
    ("get_kernel_syms", 177),
];

/// KS-01, KS-02, NS-01. Arguments are invalid on purpose: a call that is not filtered says EFAULT, EINVAL or EBADF.
fn dangerous_calls_are_refused(w: &World) {
    needs!(w, "python3");
    let table: Vec<String> = REFUSED.iter().map(|(name, number)| format!("('{name}', {number})")).collect();
    let program = format!(
        r#"
import ctypes, errno, json
libc = ctypes.CDLL(None, use_errno=True)
out = {{}}
for name, number in [{table}]:
    r = libc.syscall(number, *[ctypes.c_long(-1)] * 6)
    out[name] = "worked" if r >= 0 else errno.errorcode.get(ctypes.get_errno())
print(json.dumps(out))
"#,
        table = table.join(", ")
    );
    let results = w.python_inside(&program);
    let let_through: Vec<_> =
        results.as_object().expect("an object").iter().filter(|(_, r)| *r != "EPERM" && *r != "ENOSYS").collect();
    assert_eq!(results.as_object().map(serde_json::Map::len), Some(REFUSED.len()));
    assert!(let_through.is_empty(), "these reach the kernel: {let_through:?}");
}

/// A call newer than our table is not let through on trust.
fn unknown_calls_are_answered_as_unknown(w: &World) {
    needs!(w, "python3");
    let program = r#"
import ctypes, errno, json
libc = ctypes.CDLL(None, use_errno=True)
print(json.dumps(sorted({errno.errorcode[ctypes.get_errno()] if libc.syscall(n, *[ctypes.c_long(-1)] * 6) < 0 else n for n in range(470, 600)})))
"#;
    assert_eq!(w.python_inside(program), serde_json::json!(["ENOSYS"]));
}

/// KS-05, through each call that could make one, for each kind.
fn no_namespace_can_be_made(w: &World) {
    needs!(w, "python3");
    let program = format!(
        r#"
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
out = {{}}
kinds = dict(user=0x10000000, mount=0x20000, pid=0x20000000, net=0x40000000, ipc=0x08000000, uts=0x04000000, cgroup=0x02000000, time=0x80)
for name, flag in kinds.items():
    for high in (0, 1 << 40):
        r = libc.syscall({unshare}, ctypes.c_ulong(flag | high))
        out["unshare " + name + (" high" if high else "")] = "made" if r >= 0 else errno.errorcode[ctypes.get_errno()]
    if name == "time": continue
    r = libc.syscall({clone}, ctypes.c_ulong(flag | 17), 0, 0, 0, 0)
    if r == 0: os._exit(0)
    out["clone " + name] = "made" if r > 0 else errno.errorcode[ctypes.get_errno()]
print(json.dumps(out))
"#,
        unshare = libc::SYS_unshare,
        clone = libc::SYS_clone
    );
    for (attempt, result) in w.python_inside(&program).as_object().expect("an object") {
        assert!(result == "EPERM" || (attempt.ends_with("high") && result == "EINVAL"), "{attempt}: {result}");
    }
}

/// KS-03: the same calls by their x32 and i386 numbers, past a filter that only knows x86-64.
#[cfg(target_arch = "x86_64")]
fn foreign_system_call_tables_are_closed(w: &World) {
    needs!(w, "gcc");
    w.write("foreign.c", FOREIGN);
    w.outside("gcc -O1 -o foreign foreign.c").ok();
    for way in ["x32", "int80"] {
        let outcome = w.inside(&format!("./foreign {way}; echo ended $?"));
        let outcome = outcome.ok();
        let refused = outcome.stdout.contains("refused") || outcome.stdout.contains("ended 159");
        assert!(refused && !outcome.stdout.contains("worked"), "{way}: {} {}", outcome.stdout, outcome.stderr);
    }
}
#[cfg(not(target_arch = "x86_64"))]
fn foreign_system_call_tables_are_closed(_: &World) {
    whatif_e2e::skip("only x86-64 has other tables of system calls");
}

/// `getpid`, which nobody denies, so that only the table it is called through can be the reason.
const FOREIGN: &str = r#"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>
#include <sys/syscall.h>
int main(int argc, char **argv) {
    long result;
    if (argc > 1 && !strcmp(argv[1], "x32")) {
        result = syscall(0x40000000 | SYS_getpid);
        if (result < 0) result = -errno;
    } else {
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
        result = (int)result;
    }
    if (result == -ENOSYS || result == -EPERM) printf("refused\n");
    else printf("worked: %ld\n", result);
    return 0;
}
"#;

/// KS-09: exact values for what is executed, for what it executes, and for the first process.
fn every_process_is_confined(w: &World) {
    let name = w.new_sandbox("confined");
    let show = "grep -hE '^(NoNewPrivs|Seccomp|CapInh|CapPrm|CapEff|CapBnd|CapAmb):' /proc/self/status /proc/1/status";
    for script in [show.to_owned(), format!("sh -c \"{show}\""), format!("setsid sh -c \"{show}\"")] {
        let outcome = w.exec(&name, &script).ok();
        let values = |key: &str| -> Vec<String> {
            let lines = outcome.stdout.lines().filter(|l| l.starts_with(key));
            lines.filter_map(|l| l.split_whitespace().nth(1)).map(str::to_owned).collect()
        };
        assert_eq!(values("NoNewPrivs:"), ["1", "1"]);
        assert_eq!(values("Seccomp:"), ["2", "2"]);
        assert_eq!(values("CapInh:").first().map(String::as_str), Some("0000000000000000"));
        assert_eq!(values("CapAmb:").first().map(String::as_str), Some("0000000000000000"));
        for set in ["CapPrm:", "CapEff:", "CapBnd:"] {
            let own = u64::from_str_radix(&values(set)[0], 16).expect("a set of capabilities");
            // CAP_SYS_ADMIN, SYS_MODULE, SYS_RAWIO, SYS_PTRACE, DAC_READ_SEARCH, NET_ADMIN, NET_RAW, SYS_BOOT, SYS_TIME, BPF, MKNOD
            let dangerous = [21, 16, 17, 19, 2, 12, 13, 22, 25, 39, 27].iter().fold(0, |all, bit| all | (1 << bit));
            assert_eq!(own & dangerous, 0, "{set} {own:x}");
            assert!(w.is_root() || own == 0, "a user's command has {set} {own:x}");
        }
    }
}

fn personalities_that_weaken_a_process_are_refused(w: &World) {
    needs!(w, "python3");
    let program = format!(
        r#"
import ctypes, errno, json
libc = ctypes.CDLL(None, use_errno=True)
def persona(value):
    return "worked" if libc.syscall({number}, ctypes.c_ulong(value)) >= 0 else errno.errorcode[ctypes.get_errno()]
weaken = [0x400000, 0x100000, 0x440000, 0x140000, 0x8000000, 0x40001, 0xfffffffe, 1 << 32 | 0x400000]
print(json.dumps([[persona(v) for v in weaken], [persona(0xffffffff)]]))
"#,
        number = libc::SYS_personality
    );
    assert_eq!(w.python_inside(&program), serde_json::json!([vec!["EPERM"; 8], vec!["worked"]]));
}

/// Debuggers and benchmarks switch off random addresses for what they start. It is about that process alone.
fn addresses_can_be_the_same_each_time(w: &World) {
    needs!(w, "setarch");
    let stack = "setarch -R grep stack /proc/self/maps";
    let outcome = w.inside(&format!("{stack}; {stack}; setarch --list > /dev/null; setarch -R cat /proc/self/personality")).ok();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", outcome.stdout);
    assert_eq!(lines[0], lines[1]);
    assert_eq!(lines[2], "00040000");
}

/// A program of the host that opens a leased file would wait for the sandbox, as long as the kernel lets it. The high bits of the
/// command are ones that the kernel does not look at.
fn nobody_waits_for_a_lease_of_a_sandbox(w: &World) {
    needs!(w, "python3");
    w.write(w.project.join("mine"), "x");
    let program = format!(
        r#"
import ctypes, errno, fcntl, json, os
libc = ctypes.CDLL(None, use_errno=True)
file = os.open("mine", os.O_RDONLY)
def command(number, value=0):
    result = libc.syscall({fcntl}, file, ctypes.c_ulong(number), ctypes.c_ulong(value))
    return errno.errorcode[ctypes.get_errno()] if result < 0 else result
leases = [command(high | fcntl.F_SETLEASE, kind) for high in (0, 1 << 32) for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK)]
print(json.dumps([leases, command(1040, fcntl.F_RDLCK), command(fcntl.F_GETLEASE), command(fcntl.F_GETFL) & 3]))
"#,
        fcntl = libc::SYS_fcntl
    );
    let none = serde_json::json!([["EINVAL", "EINVAL", "EINVAL", "EINVAL"], "EINVAL", libc::F_UNLCK, libc::O_RDONLY]);
    assert_eq!(w.python_inside(&program), none);
}

/// On ext4 that changes content and moves no time. In a copy the file system is ext4 itself.
fn no_blocks_of_files_are_exchanged(w: &World) {
    needs!(w, "python3");
    let program = r#"
import fcntl, os, struct
block = 4096
for name, fill in (("kept", b"a"), ("other", b"b")):
    with open(name, "wb") as file:
        file.write(fill * 2 * block)
        os.fsync(file.fileno())
kept, other = os.open("kept", os.O_RDWR), os.open("other", os.O_RDWR)
try:
    fcntl.ioctl(kept, 0xC028660F, struct.pack("IIQQQQ", 0, other, 0, 0, 1, 0))
except OSError as error:
    print(error.strerror)
print(open("kept", "rb").read() == b"a" * 2 * block)
"#;
    w.whatif(["new", "s", "--backend", "copy"]).go().ok();
    let said = w.whatif(["exec", "s", "--", "/usr/bin/python3", "-ISc", program]).go().ok();
    assert_eq!(said.text(), "Inappropriate ioctl for device\nTrue");
}
