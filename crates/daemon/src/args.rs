//! The command line of `whatifd`, which `whatif serve` passes on.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;

/// Serve the sandboxes of this user over HTTP
#[derive(Debug, Parser)]
#[command(name = "whatifd", version)]
pub struct Args {
    /// Address and port to listen on; port 0 chooses a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7717", value_parser = loopback)]
    pub listen: SocketAddr,
    /// File with the token that clients send; created with mode 0600 if it does not exist
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Also listen on this unix socket, for processes of the same user
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Print where it listens, and where the token is, as one line of JSON
    #[arg(long)]
    pub json: bool,
}

pub fn parse() -> Args {
    Args::parse()
}

/// Without TLS, a token that leaves the machine could be read on the way.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "expected ADDR:PORT, such as 127.0.0.1:7717".to_owned())?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err("only loopback addresses: other machines would need TLS, which whatifd does not speak".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_served() {
        for fine in ["127.0.0.1:7717", "127.8.8.8:0", "[::1]:80"] {
            assert!(loopback(fine).is_ok(), "{fine}");
        }
        for refused in ["0.0.0.0:7717", "192.168.1.2:7717", "[::]:7717", "8.8.8.8:80", "[::ffff:10.0.0.1]:80", "localhost", "7717"]
        {
            assert!(loopback(refused).is_err(), "{refused}");
        }
    }
}
