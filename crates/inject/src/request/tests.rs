use super::*;

fn read(text: &str) -> Result<Option<Request>, Refusal> {
    parse(text.as_bytes())
}

fn checked(text: &str) -> Result<(), u16> {
    let request = read(text).map_err(|refusal| refusal.status)?.expect("the head is whole");
    check(&request.head, &"api.example.com".parse().unwrap()).map_err(|refusal| refusal.status)
}

#[test]
fn an_expectation_is_met_here_and_not_passed_on() {
    let text = "POST / HTTP/1.1\r\nHost: a.example\r\nEXPECT: \t100-Continue \r\nContent-Length: 3\r\n\r\nabc";
    let request = read(text).unwrap().unwrap();
    assert_eq!(request.text, b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\n");
    assert_eq!((&text[request.taken..], request.waits, request.head.body), ("abc", true, Body::Length(3)));
    for cut in 0..request.taken {
        assert!(matches!(read(&text[..cut]), Ok(None)), "{cut}");
    }
    // Nobody waits for leave to send nothing, and HTTP/1.0 knows no such leave.
    assert!(!read("GET / HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\n\r\n").unwrap().unwrap().waits);
    let old = "POST / HTTP/1.0\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    assert!(!read(old).unwrap().unwrap().waits);
}

#[test]
fn an_expectation_hides_nothing() {
    for (what, fields, status) in [
        ("another one", "Expect: 200-ok\r\n", 417),
        ("twice", "Expect: 100-continue\r\nExpect: 100-continue\r\n", 417),
        ("a list", "Expect: 100-continue, 100-continue\r\n", 417),
        ("folded", "Expect: 100-continue\r\n Content-Length: 5\r\n", 400),
        ("folded before", "Expect:\r\n 100-continue\r\n", 417),
        ("two lengths", "Expect: 100-continue\r\nContent-Length: 1\r\nContent-Length: 2\r\n", 400),
        ("length and chunks", "Content-Length: 1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n", 400),
        ("bare LF behind it", "Expect: 100-continue\nX: y\r\n", 400),
        ("bare CR in it", "Expect: 100-continue\rX: y\r\n", 400),
        ("a space before the colon", "Expect : 100-continue\r\n", 400),
    ] {
        let text = format!("POST / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
        let refusal = read(&text).expect_err(what);
        assert_eq!(refusal.status, status, "{what}: {refusal:?}");
    }
    let endless = format!("POST / HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nX: {}", "x".repeat(LONGEST_HEAD));
    assert_eq!(read(&endless).unwrap_err().status, 431);
}

#[test]
fn requests_for_this_host_pass_and_others_do_not() {
    for text in [
        "GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: API.Example.com:443\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: api.example.com\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: api.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ] {
        assert_eq!(checked(text), Ok(()), "{text}");
    }
    for (text, status) in [
        ("GET / HTTP/1.1\r\nHost: evil.example.com\r\n\r\n", 421),
        ("GET / HTTP/1.1\r\nHost: x.api.example.com\r\n\r\n", 421),
        ("GET / HTTP/1.1\r\nHost: api.example.com:8443\r\n\r\n", 421),
        ("GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 421),
        ("GET / HTTP/1.0\r\n\r\n", 400),
        ("GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 400),
        ("CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n", 400),
        ("TRACE / HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 405),
        ("trace / HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 405),
        ("GET / HTTP/1.1\r\nHost: api.example.com\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: api.example.com\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\n", 400),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        ("SSH-2.0-x\r\n", 400),
    ] {
        assert_eq!(checked(text), Err(status), "{text}");
    }
}
