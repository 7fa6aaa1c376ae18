//! Programs people use, told to trust the sandbox's bundle only by the variables that are set inside.
#![allow(clippy::unwrap_used, reason = "what goes wrong fails the test")]

mod stage;

use std::path::Path;

use stage::{HOST, Plan, Stage, has, run};
use whatif_inject::trust;

fn usual() -> Stage {
    Stage::with(&Plan { on_own_port: true, ..Plan::default() })
}

fn url(stage: &Stage, path: &str) -> String {
    format!("https://{HOST}:{}{path}", stage.relay.port())
}

/// What every client has to show: the server got the value, the client's output does not have it.
fn check(stage: &Stage, success: bool, output: &str, expected: &str) {
    assert!(success, "{output}");
    assert!(!output.contains("s3cret-value"), "{output}");
    let requests = stage.requests();
    assert!(requests.iter().any(|request| request.contains(expected)), "{requests:?} {output}");
}

#[test]
fn curl_is_at_home() {
    if !has("curl") {
        return;
    }
    let stage = usual();
    let resolve = format!("{HOST}:{}:127.0.0.1", stage.relay.port());
    let token = stage.placeholder(0);
    let (success, output) = run(stage
        .program("curl")
        .args(["-sSv", "--resolve", &resolve, "-H", &format!("Authorization: Bearer {token}")])
        .arg(url(&stage, "/")));
    check(&stage, success, &output, "\r\nAuthorization: Bearer s3cret-value\r\n");
    assert!(output.contains("whatif sandbox test"), "{output}");
    let (success, output) =
        run(stage.program("curl").args(["-sS", "--resolve", &resolve, "-u", &format!("me:{token}")]).arg(url(&stage, "/")));
    check(&stage, success, &output, "\r\nAuthorization: Basic bWU6czNjcmV0LXZhbHVl\r\n");
    // Large enough that it asks before it sends.
    let body = stage.path().join("body");
    std::fs::write(&body, token.repeat(100_000)).unwrap();
    let (success, output) = run(stage
        .program("curl")
        .args(["-sS", "--resolve", &resolve, "-H", &format!("X-Key: {token}"), "-H", "Expect: 100-continue", "--data-binary"])
        .arg(format!("@{}", body.display()))
        .arg(url(&stage, "/")));
    check(&stage, success, &output, "\r\nX-Key: s3cret-value\r\n");
    assert!(stage.requests().last().unwrap().ends_with(&format!("\r\n\r\n{}", token.repeat(100_000))));
}

#[test]
fn python_is_at_home() {
    let stage = usual();
    let script = r#"
import http.client, socket, ssl, sys
host, port, token = sys.argv[1], int(sys.argv[2]), sys.argv[3]
context = ssl.create_default_context()
# The default from Python 3.13 on.
context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
connection = http.client.HTTPSConnection(host, port, context=context)
connection._create_connection = lambda address, *rest: socket.create_connection(("127.0.0.1", port))
for path in ("/one", "/chunked", "/two"):
    connection.request("GET", path, headers={"Authorization": "Bearer " + token})
    print(connection.getresponse().read())
"#;
    let (success, output) =
        run(stage.program("python3").args(["-c", script, HOST, &stage.relay.port().to_string(), stage.placeholder(0)]));
    check(&stage, success, &output, "\r\nAuthorization: Bearer s3cret-value\r\n");
    assert!(output.contains("abcdef"), "{output}");
    assert_eq!(stage.totals(1)[0].as_ref().unwrap().requests, 3);
}

#[test]
fn node_is_at_home() {
    if !has("node") {
        return;
    }
    let stage = usual();
    let script = r"
const https = require('node:https');
const [host, port, token] = process.argv.slice(1);
const lookup = (name, options, done) => options.all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4);
const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
const ask = (path) => new Promise((resolve, reject) => https.get({ host, port, path, lookup, agent, headers: { 'X-Api-Key': token } }, (answer) => {
  let text = '';
  answer.on('data', (piece) => text += piece).on('end', () => resolve(text));
}).on('error', reject));
(async () => { console.log(await ask('/one'), await ask('/chunked')); process.exit(0); })();
";
    let (success, output) =
        run(stage.program("node").args(["-e", script, HOST, &stage.relay.port().to_string(), stage.placeholder(0)]));
    check(&stage, success, &output, "\r\nX-Api-Key: s3cret-value\r\n");
    assert!(output.contains("abcdef"), "{output}");
}

