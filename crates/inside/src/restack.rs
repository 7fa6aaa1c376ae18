//! What the program does as `restack`: the helper that puts a running sandbox on other layers. See `whatif_layers::assemble::restack`.
//!
//! It is told step by step over its standard input, so that the engine can write down in between what has become true. Once it is
//! written down, nobody has to wait for the rest: the helper does that by itself, with the locks of whoever sent it.

use std::io;
use std::os::fd::OwnedFd;

use whatif_keeper::protocol::{Answer, Failed, Order, Text};
use whatif_keeper::{Channel, ChannelError, Client};
use whatif_layers::assemble::AssembleError;
use whatif_layers::assemble::restack::{Restack, Supplies};
use whatif_layers::shift::Unfinished;
use whatif_types::Boot;
use whatif_types::boot::Protection;

use crate::entrance::Entrance;
use crate::error::{KeeperError, failed, not_assembled};

/// Follows orders until the last one.
pub fn serve(input: OwnedFd) -> Result<(), KeeperError> {
    let mut channel = Channel::new(input);
    let order = channel.receive()?;
    let entrance = Entrance::take(&mut channel)?;
    let Order::Enter { boot } = order else { return Err(KeeperError::NotABoot) };
    match follow(&mut channel, &boot, &entrance) {
        Err(Trouble::Failed(failed)) => {
            channel.send(&Answer::Failed(failed), &[])?;
            Err(KeeperError::Told)
        }
        Err(Trouble::Channel(error)) => Err(error.into()),
        Ok(()) => Ok(()),
    }
}

fn descriptors<const N: usize>(channel: &mut Channel) -> Result<[OwnedFd; N], ChannelError> {
    let taken: Vec<OwnedFd> = std::iter::from_fn(|| channel.take_descriptor()).take(N).collect();
    taken.try_into().map_err(|_| ChannelError::Closed)
}

enum Trouble {
    Failed(Failed),
    Channel(ChannelError),
}

impl From<ChannelError> for Trouble {
    fn from(error: ChannelError) -> Self {
        Self::Channel(error)
    }
}

impl From<AssembleError> for Trouble {
    fn from(error: AssembleError) -> Self {
        Self::Failed(not_assembled(&error))
    }
}

fn follow(channel: &mut Channel, boot: &Boot, entrance: &Entrance) -> Result<(), Trouble> {
    let not_entered = |step: &str, error: &io::Error| Trouble::Failed(failed(step, error));
    entrance.gain_rights(boot.identity).map_err(|error| not_entered("enter the sandbox's user namespace", &error))?;
    let supplies = Supplies::take(boot, Some(entrance.user_namespace()))?;
    entrance.enter().map_err(|(step, error)| not_entered(step, &error))?;
    let mut restack = Restack::begin(boot, supplies)?;
    let Order::Guard = channel.receive()? else { return Ok(channel.send(&Answer::GivenUp, &[])?) };
    if let Some(busy) = restack.guard()? {
        return Ok(channel.send(&Answer::Busy(Text::from(busy.as_path())), &[])?);
    }
    channel.send(&Answer::Guarded, &[])?;

    // Most of the way to a new root does not depend on what becomes of the head.
    if let Err(error) = restack.set_stage() {
        restack.give_up();
        return Err(error.into());
    }
    match channel.receive()? {
        Order::Finish { protection } => Ok(finish(restack, boot, &protection, Held::take(channel)?)?),
        _ => {
            restack.give_up();
            Ok(channel.send(&Answer::GivenUp, &[])?)
        }
    }
}

/// What keeps everybody else away until the new root stands.
struct Held {
    keeper: Client,
    _lock: OwnedFd,
    shift: Unfinished,
}

impl Held {
    fn take(channel: &mut Channel) -> Result<Self, ChannelError> {
        let [keeper, lock, shift @ ..] = descriptors::<5>(channel)?;
        Ok(Self { keeper: Client::over(Channel::new(keeper)), _lock: lock, shift: Unfinished::from_descriptors(shift) })
    }
}

/// If it fails, the sandbox ends, and whoever looks next finds it stopped, with all that it had.
fn finish(mut restack: Restack<'_>, boot: &Boot, known: &Protection, held: Held) -> Result<(), Trouble> {
    let Held { mut keeper, _lock, shift } = held;
    let changed = restack.change(known).map_err(Trouble::from);
    // Without them it would take for fresh what is not.
    let handed = changed.and_then(|overlays| {
        let not_taken = |e| Trouble::Failed(failed("hand over the overlays", &io::Error::other(e)));
        keeper.hand_over(&overlays).map_err(not_taken)
    });
    let ended = handed.and_then(|()| shift.end(&boot.id).map_err(|e| Trouble::Failed(failed("end a shift", &e))));
    if let Err(trouble) = ended {
        let _ = keeper.stop(0);
        return Err(trouble);
    }
    // Whoever waits for the sandbox can have it.
    let _ = keeper.thaw();
    drop(keeper);
    restack.lay_up();
    Ok(())
}
