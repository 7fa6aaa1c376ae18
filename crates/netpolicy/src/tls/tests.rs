use super::*;

fn vector8(content: &[u8]) -> Vec<u8> {
    [&[u8::try_from(content.len()).unwrap()], content].concat()
}

fn vector16(content: &[u8]) -> Vec<u8> {
    [&u16::try_from(content.len()).unwrap().to_be_bytes(), content].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [kind.to_be_bytes().to_vec(), vector16(content)].concat()
}

fn entry(kind: u8, name: &[u8]) -> Vec<u8> {
    [vec![kind], vector16(name)].concat()
}

fn server_name(name: &[u8]) -> Vec<u8> {
    extension(SERVER_NAME, &vector16(&entry(HOST_NAME, name)))
}

fn body(extensions: &[u8]) -> Vec<u8> {
    let suites = vector16(&[0x13, 0x01, 0x13, 0x02]);
    [&[3, 3][..], &[7; 32], &vector8(&[9; 32]), &suites, &vector8(&[0]), &vector16(extensions)].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[kind], &length[1..], body].concat()
}

fn record(content: &[u8]) -> Vec<u8> {
    [&[HANDSHAKE_RECORD, 3, 1][..], &vector16(content)].concat()
}

fn hello(extensions: &[u8]) -> Vec<u8> {
    record(&message(CLIENT_HELLO, &body(extensions)))
}

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

fn assert_malformed(what: &str, bytes: &[u8], expected: TlsError) {
    assert_eq!(parse(bytes), TlsState::Malformed(expected), "{what}");
}

#[test]
fn a_hello_tells_its_name_and_protocols() {
    let alpn = extension(ALPN, &vector16(&[vector8(b"h2"), vector8(b"http/1.1")].concat()));
    let bytes = hello(&[extension(0x0a0a, b""), server_name(b"Example.COM"), alpn, extension(43, b"\x02\x03\x04")].concat());
    let expected = ClientHello { sni: Some(name("example.com")), alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()], has_ech: false };
    assert_eq!(parse(&bytes), TlsState::Hello(expected.clone()));
    let with_early_data = [bytes, b"\x17\x03\x03\x00\x01x".to_vec()].concat();
    assert_eq!(parse(&with_early_data), TlsState::Hello(expected));
}

#[test]
fn a_hello_may_have_no_name_and_no_extensions() {
    assert_eq!(parse(&hello(b"")), TlsState::Hello(ClientHello::default()));
    let bare = body(b"");
    let old = record(&message(CLIENT_HELLO, &bare[..bare.len() - 2]));
    assert_eq!(parse(&old), TlsState::Hello(ClientHello::default()));
}

#[test]
fn a_hello_may_be_spread_over_records_of_any_size() {
    let whole = message(CLIENT_HELLO, &body(&server_name(b"a.example")));
    for size in 1..whole.len() {
        let spread = whole.chunks(size).map(record).collect::<Vec<_>>().concat();
        let expected = TlsState::Hello(ClientHello { sni: Some(name("a.example")), ..ClientHello::default() });
        assert_eq!(parse(&spread), expected, "records of {size}");
        for cut in 0..spread.len() {
            assert_eq!(parse(&spread[..cut]), TlsState::NeedMore, "records of {size}, cut at {cut}");
        }
    }
}

#[test]
fn encrypted_hellos_are_seen_beside_their_outer_name() {
    for kind in [0xfe0d, 0xfe08, 0xfe0a, 0xfd00, 0xffce] {
        let bytes = hello(&[server_name(b"outer.example"), extension(kind, &[0; 40])].concat());
        let expected = ClientHello { sni: Some(name("outer.example")), alpn: Vec::new(), has_ech: true };
        assert_eq!(parse(&bytes), TlsState::Hello(expected), "{kind:x}");
    }
}

#[test]
fn other_protocols_are_told_apart() {
    for bytes in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"SSH-2.0-x\r\n",
        b"\x80\x2e\x01\x03\x01",
        b"\x15\x03\x01\x00\x02",
        b"\x16\x02\x00",
        b"\x17\x03\x03",
    ] {
        assert_eq!(parse(bytes), TlsState::NotTls, "{}", bytes.escape_ascii());
    }
    assert_eq!(parse(b""), TlsState::NeedMore);
    assert_eq!(parse(b"\x16"), TlsState::NeedMore);
}

#[test]
fn hostile_names_are_refused() {
    let of_256 = "a.".repeat(128);
    for (what, given, expected) in [
        ("trailing dot", &b"allowed.com."[..], TlsError::TrailingDot),
        ("empty", b"", TlsError::Name(HostError::Empty)),
        ("NUL", b"evil.com\0.allowed.com", TlsError::Name(HostError::Byte { byte: 0 })),
        ("NUL at the end", b"allowed.com\0", TlsError::Name(HostError::Byte { byte: 0 })),
        ("user part", b"allowed.com@evil.com", TlsError::Name(HostError::Byte { byte: b'@' })),
        ("port", b"allowed.com:443", TlsError::Name(HostError::Byte { byte: b':' })),
        ("homograph", "\u{430}llowed.com".as_bytes(), TlsError::Name(HostError::NotAscii)),
        ("address", b"169.254.169.254", TlsError::Name(HostError::Numeric)),
        ("address in one number", b"2852039166", TlsError::Name(HostError::Numeric)),
        ("IPv6", b"::1", TlsError::Name(HostError::Byte { byte: b':' })),
        ("256 bytes", of_256.trim_end_matches('.').as_bytes(), TlsError::Name(HostError::TooLong)),
    ] {
        assert_malformed(what, &hello(&server_name(given)), expected);
    }
}

