//! The resolver and the name server with a real name server outside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod name_support;

use std::sync::Arc;

use name_support::dnsmasq::Dnsmasq;
use name_support::inside::{Inside, Reply};
use name_support::message::{A, AAAA};
use name_support::{Scratch, in_namespace};
use whatif_netpolicy::HostName;
use whatif_supervisor::resolver::{Family, ResolveError};

const CONF: &str = "nameserver 127.0.0.1\n";

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

fn arguments() -> Vec<String> {
    let mut arguments = [
        "--local=/example/",
        "--host-record=both.example,192.0.2.1,2001:db8::1",
        "--host-record=four.example,192.0.2.4",
        "--cname=alias.example,second.example",
        "--cname=second.example,both.example",
        "--txt-record=four.example,hello",
    ]
    .map(str::to_owned)
    .to_vec();
    // Too many for one datagram.
    arguments.extend((1..=200).map(|last| format!("--host-record=many.example,198.51.100.{last}")));
    arguments
}

#[test]
fn a_real_server_is_understood() {
    in_namespace("a_real_server_is_understood", || async {
        let Some(dnsmasq) = Dnsmasq::start(&arguments()).await else { return };
        let scratch = Scratch::new();
        let resolver = scratch.resolver("", CONF);
        let both = vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        assert_eq!(resolver.resolve(&name("both.example")).await, Ok(both.clone()));
        assert_eq!(resolver.resolve(&name("alias.example")).await, Ok(both));
        assert_eq!(resolver.lookup(&name("four.example"), Family::V6).await, Ok(vec![]));
        assert_eq!(resolver.resolve(&name("none.example")).await, Err(ResolveError::NoSuchName));
        assert_eq!(
            resolver.resolve(&name("elsewhere.test")).await,
            Err(ResolveError::Unhelpful),
            "it refuses what it does not know"
        );
        let many = resolver.lookup(&name("many.example"), Family::V4).await.unwrap();
        assert_eq!(many.len(), 32, "over TCP, since it did not fit");
        assert!(dnsmasq.log().contains("query[A] both.example"));
    });
}

#[test]
fn only_allowed_names_leave_the_sandbox() {
    in_namespace("only_allowed_names_leave_the_sandbox", || async {
        let Some(dnsmasq) = Dnsmasq::start(&arguments()).await else { return };
        let scratch = Scratch::new();
        let inside = Arc::new(Inside::start("*.example", "denied.example", scratch.resolver("", CONF)).await);
        assert!(matches!(inside.ask("four.example", A).await, Reply::Address(_)));
        assert_eq!(inside.ask("four.example", AAAA).await, Reply::Empty);
        assert_eq!(inside.ask("none.example", A).await, Reply::Code(3));
        assert!(matches!(inside.ask("alias.example", AAAA).await, Reply::Address(_)));
        for kind in [A, AAAA, 16, 15, 33, 65, 10, 255, 2, 6] {
            inside.ask("c2vjcmv0.evil.test", kind).await;
            inside.ask("c2vjcmv0.denied.test", kind).await;
            inside.ask("denied.example", kind).await;
        }
        for kind in [16, 15, 33, 65, 10, 255] {
            assert_eq!(inside.ask("c2vjcmv0.example", kind).await, Reply::Empty);
        }
        // What was asked before has been written down before.
        assert!(matches!(inside.ask("both.example", A).await, Reply::Address(_)));
        let log = dnsmasq.log();
        assert!(log.contains("query[A] four.example") && log.contains("query[AAAA] alias.example"), "{log}");
        for secret in ["c2vjcmv0", "evil", "denied"] {
            assert!(!log.contains(secret), "{log}");
        }
    });
}
