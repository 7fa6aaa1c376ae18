//! The keeper's file interface, over a unix socket in a sandbox and over a stream of bytes in an empty root.

use std::path::Path;

use whatif_e2e::empty_root::{EmptyRoot, busybox};
use whatif_e2e::file_interface::{CHECKS, over_a_socket, over_a_stream};
use whatif_e2e::{Who, World, as_root_and_user, needs};
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::Condition;

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_files"))
}

macro_rules! checks {
    ($($name:ident),+ $(,)?) => {
        const MADE: &[&str] = &[$(stringify!($name)),+];

        $(mod $name {
            use super::*;

            #[test]
            fn over_a_socket_as_root() {
                World::with(Who::Root, |w| socket(w, stringify!($name)));
            }
            #[test]
            fn over_a_socket_as_user() {
                World::with(Who::User, |w| socket(w, stringify!($name)));
            }
            #[test]
            fn over_a_stream_as_root() {
                World::with(Who::Root, |w| stream(w, stringify!($name)));
            }
            #[test]
            fn over_a_stream_as_user() {
                World::with(Who::User, |w| stream(w, stringify!($name)));
            }
        })+
    };
}

checks!(
    a_file_is_written_read_and_changed,
    conditions_are_kept,
    directories_are_made_moved_and_deleted,
    a_directory_is_listed_in_pages,
    large_files_pass_through,
    nothing_is_waited_for,
    links_lead_nowhere_else,
    nonsense_is_refused,
    deep_and_wide_trees_are_deleted_beside_other_work,
    a_writer_that_leaves_changes_nothing,
    nothing_is_written_while_it_is_held_still,
    what_has_no_room_is_reported,
    what_happens_is_told,
    what_is_too_much_to_tell_is_said,
    watching_goes_on_after_the_layers_changed,
);

fn socket(w: &World, check: &str) {
    needs!(w, "busybox");
    over_a_socket(w, program(), check);
}

fn stream(w: &World, check: &str) {
    needs!(w, "busybox", "unshare");
    over_a_stream(w, check);
}

as_root_and_user!(a_mount_is_not_entered);

fn a_mount_is_not_entered(w: &World) {
    needs!(w, "busybox", "unshare");
    let root = EmptyRoot::start(w);
    let mut client = root.connect();
    client.make_directories(Path::new("/tree/a/mounted"), 0o755).expect("they are made");
    let mut mounts = root.connect();
    mounts.exec(busybox(&["mount", "-t", "tmpfs", "none", "/tree/a/mounted"]), &[]).expect("it starts");
    assert_eq!(mounts.exited().expect("it ends").code, 0);
    let inside = Path::new("/tree/a/mounted/file");
    client.write_file(inside, None, Condition::Always, &mut &b"kept"[..]).expect("it is written");
    let refused = client.delete(Path::new("/tree"), true, None);
    assert!(matches!(&refused, Err(ClientError::Failed(failed)) if failed.errno == 18 || failed.errno == 16), "{refused:?}");
    assert_eq!(client.stat(inside, false).expect("it is there").size, 4);
    let moved = client.move_file(inside, Path::new("/tree/file"), false);
    assert!(matches!(&moved, Err(ClientError::Failed(failed)) if failed.errno == 18), "{moved:?}");
}

#[test]
fn every_check_is_made() {
    assert_eq!(CHECKS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), MADE);
}
