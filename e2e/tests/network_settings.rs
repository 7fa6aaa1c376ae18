//! Who has a say in what a sandbox may reach: the user, the project, archives, and sandboxes made beforehand.

use whatif_e2e::outside::{Outside, PUBLIC, PUBLIC_2};
use whatif_e2e::{World, eventually, outside_as_root_and_user};

outside_as_root_and_user!(
    the_user_sets_the_usual_network,
    what_the_user_denies_stays_denied,
    a_project_may_close_and_deny,
    a_project_may_not_open,
    an_archive_brings_no_permission,
    a_sandbox_of_the_pool_has_the_network_that_was_asked_for,
    commands_at_once_share_one_supervisor,
);

fn web(o: &Outside) {
    for (name, address) in [("shop.test", PUBLIC), ("bank.test", PUBLIC_2)] {
        o.name(name, &[address]);
        o.http(address, 80);
    }
}

/// Whether a sandbox with these flags reaches the shop and the bank.
#[track_caller]
fn reaches(w: &World, o: &Outside, flags: &[&str]) -> [bool; 2] {
    let answers = o.try_inside(w, flags, "show(['HELLO' in hello(h, 80)['got'] for h in ('shop.test', 'bank.test')])");
    [answers[0] == true, answers[1] == true]
}

fn the_user_sets_the_usual_network(w: &World, o: &Outside) {
    web(o);
    w.configure("[network]\nmode = \"allow=shop.test\"\n");
    assert_eq!(reaches(w, o, &[]), [true, false]);
    assert_eq!(reaches(w, o, &["--net", "none"]), [false, false]);
    w.configure("[network]\nmode = \"none\"\n");
    assert_eq!(reaches(w, o, &[]), [false, false]);
    w.configure("[network]\nallow = [\"bank.test\"]\n");
    assert_eq!(reaches(w, o, &["--net", "allow=shop.test"]), [true, true]);
    assert_eq!(reaches(w, o, &["--net", "none"]), [false, false], "none is none");
}

fn what_the_user_denies_stays_denied(w: &World, o: &Outside) {
    web(o);
    w.configure("[network]\ndeny = [\"bank.test\"]\n");
    assert_eq!(reaches(w, o, &["--net", "allow=*.test"]), [true, false]);
    assert_eq!(reaches(w, o, &["--net", "allow=bank.test"]), [false, false]);
    w.configure("[network]\nmode = \"wherever\"\n");
    let outcome = w.whatif(["run", "--rm", "--", "/bin/true"]).go();
    w.configure("");
    assert!(outcome.code != 0 && outcome.stderr.contains("config.toml"), "{outcome:?}");
}

fn a_project_may_close_and_deny(w: &World, o: &Outside) {
    web(o);
    w.write(".whatif.toml", "[network]\ndeny = [\"bank.test\"]\n");
    assert_eq!(reaches(w, o, &["--net", "allow=shop.test,bank.test"]), [true, false]);
    w.write(".whatif.toml", "[network]\nmode = \"none\"\n");
    let outcome = o.call_inside(w, &["--net", "allow=shop.test"], "show(hello('shop.test', 80))").go();
    assert!(!outcome.stdout.contains("HELLO"), "{outcome:?}");
    assert_eq!(reaches(w, o, &[]), [false, false]);
}

/// Whoever wrote the project is not who runs it.
fn a_project_may_not_open(w: &World, o: &Outside) {
    web(o);
    for text in ["mode = \"host\"", "mode = \"allow=shop.test\"", "mode = \"local\"", "allow = [\"shop.test\"]", "ask = false"] {
        w.write(".whatif.toml", format!("[network]\n{text}\n"));
        let outcome = o.nothing_leaves(text, || o.call_inside(w, &[], "show(hello('shop.test', 80))").go());
        assert!(outcome.code != 0 && !outcome.stdout.contains("HELLO"), "{text}: {outcome:?}");
        assert!(outcome.stderr.contains(".whatif.toml"), "{text}: {outcome:?}");
    }
}

/// It may come from anybody.
fn an_archive_brings_no_permission(w: &World, o: &Outside) {
    web(o);
    let archive = w.dir.join("archive").display().to_string();
    for net in ["allow=shop.test", "host"] {
        w.whatif(["new", "packed", "--net", net]).go().ok();
        w.whatif(["export", "packed", "-o", &archive]).go().ok();
        w.whatif(["import", &archive, "--name", "unpacked"]).go().ok();
        assert!(!o.hello_in(w, "unpacked", "shop.test", 80).is_hello(), "{net}");
        w.whatif(["rm", "--all", "--yes"]).go().ok();
        std::fs::remove_file(&archive).expect("it is there");
    }
}

/// It was made before anybody knew what for.
fn a_sandbox_of_the_pool_has_the_network_that_was_asked_for(w: &World, o: &Outside) {
    web(o);
    w.configure("[pool]\nsize = 2\n");
    for (flags, expected) in
        [(&["--net", "allow=shop.test"][..], [true, false]), (&["--net", "none"], [false, false]), (&[], [false, false])]
    {
        w.whatif(["pool", "fill"]).go().ok();
        assert_eq!(reaches(w, o, flags), expected, "{flags:?}");
        w.whatif(["pool", "fill"]).go().ok();
        w.whatif(["new", "pooled"]).args(flags).go().ok();
        assert_eq!(o.hello_in(w, "pooled", "shop.test", 80).is_hello(), expected[0], "{flags:?}");
        w.whatif(["rm", "--yes", "pooled"]).go().ok();
    }
    // It is filled again behind our back whenever one was taken.
    eventually("nobody fills", || !w.processes().iter().any(|p| p.contains(" tidy") || p.contains(" pool")));
    w.whatif(["pool", "drain"]).go().ok();
}

fn commands_at_once_share_one_supervisor(w: &World, o: &Outside) {
    web(o);
    w.whatif(["new", "shared", "--net", "allow=shop.test"]).go().ok();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| o.hello_in(w, "shared", "shop.test", 80).is_hello())).collect();
        assert!(all.into_iter().all(|one| one.join().expect("it does not panic")));
    });
    // Who comes second ends again.
    eventually("there is one", || o.supervisors().len() == 1);
}
