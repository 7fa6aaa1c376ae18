//! Credentials a sandbox may use without knowing them (attack group LK).

use std::fs;

use whatif_e2e::outside::{Outside, PRELUDE, PUBLIC, PUBLIC_2};
use whatif_e2e::{World, needs, outside_as_root_and_user};

outside_as_root_and_user!(
    a_secret_is_sent_encrypted,
    a_host_that_cannot_prove_who_it_is_gets_no_secret,
    the_server_gets_the_secret_and_the_sandbox_does_not,
    a_secret_goes_to_its_host_only,
    a_secret_is_nowhere_else,
    a_secret_of_the_environment_works_as_well,
    a_secret_that_cannot_be_had_is_said_before_anything_runs,
);

const SECRET: &str = "canary-b16b00b5-secret";

fn secret(w: &World) -> String {
    let path = w.write(w.home.join("token"), format!("{SECRET}\n"));
    format!("TOKEN=@{}", path.display())
}

const SEND: &str = r#"
def send(host, port=80, header='Authorization: Bearer ' + os.environ['TOKEN']):
    return talk(host, port, f'GET / HTTP/1.1\r\nHost: {host}\r\n{header}\r\n\r\n'.encode())['got'][-6:]
"#;

/// `ask(url)` is a request with the variable in a header, by whatever the sandbox has as its trusted authorities.
const ASK: &str = r#"
import ssl, urllib.request
def ask(url):
    try: return urllib.request.urlopen(urllib.request.Request(url, headers={'Authorization': 'Bearer ' + os.environ['TOKEN']}), timeout=20).read().decode()
    except OSError as e: return str(e)
"#;

/// The usual case: a name alone means HTTPS.
fn a_secret_is_sent_encrypted(w: &World, o: &Outside) {
    needs!(w, "openssl");
    o.name("api.test", &[PUBLIC]);
    o.name("other.test", &[PUBLIC]);
    let authority = o.authority(w, &["api.test", "other.test"]);
    let server = o.tls(PUBLIC, 443, &authority);
    let plain = o.http(PUBLIC, 80);
    let program =
        format!("{ASK}\nshow([ask('https://api.test/'), ask('https://other.test/'), ask('http://api.test/'), dict(os.environ)])");
    let flags = ["--secret", &secret(w), "--for", "api.test", "--net", "allow=api.test,other.test"];
    let result = o.call_inside(w, &flags, &program).env("SSL_CERT_FILE", &authority.ca).go().ok().json();
    assert_eq!((&result[0], &result[1]), (&"HELLO\n".into(), &"HELLO\n".into()), "{result}\n{}", server.log());
    assert!(!result.to_string().contains(SECRET), "{result}");
    let log = server.log();
    assert_eq!(log.matches(&format!("Authorization: Bearer {SECRET}")).count(), 1, "{log}");
    assert!(!plain.log().contains(SECRET), "never in clear: {}", plain.log());
}

fn a_host_that_cannot_prove_who_it_is_gets_no_secret(w: &World, o: &Outside) {
    needs!(w, "openssl");
    o.name("api.test", &[PUBLIC]);
    let authority = o.authority(w, &["somebody-else.test"]);
    let server = o.tls(PUBLIC, 443, &authority);
    let program =
        format!("{ASK}\nssl._create_default_https_context = ssl._create_unverified_context\nshow(ask('https://api.test/'))");
    let flags = ["--secret", &secret(w), "--for", "api.test", "--net", "allow=api.test"];
    // Neither with a certificate for another name, nor with one of an authority nobody trusts.
    for trusted in [authority.ca.display().to_string(), "/etc/ssl/certs/ca-certificates.crt".to_owned()] {
        let result = o.call_inside(w, &flags, &program).env("SSL_CERT_FILE", trusted).go().ok().json();
        assert_ne!(result, "HELLO\n");
    }
    assert!(!server.log().contains(SECRET) && !server.log().contains("GET /"), "{}", server.log());
}

fn the_server_gets_the_secret_and_the_sandbox_does_not(w: &World, o: &Outside) {
    o.name("api.test", &[PUBLIC]);
    let server = o.http(PUBLIC, 80);
    let program = format!(
        "{SEND}\nshow([send('api.test'), send('api.test', header='X-Key: ' + os.environ['TOKEN']), os.environ['TOKEN'], dict(os.environ)])"
    );
    let result = o.try_inside(w, &["--secret", &secret(w), "--for", "http://api.test", "--net", "allow=api.test"], &program);
    assert_eq!((&result[0], &result[1]), (&"HELLO\n".into(), &"HELLO\n".into()));
    assert!(!result.to_string().contains(SECRET) && result[2].as_str().is_some_and(|p| p.len() >= 16), "{result}");
    let log = server.log();
    assert!(log.contains(&format!("Authorization: Bearer {SECRET}\r\n")) && log.contains(&format!("X-Key: {SECRET}\r\n")), "{log}");
}

