//! Everyday clients get through by name: some know of no proxy, some are told of one, each has a way of its own to look up
//! names and to speak TLS.

use std::process::Command;

use whatif_e2e::network_clients::{Client, Shop, pass_by_name_only};
use whatif_e2e::outside::{Outside, PUBLIC, PUBLIC_V6};
use whatif_e2e::{World, needs, outside_as_root_and_user};

outside_as_root_and_user!(
    curl_gets_through,
    python_gets_through,
    node_gets_through,
    java_gets_through,
    git_gets_through_over_tls,
    git_gets_through_over_plain_http,
    git_gets_through_by_its_own_protocol,
    pip_gets_through,
    npm_gets_through,
    cargo_gets_through,
    go_gets_through,
    who_is_told_of_a_proxy_can_use_it,
    a_name_with_an_address_that_nobody_answers_at_works,
    registries_of_the_users_tools_are_open_by_default,
    a_project_cannot_name_its_own_registries,
);

fn curl_gets_through(w: &World, o: &Outside) {
    needs!(w, "curl");
    let shop = Shop::open(w, o, 443);
    o.files(PUBLIC, 80, &shop.served);
    let clients = [
        Client {
            rule: "good.test",
            script: "curl -sS --fail --cacert ca.pem https://$HOST/hello.txt",
            prints: "hello from a file",
        },
        Client { rule: "good.test", script: "curl -sS --fail http://$HOST/hello.txt", prints: "hello from a file" },
    ];
    pass_by_name_only(w, o, &clients);
}

fn python_gets_through(w: &World, o: &Outside) {
    needs!(w, "python3");
    let shop = Shop::open(w, o, 8443);
    o.files(PUBLIC, 8080, &shop.served);
    let script = r#"SSL_CERT_FILE=ca.pem /usr/bin/python3 -c '
import os, urllib.request
print(urllib.request.urlopen("https://" + os.environ["HOST"] + ":8443/hello.txt").read().decode())
urllib.request.urlopen("http://" + os.environ["HOST"] + ":8080/hello.txt").read()'"#;
    let rule = "good.test:8443,good.test:8080";
    pass_by_name_only(w, o, &[Client { rule, script, prints: "hello from a file" }]);
}

/// Its `fetch` and its older modules are two different clients.
fn node_gets_through(w: &World, o: &Outside) {
    needs!(w, "node");
    Shop::open(w, o, 443);
    let fetch = r#"NODE_EXTRA_CA_CERTS=ca.pem node -e '
fetch("https://" + process.env.HOST + "/hello.txt").then(a => a.text()).then(console.log)'"#;
    let older = r#"NODE_EXTRA_CA_CERTS=ca.pem node -e '
require("https").get("https://" + process.env.HOST + "/hello.txt", a => a.pipe(process.stdout))'"#;
    let clients = [fetch, older].map(|script| Client { rule: "good.test:443", script, prints: "hello from a file" });
    pass_by_name_only(w, o, &clients);
}

fn java_gets_through(w: &World, o: &Outside) {
    needs!(w, "java", "keytool");
    Shop::open(w, o, 443);
    w.write(
        "Hello.java",
        r#"
import java.net.URI;
import java.net.http.*;
public class Hello {
    public static void main(String[] arguments) throws Exception {
        var request = HttpRequest.newBuilder(URI.create("https://" + System.getenv("HOST") + "/hello.txt")).build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        System.out.println(answer.body());
    }
}
"#,
    );
    w.outside("keytool -importcert -noprompt -alias test -file ca.pem -keystore trust.p12 -storepass changeit").ok();
    let script = "java -Djavax.net.ssl.trustStore=trust.p12 -Djavax.net.ssl.trustStorePassword=changeit Hello.java";
    pass_by_name_only(w, o, &[Client { rule: "good.test", script, prints: "hello from a file" }]);
}

fn git_gets_through_over_tls(w: &World, o: &Outside) {
    needs!(w, "git");
    let shop = Shop::open(w, o, 443);
    shop.stock_repository(w);
    let script = "GIT_SSL_CAINFO=$PWD/ca.pem git clone -q https://$HOST/hello.git clone && cat clone/file && rm -rf clone";
    pass_by_name_only(w, o, &[Client { rule: "good.test", script, prints: "hello from git" }]);
}

/// Requests and answers in both directions on one connection, each of which is looked at.
fn git_gets_through_over_plain_http(w: &World, o: &Outside) {
    needs!(w, "git");
    let shop = Shop::open(w, o, 443);
    shop.stock_repository(w);
    shop.serve_git_over_http(o);
    let script = "git clone -q http://$HOST/hello.git clone && cat clone/file && rm -rf clone";
    pass_by_name_only(w, o, &[Client { rule: "good.test:80", script, prints: "hello from git" }]);
}

