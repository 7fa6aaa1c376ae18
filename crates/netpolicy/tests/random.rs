//! Random and mutated input to every reader: nothing panics, and what a reader says about a whole message it says about every
//! beginning of it too, or asks for more.

mod generator;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use generator::{Generator, seeds};
use whatif_netpolicy::chunks::{ChunkError, ChunkSkimmer, Skimmed};
use whatif_netpolicy::dns::{self, Answer, Family, Found, Kind, Lookup, Query, Transport};
use whatif_netpolicy::host::{Host, HostName, LONGEST_NAME};
use whatif_netpolicy::http::{self, HttpState, LONGEST_HEAD};
use whatif_netpolicy::path::PathPrefix;
use whatif_netpolicy::policy::{Policy, Request};
use whatif_netpolicy::socks::{self, Greeting, SocksRequest};
use whatif_netpolicy::tls::{self, TlsState};
use whatif_netpolicy::{Authority, Rule, address};

const ROUNDS: usize = 200_000;
/// Every beginning of every input would take minutes; all beginnings of every seed and of some inputs are tried.
const SPLIT_EVERY: usize = 10;

/// Feeds every seed and `ROUNDS` inputs made from them, and says for which of them all beginnings are worth trying.
fn for_each_input(seeds: &[Vec<u8>], mut check: impl FnMut(&[u8], bool)) {
    let mut generator = Generator::new(0x9e37_79b9_7f4a_7c15);
    for seed in seeds {
        check(seed, true);
    }
    for round in 0..ROUNDS {
        let input = generator.input(seeds);
        check(&input, round % SPLIT_EVERY == 0);
    }
}

/// Every beginning gets the verdict of the whole or `need_more`, and once a verdict is there it stays.
fn check_beginnings<T: PartialEq + std::fmt::Debug>(input: &[u8], need_more: &T, parse: impl Fn(&[u8]) -> T) {
    let whole = parse(input);
    let mut is_decided = false;
    for cut in 0..input.len() {
        let state = parse(&input[..cut]);
        is_decided |= state != *need_more;
        assert!(
            if is_decided { state == whole } else { true },
            "{}: cut at {cut}: {state:?}, whole: {whole:?}",
            input.escape_ascii()
        );
    }
}

#[test]
fn names() {
    let mut accepted = 0;
    for_each_input(&seeds::names(), |input, _| {
        if let Ok(name) = HostName::parse(input) {
            accepted += 1;
            let text = name.as_str();
            assert!((1..=LONGEST_NAME).contains(&text.len()));
            assert!(
                text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.'))
            );
            assert!(text.split('.').all(|label| (1..=63).contains(&label.len())));
            assert!(text.parse::<IpAddr>().is_err());
            assert_eq!(HostName::parse(text.as_bytes()).as_ref(), Ok(&name));
        }
        if let Ok(text) = std::str::from_utf8(input) {
            if let Ok(host) = Host::parse(text) {
                assert_eq!(Host::parse(&host.to_string()), Ok(host));
            }
            if let Ok(authority) = Authority::parse(text) {
                assert_eq!(Authority::parse(&authority.to_string()), Ok(authority));
            }
        }
    });
    assert!(accepted > ROUNDS / 100, "only {accepted} names were accepted");
}

#[test]
fn rules() {
    let mut accepted = 0;
    for_each_input(&seeds::rules(), |input, _| {
        let text = String::from_utf8_lossy(input);
        if let Ok(rule) = text.parse::<Rule>() {
            accepted += 1;
            assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule), "{text}");
        }
        if let Ok(prefix) = PathPrefix::parse(&text) {
            assert!(prefix.covers(&text));
        }
    });
    assert!(accepted > ROUNDS / 100, "only {accepted} rules were accepted");
}

#[test]
fn addresses() {
    let mut generator = Generator::new(7);
    for _ in 0..ROUNDS {
        let bits = u128::from(generator.next()) << 64 | u128::from(generator.next());
        // Leading and trailing zeros reach the wrappings, which are all near the beginning of the space.
        let bits = bits >> (generator.below(128)) & u128::MAX << generator.below(128);
        let v6 = Ipv6Addr::from_bits(bits);
        let inner_are_public = address::leads_to(v6).into_iter().flatten().all(|v4| address::is_public(v4.into()));
        assert!(inner_are_public || !address::is_public(v6.into()), "{v6}");
        assert_eq!(address::is_public(v6.into()), address::is_public(IpAddr::V6(v6).to_canonical()), "{v6}");
    }
}

#[test]
fn dns_queries() {
    let mut accepted = 0;
    for_each_input(&seeds::dns(), |input, _| {
        match Query::parse(input) {
            Ok(query) => {
                accepted += 1;
                check_answers(&query);
            }
            Err(rejected) => {
                let is_short = |reply: Vec<u8>| (12..=282).contains(&reply.len()) && reply[..2] == input[..2];
                assert!(rejected.reply.is_none_or(is_short));
            }
        }
        if let Ok(Some((message, consumed))) = dns::tcp_message(input) {
            assert_eq!(message.len() + 2, consumed);
        }
    });
    assert!(accepted > ROUNDS / 100, "only {accepted} queries were accepted");
}

