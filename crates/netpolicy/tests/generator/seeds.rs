//! Valid messages to start from.

fn all(texts: &[&[u8]]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.to_vec()).collect()
}

pub fn names() -> Vec<Vec<u8>> {
    all(&[
        b"example.com",
        b"a.b.c.Example.COM.",
        b"xn--bcher-kva.example",
        b"_srv._tcp.a-b.example:8080",
        b"127.0.0.1",
        b"0x7f.1",
        b"2852039166",
        b"[2001:db8::1]:443",
        b"::ffff:169.254.169.254",
        b"a-label-that-is-quite-long-0123456789.and-another-one-9876543210.example.org",
    ])
}

pub fn rules() -> Vec<Vec<u8>> {
    all(&[
        b"example.com",
        b"*.example.com:8443",
        b"example.com:*",
        b"192.0.2.1:53",
        b"192.0.2.0/24",
        b"[2001:db8::1]:443",
        b"[2001:db8::/32]:*",
        b"2001:db8::/32",
        b"http://example.com/pub/",
        b"http+get+head://*.example.com:8080/a/b",
        b"http+get://[2001:db8::1]:81/a",
    ])
}

pub fn dns() -> Vec<Vec<u8>> {
    all(&[
        b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01",
        b"\x12\x34\x01\x20\0\x01\0\0\0\0\0\x01\x01a\x07example\0\0\x1c\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0",
        b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\x01\x01a\x07example\0\0\x41\0\x01\0\0\x29\x10\0\0\0\x80\0\0\x0c\0\x0a\0\x08cookie12",
        b"\0\x1d\x12\x34\x01\x00\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01",
        b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0\x01a\xc0\x0c\0\x01\0\x01",
    ])
}

/// Answers to the question for the IPv4 or IPv6 address of `a.example`.
pub fn responses() -> Vec<Vec<u8>> {
    all(&[
        b"\x12\x34\x81\x80\0\x01\0\x01\0\0\0\0\x01a\x07example\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01",
        b"\x12\x34\x81\x80\0\x01\0\x02\0\0\0\x01\x01a\x07example\0\0\x01\0\x01\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01b\xc0\x0e\
          \xc0\x27\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01\0\0\x29\x04\xd0\0\0\0\0\0\0",
        b"\x12\x34\x81\x80\0\x01\0\x01\0\0\0\0\x01a\x07example\0\0\x1c\0\x01\xc0\x0c\0\x1c\0\x01\0\0\0\x3c\0\x10\
          \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01",
        b"\x12\x34\x81\x83\0\x01\0\0\0\0\0\0\x01a\x07example\0\0\x01\0\x01",
        b"\x12\x34\x81\x81\0\0\0\0\0\0\0\0",
    ])
}

pub fn http() -> Vec<Vec<u8>> {
    all(&[
        b"GET /pub/x?y=z HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\nUser-Agent: x\r\n\r\n",
        b"POST http://a.example:80/x HTTP/1.1\r\nHost: a.example:80\r\nContent-Length: 5\r\n\r\nhello",
        b"PUT /x HTTP/1.1\r\nHost: [2001:db8::1]:8080\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
        b"OPTIONS * HTTP/1.0\r\nHost: 192.0.2.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x12\x04",
        b"GET / HTTP/1.0\r\n\r\n",
    ])
}

pub fn chunks() -> Vec<Vec<u8>> {
    all(&[
        b"5\r\nhello\r\n0\r\n\r\nGET /",
        b"0\r\n\r\n",
        b"1a\r\nabcdefghijklmnopqrstuvwxyz\r\n00A\r\n0123456789\r\n000\r\n\r\n",
        b"1\r\na\r\n2\r\nbc\r\n",
    ])
}

pub fn socks() -> Vec<Vec<u8>> {
    all(&[
        b"\x05\x01\x00\x03\x0bexample.com\x01\xbb",
        b"\x05\x01\x00\x03\x09127.0.0.1\0\x50",
        b"\x05\x01\x00\x01\x01\x02\x03\x04\x01\xbbdata",
        b"\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x01\xbb",
        b"\x05\x02\x00\x02",
        b"\x05\x02\x02\x01",
        b"\x04\x01\0\x50\0\0\0\x01user\0example.com\0",
    ])
}

pub fn tls() -> Vec<Vec<u8>> {
    let names: &[&[u8]] = &[b"example.com", b"a.example"];
    let mut hellos = names
        .iter()
        .map(|name| hello(&[server_name(name), extension(16, b"\0\x0c\x02h2\x08http/1.1")].concat()))
        .collect::<Vec<_>>();
    hellos.push(hello(&[server_name(b"outer.example"), extension(0xfe0d, &[0; 20]), extension(43, b"\x02\x03\x04")].concat()));
    hellos.push(hello(b""));
    let mut seeds = hellos.iter().map(|message| record(message)).collect::<Vec<_>>();
    seeds.extend(hellos.iter().map(|message| message.chunks(29).flat_map(record).collect()));
    seeds
}

fn with_length(content: &[u8]) -> Vec<u8> {
    [&u16::try_from(content.len()).expect("a short vector").to_be_bytes(), content].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [kind.to_be_bytes().to_vec(), with_length(content)].concat()
}

fn server_name(name: &[u8]) -> Vec<u8> {
    extension(0, &with_length(&[&[0][..], &with_length(name)].concat()))
}

fn hello(extensions: &[u8]) -> Vec<u8> {
    let body = [b"\x03\x03", &[7; 32][..], b"\x04\x01\x02\x03\x04\0\x02\x13\x01\x01\0", &with_length(extensions)].concat();
    [b"\x01\0", with_length(&body).as_slice()].concat()
}

fn record(content: &[u8]) -> Vec<u8> {
    [b"\x16\x03\x01", with_length(content).as_slice()].concat()
}