#[test]
fn hostile_name_lists_are_refused() {
    let two = [entry(HOST_NAME, b"allowed.com"), entry(HOST_NAME, b"evil.com")].concat();
    let other_first = [entry(1, b"x"), entry(HOST_NAME, b"allowed.com")].concat();
    let other_last = [entry(HOST_NAME, b"allowed.com"), entry(1, b"x")].concat();
    for (what, content) in [
        ("nothing", Vec::new()),
        ("empty list", vector16(b"")),
        ("two names", vector16(&two)),
        ("another kind", vector16(&entry(1, b"allowed.com"))),
        ("another kind first", vector16(&other_first)),
        ("another kind last", vector16(&other_last)),
        ("list longer than the extension", b"\x00\xff\x00\x00\x01a".to_vec()),
        ("list shorter than the extension", [vector16(&entry(HOST_NAME, b"allowed.com")), b"x".to_vec()].concat()),
        ("name longer than the list", vector16(b"\x00\x00\xffa")),
        ("name without a length", vector16(b"\x00\x00")),
    ] {
        assert_malformed(what, &hello(&extension(SERVER_NAME, &content)), TlsError::NameList);
    }
    let twice = [server_name(b"allowed.com"), server_name(b"evil.com")].concat();
    assert_malformed("two extensions", &hello(&twice), TlsError::Duplicate);
    let apart = [server_name(b"allowed.com"), extension(43, b""), server_name(b"allowed.com")].concat();
    assert_malformed("two equal extensions apart", &hello(&apart), TlsError::Duplicate);
}

#[test]
fn hostile_protocol_lists_are_refused() {
    for content in [&b""[..], b"\x00\x00", b"\x00\x01\x00", b"\x00\x02\x05h", b"\x00\x03\x02h2x", b"\x00\xff\x02h2"] {
        assert_malformed("protocols", &hello(&extension(ALPN, content)), TlsError::Alpn);
    }
    assert_malformed(
        "too many protocols",
        &hello(&extension(ALPN, &vector16(&b"\x01a".repeat(MOST_PROTOCOLS + 1)))),
        TlsError::Alpn,
    );
}

#[test]
fn hostile_frames_are_refused() {
    let good = message(CLIENT_HELLO, &body(&server_name(b"a.example")));
    let (front, back) = good.split_at(10);
    assert_malformed("empty record", b"\x16\x03\x01\x00\x00", TlsError::Record);
    assert_malformed("record too long", b"\x16\x03\x01\x40\x01\x01", TlsError::Record);
    assert_malformed("odd version", b"\x16\x03\x05\x00\x01\x01", TlsError::Record);
    assert_malformed(
        "another record in between",
        &[record(front), b"\x14\x03\x03\x00\x01\x01".to_vec(), record(back)].concat(),
        TlsError::Record,
    );
    assert_malformed("an alert in between", &[record(front), b"\x15\x03\x03\x00\x02\x01\x00".to_vec()].concat(), TlsError::Record);
    assert_malformed("a server's hello", &record(&message(2, b"")), TlsError::NotClientHello);
    assert_malformed("a second message behind", &record(&[good.clone(), message(CLIENT_HELLO, b"")].concat()), TlsError::Trailing);
    assert_malformed("a length of 16 MiB", &record(b"\x01\xff\xff\xff"), TlsError::TooLong);
    assert_malformed("an empty hello", &record(&message(CLIENT_HELLO, b"")), TlsError::Length);
    let padded = body(&extension(21, &vec![0; LONGEST_HELLO]));
    let spread = message(CLIENT_HELLO, &padded).chunks(1000).map(record).collect::<Vec<_>>().concat();
    assert_malformed("a long hello", &spread, TlsError::TooLong);
    let tiny = message(CLIENT_HELLO, &body(&extension(21, &vec![0; 4000]))).chunks(1).map(record).collect::<Vec<_>>().concat();
    assert_malformed("a hello of tiny records", &tiny, TlsError::TooLong);
    let many = (100..165).map(|kind| extension(kind, b"")).collect::<Vec<_>>().concat();
    assert_malformed("65 extensions", &hello(&many), TlsError::TooManyExtensions);
}

/// Every length inside the hello is cut or stretched by one.
#[test]
fn lengths_that_do_not_fit_are_refused() {
    let good = body(&server_name(b"a.example"));
    for (what, at) in [("session", 34), ("suites", 68), ("compressions", 73), ("extensions", 76)] {
        for delta in [-1_i8, 1, 100] {
            let mut bad = good.clone();
            bad[at] = bad[at].wrapping_add_signed(delta);
            let outcome = parse(&record(&message(CLIENT_HELLO, &bad)));
            assert!(matches!(outcome, TlsState::Malformed(_)), "{what} by {delta}: {outcome:?}");
        }
    }
    let longer = [good.as_slice(), b"x"].concat();
    assert_malformed("a byte behind the extensions", &record(&message(CLIENT_HELLO, &longer)), TlsError::Length);
    let long_session = [&good[..34], &vector8(&[9; 33]), &good[67..]].concat();
    assert_malformed("a session of 33 bytes", &record(&message(CLIENT_HELLO, &long_session)), TlsError::Length);
    for cut in 0..good.len() {
        let outcome = parse(&record(&message(CLIENT_HELLO, &good[..cut])));
        let has_no_extensions = cut == good.len() - server_name(b"a.example").len() - 2;
        assert_eq!(outcome == TlsState::Hello(ClientHello::default()), has_no_extensions, "cut at {cut}");
    }
}
