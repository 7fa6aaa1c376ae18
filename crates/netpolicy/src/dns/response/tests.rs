use super::*;
use crate::HostName;

const ASKED: &[u8] = b"\x01a\x07example\0";
/// Points to the name in the question.
const BACK: &[u8] = b"\xc0\x0c";
const OK: u16 = 0x8180;

fn lookup(family: Family) -> Lookup {
    let name: HostName = "a.example".parse().unwrap();
    Lookup::new(0x1234, &name, family)
}

fn question(name: &[u8], kind: u16) -> Vec<u8> {
    [name, &kind.to_be_bytes(), &[0, 1]].concat()
}

fn record(owner: &[u8], kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap();
    [owner, &kind.to_be_bytes(), &[0, 1], &ttl.to_be_bytes(), &length.to_be_bytes(), data].concat()
}

fn message(flags: u16, counts: [u16; 4], rest: &[u8]) -> Vec<u8> {
    let header = [0x1234, flags].into_iter().chain(counts).flat_map(u16::to_be_bytes).collect::<Vec<_>>();
    [header, rest.to_vec()].concat()
}

/// An answer to the question for an IPv4 address.
fn answer(records: &[Vec<u8>]) -> Vec<u8> {
    let count = u16::try_from(records.len()).unwrap();
    message(OK, [1, count, 0, 0], &[question(ASKED, 1), records.concat()].concat())
}

fn read_v4(message: &[u8]) -> Result<Found, ResponseError> {
    lookup(Family::V4).read(message)
}

fn found(addresses: &[&str], ttl: u32) -> Found {
    Found::Addresses { addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(), ttl }
}

#[test]
fn a_question_is_written() {
    let expected = b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\x01\x01a\x07example\0\0\x1c\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0";
    assert_eq!(lookup(Family::V6).message(), expected);
    let plain = b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0\x01a\x07example\0\0\x01\0\x01";
    assert_eq!(lookup(Family::V4).message_without_extensions(), plain);
    let sent = super::super::Query::parse(expected).unwrap();
    assert_eq!((sent.id(), sent.name.as_str(), sent.kind), (0x1234, "a.example", super::super::Kind::Aaaa));
}

#[test]
fn addresses_are_found() {
    let one = answer(&[record(BACK, 1, 60, &[192, 0, 2, 1])]);
    assert_eq!(read_v4(&one), Ok(found(&["192.0.2.1"], 60)));
    let two = answer(&[record(BACK, 1, 60, &[192, 0, 2, 1]), record(ASKED, 1, 30, &[192, 0, 2, 2])]);
    assert_eq!(read_v4(&two), Ok(found(&["192.0.2.1", "192.0.2.2"], 30)));
    let twice = answer(&[record(BACK, 1, 60, &[192, 0, 2, 1]), record(BACK, 1, 60, &[192, 0, 2, 1])]);
    assert_eq!(read_v4(&twice), Ok(found(&["192.0.2.1"], 60)));
    let v6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let six = message(OK, [1, 1, 0, 0], &[question(ASKED, 28), record(BACK, 28, 5, &v6)].concat());
    assert_eq!(lookup(Family::V6).read(&six), Ok(found(&["2001:db8::1"], 5)));
}

#[test]
fn the_case_of_letters_does_not_matter() {
    let shouted =
        message(OK, [1, 1, 0, 0], &[question(b"\x01A\x07EXAMple\0", 1), record(b"\x01a\x07eXample\0", 1, 9, &[1; 4])].concat());
    assert_eq!(read_v4(&shouted), Ok(found(&["1.1.1.1"], 9)));
}

