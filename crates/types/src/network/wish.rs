//! What was asked for on the command line or in the configuration.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use whatif_netpolicy::Rule;
use whatif_netpolicy::rule::{Pattern, parse_list};

use super::NetMode;

/// One value of `--net`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum NetChoice {
    None,
    Host,
    /// The hosts that the user's own package managers and the project's git remotes are set up for.
    Registries,
    /// Private networks and the names that are used in them.
    Local,
    Allow(Vec<Rule>),
}

impl FromStr for NetChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "host" => Ok(Self::Host),
            "registries" => Ok(Self::Registries),
            "local" => Ok(Self::Local),
            _ => match text.strip_prefix("allow=") {
                Some(rules) => {
                    let rules = parse_list(rules).map_err(|e| e.to_string())?;
                    rules.iter().try_for_each(check_leads_outside)?;
                    Ok(Self::Allow(rules))
                }
                None => Err(format!(
                    "'{}' is not a network; use none, registries, local, host or allow=RULE[,RULE], where a rule is a domain, \
                     *.domain, an address or a network, each with an optional :port",
                    text.escape_debug()
                )),
            },
        }
    }
}

impl TryFrom<String> for NetChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<NetChoice> for String {
    fn from(choice: NetChoice) -> Self {
        choice.to_string()
    }
}

impl fmt::Display for NetChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Host => f.write_str("host"),
            Self::Registries => f.write_str("registries"),
            Self::Local => f.write_str("local"),
            Self::Allow(rules) => {
                f.write_str("allow=")?;
                for (index, rule) in rules.iter().enumerate() {
                    write!(f, "{}{rule}", if index == 0 { "" } else { "," })?;
                }
                Ok(())
            }
        }
    }
}

/// All that was asked for about the network of one sandbox. Kept in its record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetWish {
    pub registries: bool,
    pub local: bool,
    pub allow: Vec<Rule>,
    pub deny: Vec<Rule>,
    pub reach: Vec<Reach>,
    pub publish: Vec<Publish>,
    pub secrets: Vec<SecretWish>,
    /// Nobody asked for it in so many words: without it, the sandbox starts nevertheless.
    pub by_default: bool,
}

/// Several choices are a union; `none` and `host` stand alone.
pub fn combine(choices: &[NetChoice]) -> Result<(NetMode, NetWish), String> {
    let mut wish = NetWish::default();
    let mut modes = Vec::new();
    for choice in choices {
        modes.push(match choice {
            NetChoice::None => NetMode::None,
            NetChoice::Host => NetMode::Host,
            NetChoice::Registries | NetChoice::Local | NetChoice::Allow(_) => NetMode::Filtered,
        });
        match choice {
            NetChoice::Registries => wish.registries = true,
            NetChoice::Local => wish.local = true,
            NetChoice::Allow(rules) => wish.allow.extend(rules.iter().cloned()),
            NetChoice::None | NetChoice::Host => {}
        }
    }
    let mode = modes.first().copied().unwrap_or_default();
    match modes.iter().find(|other| **other != mode) {
        Some(_) => Err("'none' and 'host' say all about the network; they cannot be combined with others".to_owned()),
        None => Ok((mode, wish)),
    }
}

/// Inside, loopback is the sandbox's own.
pub fn check_leads_outside(rule: &Rule) -> Result<(), String> {
    let is_own = match rule.pattern() {
        Pattern::Exact(name) | Pattern::Below(name) => name.as_str() == "localhost" || name.as_str().ends_with(".localhost"),
        Pattern::Address(address) => address.is_loopback(),
        Pattern::Network(_) => false,
    };
    if is_own {
        Err(format!("'{rule}' is the sandbox's own loopback; for a service of this machine use --reach localhost:PORT"))
    } else {
        Ok(())
    }
}

/// A port of the host's loopback, as `localhost:5432`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reach(pub u16);

