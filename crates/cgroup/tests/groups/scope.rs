//! An ordinary user in a login session gets control groups in a scope of the user's own service manager.

use std::env;

use whatif_cgroup::Found;

use crate::support::UNUSABLE;

#[test]
fn what_a_session_cannot_have_a_scope_can() {
    let found = Found::look();
    let Some(scope) = found.scope() else {
        return println!("skipped: control groups are here without a scope, or not even with one");
    };
    let tests = env::current_exe().unwrap();
    let output = scope.command(tests.as_os_str()).args(["--nocapture", "--skip", "scope::"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    assert!(text.contains("test result: ok") && !text.contains(UNUSABLE));
}
