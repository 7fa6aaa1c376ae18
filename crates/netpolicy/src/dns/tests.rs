use std::net::Ipv4Addr;

use super::*;

const OPT: &[u8] = b"\0\0\x29\x04\xd0\0\0\0\0\0\0";

fn wire(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

fn question(name: &[u8], kind: u16) -> Vec<u8> {
    [name, &kind.to_be_bytes(), &[0, 1]].concat()
}

fn message(flags: u16, counts: [u16; 4], rest: &[u8]) -> Vec<u8> {
    let header = [0x1234, flags].into_iter().chain(counts).flat_map(u16::to_be_bytes).collect::<Vec<_>>();
    [header, rest.to_vec()].concat()
}

fn query(name: &str, kind: u16) -> Vec<u8> {
    message(FLAG_RECURSION_DESIRED, [1, 0, 0, 0], &question(&wire(name), kind))
}

fn rejected(bytes: &[u8]) -> Rejected {
    *Query::parse(bytes).expect_err(&bytes.escape_ascii().to_string())
}

fn code_of(reply: &[u8]) -> u8 {
    reply[3] & 0x0f
}

#[test]
fn a_query_is_read() {
    let parsed = Query::parse(&query("Example.COM", 1)).unwrap();
    assert_eq!((parsed.id(), parsed.name.as_str(), parsed.kind), (0x1234, "example.com", Kind::A));
    assert_eq!(Query::parse(&query("a.example", 28)).unwrap().kind, Kind::Aaaa);
    assert_eq!(Query::parse(&query("_x._tcp.a.example", 65)).unwrap().kind, Kind::Other(65));
    let options = b"\0\0\x29\x04\xd0\0\0\x80\0\0\x0c\0\x0a\0\x08cookie12";
    for additional in [OPT, options] {
        let with_edns = message(0x0120, [1, 0, 0, 1], &[question(&wire("a.example"), 1), additional.to_vec()].concat());
        assert_eq!(Query::parse(&with_edns).unwrap().name.as_str(), "a.example");
    }
}

#[test]
fn the_longest_name_is_read_and_one_more_byte_is_not() {
    let label = "a".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}", "b".repeat(61));
    assert_eq!(wire(&longest).len(), LONGEST_WIRE_NAME);
    assert_eq!(Query::parse(&query(&longest, 1)).unwrap().name.as_str(), longest);
    assert_eq!(rejected(&query(&format!("{longest}b"), 1)).because, QueryError::NameTooLong);
}

#[test]
fn addresses_are_answered() {
    let parsed = Query::parse(&query("A.example", 1)).unwrap();
    let reply = parsed.answer(&Answer::A { addresses: &[Ipv4Addr::new(198, 18, 0, 1)], ttl: 5 }, Transport::Udp);
    let expected = [
        &b"\x12\x34\x81\x80\0\x01\0\x01\0\0\0\0"[..],
        b"\x01A\x07example\0\0\x01\0\x01",
        b"\xc0\x0c\0\x01\0\x01\0\0\0\x05\0\x04\xc6\x12\0\x01",
    ]
    .concat();
    assert_eq!(reply, expected);
    let framed = parsed.answer(&Answer::A { addresses: &[Ipv4Addr::new(198, 18, 0, 1)], ttl: 5 }, Transport::Tcp);
    assert_eq!(tcp_message(&framed), Ok(Some((expected.as_slice(), framed.len()))));

    let parsed = Query::parse(&query("a.example", 28)).unwrap();
    let reply = parsed.answer(&Answer::Aaaa { addresses: &["fd00::1".parse().unwrap()], ttl: 5 }, Transport::Udp);
    assert!(reply.ends_with(b"\xc0\x0c\0\x1c\0\x01\0\0\0\x05\0\x10\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01"));
}

#[test]
fn the_name_of_an_address_is_answered() {
    let parsed = Query::parse(&query("1.0.18.198.in-addr.arpa", 12)).unwrap();
    assert_eq!(parsed.kind, Kind::Ptr);
    let name = "a.example".parse().unwrap();
    let reply = parsed.answer(&Answer::Ptr { name: &name, ttl: 5 }, Transport::Udp);
    assert_eq!(reply[6..8], [0, 1]);
    assert!(reply.ends_with(b"\xc0\x0c\0\x0c\0\x01\0\0\0\x05\0\x0b\x01a\x07example\0"));
}

#[test]
fn other_answers_carry_their_code_and_the_question() {
    let parsed = Query::parse(&message(0x0110, [1, 0, 0, 1], &[question(&wire("a.example"), 1), OPT.to_vec()].concat())).unwrap();
    for (answer, code, is_truncated) in [
        (Answer::Empty, 0, false),
        (Answer::ServFail, 2, false),
        (Answer::NxDomain, 3, false),
        (Answer::Refused, 5, false),
        (Answer::Truncated, 0, true),
    ] {
        let reply = parsed.answer(&answer, Transport::Udp);
        assert_eq!(code_of(&reply), code, "{answer:?}");
        assert_eq!(reply[2], if is_truncated { 0x83 } else { 0x81 });
        assert_eq!(reply[3] & 0xf0, 0x90, "recursion available, checking disabled as asked");
        assert_eq!(reply[4..12], [0, 1, 0, 0, 0, 0, 0, 1]);
        assert_eq!(reply[12..], [question(&wire("a.example"), 1), b"\0\0\x29\x04\xd0\0\0\0\0\0\0".to_vec()].concat());
    }
}

