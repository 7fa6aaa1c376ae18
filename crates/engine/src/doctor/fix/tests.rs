use super::*;

/// A machine in a directory, with what matters of one.
struct Place(Machine);

impl Place {
    fn new(test: &str, settings: &[(&str, &str)]) -> Self {
        // On an overlay, a root directory is a container's.
        let base = Some(std::env::temp_dir()).filter(|base| !is_container(base)).unwrap_or_else(|| "/dev/shm".into());
        let root = base.join(format!("whatif-fix-{}-{test}", std::process::id()));
        for directory in
            ["proc/sys/kernel", "proc/sys/user", "etc/apparmor.d", "etc/sysctl.d", "usr/sbin", "sys/kernel/security/apparmor"]
        {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        let place = Self(Machine { root });
        settings.iter().for_each(|(name, value)| place.put(&format!("proc/sys/{name}"), value));
        place
    }

    fn put(&self, path: &str, text: &str) {
        fs::write(self.0.root.join(path), text).unwrap();
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.0.root.join(path)).ok()
    }

    /// `ls -r FILE` succeeds if there is such a file, as loading it does.
    fn with_parser(self, program: &str) -> Self {
        std::os::unix::fs::symlink(program, self.0.root.join("usr/sbin/apparmor_parser")).unwrap();
        self
    }

    fn do_all(&self, steps: &[Step]) {
        steps.iter().for_each(|step| self.0.perform(step).unwrap());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0.root).unwrap();
    }
}

const RESTRICTED: [(&str, &str); 2] =
    [("kernel/apparmor_restrict_unprivileged_userns", "1\n"), ("user/max_user_namespaces", "62000\n")];

fn program() -> &'static Path {
    Path::new("/usr/local/bin/whatif")
}

#[test]
fn a_profile_is_written_loaded_and_not_planned_again() {
    let place = Place::new("profile", &RESTRICTED).with_parser("/bin/ls");
    let steps = place.0.plan(program()).unwrap();
    assert_eq!(steps, [Step::Profile { program: program().to_owned() }]);
    assert!(steps[0].in_words().contains("/etc/apparmor.d/whatif"), "{}", steps[0].in_words());
    assert!(steps[0].taken_back().contains("apparmor_parser -R /etc/apparmor.d/whatif"));
    place.do_all(&steps);
    let written = place.text(PROFILE_FILE).unwrap();
    assert!(written.contains("profile whatif \"/usr/local/bin/whatif\" flags=(unconfined) {\n  userns,\n"), "{written}");
    // The kernel has not said that it has it: it is loaded once more, and nothing else happens.
    place.do_all(&place.0.plan(program()).unwrap());
    assert_eq!(place.text(PROFILE_FILE).unwrap(), written);
    place.put(LOADED, "snap (enforce)\nwhatif (unconfined)\n");
    assert_eq!(place.0.plan(program()).unwrap(), []);
    // A binary elsewhere has no profile, and ours may be replaced.
    let elsewhere = Path::new("/opt/whatif");
    place.do_all(&place.0.plan(elsewhere).unwrap());
    assert!(place.text(PROFILE_FILE).unwrap().contains("\"/opt/whatif\""));
}

#[test]
fn a_profile_of_somebody_else_stays() {
    let place = Place::new("others", &RESTRICTED).with_parser("/bin/ls");
    place.put(PROFILE_FILE, "profile whatif /opt/other/whatif {}\n");
    assert!(matches!(place.0.plan(program()), Err(NoPlan::OthersProfile(_))));
    // One that a person wrote for this very program serves.
    let by_hand = "abi <abi/4.0>,\nprofile whatif /usr/local/bin/whatif flags=(unconfined) { userns, }\n";
    place.put(PROFILE_FILE, by_hand);
    place.do_all(&place.0.plan(program()).unwrap());
    assert_eq!(place.text(PROFILE_FILE).unwrap(), by_hand);
}

#[test]
fn a_profile_that_cannot_be_loaded_does_not_stay() {
    // It knows no -r.
    let place = Place::new("unloadable", &RESTRICTED).with_parser("/bin/cat");
    let steps = place.0.plan(program()).unwrap();
    assert!(place.0.perform(&steps[0]).is_err());
    assert_eq!(place.text(PROFILE_FILE), None);
    place.put(PROFILE_FILE, &profile_text(Path::new("/opt/whatif")).unwrap());
    assert!(place.0.perform(&steps[0]).is_err());
    assert!(place.text(PROFILE_FILE).unwrap().contains("/opt/whatif"), "the earlier one is back");
}

#[test]
fn nothing_is_planned_where_it_would_not_help() {
    let place = Place::new("no-parser", &RESTRICTED);
    assert!(matches!(place.0.plan(program()), Err(NoPlan::NoParser)));
    let place = Place::new("container", &RESTRICTED).with_parser("/bin/ls");
    place.put(".dockerenv", "");
    assert!(matches!(place.0.plan(program()), Err(NoPlan::InContainer)));
    let place = Place::new("odd", &RESTRICTED).with_parser("/bin/ls");
    for odd in ["/opt/what*if", "/opt/a\"b", "/opt/{a}", "whatif"] {
        assert!(matches!(place.0.plan(Path::new(odd)), Err(NoPlan::OddPath(_))), "{odd}");
    }
    let place = Place::new("free", &[("kernel/unprivileged_userns_clone", "1\n"), ("user/max_user_namespaces", "62000\n")]);
    assert_eq!(place.0.plan(program()).unwrap(), []);
}

#[test]
fn settings_are_changed_now_and_for_the_next_start() {
    let forbidding = [("kernel/unprivileged_userns_clone", "0\n"), ("user/max_user_namespaces", "0\n")];
    let place = Place::new("settings", &forbidding);
    place.put(SETTINGS_FILE, "# mine\nvm.swappiness = 1\nuser.max_user_namespaces = 0\n");
    let steps = place.0.plan(program()).unwrap();
    assert_eq!(steps.len(), 2);
    place.do_all(&steps);
    assert_eq!(place.text("proc/sys/user/max_user_namespaces").unwrap(), "15000");
    assert_eq!(place.text("proc/sys/kernel/unprivileged_userns_clone").unwrap(), "1");
    let kept = "# mine\nvm.swappiness = 1\nuser.max_user_namespaces = 15000\nkernel.unprivileged_userns_clone = 1\n";
    assert_eq!(place.text(SETTINGS_FILE).unwrap(), kept);
    assert_eq!(place.0.plan(program()).unwrap(), []);
    assert!(steps[0].taken_back().ends_with("sysctl -w user.max_user_namespaces=0"));
}
