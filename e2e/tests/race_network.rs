//! What an attempt is denied is told, so that nobody takes the lack of a network for a fault of the attempt.

use whatif_e2e::outside::{METADATA, Outside, PRELUDE, PUBLIC};
use whatif_e2e::{World, outside_as_root_and_user};

outside_as_root_and_user!(hosts_that_were_denied_are_told, checks_have_the_same_network_as_attempts);

fn hosts_that_were_denied_are_told(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.http(PUBLIC, 80);
    let program =
        |body: &str| w.write(w.home.join(format!("{}.py", body.len())), format!("{PRELUDE}\n{body}")).display().to_string();
    let denied =
        program(&format!("hello('evil.test', 5432); hello('{METADATA}', 80); hello('shop.test', 80); open('x', 'w').write('x')"));
    let allowed = program("hello('shop.test', 80); open('x', 'w').write('x')");
    let attempts = [format!("--attempt=curious=/usr/bin/python3 {denied}"), format!("--attempt=modest=/usr/bin/python3 {allowed}")];
    let race = w.race(["--check=true", "--net=allow=shop.test", &attempts[0], &attempts[1]]).exits(0);
    let hosts = race.outcome("curious")["denied"].to_string();
    assert!(
        hosts.contains("evil.test:5432") && hosts.contains(&format!("{METADATA}:80")) && !hosts.contains("shop.test"),
        "{hosts}"
    );
    assert_eq!(race.outcome("modest")["denied"], serde_json::json!([]));
    let shown = w.whatif(["race", "show"]).go().ok();
    assert!(format!("{}{}", shown.stdout, shown.stderr).contains("evil.test"), "{}", shown.stdout);
    assert!(!o.was_asked("evil.test"));
}

fn checks_have_the_same_network_as_attempts(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.http(PUBLIC, 80);
    let ask = w.write(w.home.join("ask.py"), format!("{PRELUDE}\nprint(hello('shop.test', 80), hello('evil.test', 80))\n"));
    let check = format!("--check=ask=/usr/bin/python3 {}", ask.display());
    let race = w.race([check.as_str(), "--net=allow=shop.test", "echo x > x"]).exits(0);
    let outside = w.whatif(["run", "--rm", "-q", "--net=allow=shop.test", "--", "/usr/bin/python3"]).args([&ask]).go().ok();
    assert_eq!(race.check("1", "ask")["runs"][0]["tail"].as_str().map(str::trim_end), Some(outside.text()));
}