#[test]
fn git_is_at_home() {
    if !has("git") {
        return;
    }
    let stage = usual();
    let resolve = format!("http.curloptResolve={HOST}:{}:127.0.0.1", stage.relay.port());
    let token = stage.placeholder(0);
    let with_password = url(&stage, "/project.git").replace("https://", &format!("https://me:{token}@"));
    let (success, output) = run(stage.program("git").args(["-c", &resolve, "ls-remote", &with_password]));
    // "me:s3cret-value"
    check(&stage, success, &output, "\r\nAuthorization: Basic bWU6czNjcmV0LXZhbHVl\r\n");
    assert!(output.contains("refs/heads/main"), "{output}");
    let field = format!("http.extraHeader=Authorization: Bearer {token}");
    let (success, output) =
        run(stage.program("git").args(["-c", &resolve, "-c", &field, "ls-remote", &url(&stage, "/project.git")]));
    check(&stage, success, &output, "\r\nAuthorization: Bearer s3cret-value\r\n");
}

#[test]
fn openssl_is_at_home() {
    if !has("openssl") {
        return;
    }
    let stage = usual();
    let certificate = stage.path().join("authority.pem");
    std::fs::write(&certificate, &stage.certificate_pem).unwrap();
    let (success, text) = run(stage.program("openssl").args(["x509", "-noout", "-text", "-in"]).arg(&certificate));
    assert!(success);
    for part in ["CN = whatif sandbox test", "Permitted:", "DNS:api.example.com", "Excluded:", "CA:TRUE, pathlen:0", "prime256v1"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let connect = stage.relay.to_string();
    let (_, output) = run(stage.program("openssl").args([
        "s_client",
        "-verify_return_error",
        "-x509_strict",
        "-verify_hostname",
        HOST,
        "-servername",
        HOST,
        "-connect",
        &connect,
    ]));
    assert!(output.contains("Verify return code: 0 (ok)"), "{output}");
}

/// Whether a client reaches the server through the relay, told about the bundle by one variable or by none.
fn is_trusting(client: &str, variable: Option<&str>) -> bool {
    let stage = usual();
    let mut command = stage.program(client);
    for (name, _) in trust::variables(Path::new("")) {
        command.env_remove(name);
    }
    command.envs(variable.map(|name| (name, stage.bundle())));
    let (host, port) = (format!("{HOST}:{}", stage.relay.port()), stage.relay.port());
    match client {
        "curl" => command.args(["-sS", "--resolve", &format!("{host}:127.0.0.1"), &url(&stage, "/")]),
        "git" => command.args(["-c", &format!("http.curloptResolve={host}:127.0.0.1")]).args([
            "-c",
            "http.extraHeader=Authorization: x",
            "ls-remote",
            &url(&stage, "/project.git"),
        ]),
        "node" => {
            let address = format!("host: '127.0.0.1', port: {port}, servername: '{HOST}', headers: {{ Host: '{host}' }}");
            command.args(["-e", &format!("require('node:https').get({{ {address}, agent: false }}, () => process.exit(0))")])
        }
        _ => {
            let script = "import http.client, socket, sys
connection = http.client.HTTPSConnection(sys.argv[1], int(sys.argv[2]))
connection._create_connection = lambda address, *rest: socket.create_connection(('127.0.0.1', address[1]))
connection.request('GET', '/')
connection.getresponse().read()";
            command.args(["-c", script, HOST, &port.to_string()])
        }
    };
    let (success, output) = run(&mut command);
    assert_eq!(success, !stage.requests().is_empty(), "{client} with {variable:?}: {output}");
    success
}

#[test]
fn each_client_goes_by_its_own_variable_and_trusts_nothing_without() {
    for (client, variables) in [
        ("curl", &["SSL_CERT_FILE", "CURL_CA_BUNDLE"][..]),
        ("git", &["GIT_SSL_CAINFO"]),
        ("node", &["NODE_EXTRA_CA_CERTS"]),
        ("python3", &["SSL_CERT_FILE"]),
    ] {
        if !has(client) {
            continue;
        }
        assert!(!is_trusting(client, None), "{client}");
        for variable in variables {
            assert!(trust::VARIABLES.iter().any(|known| known.name == *variable), "{variable}");
            assert!(is_trusting(client, Some(variable)), "{client} with {variable}");
        }
    }
}
