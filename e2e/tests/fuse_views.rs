//! What the next command in a living sandbox of the backend `fuse` sees: reality as it is, and its own work as it left it. Neither
//! the kernel nor fuse-overlayfs looks up again by itself what it knows.

use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(
    what_reality_took_away_hides_nothing_else,
    what_reality_replaced_is_seen,
    what_reality_wrote_is_not_mixed_with_what_it_was,
    a_directory_that_was_made_again_is_empty,
);

const IDLE: &[&str] = &[];
const WITH_A_LAYER: &[&str] = &["snapshot", "s"];
const RUNNING: &[&str] = &["exec", "s", "-d", "--", "/bin/sleep", "1000"];

/// For each kind of sandbox: a project, and one that has seen it.
fn each(w: &World, kinds: &[&[&str]], test: fn(&World)) {
    needs!(w, "fuse-overlayfs");
    // Not everybody may have file systems of their own.
    if w.outside("exec 3<>/dev/fuse").code != 0 {
        return;
    }
    for kind in kinds {
        w.outside("rm -rf -- *; mkdir d other; seq 10 > a; seq 10 > d/f; echo > other/b; ln -s one link").ok();
        w.whatif(["new", "s", "--backend", "fuse"]).go().ok();
        w.exec("s", "echo 1 > ../made").ok();
        if !kind.is_empty() {
            w.whatif(kind.iter().copied()).go().ok();
        }
        w.exec("s", "find . -type f -exec stat {} +").ok();
        test(w);
        w.whatif(["rm", "s", "--yes"]).go().ok();
    }
}

/// A listing used to end where reality had taken something away, which was anywhere, and often at its beginning.
fn what_reality_took_away_hides_nothing_else(w: &World) {
    each(w, &[IDLE, WITH_A_LAYER, RUNNING], |w| {
        w.outside("mv d moved; rm a").ok();
        assert_eq!(w.exec("s", "find . | LC_ALL=C sort").ok().stdout, ".\n./link\n./moved\n./moved/f\n./other\n./other/b\n");
    });
}

fn what_reality_replaced_is_seen(w: &World) {
    each(w, &[IDLE, WITH_A_LAYER, RUNNING], |w| {
        for round in ["one", "two"] {
            w.outside(&format!("echo {round} > new; mv new a; mkdir e; echo {round} > e/f; rm -r d; mv e d; ln -sfn {round} link"))
                .ok();
            w.outside(&format!("rm -f other/*; echo > other/{round}")).ok();
            let seen = w.exec("s", "cat a d/f; readlink link; ls other").ok();
            assert_eq!(seen.stdout, format!("{round}\n{round}\n{round}\n{round}\n"));
        }
    });
}

/// What was appended used to be written where the file had ended when it was looked at.
fn what_reality_wrote_is_not_mixed_with_what_it_was(w: &World) {
    each(w, &[IDLE, WITH_A_LAYER, RUNNING], |w| {
        w.outside("seq 12 > a; echo 1 > d/f").ok();
        w.exec("s", "echo more >> a; sed -i '1i first' d/f").ok();
        let seen = w.exec("s", "cat a d/f").ok().stdout;
        assert_eq!(seen, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\nmore\nfirst\n1\n");
    });
}

/// Where something stands, or layers lie beneath, fuse-overlayfs may still find in it what was deleted, and elsewhere at times. A fresh
/// view never does.
fn a_directory_that_was_made_again_is_empty(w: &World) {
    each(w, &[IDLE], |w| {
        w.exec("s", "rm -r d; mkdir d").ok();
        if w.exec("s", "mkdir d/f").code != 0 {
            w.whatif(["stop", "s"]).go().ok();
            w.whatif(["start", "s"]).go().ok();
            w.exec("s", "mkdir d/f").ok();
        }
        assert_eq!(w.exec("s", "ls -A d").ok().stdout, "f\n");
    });
}
