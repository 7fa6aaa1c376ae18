//! Links outside the project, as packages bring them: next to the file that they lead to, or to a file elsewhere. They are data,
//! unless they lead to what the sandbox could not see.

use whatif_e2e::{World, as_root_and_user, change};

as_root_and_user!(
    links_of_an_installed_program_are_applied_with_it,
    a_link_that_leads_out_of_sight_needs_its_own_approval,
    a_link_in_the_place_of_a_file_needs_its_own_approval,
    a_link_outside_does_not_hide_what_is_executed,
    a_link_of_the_project_that_leads_out_stays_flagged,
);

fn flags(w: &World, path: &str) -> Vec<String> {
    let document = w.json(["diff", "s", "--outside"]);
    let path = w.home.join(path).display().to_string();
    let flags = change(&document, &path)["flags"].as_array().cloned().unwrap_or_default();
    flags.iter().filter_map(|flag| flag.as_str().map(str::to_owned)).collect()
}

fn is_flagged(w: &World, path: &str) -> bool {
    flags(w, path).iter().any(|flag| flag == "link_outside")
}

fn links_of_an_installed_program_are_applied_with_it(w: &World) {
    w.outside("mkdir -p ~/opt/lib; echo 1 > ~/opt/lib/libold.so.1; ln -s libold.so.1 ~/opt/lib/libold.so").ok();
    let elsewhere = w.home.join("opt/share/tool").display().to_string();
    w.sandbox_with(
        "s",
        &format!(
            "cd ~/opt; mkdir share; echo 1 > lib/libx.so.1.2; ln -s libx.so.1.2 lib/libx.so.1; ln -s libx.so.1 lib/libx.so; \
             echo tool > share/tool; ln -s {elsewhere} lib/absolute; ln -s ../share lib/above; ln -s nothing-yet lib/dangling; \
             ln -s /usr/lib/none lib/system; ln -s /dev/null lib/off; echo 2 > lib/libold.so.2; ln -sf libold.so.2 lib/libold.so"
        ),
    );
    for link in ["libx.so.1", "libx.so", "absolute", "above", "dangling", "system", "off", "libold.so"] {
        assert!(!is_flagged(w, &format!("opt/lib/{link}")), "{link}");
    }
    w.apply(&["s", "--outside"]).ok();
    assert_eq!(w.outside("cd ~/opt/lib; cat libx.so libold.so absolute above/tool").ok().stdout, "1\n2\ntool\ntool\n");
    let targets = w.outside("cd ~/opt/lib; readlink dangling system off").ok().stdout;
    assert_eq!(targets, "nothing-yet\n/usr/lib/none\n/dev/null\n");
    w.whatif(["undo", "--yes"]).go().ok();
    assert_eq!(w.outside("cd ~/opt; ls lib; readlink lib/libold.so").ok().text(), "libold.so\nlibold.so.1\nlibold.so.1");
}

fn a_link_that_leads_out_of_sight_needs_its_own_approval(w: &World) {
    w.outside("mkdir -p ~/.ssh ~/share; echo KEY > ~/.ssh/id_ed25519; ln -s ../.ssh ~/share/known").ok();
    let state = w.state.display();
    w.sandbox_with(
        "s",
        &format!(
            "cd ~/share; ln -s ../.ssh/id_ed25519 key; ln -s ../.ssh keys; ln -s .. all; ln -s known/id_ed25519 by-real; \
             ln -s {state} state; ln -s /proc/self/root proc; ln -s /run/lock lock; ln -s /tmp/x tmp; ln -s plain fine; \
             ln -s key second; echo x > plain"
        ),
    );
    for link in ["key", "keys", "all", "by-real", "state", "proc", "lock", "tmp", "second"] {
        assert!(is_flagged(w, &format!("share/{link}")), "{link}");
    }
    w.apply(&["s", "--outside"]).ok().says("to take: --risky");
    assert_eq!(w.outside("ls ~/share").ok().text(), "fine\nknown\nplain");
    w.apply(&["s", "--outside", "--risky"]).ok();
    assert_eq!(w.outside("cat ~/share/second").ok().text(), "KEY");
}

fn a_link_in_the_place_of_a_file_needs_its_own_approval(w: &World) {
    w.outside("mkdir -p ~/opt/logs; echo log > ~/opt/log; echo precious > ~/opt/data").ok();
    w.sandbox_with("s", "cd ~/opt; rm -r log logs; ln -s data log; ln -s . logs");
    assert!(is_flagged(w, "opt/log") && is_flagged(w, "opt/logs"));
    w.apply(&["s", "--outside"]).ok();
    assert_eq!(w.outside("cat ~/opt/log; echo more > ~/opt/log; cat ~/opt/data").ok().text(), "log\nprecious");
}

fn a_link_outside_does_not_hide_what_is_executed(w: &World) {
    w.outside("mkdir ~/share; echo true > ~/.bashrc").ok();
    w.sandbox_with("s", "ln -s ../.bashrc ~/share/notes; mkdir -p ~/.config; ln -s ../share ~/.config/autostart");
    for link in ["share/notes", ".config/autostart"] {
        assert!(flags(w, link).iter().any(|flag| flag == "host_executed"), "{link}");
    }
    w.apply(&["s", "--outside"]).ok();
    assert_eq!(w.outside("ls -A ~/share; ls ~/.config 2>/dev/null").stdout, "");
}

fn a_link_of_the_project_that_leads_out_stays_flagged(w: &World) {
    w.outside("echo x > ~/plain").ok();
    w.sandbox_with("s", "ln -s ../plain out; ln -s ~/plain absolute; ln -s out second");
    for link in ["project/out", "project/absolute", "project/second"] {
        let document = w.json(["diff", "s"]);
        let flags = change(&document, link.trim_start_matches("project/"))["flags"].to_string();
        assert!(flags.contains("link_outside"), "{link}");
    }
    w.apply(&["s", "--outside"]).ok();
    assert_eq!(w.outside("ls").ok().text(), "");
}