#[test]
fn an_answer_too_long_for_udp_is_cut_and_whole_over_tcp() {
    let addresses = [Ipv4Addr::new(198, 18, 0, 1); 40];
    let answer = Answer::A { addresses: &addresses, ttl: 5 };
    let plain = Query::parse(&query("a.example", 1)).unwrap();
    let cut = plain.answer(&answer, Transport::Udp);
    assert_eq!((cut[2], &cut[6..8]), (0x83, &[0, 0][..]));
    let whole = plain.answer(&answer, Transport::Tcp);
    assert_eq!((whole[4], &whole[8..10]), (0x81, &[0, 32][..]));
    let edns = message(0x0100, [1, 0, 0, 1], &[question(&wire("a.example"), 1), OPT.to_vec()].concat());
    let large = Query::parse(&edns).unwrap().answer(&answer, Transport::Udp);
    assert_eq!(large[6..8], [0, 32]);
    assert!(large.len() <= 1232);
}

#[test]
fn hostile_queries_are_rejected() {
    let good = question(&wire("a.example"), 1);
    let with = |name: &[u8]| message(0x0100, [1, 0, 0, 0], &question(name, 1));
    let additional = |bytes: &[u8]| message(0x0100, [1, 0, 0, 1], &[good.as_slice(), bytes].concat());
    let cases: Vec<(&str, Vec<u8>, QueryError, u8)> = vec![
        ("compression loop", with(b"\xc0\x0c"), QueryError::Compressed, 1),
        ("compression after a label", with(b"\x01a\xc0\x0c"), QueryError::Compressed, 1),
        ("compression forward", with(b"\xc0\xff"), QueryError::Compressed, 1),
        ("extended label", with(b"\x41a\0"), QueryError::Compressed, 1),
        ("reserved label", with(b"\x81a\0"), QueryError::Compressed, 1),
        ("endless name", with(&b"\x01a".repeat(1000)), QueryError::NameTooLong, 1),
        ("name without an end", message(0, [1, 0, 0, 0], b"\x01a"), QueryError::Truncated, 1),
        ("label past the end", message(0, [1, 0, 0, 0], b"\x3fabc"), QueryError::Truncated, 1),
        ("no type", message(0, [1, 0, 0, 0], b"\x01a\0\0"), QueryError::Truncated, 1),
        ("no class", message(0, [1, 0, 0, 0], b"\x01a\0\0\x01"), QueryError::Truncated, 1),
        ("no question", message(0, [0, 0, 0, 0], b""), QueryError::QuestionCount, 1),
        ("two questions", message(0, [2, 0, 0, 0], &[good.clone(), good.clone()].concat()), QueryError::QuestionCount, 1),
        ("65535 questions", message(0, [65535, 0, 0, 0], &good), QueryError::QuestionCount, 1),
        ("an answer", message(0, [1, 1, 0, 0], &good), QueryError::Records, 1),
        ("an authority", message(0, [1, 0, 1, 0], &good), QueryError::Records, 1),
        ("two additionals", message(0, [1, 0, 0, 2], &good), QueryError::Records, 1),
        ("an additional that is no extension", additional(b"\0\0\x01\0\x01\0\0\0\0\0\0"), QueryError::Records, 1),
        ("an extension with a name", additional(b"\x01a\0\0\x29\x04\xd0\0\0\0\0\0\0"), QueryError::Records, 1),
        ("additional missing", additional(b""), QueryError::Edns, 1),
        ("extension cut", additional(&OPT[..10]), QueryError::Edns, 1),
        ("options past the end", additional(b"\0\0\x29\x04\xd0\0\0\0\0\0\x09"), QueryError::Edns, 1),
        ("option past the options", additional(b"\0\0\x29\x04\xd0\0\0\0\0\0\x04\0\x0a\0\x08"), QueryError::Edns, 1),
        ("extended code in a query", additional(b"\0\0\x29\x04\xd0\x01\0\0\0\0\0"), QueryError::Edns, 1),
        ("extension of version 1", additional(b"\0\0\x29\x04\xd0\0\x01\0\0\0\0"), QueryError::EdnsVersion, 0),
        ("bytes behind", message(0, [1, 0, 0, 0], &[good.as_slice(), b"x"].concat()), QueryError::Trailing, 1),
        ("bytes behind an extension", additional(&[OPT, b"x"].concat()), QueryError::Trailing, 1),
        ("truncated flag", message(0x0200, [1, 0, 0, 0], &good), QueryError::Flags, 1),
        ("reserved flag", message(0x0040, [1, 0, 0, 0], &good), QueryError::Flags, 1),
        ("an update", message(0x2800, [1, 0, 0, 0], &good), QueryError::Opcode, 4),
        ("a notification", message(0x2000, [1, 0, 0, 0], &good), QueryError::Opcode, 4),
        ("class CHAOS", message(0, [1, 0, 0, 0], b"\x07version\x04bind\0\0\x10\0\x03"), QueryError::Class, 5),
        ("class ANY", message(0, [1, 0, 0, 0], b"\x01a\0\0\x01\0\xff"), QueryError::Class, 5),
        ("the root", with(b"\0"), QueryError::Name(HostError::Empty), 5),
        ("NUL in a label", with(b"\x09evil.com\0\x07allowed\x03com\0"), QueryError::Name(HostError::Byte { byte: 0 }), 3),
        ("dot in a label", with(b"\x0ballowed.com\x04evil\0"), QueryError::Name(HostError::Byte { byte: 0 }), 3),
        ("homograph", with(b"\x08\xd0\xb0llowed\x03com\0"), QueryError::Name(HostError::NotAscii), 3),
        ("letter beyond ASCII", with(b"\x02\xc3\xa4\x03com\0"), QueryError::Name(HostError::NotAscii), 3),
        ("space in a label", with(b"\x03a b\x03com\0"), QueryError::Name(HostError::Byte { byte: b' ' }), 3),
        ("metadata as a name", query("169.254.169.254", 1), QueryError::Name(HostError::Numeric), 3),
        ("metadata as one number", query("2852039166", 1), QueryError::Name(HostError::Numeric), 3),
        ("metadata in hexadecimal", query("0xa9fea9fe", 1), QueryError::Name(HostError::Numeric), 3),
        ("loopback in short", query("127.1", 1), QueryError::Name(HostError::Numeric), 3),
        ("5000 bytes", message(0, [1, 0, 0, 0], &[0; 5000]), QueryError::TooLong, 1),
    ];
    for (what, bytes, expected, code) in cases {
        let rejected = rejected(&bytes);
        assert_eq!(rejected.because, expected, "{what}");
        let reply = rejected.reply.expect(what);
        assert_eq!(code_of(&reply), code, "{what}");
        assert_eq!(reply[..2], [0x12, 0x34], "{what}");
        assert_eq!(reply[2] & 0x80, 0x80, "{what}");
        let repeats_question = reply[5] == 1;
        assert_eq!(repeats_question, reply.len() > 12, "{what}");
        assert!(!repeats_question || bytes[12..].starts_with(&reply[12..reply.len().min(20)]), "{what}");
    }
}

