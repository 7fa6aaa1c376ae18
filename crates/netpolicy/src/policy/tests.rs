use super::*;
use crate::http::{self, HttpState};
use crate::rule::parse_list;

fn policy(allow: &str) -> Policy {
    Policy::new(parse_list(allow).unwrap(), Vec::new()).unwrap()
}

fn policy_without(allow: &str, deny: &str) -> Policy {
    Policy::new(parse_list(allow).unwrap(), parse_list(deny).unwrap()).unwrap()
}

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

fn host(text: &str) -> Host {
    text.parse().unwrap()
}

fn hello(sni: Option<&str>) -> ClientHello {
    ClientHello { sni: sni.map(name), ..ClientHello::default() }
}

fn head(text: &str) -> Head {
    match http::parse(text.as_bytes()) {
        HttpState::Head(head) => *head,
        other => panic!("{text:?}: {other:?}"),
    }
}

fn get(host: &str, path: &str) -> Head {
    head(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
}

/// `None` if allowed.
fn denial(policy: &Policy, request: Request<'_>) -> Option<(Reason, Option<String>)> {
    match policy.decide(&request) {
        Decision::Allow { .. } => None,
        Decision::Deny { because, hint } => Some((because, hint)),
    }
}

fn hint(policy: &Policy, request: Request<'_>) -> Option<String> {
    denial(policy, request).expect("it was allowed").1
}

#[test]
fn nothing_is_allowed_by_default() {
    let none = Policy::default();
    assert!(!none.decide(&Request::Resolve { name: &name("example.com") }).is_allowed());
    assert!(!none.decide(&Request::Connect { target: &host("1.1.1.1"), port: 443 }).is_allowed());
}

#[test]
fn names_are_resolved_only_if_a_rule_is_about_them() {
    let policy = policy("allowed.com,*.sub.example:22,http://plain.example/x,1.1.1.1");
    for text in ["allowed.com", "a.sub.example", "plain.example"] {
        assert!(policy.decide(&Request::Resolve { name: &name(text) }).is_allowed(), "{text}");
    }
    for text in
        ["evilallowed.com", "allowed.com.evil.com", "secret.evil.com", "sub.example", "www.allowed.com", "xn--llowed-2fg.com"]
    {
        assert_eq!(hint(&policy, Request::Resolve { name: &name(text) }), Some(format!("--net allow={text}:443")));
    }
}

#[test]
fn connections_need_host_and_port() {
    let policy = policy("allowed.com,git.example:22,web.example:443,1.1.1.1,10.0.0.0/8:5432");
    for (target, port, expected) in [
        ("allowed.com", 443, None),
        ("allowed.com", 80, None),
        ("allowed.com", 22, None),
        ("allowed.com", 65535, None),
        ("git.example", 22, None),
        ("git.example", 443, Some("--net allow=git.example:443")),
        ("web.example", 443, None),
        ("web.example", 80, Some("--net allow=web.example:80")),
        ("db.internal", 5432, Some("--net allow=db.internal:5432")),
        ("1.1.1.1", 443, None),
        ("1.1.1.1", 53, None),
        ("::ffff:1.1.1.1", 443, None),
        ("1.1.1.2", 53, Some("--net allow=1.1.1.2:53")),
        ("10.1.2.3", 5432, None),
        ("10.1.2.3", 443, Some("--net allow=10.1.2.3:443")),
        ("2606:4700::1", 53, Some("--net allow=[2606:4700::1]:53")),
    ] {
        let target = host(target);
        let outcome = denial(&policy, Request::Connect { target: &target, port });
        assert_eq!(outcome.map(|(_, hint)| hint.unwrap()), expected.map(str::to_owned), "{target}:{port}");
    }
}

#[test]
fn following_a_hint_allows_what_was_denied() {
    for (target, port) in [("a.example", 443), ("a.example", 8443), ("10.0.0.5", 5432), ("fd00::1", 53), ("1.2.3.4", 1)] {
        let target = host(target);
        let request = Request::Connect { target: &target, port };
        let flag = hint(&Policy::default(), request).unwrap();
        assert!(policy(flag.strip_prefix("--net allow=").unwrap()).decide(&request).is_allowed(), "{flag}");
    }
}

#[test]
fn nobody_is_advised_to_open_metadata_services_or_places_that_are_no_host() {
    for text in [
        "169.254.169.254",
        "fd00:ec2::254",
        "100.100.100.200",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "198.18.0.9",
        "64:ff9b::a9fe:a9fe",
        "127.0.0.1",
        "::1",
        "localhost",
    ] {
        assert_eq!(hint(&Policy::default(), Request::Connect { target: &host(text), port: 80 }), None, "{text}");
    }
}

#[test]
fn metadata_and_private_addresses_need_to_be_named() {
    for (allow, address, port, expected) in [
        ("0.0.0.0/0", "169.254.169.254", 80, false),
        ("169.254.0.0/16", "169.254.169.254", 80, false),
        ("169.254.169.254", "169.254.169.254", 80, true),
        ("169.254.169.254", "::ffff:169.254.169.254", 80, true),
        ("169.254.169.254", "64:ff9b::a9fe:a9fe", 80, false),
        ("169.254.169.254:81", "169.254.169.254", 80, false),
        ("::/0", "fd00:ec2::254", 80, false),
        ("::/0", "::1", 80, false),
        ("192.168.0.0/16", "192.168.1.1", 80, true),
        ("0.0.0.0/0:*", "0.0.0.0", 80, false),
        ("*.example", "10.0.0.1", 80, false),
    ] {
        let allowed = policy(allow).decide(&Request::Connect { target: &host(address), port }).is_allowed();
        assert_eq!(allowed, expected, "{allow} and {address}:{port}");
    }
}

#[test]
fn a_name_that_leads_inside_is_denied_after_resolution() {
    let by_name = policy("rebind.example");
    let resolved = |policy: &Policy, address: &str| {
        denial(policy, Request::Resolved { name: &name("rebind.example"), address: address.parse().unwrap(), port: 443 })
    };
    assert_eq!(resolved(&by_name, "1.1.1.1"), None);
    assert_eq!(resolved(&by_name, "2606:4700::1"), None);
    for address in [
        "127.0.0.1",
        "10.0.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.100.100.200",
        "100.64.0.1",
        "0.0.0.0",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
        "::1",
        "::",
        "fd00::1",
        "fe80::1",
        "fd00:ec2::254",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::1",
        "2001:0:7f00:1::fefe:fefe",
        "ff02::1",
    ] {
        let (because, _) = resolved(&by_name, address).expect(address);
        assert!(matches!(because, Reason::NotPublic { .. }), "{address}: {because}");
    }
    let (because, hint) = resolved(&by_name, "10.0.0.1").unwrap();
    assert_eq!(because.to_string(), "rebind.example leads to 10.0.0.1, a private address");
    assert_eq!(hint.as_deref(), Some("--net allow=10.0.0.1:443"));
    assert_eq!(resolved(&by_name, "169.254.169.254").unwrap().1, None);

    assert_eq!(resolved(&policy("rebind.example,10.0.0.1"), "10.0.0.1"), None);
    assert!(resolved(&policy("rebind.example,10.0.0.1:22"), "10.0.0.1").is_some(), "another port");
    assert!(resolved(&policy("rebind.example,http://10.0.0.1:443/"), "10.0.0.1").is_some(), "only plain HTTP");
    assert!(resolved(&policy("10.0.0.1"), "10.0.0.1").is_some(), "the name itself is not allowed");
}

#[test]
fn a_tls_hello_names_the_server_that_was_asked_for() {
    let policy = policy("allowed.com,*.allowed.com,mail.example:993,1.1.1.1");
    let tls = |target: &str, port: u16, hello: &ClientHello| {
        denial(&policy, Request::Tls { target: &host(target), port, hello }).map(|(why, _)| why)
    };
    let differs = |asked: &str, sni: &str| Some(Reason::SniDiffers { asked: name(asked), sni: name(sni) });
    assert_eq!(tls("allowed.com", 443, &hello(Some("allowed.com"))), None);
    assert_eq!(tls("allowed.com", 443, &hello(Some("ALLOWED.com"))), None);
    assert_eq!(tls("allowed.com", 443, &hello(Some("evil.com"))), differs("allowed.com", "evil.com"));
    assert_eq!(
        tls("allowed.com", 443, &hello(Some("a.allowed.com"))),
        differs("allowed.com", "a.allowed.com"),
        "even if both are allowed"
    );
    assert_eq!(tls("allowed.com", 443, &hello(None)), Some(Reason::NoSni { name: name("allowed.com") }));
    assert_eq!(tls("mail.example", 993, &hello(None)), None);
    assert_eq!(tls("mail.example", 993, &hello(Some("evil.com"))), differs("mail.example", "evil.com"));
    assert_eq!(tls("1.1.1.1", 443, &hello(None)), None);
    assert_eq!(tls("1.1.1.1", 443, &hello(Some("one.example"))), None);
    assert!(tls("evil.com", 443, &hello(Some("allowed.com"))).is_some(), "an allowed name on a connection elsewhere");
    assert!(tls("9.9.9.9", 443, &hello(Some("allowed.com"))).is_some(), "an allowed name at an address of the client's choice");
}

#[test]
fn a_hello_that_may_hide_a_name_is_refused_unless_the_policy_says_otherwise() {
    let ech = |sni: &str| ClientHello { has_ech: true, ..hello(Some(sni)) };
    let target = host("allowed.com");
    let (outer, other) = (ech("allowed.com"), ech("cover.example"));
    let strict = policy("allowed.com");
    assert!(matches!(
        denial(&strict, Request::Tls { target: &target, port: 443, hello: &outer }),
        Some((Reason::EncryptedHello { .. }, None))
    ));
    let lenient = strict.with_encrypted_hellos(EncryptedHellos::BelieveOuterName);
    assert!(lenient.decide(&Request::Tls { target: &target, port: 443, hello: &outer }).is_allowed());
    assert!(!lenient.decide(&Request::Tls { target: &target, port: 443, hello: &other }).is_allowed());
}

#[test]
fn each_request_names_the_host_that_was_asked_for() {
    let policy = policy("allowed.com,allowed.com:8080,other.com,1.1.1.1");
    let http = |target: &str, port: u16, head: &Head| {
        denial(&policy, Request::Http { target: &host(target), port, head }).map(|(why, _)| why)
    };
    assert_eq!(http("allowed.com", 80, &get("allowed.com", "/")), None);
    assert_eq!(http("allowed.com", 80, &get("ALLOWED.com:80", "/")), None);
    assert_eq!(http("allowed.com", 8080, &get("allowed.com:8080", "/")), None);
    assert_eq!(http("allowed.com", 8080, &get("allowed.com", "/")), None);
    assert_eq!(http("allowed.com", 80, &get("allowed.com", "http://allowed.com/x")), None);
    for (what, port, request) in [
        ("another host", 80, get("evil.com", "/")),
        ("another allowed host", 80, get("other.com", "/")),
        ("another port", 80, get("allowed.com:8080", "/")),
        ("another port in the target", 80, get("allowed.com", "http://allowed.com:8080/")),
        ("an address", 80, get("1.1.1.1", "/")),
    ] {
        assert!(matches!(http("allowed.com", port, &request), Some(Reason::HostDiffers { .. })), "{what}");
    }
    let without_host = head("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(http("allowed.com", 80, &without_host), Some(Reason::NoHost { host: host("allowed.com") }));
    let absolute_without_host = head("GET http://evil.com/ HTTP/1.0\r\n\r\n");
    assert_eq!(http("allowed.com", 80, &absolute_without_host), Some(Reason::NoHost { host: host("allowed.com") }));
    assert_eq!(http("1.1.1.1", 80, &without_host), None, "whoever allows an address allows what is there");
    assert_eq!(http("1.1.1.1", 80, &get("any.example", "/")), None);
    assert!(matches!(http("allowed.com", 443, &get("allowed.com:443", "/")), Some(Reason::NotTls { .. })));
    assert!(matches!(http("evil.com", 80, &get("allowed.com", "/")), Some(Reason::HostDiffers { .. })));
    assert!(matches!(http("evil.com", 80, &get("evil.com", "/")), Some(Reason::NoRule { .. })));
}

#[test]
fn a_request_stays_a_request() {
    let policy = policy("allowed.com");
    let http = |text: &str| {
        denial(&policy, Request::Http { target: &host("allowed.com"), port: 80, head: &head(text) }).map(|(why, _)| why)
    };
    let tunnel = "CONNECT allowed.com:80 HTTP/1.1\r\nHost: allowed.com\r\n\r\n";
    assert_eq!(http(tunnel), Some(Reason::Tunnel { name: name("allowed.com") }));
    let http2 = "GET / HTTP/1.1\r\nHost: allowed.com\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
    assert_eq!(http(http2), Some(Reason::Upgrade { name: name("allowed.com") }));
    let web_socket = "GET / HTTP/1.1\r\nHost: allowed.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(http(web_socket), None);
}

#[test]
fn methods_and_paths_are_for_plain_http_only() {
    let policy = policy("http+get+head://allowed.com/pub,http://10.0.0.5:8080/");
    let target = host("allowed.com");
    assert!(policy.decide(&Request::Connect { target: &target, port: 80 }).is_allowed());
    assert!(!policy.decide(&Request::Connect { target: &target, port: 443 }).is_allowed());
    assert!(!policy.decide(&Request::Opaque { target: &target, port: 80 }).is_allowed());
    assert!(!policy.decide(&Request::Tls { target: &target, port: 80, hello: &hello(Some("allowed.com")) }).is_allowed());
    let http = |head: &Head| denial(&policy, Request::Http { target: &target, port: 80, head });
    assert_eq!(http(&get("allowed.com", "/pub/x?../y")), None);
    for path in
        ["/", "/public", "/pub/../secret", "/pub/%2e%2e/secret", "/pub//x", "http://allowed.com/secret", "http://allowed.com"]
    {
        assert!(matches!(http(&get("allowed.com", path)), Some((Reason::NoHttpRule { .. }, Some(_)))), "{path}");
    }
    let post = head("POST /pub/x HTTP/1.1\r\nHost: allowed.com\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(http(&post).unwrap().1.as_deref(), Some("--net allow=http+post://allowed.com/pub/x"));
    let lower = head("get /pub/x HTTP/1.1\r\nHost: allowed.com\r\n\r\n");
    assert!(http(&lower).is_some());
    let web_socket = head("GET /pub HTTP/1.1\r\nHost: allowed.com\r\nUpgrade: websocket\r\n\r\n");
    assert!(http(&web_socket).is_some(), "what follows has no path");

    let by_address = |head: &Head| policy.decide(&Request::Http { target: &host("10.0.0.5"), port: 8080, head }).is_allowed();
    assert!(by_address(&get("10.0.0.5:8080", "/x")));
    assert!(!by_address(&get("any.example", "/x")), "a rule for requests holds for the host it names");
    assert!(!by_address(&head("CONNECT 10.0.0.5:8080 HTTP/1.1\r\nHost: 10.0.0.5:8080\r\n\r\n")));
}

#[test]
fn asking_for_the_server_as_a_whole_needs_a_rule_for_its_root() {
    let options = head("OPTIONS * HTTP/1.1\r\nHost: allowed.com\r\n\r\n");
    let allowed =
        |rules: &str| policy(rules).decide(&Request::Http { target: &host("allowed.com"), port: 80, head: &options }).is_allowed();
    assert!(allowed("allowed.com") && allowed("http://allowed.com/") && !allowed("http://allowed.com/pub"));
}

#[test]
fn other_protocols_pass_on_their_own_ports_only() {
    let policy = policy("allowed.com,1.1.1.1");
    let opaque = |target: &str, port| denial(&policy, Request::Opaque { target: &host(target), port }).map(|(why, _)| why);
    assert_eq!(opaque("allowed.com", 22), None);
    assert_eq!(opaque("allowed.com", 443), Some(Reason::NotTls { name: name("allowed.com") }));
    assert_eq!(opaque("allowed.com", 80), Some(Reason::NotHttp { name: name("allowed.com") }));
    assert_eq!(opaque("1.1.1.1", 443), None);
}

#[test]
fn deny_rules_go_before_all_others() {
    let policy = policy_without("*.example,0.0.0.0/0,::/0", "bad.example,*.worse.example,8.8.8.0/24,odd.example:25");
    let resolve = |text: &str| policy.decide(&Request::Resolve { name: &name(text) }).is_allowed();
    let connect = |text: &str, port| policy.decide(&Request::Connect { target: &host(text), port }).is_allowed();
    assert!(resolve("good.example") && !resolve("bad.example") && !resolve("a.worse.example") && resolve("odd.example"));
    assert!(connect("good.example", 443) && !connect("bad.example", 443) && connect("odd.example", 443));
    assert!(
        connect("1.1.1.1", 443) && !connect("8.8.8.8", 443) && !connect("::ffff:8.8.8.8", 443) && !connect("64:ff9b::808:808", 443)
    );
    let resolved = |address: &str| {
        policy.decide(&Request::Resolved { name: &name("good.example"), address: address.parse().unwrap(), port: 443 }).is_allowed()
    };
    assert!(resolved("1.1.1.1") && !resolved("8.8.8.8") && !resolved("2002:808:808::1"));
    let address = host("1.1.1.1");
    assert!(!policy.decide(&Request::Tls { target: &address, port: 443, hello: &hello(Some("bad.example")) }).is_allowed());
    assert!(!policy.decide(&Request::Http { target: &address, port: 80, head: &get("bad.example", "/") }).is_allowed());
    assert_eq!(hint(&policy, Request::Resolve { name: &name("bad.example") }), None);
}

#[test]
fn a_deny_rule_without_a_port_is_for_every_port() {
    let policy = policy_without("*.example:*", "bad.example,odd.example:25");
    let connect = |text: &str, port| policy.decide(&Request::Connect { target: &host(text), port }).is_allowed();
    assert!(!connect("bad.example", 22) && !connect("odd.example", 25) && connect("odd.example", 26));
}

#[test]
fn paths_cannot_be_denied() {
    let error = Policy::new(Vec::new(), parse_list("http://a.example/x").unwrap()).unwrap_err();
    assert!(error.to_string().contains("deny the host"));
}