#[test]
fn names_that_lead_to_names_are_followed_in_any_order() {
    let to_b = record(BACK, 5, 100, b"\x01b\xc0\x0e");
    let b_to_c = record(b"\x01b\xc0\x0e", 5, 7, b"\x01c\x03net\0");
    let c = record(b"\x01c\x03net\0", 1, 50, &[192, 0, 2, 1]);
    for order in [[&to_b, &b_to_c, &c], [&c, &b_to_c, &to_b], [&b_to_c, &c, &to_b]] {
        assert_eq!(read_v4(&answer(&order.map(Clone::clone))), Ok(found(&["192.0.2.1"], 7)));
    }
    assert_eq!(read_v4(&answer(&[to_b, b_to_c])), Ok(found(&[], 0)), "the chain ends without an address");
}

/// The way in for whoever answers for one name and would like to for others.
#[test]
fn addresses_of_other_names_are_not_believed() {
    let other = record(b"\x04bank\x07example\0", 1, 60, &[6, 6, 6, 6]);
    assert_eq!(read_v4(&answer(std::slice::from_ref(&other))), Ok(found(&[], 0)));
    let own = record(BACK, 1, 60, &[192, 0, 2, 1]);
    assert_eq!(read_v4(&answer(&[other.clone(), own.clone()])), Ok(found(&["192.0.2.1"], 60)));
    let beside = message(OK, [1, 1, 1, 1], &[question(ASKED, 1), own, other.clone(), other].concat());
    assert_eq!(read_v4(&beside), Ok(found(&["192.0.2.1"], 60)));
    let foreign_link = record(b"\x01x\x07example\0", 5, 60, BACK);
    let stranger = record(b"\x01x\x07example\0", 1, 60, &[6, 6, 6, 6]);
    assert_eq!(read_v4(&answer(&[foreign_link, stranger])), Ok(found(&[], 0)));
}

#[test]
fn other_kinds_and_classes_are_passed_over() {
    let chaos = [BACK, b"\0\x01\0\x03\0\0\0\x3c\0\x04\x06\x06\x06\x06"].concat();
    let signature = record(BACK, 46, 60, &[0xff; 40]);
    let v6 = record(BACK, 28, 60, &[1; 16]);
    assert_eq!(read_v4(&answer(&[chaos, signature, v6, record(BACK, 1, 60, &[192, 0, 2, 1])])), Ok(found(&["192.0.2.1"], 60)));
}

#[test]
fn a_time_to_live_that_is_a_mistake_is_none() {
    for (ttl, expected) in [(0, 0), (0x7fff_ffff, 0x7fff_ffff), (0x8000_0000, 0), (u32::MAX, 0)] {
        assert_eq!(read_v4(&answer(&[record(BACK, 1, ttl, &[1; 4])])), Ok(found(&["1.1.1.1"], expected)));
    }
}

#[test]
fn what_else_a_server_can_say() {
    let with = |flags: u16| read_v4(&message(flags, [1, 0, 0, 0], &question(ASKED, 1)));
    assert_eq!(with(OK), Ok(found(&[], 0)));
    assert_eq!(with(0x8183), Ok(Found::NoSuchName));
    assert_eq!(with(0x8380), Ok(Found::Truncated));
    assert_eq!(with(0x8383), Ok(Found::Truncated));
    assert_eq!(with(0x8182), Ok(Found::Unhelpful { code: 2 }));
    assert_eq!(with(0x8185), Ok(Found::Unhelpful { code: 5 }));
    assert_eq!(with(0x818f), Ok(Found::Unhelpful { code: 15 }));
    assert_eq!(with(0x8181), Ok(Found::NotUnderstood));
    assert_eq!(with(0x8184), Ok(Found::NotUnderstood));
    assert_eq!(with(0x8400), Ok(found(&[], 0)), "who is responsible for the name need not ask others");
    assert_eq!(with(0x8100), Ok(Found::Unhelpful { code: 0 }), "a referral");
    assert_eq!(read_v4(&message(0x8181, [0; 4], b"")), Ok(Found::NotUnderstood));
    assert_eq!(read_v4(&message(0x8183, [0; 4], b"")), Err(ResponseError::Question), "that there is none has to be about the name");
    assert_eq!(read_v4(&message(0x8182, [0; 4], b"")), Err(ResponseError::Question));
}