fn git_gets_through_by_its_own_protocol(w: &World, o: &Outside) {
    needs!(w, "git");
    let shop = Shop::open(w, o, 443);
    shop.stock_repository(w);
    shop.serve_git(o);
    let script = "git clone -q git://$HOST/hello.git clone && cat clone/file && rm -rf clone";
    pass_by_name_only(w, o, &[Client { rule: "good.test:9418", script, prints: "hello from git" }]);
}

fn pip_gets_through(w: &World, o: &Outside) {
    needs!(w, "pip3");
    Shop::open(w, o, 443);
    let script = "/usr/bin/pip3 --disable-pip-version-check --cert ca.pem install --quiet --retries 0 --no-cache-dir --target packages \
                  --index-url https://$HOST/simple/ hello && PYTHONPATH=packages /usr/bin/python3 -c 'import hello' && rm -r packages";
    pass_by_name_only(w, o, &[Client { rule: "good.test", script, prints: "hello from pip" }]);
}

fn npm_gets_through(w: &World, o: &Outside) {
    needs!(w, "npm");
    Shop::open(w, o, 8443);
    let script = "export npm_config_cafile=$PWD/ca.pem npm_config_fetch_retries=0 npm_config_update_notifier=false npm_config_cache=$PWD/cache\n\
                  mkdir module && cd module && npm init -y >/dev/null && \
                  npm install --silent --no-audit --no-fund --registry https://$HOST:8443/ hello && node -e 'require(\"hello\")' && \
                  cd .. && rm -rf module cache";
    pass_by_name_only(w, o, &[Client { rule: "good.test:8443", script, prints: "hello from npm" }]);
}

/// A cargo that this identity can run, in the world's own directory: a toolchain is often in somebody's home. It downloads
/// and unpacks without a compiler.
fn cargo_gets_through(w: &World, o: &Outside) {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().expect("what builds this is installed");
    let cargo = format!("{}/bin/cargo", String::from_utf8_lossy(&sysroot.stdout).trim());
    let copied = Command::new("/usr/bin/install").args(["-m", "755", &cargo]).arg(w.dir.join("cargo")).status();
    assert!(copied.is_ok_and(|s| s.success()), "{cargo}");
    Shop::open(w, o, 443);
    w.write(
        "Cargo.toml",
        "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[lib]\npath = \"lib.rs\"\n[workspace]\n[dependencies]\nhello = { version = \"1\", registry = \"local\" }\n",
    );
    w.write("lib.rs", "");
    let script = format!(
        "export CARGO_HTTP_CAINFO=$PWD/ca.pem CARGO_NET_RETRY=0 CARGO_HOME=$PWD/cargo-home CARGO_REGISTRIES_LOCAL_INDEX=sparse+https://$HOST/index/\n\
         {}/cargo vendor --quiet >/dev/null && cat vendor/hello/src/lib.rs && rm -r vendor cargo-home Cargo.lock",
        w.dir.display()
    );
    pass_by_name_only(w, o, &[Client { rule: "good.test", script: &script, prints: "hello from cargo" }]);
}

/// It reads `resolv.conf` and asks for names by itself.
fn go_gets_through(w: &World, o: &Outside) {
    needs!(w, "go");
    Shop::open(w, o, 443);
    w.write("go.mod", "module user.test/user\n\ngo 1.19\n\nrequire example.test/hello v1.0.0\n");
    let script = "export SSL_CERT_FILE=$PWD/ca.pem GOPROXY=https://$HOST GOSUMDB=off GOFLAGS=-modcacherw GOTOOLCHAIN=local\n\
                  export GOPATH=$PWD/gopath GOCACHE=$PWD/gocache\n\
                  go mod download example.test/hello && cat gopath/pkg/mod/example.test/hello@v1.0.0/hello.go && rm -rf gopath gocache go.sum";
    pass_by_name_only(w, o, &[Client { rule: "good.test", script, prints: "hello from go" }]);
}

/// The hints are not only set, they are right.
fn who_is_told_of_a_proxy_can_use_it(w: &World, o: &Outside) {
    needs!(w, "curl");
    let shop = Shop::open(w, o, 443);
    o.files(PUBLIC, 80, &shop.served);
    let curl = |url: &str| {
        let call =
            w.whatif(["run", "--rm", "--quiet", "--net", "allow=good.test", "--", "curl", "-v", "-sS", "--cacert", "ca.pem", url]);
        let outcome = call.go().ok();
        assert_eq!(outcome.text(), "hello from a file");
        outcome.stderr
    };
    let said = curl("https://good.test/hello.txt");
    assert!(said.contains("> CONNECT good.test:443 HTTP/1.1"), "{said}");
    let said = curl("http://good.test/hello.txt");
    assert!(said.contains("> GET http://good.test/hello.txt HTTP/1.1"), "{said}");
}

