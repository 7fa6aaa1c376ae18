use super::*;

fn head(text: &str) -> ResponseHead {
    parse(text.as_bytes(), false).unwrap().unwrap()
}

/// How many bytes of this answer's body belong to it, given in pieces of one size.
fn body_length(text: &str, piece: usize) -> Result<Option<usize>, ResponseError> {
    let mut head = head(text);
    let mut rest = &text.as_bytes()[head.length..];
    let mut total = 0;
    loop {
        let mut given = 0;
        let (count, is_end) = head.framing.advance(&rest[..rest.len().min(piece)], |_, bytes| given += bytes.len())?;
        assert_eq!(given, count, "each byte of the body is given once");
        total += count;
        rest = &rest[count..];
        if is_end || rest.is_empty() {
            return Ok(is_end.then_some(total));
        }
    }
}

#[test]
fn the_end_of_an_answer_is_found() {
    let big =
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000;x=\"y;\r\nz\"\r\n{}\r\n0\r\n\r\n", "x".repeat(4096));
    for (text, body) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP", Some(3)),
        ("HTTP/1.1 200 OK\nContent-Length: 3\n\nabcHTTP", Some(3)),
        ("HTTP/1.1 200\r\nContent-Length: 3, 3\r\ncontent-length: 3\r\n\r\nabc", Some(3)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nx", Some(0)),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nHTTP/", Some(0)),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nHTTP/", Some(0)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nrest", Some(13)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\nrest", Some(27)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3 \nabc\n0\n\nrest", Some(10)),
        ("HTTP/1.1 200 OK\r\n\r\nall of it", None),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nall of it", None),
        ("HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nless", None),
    ] {
        for piece in [1, 2, 3, 1000] {
            assert_eq!(body_length(text, piece), Ok(body), "{text:?} in pieces of {piece}");
        }
    }
    assert!(body_length(&big, 7).is_err(), "a line break does not belong in an extension");
    let to_head = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true).unwrap().unwrap();
    assert!(matches!(to_head.framing, Framing::Left(0)));
}

#[test]
fn connections_are_kept_only_where_both_would_agree() {
    for (text, keeps) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, close\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", false),
    ] {
        assert_eq!(head(text).keeps, keeps, "{text:?}");
    }
}

#[test]
fn what_is_no_answer_is_told_apart_as_soon_as_possible() {
    for (bytes, expected) in [
        (&b"SSH-2.0"[..], ResponseError::NotHttp),
        (b"HTTP/2 200\r\n\r\n", ResponseError::NotHttp),
        (b"HTTP/1.1 abc\r\n\r\n", ResponseError::NotHttp),
        (b"HTTP/1.1 099 x\r\n\r\n", ResponseError::NotHttp),
        (b"HTTP/1.1 2000\r\n\r\n", ResponseError::NotHttp),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", ResponseError::Length),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", ResponseError::Length),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", ResponseError::Length),
    ] {
        assert_eq!(parse(bytes, false).unwrap_err(), expected);
    }
    let text = b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n";
    for cut in 0..text.len() {
        assert!(matches!(parse(&text[..cut], false), Ok(None)), "{cut}");
    }
    let endless = [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; LONGEST_HEAD]].concat();
    assert_eq!(parse(&endless, false).unwrap_err(), ResponseError::TooLong);
}

#[test]
fn broken_chunks_are_noticed() {
    for body in ["x\r\n", "\r\n", "3\r\nabcd\r\n", "ffffffffffffffff0\r\n", "0\r\n\rx"] {
        let text = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        assert_eq!(body_length(&text, 100), Err(ResponseError::Chunk), "{body:?}");
    }
    let endless = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{}", "X: y\r\n".repeat(10_000));
    assert_eq!(body_length(&endless, 1000), Err(ResponseError::Chunk));
    let many = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", "1\r\nx\r\n".repeat(10_000));
    assert_eq!(body_length(&many, 1000), Ok(Some(60_005)));
}
