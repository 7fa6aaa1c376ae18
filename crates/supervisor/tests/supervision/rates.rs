//! How fast it is, beside a direct connection. Measured when asked for: `cargo test --release … -- --ignored rates`.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::servers::Server;
use super::world::{PRIVATE, PUBLIC, address, allowing, in_world};

const MUCH: usize = 2 << 30;

fn download(mut stream: TcpStream) -> f64 {
    let begun = Instant::now();
    let mut buffer = vec![0; 256 << 10];
    let mut left = MUCH;
    stream.write_all(b"go").unwrap();
    while left > 0 {
        left -= stream.read(&mut buffer).unwrap().min(left);
    }
    MUCH as f64 / begun.elapsed().as_secs_f64() / 1e9
}

/// In seconds.
fn processor_time(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[test]
#[ignore = "a measurement"]
fn throughput_and_delay() {
    in_world("rates::throughput_and_delay", allowing(&["10.1.2.3:7", "10.1.2.3:9", "a.test:7"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let _source = Server::start(PRIVATE, 9, |_, mut stream| {
            stream.read_exact(&mut [0; 2]).unwrap();
            let block = vec![0; 256 << 10];
            while stream.write_all(&block).is_ok() {}
        });
        let _echoes = [Server::echo(PRIVATE, 7), Server::echo(PUBLIC, 7)];
        for _ in 0..5 {
            let direct = download(TcpStream::connect(address(PRIVATE, 9)).unwrap());
            let before = processor_time(world.supervisor_pid());
            let through = download(world.connect_to(address(PRIVATE, 9)));
            let busy = processor_time(world.supervisor_pid()) - before;
            let share = 100.0 * through / direct;
            println!(
                "MEASURED throughput: direct {direct:.2} GB/s, through {through:.2} GB/s, {share:.0} %, supervisor busy {busy:.2} s"
            );
        }
        let stand_in = std::net::SocketAddr::new(world.resolve("a.test").into(), 7);
        let time = |connect: &dyn Fn() -> TcpStream| {
            let rounds = (0..500).map(|_| {
                let begun = Instant::now();
                let mut client = connect();
                client.write_all(b"\0x").unwrap();
                client.read_exact(&mut [0; 2]).unwrap();
                let took = begun.elapsed();
                let _ = client.shutdown(Shutdown::Both);
                took
            });
            median(rounds.collect())
        };
        let direct = time(&|| TcpStream::connect(address(PRIVATE, 7)).unwrap());
        let to_address = time(&|| world.connect_to(address(PRIVATE, 7)));
        let to_name = time(&|| world.connect_to(stand_in));
        println!("MEASURED connection: direct {direct:?}, to an address {to_address:?}, to a name {to_name:?}");
    });
}