#[test]
fn hostile_answers_are_refused() {
    let good = question(ASKED, 1);
    let with = |record: &[u8]| message(OK, [1, 1, 0, 0], &[&good[..], record].concat());
    let a = |owner: &[u8]| with(&record(owner, 1, 60, &[1; 4]));
    // The records begin at 12 + 15.
    let mut thousand_links = Vec::new();
    for number in 0..1000_u16 {
        let (high, low) = (b'a' + u8::try_from(number / 100).unwrap(), b'a' + u8::try_from(number % 26).unwrap());
        thousand_links.push(record(BACK, 5, 60, &[2, high, low, 0]));
    }
    let chain = (b'a'..b'a' + 18)
        .map(|letter| record(&[1, letter, 7, b'e', b'x', b'a', b'm', b'p', b'l', b'e', 0], 5, 60, &[1, letter + 1, 0xc0, 0x0e]));
    let long_name = [&b"\x3f"[..], &[b'a'; 63]].concat().repeat(5);
    let mut other_id = answer(&[record(BACK, 1, 60, &[1; 4])]);
    other_id[0] ^= 1;
    let cases: Vec<(&str, Vec<u8>, ResponseError)> = vec![
        ("nothing", Vec::new(), ResponseError::Truncated),
        ("half a header", vec![0x12, 0x34, 0x81], ResponseError::Truncated),
        ("another number", other_id, ResponseError::Id),
        ("a query", message(0x0100, [1, 0, 0, 0], &good), ResponseError::NoResponse),
        ("an answer to an update", message(0xa980, [1, 0, 0, 0], &good), ResponseError::NoResponse),
        ("no question", message(OK, [0, 1, 0, 0], &record(ASKED, 1, 60, &[1; 4])), ResponseError::Question),
        ("two questions", message(OK, [2, 0, 0, 0], &[good.clone(), good.clone()].concat()), ResponseError::Question),
        ("another name", message(OK, [1, 0, 0, 0], &question(b"\x01b\x07example\0", 1)), ResponseError::Question),
        ("a name below", message(OK, [1, 0, 0, 0], &question(b"\x01x\x01a\x07example\0", 1)), ResponseError::Question),
        ("labels cut elsewhere", message(OK, [1, 0, 0, 0], &question(b"\x09a.example\0", 1)), ResponseError::Question),
        ("another type", message(OK, [1, 0, 0, 0], &question(ASKED, 28)), ResponseError::Question),
        ("another class", message(OK, [1, 0, 0, 0], &[ASKED, &[0, 1, 0, 3]].concat()), ResponseError::Question),
        ("question cut", message(OK, [1, 0, 0, 0], &good[..13]), ResponseError::Truncated),
        ("question that points to itself", message(OK, [1, 0, 0, 0], &question(b"\xc0\x0c", 1)), ResponseError::Name),
        ("owner that points to itself", a(b"\xc0\x1b"), ResponseError::Name),
        ("owner that points forward", a(b"\xc0\x1d"), ResponseError::Name),
        ("owner that points past the end", a(b"\xff\xff"), ResponseError::Name),
        ("label before a pointer to it", a(b"\x01a\xc0\x1b"), ResponseError::Name),
        ("pointer into the header", a(b"\xc0\x02"), ResponseError::Name),
        ("extended label", a(b"\x41a\0"), ResponseError::Name),
        ("reserved label", a(b"\x81a\0"), ResponseError::Name),
        ("name of 320 bytes", a(&[&long_name[..], b"\0"].concat()), ResponseError::Name),
        ("half a pointer", with(b"\xc0"), ResponseError::Truncated),
        ("label past the end", with(b"\x3fabc"), ResponseError::Truncated),
        ("no record at all", with(b""), ResponseError::Truncated),
        ("record without its data", with(&[BACK, b"\0\x01\0\x01\0\0\0\x3c\0\x04"].concat()), ResponseError::Truncated),
        ("data past the end", with(&[BACK, b"\0\x01\0\x01\0\0\0\x3c\xff\xff\x01\x01\x01\x01"].concat()), ResponseError::Truncated),
        ("an address of 3 bytes", with(&record(BACK, 1, 60, &[1; 3])), ResponseError::Record),
        ("an address of 5 bytes", with(&record(BACK, 1, 60, &[1; 5])), ResponseError::Record),
        ("the other kind of address", with(&record(BACK, 1, 60, &[1; 16])), ResponseError::Record),
        ("no address", with(&record(BACK, 1, 60, &[])), ResponseError::Record),
        ("link longer than its data", with(&[record(BACK, 5, 60, b"\x01b"), b"\0".to_vec()].concat()), ResponseError::Record),
        ("link shorter than its data", with(&record(BACK, 5, 60, b"\x01b\0x")), ResponseError::Record),
        ("link without data", with(&[record(BACK, 5, 60, b""), b"\0".to_vec()].concat()), ResponseError::Record),
        ("link into its own data", with(&record(BACK, 5, 60, b"\xc0\x27")), ResponseError::Name),
        (
            "two pointers to each other, in data that is not read",
            answer(&[record(BACK, 16, 60, b"\xc0\x29\xc0\x27"), record(b"\xc0\x27", 1, 60, &[1; 4])]),
            ResponseError::Name,
        ),
        ("1000 links", answer(&thousand_links), ResponseError::TooManyRecords),
        ("65535 records announced", message(OK, [1, 65535, 0, 0], &good), ResponseError::TooManyRecords),
        ("a chain of 18", answer(&chain.collect::<Vec<_>>()), ResponseError::TooManyLinks),
        ("a link to itself", with(&record(BACK, 5, 60, BACK)), ResponseError::TooManyLinks),
        (
            "two links in a circle",
            answer(&[record(BACK, 5, 60, b"\x01b\xc0\x0e"), record(b"\x01b\xc0\x0e", 5, 60, BACK)]),
            ResponseError::TooManyLinks,
        ),
    ];
    for (what, bytes, expected) in cases {
        assert_eq!(read_v4(&bytes), Err(expected), "{what}");
    }
}