/// What stands for it is worth nothing elsewhere.
fn a_secret_goes_to_its_host_only(w: &World, o: &Outside) {
    o.name("api.test", &[PUBLIC]);
    o.name("other.test", &[PUBLIC_2]);
    let (server, other) = (o.http(PUBLIC, 80), o.http(PUBLIC_2, 80));
    let program = format!(
        "{SEND}\nshow([send('api.test'), send('other.test'), talk('api.test', 80, f'GET / HTTP/1.1\\r\\nHost: other.test\\r\\nX: {{os.environ[\"TOKEN\"]}}\\r\\n\\r\\n'.encode())['got'][-6:]])"
    );
    let flags = ["--secret", &secret(w), "--for", "http://api.test", "--net", "allow=api.test,other.test"];
    let result = o.try_inside(w, &flags, &program);
    assert_eq!(result[0], "HELLO\n");
    assert!(server.log().contains(SECRET));
    assert!(!other.log().contains(SECRET), "{}", other.log());
}

/// LK-05: argv, environments, state, logs, records, answers.
fn a_secret_is_nowhere_else(w: &World, o: &Outside) {
    o.name("api.test", &[PUBLIC]);
    let server = o.http(PUBLIC, 80);
    let flags = ["--secret", &secret(w), "--for", "http://api.test", "--net", "allow=api.test"];
    w.whatif(["new", "careful"]).args(flags).go().ok();
    let program = format!("{PRELUDE}\n{SEND}\nshow(send('api.test'))");
    w.whatif(["exec", "careful", "--", "/usr/bin/python3", "-c", &program]).go().ok();
    assert!(server.log().contains(SECRET), "it is used");
    let inside = w
        .exec("careful", "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; cat ~/token 2>/dev/null; true")
        .ok();
    let of_processes = w.own_process_ids().into_iter().chain(o.supervisors()).flat_map(|pid| {
        ["cmdline", "environ"]
            .map(|file| String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default()).into_owned())
    });
    let shown = [w.json(["show", "careful"]).to_string(), w.json(["net", "careful"]).to_string(), w.json(["ls"]).to_string()];
    for text in of_processes.chain(shown) {
        assert!(!text.contains(SECRET), "{text}");
    }
    // The file it came from is the user's own, and lies in the home as any other file does.
    let without_file = inside.stdout.replacen(SECRET, "", usize::from(inside.stdout.trim_end().ends_with(SECRET)));
    assert!(!without_file.contains(SECRET), "{without_file}");
    let found = w.outside(&format!("grep -rla {SECRET} {} 2>/dev/null; true", w.state.display())).ok();
    assert_eq!(found.text(), "", "a secret is on disk");
}

fn a_secret_of_the_environment_works_as_well(w: &World, o: &Outside) {
    o.name("api.test", &[PUBLIC]);
    let server = o.http(PUBLIC, 80);
    let program = format!("{SEND}\nshow([send('api.test'), dict(os.environ)])");
    let flags = ["--secret", "TOKEN=env:MY_API_TOKEN", "--for", "http://api.test", "--net", "allow=api.test"];
    let result = o.call_inside(w, &flags, &program).env("MY_API_TOKEN", SECRET).go().ok().json();
    assert!(result[0] == "HELLO\n" && !result.to_string().contains(SECRET), "{result}");
    assert!(server.log().contains(SECRET));
}

fn a_secret_that_cannot_be_had_is_said_before_anything_runs(w: &World, _: &Outside) {
    let wrong: [&[&str]; 6] = [
        &["--secret", "TOKEN=@/no/such/file", "--for", "http://api.test"],
        &["--secret", "TOKEN=env:NOT_SET_ANYWHERE", "--for", "http://api.test"],
        &["--secret", "TOKEN", "--for", "http://api.test"],
        &["--secret", "TO KEN=@/dev/null", "--for", "http://api.test"],
        &["--secret", "TOKEN=@/etc/hostname", "--for", "*.test"],
        &["--for", "http://api.test"],
    ];
    for flags in wrong {
        let outcome = w.whatif(["run", "--rm"]).args(flags).args(["--", "/bin/echo", "ran"]).go();
        assert!((outcome.code == 2 || outcome.code == 125) && !outcome.stdout.contains("ran"), "{flags:?}: {outcome:?}");
        assert!(
            outcome.stderr.contains("--secret") || outcome.stderr.contains("TOKEN") || outcome.stderr.contains("hint:"),
            "{outcome:?}"
        );
    }
}
