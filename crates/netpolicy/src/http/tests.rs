use super::*;

fn head(text: &str) -> Head {
    match parse(text.as_bytes()) {
        HttpState::Head(head) => *head,
        other => panic!("{text:?}: {other:?}"),
    }
}

#[test]
fn a_plain_request_is_read() {
    let text = "GET /a/b?q=/../x HTTP/1.1\r\nHost: Example.com:8080\r\nAccept: */*\r\n\r\nrest";
    let head = head(text);
    assert_eq!(head.method, "GET");
    assert_eq!(head.target, Target::Origin { path: "/a/b".to_owned() });
    assert_eq!(head.host.unwrap().to_string(), "example.com:8080");
    assert_eq!((head.version, head.body, head.upgrade), (Version::Http11, Body::None, None));
    assert_eq!(&text[head.length..], "rest");
}

#[test]
fn bodies_are_announced_in_one_way() {
    for (fields, body) in [
        ("", Body::None),
        ("Content-Length: 0\r\n", Body::Length(0)),
        ("content-length:\t42 \r\n", Body::Length(42)),
        ("Content-Length: 999999999999999999\r\n", Body::Length(999_999_999_999_999_999)),
        ("Transfer-Encoding: chunked\r\n", Body::Chunked),
        ("TRANSFER-ENCODING: Chunked\r\n", Body::Chunked),
    ] {
        assert_eq!(head(&format!("POST / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")).body, body, "{fields:?}");
    }
    assert_eq!(head("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n").body, Body::Tunnel);
    assert_eq!(head("GET / HTTP/1.0\r\n\r\n").host, None);
}

#[test]
fn targets_have_four_forms() {
    let target = |line: &str| head(&format!("{line} HTTP/1.1\r\nHost: a.example\r\n\r\n")).target;
    assert_eq!(target("GET /").path(), Some("/"));
    assert_eq!(target("GET //b.example/x").path(), Some("//b.example/x"));
    assert_eq!(target("GET http://a.example").path(), Some("/"));
    assert_eq!(target("GET http://a.example?x").path(), Some("/"));
    assert_eq!(target("GET HTTP://A.example:8080/x?y").path(), Some("/x"));
    assert_eq!(target("GET HTTP://A.example:8080/x?y").authority().unwrap().to_string(), "a.example:8080");
    assert_eq!(target("OPTIONS *"), Target::Asterisk);
    assert_eq!(target("CONNECT a.example:443").authority().unwrap().port, Some(443));
}

#[test]
fn offers_to_change_the_protocol_are_seen() {
    let upgrade = |fields: &str| head(&format!("GET / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")).upgrade;
    assert_eq!(upgrade("Connection: Upgrade\r\nUpgrade: WebSocket\r\n"), Some(Upgrade::WebSocket));
    for fields in [
        "Upgrade: h2c\r\n",
        "Upgrade: websocket, h2c\r\n",
        "Upgrade: websocket\r\nUpgrade: h2c\r\n",
        "Upgrade: h2c\r\nUpgrade: websocket\r\n",
        "HTTP2-Settings: AAAA\r\nUpgrade: websocket\r\n",
        "Upgrade: websocket\r\nHTTP2-Settings: AAAA\r\n",
        "Upgrade:\r\n",
    ] {
        assert_eq!(upgrade(fields), Some(Upgrade::Other), "{fields:?}");
    }
}

#[test]
fn other_protocols_are_told_apart() {
    for (what, bytes, expected) in [
        ("nothing yet", &b""[..], HttpState::NeedMore),
        ("a method so far", b"GE", HttpState::NeedMore),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0", HttpState::Http2),
        ("HTTP/2 so far", b"PRI * HTTP/2.0\r\n\r\nSM", HttpState::NeedMore),
        ("TLS", b"\x16\x03\x01\x02\x00", HttpState::NotHttp),
        ("SSH", b"SSH-2.0-OpenSSH_9.9\r\n", HttpState::NotHttp),
        ("SSH with a comment", b"SSH-2.0-OpenSSH_9.9 Debian-1\r\n", HttpState::NotHttp),
        ("mail", b"EHLO a.example\r\n", HttpState::NotHttp),
        ("one word", b"QUIT\r\n", HttpState::NotHttp),
        ("redis", b"*1\r\n$4\r\nPING\r\n", HttpState::NotHttp),
        ("AMQP", b"AMQP\0\0\x09\x01", HttpState::NotHttp),
        ("git", b"0033git-upload-pack /project.git\0host=a.example\0", HttpState::NotHttp),
        ("PostgreSQL", b"\0\0\0\x08\x04\xd2\x16\x2f", HttpState::NotHttp),
        ("HTTP/0.9", b"GET /\r\n", HttpState::NotHttp),
        ("a word so far", &[b'A'; 1000], HttpState::NeedMore),
        ("blank lines so far", b"\r\n\r\n", HttpState::NeedMore),
    ] {
        assert_eq!(parse(bytes), expected, "{what}");
    }
}