impl FromStr for Reach {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = text.rsplit_once(':').unwrap_or(("localhost", text));
        if !matches!(host, "localhost" | "127.0.0.1" | "[::1]") {
            return Err(format!(
                "--reach is for services of this machine, as localhost:5432; for another host use --net allow={}",
                text.escape_debug()
            ));
        }
        port_number(port).map(Self)
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "localhost:{}", self.0)
    }
}

/// A port inside and where it can be reached on the host's loopback; 0 is any that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publish {
    pub host: u16,
    pub inside: u16,
}

impl FromStr for Publish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("0", inside)) => Ok(Self { host: 0, inside: port_number(inside)? }),
            Some((host, inside)) => Ok(Self { host: port_number(host)?, inside: port_number(inside)? }),
            None => port_number(text).map(|port| Self { host: port, inside: port }),
        }
    }
}

impl fmt::Display for Publish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host == self.inside { write!(f, "{}", self.inside) } else { write!(f, "{}:{}", self.host, self.inside) }
    }
}

fn port_number(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(port) if port > 0 && !text.starts_with('+') => Ok(port),
        _ => Err(format!("'{}' is not a port; a port is a number from 1 to 65535", text.escape_debug())),
    }
}

/// A credential the sandbox may use without knowing it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretWish {
    /// The variable that has the placeholder inside.
    pub name: String,
    pub source: SecretSource,
    /// The only host it is sent to.
    pub host: String,
    pub placeholder: String,
    /// Header fields it is sent in, besides those that carry credentials by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}

/// Where the value is read when a supervisor starts. The value itself is kept nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretSource {
    File(#[serde(with = "crate::text::path")] PathBuf),
    Environment(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_and_written() {
        for text in ["none", "host", "registries", "local", "allow=example.com,*.example.org:8443,192.0.2.0/24"] {
            assert_eq!(text.parse::<NetChoice>().unwrap().to_string(), text);
        }
        for text in
            ["", "allow", "allow=", "allow=a..b", "None", "deny=x.org", "allow=x.org,", "allow=127.0.0.1:80", "allow=localhost"]
        {
            assert!(text.parse::<NetChoice>().is_err(), "{text}");
        }
    }

    #[test]
    fn choices_add_up_but_none_and_host_stand_alone() {
        let read = |texts: &[&str]| texts.iter().map(|t| t.parse().unwrap()).collect::<Vec<NetChoice>>();
        let (mode, wish) = combine(&read(&["registries", "allow=a.org", "allow=b.org"])).unwrap();
        assert_eq!((mode, wish.registries, wish.allow.len()), (NetMode::Filtered, true, 2));
        assert_eq!(combine(&read(&["none", "none"])).unwrap().0, NetMode::None);
        assert!(combine(&read(&["none", "allow=a.org"])).is_err());
        assert!(combine(&read(&["registries", "host"])).is_err());
    }

    #[test]
    fn ports_are_numbers_of_this_machine() {
        assert_eq!("localhost:5432".parse::<Reach>().unwrap(), Reach(5432));
        assert_eq!("5432".parse::<Reach>().unwrap(), Reach(5432));
        assert_eq!("[::1]:5432".parse::<Reach>().unwrap(), Reach(5432));
        for text in ["db:5432", "localhost:0", "localhost:", "localhost:70000", "localhost:+1", ""] {
            assert!(text.parse::<Reach>().is_err(), "{text}");
        }
        assert_eq!("8080".parse::<Publish>().unwrap(), Publish { host: 8080, inside: 8080 });
        assert_eq!("0:80".parse::<Publish>().unwrap(), Publish { host: 0, inside: 80 });
        assert_eq!("9000:80".parse::<Publish>().unwrap().to_string(), "9000:80");
        for text in ["", "80:0", "0", "x:80", "127.0.0.1:80:80"] {
            assert!(text.parse::<Publish>().is_err(), "{text}");
        }
    }
}