fn check_answers(query: &Query) {
    let v4 = [Ipv4Addr::new(198, 18, 0, 1)];
    let v6 = [Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)];
    let address = match query.kind {
        Kind::Aaaa => Answer::Aaaa { addresses: &v6, ttl: 1 },
        _ => Answer::A { addresses: &v4, ttl: 1 },
    };
    for answer in [address, Answer::Empty, Answer::NxDomain, Answer::ServFail, Answer::Refused, Answer::Truncated] {
        let reply = query.answer(&answer, Transport::Udp);
        assert!(reply.len() <= 512);
        assert_eq!(reply[..2], query.id().to_be_bytes());
        // An answer is never taken for a query, or two of us could talk for ever.
        assert!(Query::parse(&reply).is_err_and(|rejected| rejected.reply.is_none()));
    }
}

#[test]
fn dns_responses() {
    let name = "a.example".parse().unwrap();
    let lookups = [Family::V4, Family::V6].map(|family| (family, Lookup::new(0x1234, &name, family)));
    let mut accepted = 0;
    for_each_input(&seeds::responses(), |input, _| {
        for (family, lookup) in &lookups {
            if let Ok(Found::Addresses { addresses, .. }) = lookup.read(input) {
                accepted += usize::from(!addresses.is_empty());
                assert!(addresses.len() <= 32 && addresses.iter().all(|address| family.includes(address)));
            }
        }
    });
    assert!(accepted > ROUNDS / 100, "only {accepted} answers were accepted");
}

#[test]
fn tls_hellos() {
    let mut accepted = 0;
    for_each_input(&seeds::tls(), |input, all_beginnings| {
        accepted += usize::from(matches!(tls::parse(input), TlsState::Hello(_)));
        if all_beginnings {
            check_beginnings(input, &TlsState::NeedMore, tls::parse);
        }
    });
    assert!(accepted > ROUNDS / 100, "only {accepted} hellos were accepted");
}

#[test]
fn http_heads() {
    let policy = Policy::new(vec!["http+get://a.example/pub".parse().unwrap(), "*.example".parse().unwrap()], Vec::new()).unwrap();
    let target = "a.example".parse().unwrap();
    let mut accepted = 0;
    for_each_input(&seeds::http(), |input, all_beginnings| {
        if let HttpState::Head(head) = http::parse(input) {
            accepted += 1;
            assert!(head.length <= input.len().min(LONGEST_HEAD) && input[..head.length].ends_with(b"\r\n\r\n"));
            let decision = policy.decide(&Request::Http { target: &target, port: 80, head: &head });
            assert!(!decision.is_allowed() || head.host.is_some_and(|host| host.host == target));
        }
        if all_beginnings {
            check_beginnings(input, &HttpState::NeedMore, http::parse);
        }
    });
    assert!(accepted > ROUNDS / 100, "only {accepted} heads were accepted");
}

#[test]
fn chunked_bodies() {
    let mut ended = 0;
    for_each_input(&seeds::chunks(), |input, all_beginnings| {
        let whole = ChunkSkimmer::new().push(input);
        ended += usize::from(matches!(whole, Ok(Skimmed::End { .. })));
        for cut in if all_beginnings { 0..input.len() } else { 0..0 } {
            assert_eq!(in_two_pieces(input, cut), whole, "{}: cut at {cut}", input.escape_ascii());
        }
    });
    assert!(ended > ROUNDS / 100, "only {ended} bodies ended");
}

fn in_two_pieces(input: &[u8], cut: usize) -> Result<Skimmed, ChunkError> {
    let mut skimmer = ChunkSkimmer::new();
    match skimmer.push(&input[..cut])? {
        Skimmed::All => {}
        end @ Skimmed::End { .. } => return Ok(end),
    }
    Ok(match skimmer.push(&input[cut..])? {
        Skimmed::All => Skimmed::All,
        Skimmed::End { consumed } => Skimmed::End { consumed: cut + consumed },
    })
}

#[test]
fn socks_messages() {
    let mut accepted = 0;
    for_each_input(&seeds::socks(), |input, all_beginnings| {
        accepted += usize::from(matches!(socks::parse_request(input), SocksRequest::Connect { .. }));
        assert!(!matches!(socks::parse_greeting(input), Greeting::Accept { consumed, .. } if consumed > input.len()));
        if all_beginnings {
            check_beginnings(input, &SocksRequest::NeedMore, socks::parse_request);
            check_beginnings(input, &Greeting::NeedMore, socks::parse_greeting);
        }
    });
    assert!(accepted > ROUNDS / 100, "only {accepted} requests were accepted");
}