#[test]
fn many_addresses_are_cut_to_what_one_dials() {
    let records = (0..200).map(|last| record(BACK, 1, 60, &[192, 0, 2, last])).collect::<Vec<_>>();
    let Ok(Found::Addresses { addresses, .. }) = read_v4(&answer(&records)) else { panic!("no addresses") };
    assert_eq!(addresses.len(), MOST_ADDRESSES);
}

#[test]
fn a_chain_of_the_longest_length_is_followed() {
    let name = |number: usize| vec![1, b'a' + u8::try_from(number).unwrap(), 7, b'e', b'x', b'a', b'm', b'p', b'l', b'e', 0];
    let mut records = (0..MOST_LINKS).map(|number| record(&name(number), 5, 60, &name(number + 1))).collect::<Vec<_>>();
    records.push(record(&name(MOST_LINKS), 1, 60, &[192, 0, 2, 1]));
    assert_eq!(read_v4(&answer(&records)), Ok(found(&["192.0.2.1"], 60)));
}

#[test]
fn every_cut_of_an_answer_is_refused() {
    let whole = answer(&[record(BACK, 5, 60, b"\x01b\xc0\x0e"), record(b"\x01b\xc0\x0e", 1, 60, &[192, 0, 2, 1])]);
    assert_eq!(read_v4(&whole), Ok(found(&["192.0.2.1"], 60)));
    for cut in 0..whole.len() {
        assert_eq!(read_v4(&whole[..cut]), Err(ResponseError::Truncated), "cut at {cut}");
    }
}
