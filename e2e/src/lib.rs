//! The harness of the end-to-end tests: a hermetic world per test, the real binary, and nothing of its insides.
//!
//! Every behaviour is checked twice, as root and as an ordinary user: write `fn behaviour(w: &World)` and name it in
//! [`as_root_and_user!`]. The tests are in `tests/`, one file per subject.
#![forbid(unsafe_code)]

mod backend;
mod call;
mod canary;
mod changes;
mod daemon;
mod docker;
mod earlier;
pub mod edits;
pub mod empty_root;
mod ended;
mod faults;
pub mod file_interface;
mod inside;
mod inventory;
pub mod network_clients;
pub mod nothing_lost;
pub mod numbered;
mod outer_root;
pub mod outside;
mod places;
mod podman;
pub mod power_cut;
pub mod projects;
pub mod quotas;
pub mod racing;
mod random;
mod reboot;
mod scenario;
pub mod schema;
mod skip;
mod snapshots;
mod stopped;
mod terminal;
mod tmux;
pub mod transcripts;
mod tree;
mod wait;
mod world;

pub use call::{Call, Outcome};
pub use canary::{Canary, assert_same, of as canary};
pub use changes::change;
pub use daemon::{Daemon, Reply};
pub use docker::{Docker, Security};
pub use ended::kill_wholly;
pub use faults::{Fault, Point, sample};
pub use inventory::Inventory;
pub use outer_root::OuterRoot;
pub use places::{Holdings, Place};
pub use podman::Podman;
pub use random::Random;
pub use scenario::Scenario;
pub use skip::skip;
pub use snapshots::{LISTING, Listing};
pub use stopped::Stopped;
pub use terminal::Terminal;
pub use tmux::Tmux;
pub use tree::{Detail, Tree};
pub use wait::{eventually, wait_for};
pub use world::{Who, World};

/// Makes two tests of each function: one as root, one as an ordinary user.
#[macro_export]
macro_rules! as_root_and_user {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            #[test]
            fn as_root() {
                $crate::World::with($crate::Who::Root, super::$name);
            }
            #[test]
            fn as_user() {
                $crate::World::with($crate::Who::User, super::$name);
            }
        })+
    };
}

/// Makes four further tests of each function: as root and as an ordinary user, on each backend that is not the default one.
#[macro_export]
macro_rules! on_other_backends {
    ($($name:ident),+ $(,)?) => {
        mod on_other_backends {
            $(mod $name {
                #[test]
                fn fuse_as_root() {
                    $crate::World::with_backend($crate::Who::Root, "fuse", super::super::$name);
                }
                #[test]
                fn fuse_as_user() {
                    $crate::World::with_backend($crate::Who::User, "fuse", super::super::$name);
                }
                #[test]
                fn copy_as_root() {
                    $crate::World::with_backend($crate::Who::Root, "copy", super::super::$name);
                }
                #[test]
                fn copy_as_user() {
                    $crate::World::with_backend($crate::Who::User, "copy", super::super::$name);
                }
            })+
        }
    };
}

/// Makes two further tests of each function that only root can try or set up: on each backend that is not the default one.
#[macro_export]
macro_rules! on_other_backends_as_root {
    ($($name:ident),+ $(,)?) => {
        mod on_other_backends {
            $(mod $name {
                #[test]
                fn fuse_as_root() {
                    $crate::World::with_backend($crate::Who::Root, "fuse", super::super::$name);
                }
                #[test]
                fn copy_as_root() {
                    $crate::World::with_backend($crate::Who::Root, "copy", super::super::$name);
                }
            })+
        }
    };
}

/// Makes one test of each function, for what only root can try or set up.
#[macro_export]
macro_rules! as_root {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            #[test]
            fn as_root() {
                $crate::World::with($crate::Who::Root, super::$name);
            }
        })+
    };
}

/// Makes one test of each function, for what is about an ordinary user.
#[macro_export]
macro_rules! as_user {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            #[test]
            fn as_user() {
                $crate::World::with($crate::Who::User, super::$name);
            }
        })+
    };
}

/// Ends the test with a named skip if this identity cannot run a program.
#[macro_export]
macro_rules! needs {
    ($world:expr, $($program:expr),+) => {
        $(if !$world.has($program) {
            $crate::skip(&format!("{} is not installed", $program));
            return;
        })+
    };
}
