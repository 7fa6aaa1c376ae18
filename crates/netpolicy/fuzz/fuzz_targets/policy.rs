#![no_main]

use libfuzzer_sys::fuzz_target;
use whatif_netpolicy::http::{self, HttpState};
use whatif_netpolicy::tls::{self, TlsState};
use whatif_netpolicy::{Host, Policy, Request};

// A connection to the one allowed name carries that name, whatever else it carries.
fuzz_target!(|bytes: &[u8]| {
    let policy = Policy::new(vec!["a.example".parse().expect("a rule")], Vec::new()).expect("a policy");
    let target: Host = "a.example".parse().expect("a host");
    if let HttpState::Head(head) = http::parse(bytes) {
        let decision = policy.decide(&Request::Http { target: &target, port: 80, head: &head });
        assert!(!decision.is_allowed() || head.host.as_ref().is_some_and(|host| host.host == target));
    }
    if let TlsState::Hello(hello) = tls::parse(bytes) {
        let decision = policy.decide(&Request::Tls { target: &target, port: 443, hello: &hello });
        assert!(!decision.is_allowed() || hello.sni.clone().map(Host::Name) == Some(target));
    }
});