/// Servers that mean well accept these; they must not pass as some other protocol.
#[test]
fn what_is_nearly_http_is_malformed() {
    for (what, text, expected) in [
        ("an empty line first", "\r\nGET / HTTP/1.1\r\nHost: evil.com\r\n\r\n", HttpError::RequestLine),
        ("a bare LF first", "\nGET / HTTP/1.1\r\nHost: evil.com\r\n\r\n", HttpError::LineEnd),
        ("a space first", " GET / HTTP/1.1\r\nHost: evil.com\r\n\r\n", HttpError::RequestLine),
        ("tabs", "GET\t/\tHTTP/1.1\r\nHost: evil.com\r\n\r\n", HttpError::RequestLine),
        ("a form feed", "GET\x0c/ HTTP/1.1\r\nHost: evil.com\r\n\r\n", HttpError::RequestLine),
        ("a bare CR", "GET\r/ HTTP/1.1\r\nHost: evil.com\r\n\r\n", HttpError::LineEnd),
        ("bare LF", "GET / HTTP/1.1\nHost: evil.com\n\n", HttpError::LineEnd),
        ("lower case", "GET / http/1.1\r\nHost: evil.com\r\n\r\n", HttpError::Version),
        ("a long method", "AAAAAAAAAAAAAAAAAAAAA / HTTP/1.1\r\nHost: evil.com\r\n\r\n", HttpError::RequestLine),
        ("a NUL behind the version", "GET / HTTP/1.1\0\r\nHost: evil.com\r\n\r\n", HttpError::RequestLine),
    ] {
        assert_eq!(parse(text.as_bytes()), HttpState::Malformed(expected), "{what}");
    }
    assert_eq!(parse(&vec![b'A'; LONGEST_HEAD]), HttpState::Malformed(HttpError::TooLong));
    assert_eq!(parse(&vec![b'\n'; LONGEST_HEAD]), HttpState::Malformed(HttpError::TooLong));
}

#[test]
fn hostile_request_lines_are_refused() {
    for (what, line, expected) in [
        ("two spaces", "GET  / HTTP/1.1", HttpError::RequestLine),
        ("space at the end", "GET / HTTP/1.1 ", HttpError::RequestLine),
        ("space in the target", "GET /a b HTTP/1.1", HttpError::RequestLine),
        ("no version", "GET /HTTP/1.1", HttpError::RequestLine),
        ("a tab in the target", "GET /a\tb HTTP/1.1", HttpError::RequestLine),
        ("an escape in the target", "GET /a\x1bb HTTP/1.1", HttpError::RequestLine),
        ("beyond ASCII", "GET /\u{e4} HTTP/1.1", HttpError::RequestLine),
        ("bare CR", "GET /\rHost: evil.com HTTP/1.1", HttpError::LineEnd),
        ("version 2", "GET / HTTP/2.0", HttpError::Version),
        ("version 1.2", "GET / HTTP/1.2", HttpError::Version),
        ("version in lower case", "GET / http/1.1", HttpError::Version),
        ("fragment", "GET /#a HTTP/1.1", HttpError::Target),
        ("no slash", "GET a.example HTTP/1.1", HttpError::Target),
        ("another scheme", "GET https://a.example/ HTTP/1.1", HttpError::Target),
        ("a file", "GET file:///etc/passwd HTTP/1.1", HttpError::Target),
        ("a star for GET", "GET * HTTP/1.1", HttpError::Target),
        ("CONNECT without a port", "CONNECT a.example HTTP/1.1", HttpError::Target),
        (
            "CONNECT with a path",
            "CONNECT /a HTTP/1.1",
            HttpError::Host(AuthorityError::Host(crate::host::HostError::Byte { byte: b'/' })),
        ),
        ("another host in the target", "GET http://evil.com/ HTTP/1.1", HttpError::HostDiffers),
        ("another port in the target", "CONNECT evil.com:443 HTTP/1.1", HttpError::HostDiffers),
        (
            "user part",
            "GET http://a.example@evil.com/ HTTP/1.1",
            HttpError::Host(AuthorityError::Host(crate::host::HostError::Byte { byte: b'@' })),
        ),
        ("user and password", "GET http://a.example:80@evil.com/ HTTP/1.1", HttpError::Host(AuthorityError::Port)),
        (
            "a number for a host",
            "GET http://2852039166/ HTTP/1.1",
            HttpError::Host(AuthorityError::Host(crate::host::HostError::Numeric)),
        ),
    ] {
        let text = format!("{line}\r\nHost: a.example\r\n\r\n");
        assert_eq!(parse(text.as_bytes()), HttpState::Malformed(expected), "{what}");
    }
}

