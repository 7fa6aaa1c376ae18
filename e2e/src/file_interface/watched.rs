//! What is said of changes.

use std::time::Duration;

use whatif_keeper::Client;
use whatif_keeper::protocol::{Happening, Text, What};

use super::Inside;

fn until(client: &mut Client, what: &str, mut is_it: impl FnMut(&Happening) -> bool) -> Vec<Happening> {
    let mut all = Vec::new();
    loop {
        let happened = client.happened().unwrap_or_else(|error| panic!("{what} was never told: {error}; {all:?}"));
        let found = happened.iter().any(&mut is_it);
        all.extend(happened);
        if found {
            return all;
        }
    }
}

pub(super) fn what_happens_is_told(inside: &Inside) {
    inside.sh("$B mkdir one two");
    let mut client = inside.connect();
    client.watch(&inside.at("one")).expect("it can be watched");
    client.watch(&inside.at("two")).expect("it can be watched");
    inside.sh("echo x > one/a; $B mv one/a two/b; $B chmod 600 two/b; $B mkdir two/d; $B rm two/b; $B rmdir one");
    let all = until(&mut client, "the end of one", |h| h.what == What::Gone);
    let told = |path: &str, name: Option<&str>, what: What| {
        all.iter().find(|h| h.path == Some(Text::from(&inside.at(path))) && h.name == name.map(Text::from) && h.what == what)
    };
    for (path, name, what) in [
        ("one", "a", What::Created),
        ("one", "a", What::Modified),
        ("one", "a", What::Closed),
        ("two", "b", What::Attributes),
        ("two", "b", What::Deleted),
        ("two", "d", What::Created),
    ] {
        assert!(told(path, Some(name), what).is_some(), "{path} {name} {what:?} is not in {all:#?}");
    }
    let halves = [told("one", Some("a"), What::MovedFrom), told("two", Some("b"), What::MovedTo)];
    assert!(matches!(halves, [Some(from), Some(to)] if from.cookie.is_some() && from.cookie == to.cookie), "{halves:?}");
    assert!(told("two", Some("d"), What::Created).is_some_and(|h| h.is_directory));
    assert!(told("one", None, What::Gone).is_some());
    assert!(!all.iter().any(|h| h.what == What::Overflow));
    // What the interface itself does is told as well.
    inside.write("two/c", b"x");
    until(&mut client, "the move into place", |h| h.what == What::MovedTo && h.name == Some(Text::from("c")));
    // Whoever leaves is not told any more, and leaves nothing behind.
    for _ in 0..100 {
        let mut client = inside.connect();
        client.watch(&inside.at("two")).expect("there is room for another");
    }
    assert!(inside.connect().watch(&inside.at("one")).is_err());
}

pub(super) fn what_is_too_much_to_tell_is_said(inside: &Inside) {
    inside.sh("$B mkdir busy");
    let mut client = inside.connect();
    client.watch(&inside.at("busy")).expect("it can be watched");
    // Nobody listens meanwhile.
    inside.sh("cd busy; $B seq 1 40000 | $B xargs $B touch; $B rm -r ../busy/1*");
    assert!(inside.is_responsive());
    let mut said = 0;
    let all = until(&mut client, "too much", |h| {
        said += 1;
        h.what == What::Overflow
    });
    assert!(said < 200_000 && all.len() > 1, "{said}");
    // It goes on.
    inside.sh("echo x > busy/last");
    until(&mut client, "the last", |h| h.name == Some(Text::from("last")));
}

pub(super) fn watching_goes_on_after_the_layers_changed(inside: &Inside) {
    inside.sh("$B mkdir stays goes");
    let mut client = inside.connect();
    client.watch(&inside.at("stays")).expect("it can be watched");
    client.watch(&inside.at("goes")).expect("it can be watched");
    let mut holder = inside.connect();
    holder.freeze().expect("it is held");
    holder.change_layers().expect("they change");
    std::thread::sleep(Duration::from_millis(20));
    holder.thaw().expect("it goes on");
    let told = client.happened().expect("it is told");
    assert!(told.iter().any(|h| h.what == What::Overflow && h.path.is_none()), "{told:?}");
    inside.sh("echo x > stays/new; $B rmdir goes");
    until(&mut client, "the new one", |h| h.name == Some(Text::from("new")));
}
