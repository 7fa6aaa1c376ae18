//! The suite over PostgreSQL: a real server, which these tests start on a socket of their own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod server;

use std::sync::OnceLock;

use postgres::{Client, NoTls};
use server::Server;
use whatif_store::{Store, StoreError};
use whatif_store_suite::fixtures::sandbox;

whatif_store_suite::conformance!(Scratch::new, open, tamper);

fn open(address: &str) -> Box<dyn Store> {
    Box::new(whatif_store_postgres::open(address).unwrap())
}

fn tamper(address: &str, sql: &str) {
    Client::connect(address, NoTls).unwrap().batch_execute(sql).unwrap();
}

/// A database of its own on the one server.
struct Scratch {
    name: String,
}

impl Scratch {
    fn new(test: &str) -> Self {
        // The server cuts names at 63 bytes.
        let name = test.get(..50).unwrap_or(test).to_owned();
        server().tell(&format!("CREATE DATABASE {name}"));
        Self { name }
    }

    fn address(&self) -> String {
        server().address(&self.name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        server().tell(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

#[test]
fn records_of_a_newer_format_are_refused_and_left_alone() {
    let scratch = Scratch::new("newer_format");
    open(&scratch.address()).insert(&sandbox(1, "otter"), None).unwrap();
    tamper(&scratch.address(), "UPDATE format SET version = 99");
    let opened = whatif_store_postgres::open(&scratch.address());
    assert!(matches!(opened, Err(StoreError::TooNew { found: 99, .. })));
}

#[test]
fn many_who_are_the_first_take_turns() {
    let scratch = Scratch::new("many_first");
    std::thread::scope(|scope| {
        for number in 0..4 {
            let address = scratch.address();
            scope.spawn(move || open(&address).insert(&sandbox(number, &format!("s{number}")), None).unwrap());
        }
    });
    assert_eq!(open(&scratch.address()).list().unwrap().len(), 4);
}

/// Connections that the server has cut are made anew, and what cannot be reached is told.
#[test]
fn a_connection_that_was_cut_is_made_anew() {
    let scratch = Scratch::new("cut");
    let store = open(&scratch.address());
    store.insert(&sandbox(1, "otter"), None).unwrap();
    server().tell("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'cut'");
    let again = (0..50).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        store.list().ok()
    });
    assert_eq!(again.unwrap().len(), 1);
    let nowhere = whatif_store_postgres::open("host=/nonexistent user=nobody dbname=none").unwrap_err();
    assert_eq!(nowhere.trouble(), Some(whatif_store::Trouble::CannotOpen));
}

#[test]
fn commits_of_a_server_that_does_not_flush_are_not_called_durable() {
    let scratch = Scratch::new("durable");
    open(&scratch.address()).flush().unwrap();
    tamper(&scratch.address(), "ALTER DATABASE durable SET synchronous_commit = off");
    open(&scratch.address()).flush().unwrap_err();
}