#[test]
fn the_target_and_the_host_agree_on_the_port() {
    for (target, host, is_same) in [
        ("http://a.example/", "a.example:80", true),
        ("http://a.example:80/", "a.example", true),
        ("http://a.example:8080/", "a.example:8080", true),
        ("http://a.example:8080/", "a.example:81", false),
        ("http://a.example/", "a.example:81", false),
    ] {
        let state = parse(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        assert_eq!(state != HttpState::Malformed(HttpError::HostDiffers), is_same, "{target} and {host}");
    }
}

#[test]
fn hostile_fields_are_refused() {
    let host = |byte| HttpError::Host(AuthorityError::Host(crate::host::HostError::Byte { byte }));
    let not_ascii = HttpError::Host(AuthorityError::Host(crate::host::HostError::NotAscii));
    for (what, fields, expected) in [
        ("no Host", &b"Accept: */*\r\n"[..], HttpError::NoHost),
        ("two Hosts", b"Host: a.example\r\nHost: evil.com\r\n", HttpError::SeveralHosts),
        ("two equal Hosts", b"Host: a.example\r\nhost: a.example\r\n", HttpError::SeveralHosts),
        ("empty Host", b"Host:\r\n", HttpError::Host(AuthorityError::Host(crate::host::HostError::Empty))),
        ("list of Hosts", b"Host: a.example, evil.com\r\n", host(b',')),
        ("user in Host", b"Host: a.example@evil.com\r\n", host(b'@')),
        ("path in Host", b"Host: a.example/evil\r\n", host(b'/')),
        ("letters beyond ASCII in Host", "Host: \u{430}.example\r\n".as_bytes(), not_ascii.clone()),
        ("not text in Host", b"Host: a\xff.example\r\n", not_ascii),
        ("NUL in Host", b"Host: evil.com\0.a.example\r\n", HttpError::FieldValue),
        ("odd port in Host", b"Host: a.example:+80\r\n", HttpError::Host(AuthorityError::Port)),
        ("folded", b"Host: a.example\r\nX: a\r\n b\r\n", HttpError::Folded),
        ("folded with a tab", b"Host: a.example\r\nX: a\r\n\tTransfer-Encoding: chunked\r\n", HttpError::Folded),
        ("space first", b" Host: a.example\r\n", HttpError::Folded),
        ("space before the colon", b"Host : a.example\r\n", HttpError::FieldName),
        ("space before the colon of an encoding", b"Host: a.example\r\nTransfer-Encoding : chunked\r\n", HttpError::FieldName),
        ("no colon", b"Host: a.example\r\nNonsense\r\n", HttpError::FieldName),
        ("no name", b"Host: a.example\r\n: x\r\n", HttpError::FieldName),
        ("NUL in a name", b"Host: a.example\r\nX\0: x\r\n", HttpError::FieldName),
        ("name beyond ASCII", b"Host: a.example\r\nX\xff: x\r\n", HttpError::FieldName),
        ("bare LF", b"Host: a.example\nX: y\r\n", HttpError::LineEnd),
        ("bare LF hides a field", b"Host: a.example\r\nX: y\nTransfer-Encoding: chunked\r\n", HttpError::LineEnd),
        ("bare CR", b"Host: a.example\r\nX: y\rTransfer-Encoding: chunked\r\n", HttpError::LineEnd),
        ("two CR", b"Host: a.example\r\r\n", HttpError::LineEnd),
        ("NUL in a value", b"Host: a.example\r\nX: a\0b\r\n", HttpError::FieldValue),
        ("escape in a value", b"Host: a.example\r\nX: \x1b[2J\r\n", HttpError::FieldValue),
        ("vertical tab before an encoding", b"Host: a.example\r\nTransfer-Encoding: \x0bchunked\r\n", HttpError::FieldValue),
    ] {
        let bytes = [b"GET / HTTP/1.1\r\n", fields, b"\r\n"].concat();
        assert_eq!(parse(&bytes), HttpState::Malformed(expected), "{what}");
    }
}

/// Announcements of a body that servers are known to read differently.
#[test]
fn smuggling_is_refused() {
    for (what, fields, expected) in [
        ("both", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", HttpError::LengthAndEncoding),
        ("both, the other way", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", HttpError::LengthAndEncoding),
        ("two lengths", "Content-Length: 5\r\nContent-Length: 6\r\n", HttpError::SeveralLengths),
        ("two equal lengths", "Content-Length: 5\r\nContent-Length: 5\r\n", HttpError::SeveralLengths),
        ("list of lengths", "Content-Length: 5, 5\r\n", HttpError::Length),
        ("sign", "Content-Length: +5\r\n", HttpError::Length),
        ("negative", "Content-Length: -1\r\n", HttpError::Length),
        ("hexadecimal", "Content-Length: 0x5\r\n", HttpError::Length),
        ("empty length", "Content-Length:\r\n", HttpError::Length),
        ("spaced number", "Content-Length: 1 0\r\n", HttpError::Length),
        ("fraction", "Content-Length: 5.0\r\n", HttpError::Length),
        ("quoted", "Content-Length: \"5\"\r\n", HttpError::Length),
        ("overflow", "Content-Length: 18446744073709551617\r\n", HttpError::Length),
        ("other digits", "Content-Length: \u{665}\r\n", HttpError::Length),
        ("two encodings", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", HttpError::SeveralEncodings),
        ("identity after chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", HttpError::SeveralEncodings),
        ("identity", "Transfer-Encoding: identity\r\n", HttpError::Encoding),
        ("gzip before", "Transfer-Encoding: gzip, chunked\r\n", HttpError::Encoding),
        ("chunked twice", "Transfer-Encoding: chunked, chunked\r\n", HttpError::Encoding),
        ("chunked not last", "Transfer-Encoding: chunked, identity\r\n", HttpError::Encoding),
        ("parameter", "Transfer-Encoding: chunked;q=1\r\n", HttpError::Encoding),
        ("prefix", "Transfer-Encoding: xchunked\r\n", HttpError::Encoding),
        ("quoted encoding", "Transfer-Encoding: \"chunked\"\r\n", HttpError::Encoding),
        ("empty encoding", "Transfer-Encoding:\r\n", HttpError::Encoding),
        ("comma", "Transfer-Encoding: ,chunked\r\n", HttpError::Encoding),
        ("a body that waits", "Content-Length: 5\r\nExpect: 100-continue\r\n", HttpError::Expect),
        ("a body that waits for something else", "Expect: y 100-continue\r\nContent-Length: 5\r\n", HttpError::Expect),
        ("underscore", "Transfer_Encoding: chunked\r\n", HttpError::LookAlike),
        ("underscore in the length", "content_length: 5\r\n", HttpError::LookAlike),
    ] {
        let text = format!("POST / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
        assert_eq!(parse(text.as_bytes()), HttpState::Malformed(expected), "{what}");
    }
    let old = "POST / HTTP/1.0\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(parse(old.as_bytes()), HttpState::Malformed(HttpError::Encoding));
    for line in ["CONNECT a.example:80", "GET /", "HEAD /", "TRACE /"] {
        for field in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
            let text = format!("{line} HTTP/1.1\r\nHost: a.example\r\n{field}\r\n\r\n");
            assert_eq!(parse(text.as_bytes()), HttpState::Malformed(HttpError::UnexpectedBody), "{text:?}");
        }
    }
    assert_eq!(head("GET / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n").body, Body::Length(0));
}

#[test]
fn a_head_has_a_bounded_size() {
    let with_filler = |filler: usize| format!("GET / HTTP/1.1\r\nHost: a.example\r\nX: {}\r\n\r\n", "x".repeat(filler));
    let overhead = with_filler(0).len();
    assert_eq!(head(&with_filler(LONGEST_HEAD - overhead)).length, LONGEST_HEAD);
    assert_eq!(parse(with_filler(LONGEST_HEAD - overhead + 1).as_bytes()), HttpState::Malformed(HttpError::TooLong));
    let endless = format!("GET /{}", "a".repeat(100_000));
    assert_eq!(parse(endless.as_bytes()), HttpState::Malformed(HttpError::TooLong));
    let many = |count: usize| format!("GET / HTTP/1.1\r\nHost: a.example\r\n{}\r\n", "X: y\r\n".repeat(count));
    assert_eq!(head(&many(MOST_FIELDS - 1)).method, "GET");
    assert_eq!(parse(many(MOST_FIELDS).as_bytes()), HttpState::Malformed(HttpError::TooManyFields));
}