/// A client that does not find its question in a refusal goes on waiting.
#[test]
fn a_refusal_of_a_name_repeats_the_question() {
    let numeric = query("127.1", 1);
    assert_eq!(rejected(&numeric).reply.unwrap(), [b"\x12\x34\x81\x83\0\x01\0\0\0\0\0\0", &numeric[12..]].concat());
    let newer = [question(&wire("a.example"), 1), b"\0\0\x29\x04\xd0\0\x01\0\0\0\0".to_vec()].concat();
    let reply = rejected(&message(0x0100, [1, 0, 0, 1], &newer)).reply.unwrap();
    let bad_version = b"\0\0\x29\x04\xd0\x01\0\0\0\0\0";
    assert_eq!(reply, [&b"\x12\x34\x81\x80\0\x01\0\0\0\0\0\x01"[..], &newer[..15], bad_version].concat());
}

#[test]
fn what_is_no_query_gets_no_reply() {
    assert_eq!(rejected(&message(0x8180, [1, 0, 0, 0], b"")), Rejected { because: QueryError::Response, reply: None });
    for length in 0..12 {
        assert_eq!(rejected(&query("a.example", 1)[..length]), Rejected { because: QueryError::Short, reply: None });
    }
}

#[test]
fn every_cut_of_a_query_is_rejected() {
    let whole = message(0x0100, [1, 0, 0, 1], &[question(&wire("a.b.example"), 28), OPT.to_vec()].concat());
    assert!(Query::parse(&whole).is_ok());
    for cut in 0..whole.len() {
        assert!(Query::parse(&whole[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn messages_over_tcp_are_found_when_they_are_whole() {
    let message = query("a.example", 1);
    let framed = [&u16::try_from(message.len()).unwrap().to_be_bytes()[..], &message, b"next"].concat();
    for cut in 0..message.len() + 2 {
        assert_eq!(tcp_message(&framed[..cut]), Ok(None));
    }
    assert_eq!(tcp_message(&framed), Ok(Some((message.as_slice(), message.len() + 2))));
    assert_eq!(tcp_message(b"\0\x0b"), Err(QueryError::Short));
    assert_eq!(tcp_message(b"\x10\x01"), Err(QueryError::TooLong));
    assert_eq!(tcp_message(b"\xff\xff"), Err(QueryError::TooLong));
}
