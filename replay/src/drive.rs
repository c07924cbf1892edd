//! Plays a plan over a connection.

use std::{collections::VecDeque, future::Future, time::Duration};

use peer::transport::Outgoing;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use wire::Message;

use crate::{LoadError, Next, Outcome, Player};

/// How long the other side may take to close a connection.
pub(crate) const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// A connection with the other side.
pub trait Link: Send {
    /// Returns the queue of messages to the other side.
    fn sender(&self) -> mpsc::Sender<Outgoing>;

    /// Returns the next message, or why there is none any more. It can be cancelled without losing a message.
    fn next(&mut self) -> impl Future<Output = Result<Message, String>> + Send;

    /// Closes the connection once the other side has everything that was sent, and opens another one, or returns why not.
    fn reconnect(&mut self) -> impl Future<Output = Result<(), String>> + Send;

    /// Closes the connection once the other side has everything that was sent.
    fn finish(&mut self) -> impl Future<Output = ()> + Send;
}

/// What happens in a replay.
#[derive(Debug)]
pub enum Event<'e> {
    /// This message is sent next; the number of its frame.
    Next(u64, &'e Message),
    /// A message was sent.
    Sent(&'e Message),
    /// A message of the other side arrived.
    Received(&'e Message),
}

/// Plays a plan until it has ended, or the connection has. With `steps`, each message that is no answer waits for a value there; if the
/// queue is closed, nothing waits any more. `observe` is called with what happens.
///
/// # Errors
/// The other side sends more than a recording may have.
pub async fn drive(
    mut player: Player,
    link: &mut impl Link,
    mut steps: Option<mpsc::Receiver<()>>,
    mut observe: impl FnMut(Event<'_>),
) -> Result<Outcome, LoadError> {
    let begin = Instant::now();
    let mut outgoing: VecDeque<Message> = VecDeque::new();
    let mut held: Option<Message> = None;
    let ended = loop {
        let mut wake = begin;
        if outgoing.is_empty() && held.is_none() {
            match player.next(begin.elapsed())? {
                Next::Done => break None,
                Next::Wait(until) => wake = begin + until,
                Next::Send(frame, message) if steps.is_some() => {
                    observe(Event::Next(frame, &message));
                    held = Some(*message);
                }
                Next::Send(_, message) => outgoing.push_back(*message),
                Next::Reconnect => match link.reconnect().await {
                    Ok(()) => continue,
                    Err(why) => break Some(why),
                },
            }
        }
        let sender = link.sender();
        tokio::select! {
            biased;
            message = link.next() => match message {
                Ok(message) => {
                    observe(Event::Received(&message));
                    outgoing.extend(player.receive(begin.elapsed(), message)?);
                }
                Err(why) => break Some(why),
            },
            permit = sender.reserve(), if !outgoing.is_empty() => {
                if let (Ok(permit), Some(message)) = (permit, outgoing.pop_front()) {
                    observe(Event::Sent(&message));
                    permit.send(message.into());
                }
            }
            step = next_step(&mut steps), if held.is_some() => {
                if step.is_none() {
                    steps = None;
                }
                outgoing.extend(held.take());
            }
            () = sleep_until(wake), if outgoing.is_empty() && held.is_none() => {}
        }
    };
    if ended.is_none() {
        link.finish().await;
    }
    let mut outcome = player.finish();
    outcome.ended = ended;
    Ok(outcome)
}

async fn next_step(steps: &mut Option<mpsc::Receiver<()>>) -> Option<()> {
    match steps {
        Some(steps) => steps.recv().await,
        None => None,
    }
}
