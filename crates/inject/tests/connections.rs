//! Connections through the relay to a real TLS server, byte for byte.
#![allow(clippy::unwrap_used, reason = "what goes wrong fails the test")]

mod stage;

use std::io::{Read as _, Write as _};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use stage::{HOST, Plan, Stage};
use whatif_inject::Outcome;

fn request(line: &str, fields: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: {HOST}\r\n{fields}\r\n")
}

/// The last request on a connection.
fn last(line: &str, fields: &str) -> String {
    // The test's server does not look at it, the relay closes when the client does.
    request(line, &format!("Connection: close\r\n{fields}"))
}

/// Reads one answer with a body of known length.
fn read_answer(stream: &mut impl std::io::Read) -> String {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&bytes));
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).map_or(0, |number| number.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

#[test]
fn the_server_gets_the_value_and_the_client_never_sees_it() {
    let stage = Stage::new();
    let fields = format!(
        "Authorization: Bearer {}\r\nX-Other: untouched\r\nX-Auth-Token: {}+{}\r\n",
        stage.placeholder(0),
        stage.placeholder(1),
        stage.placeholder(0)
    );
    let mut stream = stage.connect();
    stream.write_all(request("GET /a?b=c", &fields).as_bytes()).unwrap();
    let answer = read_answer(&mut stream);
    assert_eq!(answer, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n");
    let got = "Authorization: Bearer s3cret-value\r\nX-Other: untouched\r\nX-Auth-Token: other-value+s3cret-value\r\n";
    assert_eq!(stage.requests(), [request("GET /a?b=c", got)]);
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    drop(stream);
    let totals = stage.totals(1).remove(0).unwrap();
    // What the sandbox wrote is counted, so the length of a secret does not show.
    assert_eq!(totals.sent, request("GET /a?b=c", &fields).len() as u64);
    assert_eq!((totals.received, totals.requests, totals.replaced, totals.outcome), (answer.len() as u64, 1, 3, Outcome::Ended));
}

#[test]
fn basic_credentials_are_replaced_inside() {
    let stage = Stage::new();
    let basic = |credentials: String| format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(credentials));
    let mut stream = stage.connect();
    stream.write_all(request("GET /", &basic(format!("me:{}", stage.placeholder(0)))).as_bytes()).unwrap();
    read_answer(&mut stream);
    assert_eq!(stage.requests(), [request("GET /", &basic("me:s3cret-value".to_owned()))]);
}

#[test]
fn a_placeholder_may_arrive_in_pieces() {
    let stage = Stage::new();
    let text = request("GET /", &format!("X-Key: {}\r\n", stage.placeholder(0)));
    let mut stream = stage.connect();
    for piece in text.as_bytes().chunks(7) {
        stream.write_all(piece).unwrap();
        stream.flush().unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    read_answer(&mut stream);
    assert_eq!(stage.requests(), [request("GET /", "X-Key: s3cret-value\r\n")]);
}

#[test]
fn bodies_urls_and_answers_are_left_alone() {
    let stage = Stage::new();
    let placeholder = stage.placeholder(0);
    let mut stream = stage.connect();
    let body = format!("token={placeholder}");
    let post = request(&format!("POST /{placeholder}"), &format!("Content-Length: {}\r\n", body.len())) + &body;
    stream.write_all(post.as_bytes()).unwrap();
    read_answer(&mut stream);
    let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let chunked = request("POST /reflect", "Transfer-Encoding: chunked\r\n") + &chunk;
    stream.write_all(chunked.as_bytes()).unwrap();
    read_answer(&mut stream);
    let get = request(&format!("GET /reflect?q={placeholder}"), "");
    stream.write_all(get.as_bytes()).unwrap();
    // The server repeats what it got.
    assert!(read_answer(&mut stream).ends_with(&get));
    assert_eq!(stage.requests(), [post, chunked, get]);
    drop(stream);
    assert_eq!(stage.totals(1)[0].as_ref().unwrap().replaced, 0);
}

#[test]
fn requests_sent_at_once_are_answered_in_order() {
    let stage = Stage::new();
    let key = format!("X-Key: {}\r\n", stage.placeholder(0));
    let text = request("GET /first", &key)
        + &request("HEAD /head", "")
        + &request("POST /reflect", "Content-Length: 5\r\n")
        + "12345"
        + &request("GET /nothing", "")
        + &request("GET /hints", "")
        + &request("GET /chunked", "")
        + &last("GET /close", &key);
    let answer = stage.talk(&text);
    let statuses = answer.lines().filter(|line| line.starts_with("HTTP/1.1")).collect::<Vec<_>>();
    let expected = ["200 OK", "200 OK", "200 OK", "204 No Content", "103 Early Hints", "200 OK", "200 OK", "200 OK"];
    assert_eq!(statuses, expected.map(|status| format!("HTTP/1.1 {status}")), "{answer}");
    assert!(answer.contains("3;a=b\r\nabc\r\n3\r\ndef\r\n0\r\nX-Sum: 1\r\n\r\n") && answer.ends_with("until the end"), "{answer}");
    let got = stage.requests();
    assert_eq!(got.len(), 7);
    assert!(
        got[0].contains("X-Key: s3cret-value") && got[2].ends_with("\r\n\r\n12345") && got[6].contains("s3cret-value"),
        "{got:?}"
    );
    let totals = stage.totals(1).remove(0).unwrap();
    assert_eq!((totals.sent, totals.received, totals.requests, totals.replaced), (text.len() as u64, answer.len() as u64, 7, 2));
}

#[test]
fn large_bodies_pass_both_ways_unchanged() {
    let stage = Stage::new();
    let size = 20_000_000;
    let body = "0123456789".repeat(size / 10);
    let mut stream = stage.connect();
    stream
        .write_all(request("POST /", &format!("Content-Length: {size}\r\nX-Key: {}\r\n", stage.placeholder(0))).as_bytes())
        .unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    read_answer(&mut stream);
    stream.write_all(request(&format!("GET /big?{size}"), "").as_bytes()).unwrap();
    let answer = read_answer(&mut stream);
    assert_eq!(answer.split_once("\r\n\r\n").unwrap().1, "x".repeat(size));
    let got = stage.requests();
    assert!(got[0].contains("X-Key: s3cret-value\r\n") && got[0].ends_with(&body) && got[0].len() < size + 200);
}

#[test]
fn the_relay_itself_says_go_on() {
    let stage = Stage::new();
    let mut stream = stage.connect();
    stream.write_all(request("POST /", "Expect: 100-continue\r\nContent-Length: 5\r\n").as_bytes()).unwrap();
    assert_eq!(read_answer(&mut stream), "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"12345").unwrap();
    assert!(read_answer(&mut stream).starts_with("HTTP/1.1 200"));
    assert_eq!(stage.requests(), [request("POST /", "Content-Length: 5\r\n") + "12345"]);
}

#[test]
fn a_server_may_answer_before_it_has_read_everything() {
    let stage = Stage::new();
    let mut stream = stage.connect();
    stream.write_all(request("POST /early", "Content-Length: 1000000\r\n").as_bytes()).unwrap();
    assert!(read_answer(&mut stream).starts_with("HTTP/1.1 413"));
}

#[test]
fn a_websocket_becomes_a_plain_tunnel() {
    let stage = Stage::new();
    let mut stream = stage.connect();
    let fields = format!("Connection: Upgrade\r\nUpgrade: websocket\r\nX-Key: {}\r\n", stage.placeholder(0));
    // Sent along with the request; goes on only after the server has agreed.
    stream.write_all((request("GET /switch", &fields) + "early ").as_bytes()).unwrap();
    assert!(read_answer(&mut stream).starts_with("HTTP/1.1 101"));
    let later = format!("GET / not HTTP {} \0", stage.placeholder(0));
    stream.write_all(later.as_bytes()).unwrap();
    let mut echo = vec![0; "firstearly ".len() + later.len()];
    stream.read_exact(&mut echo).unwrap();
    assert_eq!(String::from_utf8(echo).unwrap(), format!("firstearly {later}"));
    assert!(stage.requests()[0].contains("X-Key: s3cret-value"));
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
    assert_eq!(stage.totals(1)[0].as_ref().unwrap().outcome, Outcome::Ended);
}

#[test]
fn a_secret_in_two_frames_of_a_websocket_is_crossed_out() {
    let stage = Stage::new();
    let mut stream = stage.connect();
    let fields = format!("Connection: Upgrade\r\nUpgrade: websocket\r\nX-Key: {}\r\n", stage.placeholder(0));
    stream.write_all(request("GET /frames", &fields).as_bytes()).unwrap();
    assert!(read_answer(&mut stream).starts_with("HTTP/1.1 101"));
    let mut message = [0; b"\x01\x04s3cr\x89\x00\x80\x08et-value".len()];
    stream.read_exact(&mut message).unwrap();
    assert_eq!(message, *b"\x01\x04****\x89\x00\x80\x08********");
}

#[test]
fn a_server_that_does_not_agree_leaves_it_http() {
    let stage = Stage::new();
    let hidden = request("GET /hidden", &format!("Host: {HOST}\r\n"));
    let text = request("GET /", "Connection: Upgrade\r\nUpgrade: websocket\r\n") + &hidden;
    let answer = stage.talk(&text);
    // What follows is judged as the next request: here it has two Host fields.
    assert!(answer.contains("HTTP/1.1 200") && answer.contains("HTTP/1.1 400"), "{answer}");
    assert_eq!(stage.requests().len(), 1);
    let unasked = stage.talk(&request("GET /switch", ""));
    assert!(unasked.starts_with("HTTP/1.1 502") && unasked.contains("changes the protocol unasked"), "{unasked}");
}

#[test]
fn a_certificate_that_proves_nothing_is_told_and_nothing_is_sent() {
    for (plan, reason) in [
        (Plan { is_trusted: false, ..Plan::default() }, "UnknownIssuer"),
        (Plan { certified: "evil.example.com", ..Plan::default() }, "evil.example.com"),
    ] {
        let stage = Stage::with(&plan);
        let answer = stage.talk(&request("GET /", &format!("X-Key: {}\r\n", stage.placeholder(0))));
        assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n") && answer.contains(reason), "{answer}");
        assert!(
            answer.contains("was not sent") && answer.contains("SSL_CERT_FILE") && !answer.contains("s3cret-value"),
            "{answer}"
        );
        assert_eq!(stage.requests(), Vec::<String>::new());
        let totals = stage.totals(1).remove(0).unwrap();
        assert!(matches!(totals.outcome, Outcome::Failed(text) if text.contains(reason)));
        // No body where none was asked for.
        let head = stage.talk(&request("HEAD /", ""));
        assert!(head.starts_with("HTTP/1.1 502") && head.ends_with("\r\n\r\n"), "{head}");
    }
}

#[test]
fn an_old_server_works() {
    let stage = Stage::with(&Plan { is_old: true, ..Plan::default() });
    let mut stream = stage.connect();
    stream.write_all(request("GET /", &format!("X-Key: {}\r\n", stage.placeholder(0))).as_bytes()).unwrap();
    assert!(read_answer(&mut stream).starts_with("HTTP/1.1 200"));
    assert!(stage.requests()[0].contains("s3cret-value"));
}

#[test]
fn a_hello_for_another_name_goes_nowhere() {
    let stage = Stage::new();
    for name in ["other.example.com", "x.api.example.com", "127.0.0.1"] {
        let mut stream = stage.connect_as(name);
        assert!(stream.write_all(request("GET /", "").as_bytes()).is_err(), "{name}");
    }
    let outcomes = stage.totals(3);
    for outcome in outcomes {
        let totals = outcome.unwrap();
        assert!(matches!(&totals.outcome, Outcome::Refused(text) if text.contains("its TLS hello for")), "{totals:?}");
        assert_eq!((totals.sent, totals.received), (0, 0));
    }
    assert_eq!(stage.requests(), Vec::<String>::new());
}

#[test]
fn a_request_for_another_host_goes_nowhere() {
    let stage = Stage::new();
    let key = format!("X-Key: {}\r\n", stage.placeholder(0));
    let answer = stage.talk(&format!("GET / HTTP/1.1\r\nHost: evil.example.com\r\n{key}\r\n"));
    assert!(answer.starts_with("HTTP/1.1 421") && answer.contains("evil.example.com"), "{answer}");
    let denied = stage.talk(&(request("GET /ok", &key) + &request("GET /denied?x", &key) + &request("GET /later", &key)));
    assert!(denied.contains("HTTP/1.1 200 OK") && denied.contains("HTTP/1.1 403 Forbidden"), "{denied}");
    assert!(denied.ends_with("whatif: /denied is denied\n"), "{denied}");
    assert_eq!(stage.requests().len(), 1);
    let totals = stage.totals(2).remove(1).unwrap();
    assert_eq!((totals.outcome, totals.requests), (Outcome::Refused("/denied is denied".to_owned()), 2));
}

/// Each of these is one request to some servers and two to others, or to another host.
#[test]
fn requests_that_can_be_read_in_two_ways_are_refused() {
    let stage = Stage::new();
    let key = format!("X-Key: {}", stage.placeholder(0));
    let hidden = format!("GET /hidden HTTP/1.1\r\nHost: {HOST}\r\n{key}\r\n\r\n");
    let mut connections = 0;
    for (what, text) in [
        ("length and chunks", request("POST /", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n" + &hidden),
        ("two lengths", request("POST /", "Content-Length: 0\r\nContent-Length: 5\r\n") + &hidden),
        ("a list of lengths", request("POST /", "Content-Length: 0, 5\r\n") + &hidden),
        ("a signed length", request("POST /", "Content-Length: +5\r\n") + &hidden),
        ("an unknown encoding", request("POST /", "Transfer-Encoding: xchunked\r\n") + &hidden),
        ("an encoding in a list", request("POST /", "Transfer-Encoding: chunked, identity\r\n") + &hidden),
        ("an encoding with a space", request("POST /", "Transfer-Encoding : chunked\r\n") + &hidden),
        ("a look-alike", request("POST /", "Content_Length: 5\r\n") + &hidden),
        ("a folded field", request("POST /", "X: y\r\n Content-Length: 5\r\n") + &hidden),
        ("bare line feeds", format!("GET / HTTP/1.1\nHost: {HOST}\n\n") + &hidden),
        ("a bare return", request("GET /", "X: a\rContent-Length: 5\r\n") + &hidden),
        ("two hosts", request("GET /", "Host: evil.example.com\r\n")),
        ("a body of GET", request("GET /", &format!("Content-Length: {}\r\n", hidden.len())) + &hidden),
        ("a tunnel", format!("CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n\r\n{hidden}")),
        ("a proxy's request", format!("GET http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\n\r\n")),
        ("TRACE", request("TRACE /", &format!("{key}\r\n"))),
        ("h2c", request("GET /", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n") + &hidden),
        ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
        ("a NUL", request("GET /", "X: a\0b\r\n")),
        (
            "HTTP/1.0 with chunks",
            format!("POST / HTTP/1.0\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n") + &hidden,
        ),
        ("a long head", request("GET /", &format!("X: {}\r\n", "x".repeat(20_000)))),
    ] {
        let answer = stage.talk(&text);
        assert!(answer.starts_with("HTTP/1.1 4"), "{what}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 4").count(), 1, "{what}: {answer}");
        connections += 1;
        let totals = stage.totals(connections).pop().unwrap().unwrap();
        assert!(matches!(totals.outcome, Outcome::Refused(_)), "{what}: {totals:?}");
    }
    assert_eq!(stage.requests(), Vec::<String>::new());
}

#[test]
fn chunks_that_can_be_read_in_two_ways_end_the_connection() {
    let stage = Stage::new();
    let hidden = request("GET /hidden", "");
    // The first would be a request if the body were just given up.
    for body in [
        "",
        "5;x\r\nhello\r\n0\r\n\r\n",
        "0\r\nX: y\r\n\r\n",
        "5\nhello\n0\n\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\n\rX\r\n",
    ] {
        let answer = stage.talk(&(request("POST /", "Transfer-Encoding: chunked\r\n") + body + &hidden));
        assert!(answer.starts_with("HTTP/1.1 400") && answer.matches("HTTP/1.1").count() == 1, "{body:?}: {answer}");
    }
    assert_eq!(stage.requests(), Vec::<String>::new());
}

#[test]
fn half_an_answer_is_not_taken_for_a_whole_one() {
    let stage = Stage::new();
    let mut stream = stage.connect();
    stream.write_all(request("GET /cut", "").as_bytes()).unwrap();
    let mut answer = Vec::new();
    // No goodbye in TLS: the client knows that something is missing.
    assert!(stream.read_to_end(&mut answer).is_err());
    assert!(answer.ends_with(b"only this"));
    let gone = stage.talk(&request("GET /vanish", ""));
    assert!(gone.starts_with("HTTP/1.1 502") && gone.contains("closed the connection"), "{gone}");
    // On a connection that was in use, clients try again by themselves if it just closes.
    let reused = stage.talk(&(request("GET /", "") + &request("GET /vanish", "")));
    assert!(reused.ends_with("ok\n"), "{reused}");
    let garbage = stage.talk(&request("GET /garbage", ""));
    assert!(garbage.starts_with("HTTP/1.1 502") && garbage.contains("malformed"), "{garbage}");
}

#[test]
fn what_a_server_says_unasked_is_no_answer_to_a_later_request() {
    let stage = Stage::new();
    let answer = stage.talk(&(request("GET /extra", "") + &request("GET /later", "")));
    assert_eq!(answer, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n");
    assert_eq!(stage.requests().len(), 1);
}

#[test]
fn a_client_notices_that_the_server_closes_an_idle_connection() {
    let stage = Stage::new();
    let mut stream = stage.connect();
    stream.write_all(request("GET /bye", "").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("ok\n"), "{answer}");
    assert_eq!(stage.totals(1)[0].as_ref().unwrap().outcome, Outcome::Ended);
}

#[test]
fn nothing_goes_on_for_a_client_that_is_gone() {
    let stage = Stage::new();
    let mut stream = stage.connect();
    stream.write_all(request("GET /slow", "").as_bytes()).unwrap();
    while stage.requests().is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(stream);
    let totals = stage.totals(1).remove(0).unwrap();
    assert!(matches!(&totals.outcome, Outcome::Failed(text) if text.contains("broke off")), "{totals:?}");
}

#[test]
fn a_client_that_runs_ahead_is_held_back() {
    let stage = Stage::with(&Plan { to: "http://api.example.com", ..Plan::default() });
    let mut stream = stage.connect_plain();
    stream.write_all(request("GET /slow", "").as_bytes()).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    // More than all the system's own buffers take.
    let many = request("GET /", "").repeat(20_000);
    let held_back = (0..100).any(|_| stream.write_all(many.as_bytes()).is_err());
    assert!(held_back, "the relay took {} MiB", (100 * many.len()) >> 20);
    assert_eq!(stage.requests().len(), 1);
}

#[test]
fn plain_http_is_relayed_only_where_it_was_asked_for() {
    let stage = Stage::with(&Plan { to: "http://api.example.com", ..Plan::default() });
    let mut stream = stage.connect_plain();
    stream.write_all(request("GET /", &format!("X-Key: {}\r\n", stage.placeholder(0))).as_bytes()).unwrap();
    assert!(read_answer(&mut stream).starts_with("HTTP/1.1 200"));
    assert_eq!(stage.requests(), [request("GET /", "X-Key: s3cret-value\r\n")]);
    drop(stream);
    assert_eq!(stage.totals(1)[0].as_ref().unwrap().replaced, 1);
}

#[test]
fn a_client_that_does_not_trust_the_sandbox_is_explained() {
    let stage = Stage::new();
    let (success, _) = stage::run(
        stage
            .program("curl")
            .args(["-sS", "--cacert", "/dev/null", "--connect-to"])
            .args([format!("::{}", stage.relay), format!("https://{HOST}/")]),
    );
    assert!(!success);
    let error = stage.totals(1).remove(0).unwrap_err();
    assert!(error.contains("does not trust the sandbox's certificate") && error.contains("SSL_CERT_FILE"), "{error}");
}
