//! The checks of an apply run what the sandbox made, and get no more of its secrets than the sandbox did.

use whatif_e2e::{World, as_root_and_user, on_other_backends};

as_root_and_user!(a_check_is_not_given_the_variable_behind_a_secret);
on_other_backends!(a_check_is_not_given_the_variable_behind_a_secret);

fn a_check_is_not_given_the_variable_behind_a_secret(w: &World) {
    w.write(".whatif.toml", "[[apply.checks]]\nname = \"tests\"\nrun = \"sh ./tests.sh\"\n");
    w.write("tests.sh", "exit 0\n");
    let given = |call: whatif_e2e::Call| call.env("CORP_VALUE", "canary").env("OWN", "canary").env("PLAIN", "carried");
    let script = "echo \"$CORP_VALUE$PLAIN\"; echo 'echo \"has $CORP_VALUE$OWN$PLAIN\"; exit 1' > tests.sh";
    let host = "http://host.example";
    let secrets = ["--secret", "OWN=env", "--for", host, "--secret", "TOKEN=env:CORP_VALUE", "--for", host];
    let run = w.whatif(["run", "--quiet", "--name", "s"]).args(secrets).args(["--", "/bin/sh", "-c", script]);
    assert_eq!(given(run).go().ok().stdout, "carried\n");
    let applied = given(w.whatif(["apply", "s", "--yes"])).go();
    let said = format!("{}{}", applied.stdout, applied.stderr);
    assert!(said.contains("has carried") && !said.contains("canary"), "{said}");
}