/// Most names have addresses of both kinds, and many machines cannot reach one kind. Whoever connects directly sees that at
/// once and takes the other; a client in a sandbox is connected before anybody knows.
fn a_name_with_an_address_that_nobody_answers_at_works(w: &World, o: &Outside) {
    needs!(w, "curl", "node", "go");
    Shop::open(w, o, 443);
    o.name("good.test", &[PUBLIC_V6, PUBLIC]);
    w.write("go.mod", "module user.test/user\n\ngo 1.19\n");
    let clients = [
        "curl -sS --fail --cacert ca.pem https://good.test/hello.txt",
        "SSL_CERT_FILE=ca.pem /usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen(\"https://good.test/hello.txt\").read().decode())'",
        "NODE_EXTRA_CA_CERTS=ca.pem node -e 'fetch(\"https://good.test/hello.txt\").then(a => a.text()).then(console.log)'",
        "export SSL_CERT_FILE=$PWD/ca.pem GOPROXY=https://good.test GOSUMDB=off GOFLAGS=-modcacherw GOPATH=$PWD/g GOCACHE=$PWD/c; \
         go mod download example.test/hello@v1.0.0 && cat g/pkg/mod/example.test/hello@v1.0.0/hello.go",
    ];
    for client in clients {
        for hints in ["unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY", "true"] {
            let script = format!("{hints}; {client}");
            let outcome =
                w.whatif(["run", "--rm", "--quiet", "--net", "allow=good.test", "--", "/bin/sh", "-c", &script]).go().ok();
            assert!(outcome.stdout.contains("hello from"), "{outcome:?}");
        }
    }
}

/// Nobody said anything about the network: what the user's own tools go by is open, and nothing else.
fn registries_of_the_users_tools_are_open_by_default(w: &World, o: &Outside) {
    needs!(w, "npm", "curl");
    Shop::open(w, o, 443);
    w.write("../.npmrc", "registry=https://user:hunter2@good.test/\n");
    let fetch = |host: &str, flags: &[&str]| {
        let url = format!("https://{host}/hello.txt");
        let call = w.whatif(["run", "--rm", "--quiet"]).args(flags);
        call.args(["--", "curl", "-sS", "--fail", "--cacert", "ca.pem", &url]).go()
    };
    for flags in [&[][..], &["--net", "registries"]] {
        assert_ne!(fetch("denied.test", flags).code, 0);
        assert!(!o.was_asked("denied"), "{:?}", o.asked());
        assert_eq!(fetch("good.test", flags).ok().text(), "hello from a file");
    }
    // A change is noticed.
    w.write("../.npmrc", "registry=https://denied.test/\n");
    assert_eq!(fetch("denied.test", &[]).ok().text(), "hello from a file");
    assert_ne!(fetch("good.test", &[]).code, 0);
    let kept = w.outside(&format!("grep -r hunter2 {} || true", w.state.display())).ok();
    assert_eq!(kept.text(), "", "no password is kept");
}

fn a_project_cannot_name_its_own_registries(w: &World, o: &Outside) {
    needs!(w, "npm", "git", "curl");
    Shop::open(w, o, 443);
    for (path, content) in [
        (".npmrc", "registry=https://denied.test/\n"),
        ("pip.conf", "[global]\nindex-url = https://denied.test/\n"),
        (".cargo/config.toml", "[registries.evil]\nindex = \"sparse+https://denied.test/\"\n"),
        (".gitmodules", "[submodule \"evil\"]\n\tpath = evil\n\turl = https://denied.test/\n"),
        ("bin/npm", "#!/bin/sh\ntouch ran\necho '{\"registry\":\"https://denied.test/\"}'\n"),
    ] {
        w.write(path, content);
    }
    w.outside("chmod +x bin/npm && git init -q && git remote add origin https://good.test/x.git").ok();
    let path = format!("{0}/bin:bin:.:/usr/local/bin:/usr/bin:/bin", w.project.display());
    let script = "curl -sS --fail --cacert ca.pem https://denied.test/hello.txt || echo denied; curl -sS --fail --cacert ca.pem https://good.test/hello.txt";
    let call = w.whatif(["run", "--rm", "--quiet", "--", "/bin/sh", "-c", script]).env("PATH", &path);
    let call = call.env("NPM_CONFIG_USERCONFIG", w.project.join(".npmrc")).env("PIP_CONFIG_FILE", w.project.join("pip.conf"));
    assert_eq!(call.go().ok().text(), "denied\nhello from a file", "where it came from is believed, what is in it is not");
    assert!(!w.project.join("ran").exists(), "nothing in the project is run outside");
    assert!(!o.was_asked("denied"), "{:?}", o.asked());
}
