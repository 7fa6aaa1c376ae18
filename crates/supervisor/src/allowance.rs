//! How much memory the processes inside can make the supervisor use. Memory for the connections of a sandbox is not among what
//! the kernel charges to it, so the number and the size of what is kept for each are bounded here, by the sandbox's own limit.

use whatif_types::Size;

/// Of all connections at once that go out of the sandbox.
const MOST: usize = 4096;
const FEWEST: usize = 64;
/// What a connection takes in this process at the worst: a head that is not complete yet, what is known about it, its task.
const OF_ONE: u64 = 64 << 10;
/// One connection of this many can be one that secrets are put into, which takes several times as much.
const ONE_WITH_SECRETS_OF: usize = 16;

/// In each direction of each socket. Left to itself the kernel goes up to what the host thinks right for its own (6 MiB and
/// more), and a program inside that reads nothing could fill that as often as it has connections.
const LARGEST_BUFFER: usize = 256 << 10;
const SMALLEST_BUFFER: usize = 8 << 10;
/// Two sockets, each with two buffers.
const BUFFERS_OF_ONE: u64 = 4 * LARGEST_BUFFER as u64;
const MOST_WITH_LARGEST: usize = 64;
const FEWEST_WITH_LARGEST: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// At once, that go out of the sandbox.
    pub(crate) connections: usize,
    /// Of these, that secrets are put into.
    pub(crate) with_secrets: usize,
    with_largest_buffers: usize,
}

impl Allowance {
    /// For a sandbox with this limit on memory: at the worst about as much again here, and as much in the buffers of sockets.
    pub(crate) fn of(memory: Option<Size>) -> Self {
        let share = |part: u64, fewest: usize, most: usize| {
            memory.map_or(most, |Size(bytes)| usize::try_from(bytes / part).unwrap_or(most).clamp(fewest, most))
        };
        let connections = share(OF_ONE, FEWEST, MOST);
        Self {
            connections,
            with_secrets: connections / ONE_WITH_SECRETS_OF,
            with_largest_buffers: share(4 * BUFFERS_OF_ONE, FEWEST_WITH_LARGEST, MOST_WITH_LARGEST),
        }
    }

    /// For the next socket, when there are this many connections. A few get all they can use; thousands together hold little more.
    pub(crate) fn buffer(&self, connections: usize) -> usize {
        let times = (connections / self.with_largest_buffers).max(1);
        (LARGEST_BUFFER / times.saturating_mul(times)).max(SMALLEST_BUFFER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the buffers of all connections together may hold.
    fn buffers(allowance: Allowance) -> usize {
        (1..=allowance.connections).map(|count| 4 * allowance.buffer(count)).sum()
    }

    #[test]
    fn connections_become_fewer_and_smaller_with_the_memory() {
        let (none, small) = (Allowance::of(None), Allowance::of(Some(Size(64 << 20))));
        assert_eq!((none.connections, none.with_secrets, none.buffer(1), none.buffer(100)), (4096, 256, 256 << 10, 256 << 10));
        assert_eq!((small.connections, small.with_secrets, small.buffer(16), small.buffer(32)), (1024, 64, 256 << 10, 64 << 10));
        assert_eq!(Allowance::of(Some(Size(1 << 40))), none);
        assert!(buffers(none) < 320 << 20, "{}", buffers(none));
        assert!(buffers(small) < 80 << 20, "{}", buffers(small));
    }

    #[test]
    fn the_smallest_sandbox_can_still_connect() {
        let least = Allowance::of(Some(Size(1)));
        assert_eq!((least.connections, least.with_secrets, least.buffer(64)), (64, 4, SMALLEST_BUFFER));
    }
}
