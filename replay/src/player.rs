//! Plays one side of a recording, without IO and clock: what to send next, and what to do with what arrives. Pure.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use record::Side;
use serde::Serialize;
use wire::Message;

use crate::{
    Comparison, LoadError,
    compare::{compare_side, resource_key},
    content::generated_name,
    plan::Plan,
    script::{Script, Sent},
    text::Names,
    translate::Translator,
};

/// The most expected messages of one resource among which a counterpart is searched.
const MAX_SEARCHED: usize = 1000;
/// After so many expected messages that did not arrive, no further one is awaited.
const MAX_MISSES: u32 = 20;
/// The most connections that are opened again.
const MAX_RECONNECTIONS: u32 = 100;
/// Kinds that are sent periodically: the end of a replay does not wait for them.
const PERIODIC: [&str; 2] = ["lease", "node-status"];

/// How a plan is played.
#[derive(Clone, Debug)]
pub struct PlayOptions {
    /// The node's name in the replay.
    pub node: String,
    /// The speed; `None` sends each message as soon as possible.
    pub speed: Option<f64>,
    /// How long an expected message is awaited.
    pub patience: Duration,
    /// The time at which the replay begins, nanoseconds since 1970.
    pub started: u64,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Send a message; the number of its frame.
    Send(u64, Box<Message>),
    /// Close the connection, and open another one.
    Reconnect,
    /// Wait for messages, at most until this time after the begin.
    Wait(Duration),
    /// The replay has ended.
    Done,
}

/// How a replay ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// What the other side sent differently. The first recording is the one that was replayed.
    pub comparison: Comparison,
    /// Messages that were sent.
    pub sent: u64,
    /// The frames of messages that were not sent, because a message that they depend on did not arrive.
    pub unsent: Vec<u64>,
    /// Frames that were not replayed.
    pub skipped: u64,
    /// Why the connection ended before the replay.
    pub ended: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepState {
    Pending,
    Done,
    /// It did not arrive in time.
    Missed,
    /// It was not sent, or answers a message that was not sent.
    Skipped,
}

/// Plays a plan.
pub struct Player {
    plan: Plan,
    options: PlayOptions,
    translator: Translator,
    /// Generated names of the recording and of the other side: a text for all with the same prefix.
    names: [Names; 2],
    states: Vec<StepState>,
    /// The next step that is sent without being asked.
    cursor: usize,
    /// Before it, no step is awaited any more.
    rest: usize,
    /// Steps that are expected without a request, by kind, operation and resource.
    expected: HashMap<String, VecDeque<usize>>,
    /// The answers to each step.
    answers: HashMap<usize, Vec<usize>>,
    /// The step of each message that was sent.
    sent: HashMap<String, usize>,
    /// The last request of each kind and resource whose answers were sent.
    answered: HashMap<String, usize>,
    actual: Script,
    last_send: Option<(u64, Duration)>,
    blocked_since: Option<Duration>,
    misses: u32,
    reconnections: u32,
    has_reconnected: bool,
}

impl Player {
    /// Creates a player.
    pub fn new(plan: Plan, options: PlayOptions) -> Self {
        let first = plan.script.sent.first().map_or(0, |sent| sent.time);
        let delay = i128::from(options.started) - i128::from(first);
        let nodes = [&plan.node, options.node.as_str()];
        let translator = Translator::new(plan.side, nodes, delay);
        let mut names = nodes.map(|node| Names {
            node: node.to_owned(),
            ..Names::default()
        });
        let mut expected = HashMap::<String, VecDeque<usize>>::new();
        let mut answers = HashMap::<usize, Vec<usize>>::new();
        for (number, step) in plan.steps.iter().enumerate() {
            let parent = step.answers;
            if let Some(parent) = parent.filter(|one| plan.steps[*one].is_ours != step.is_ours) {
                answers.entry(parent).or_default().push(number);
            } else if !step.is_ours {
                let sent = &plan.script.sent[number];
                let message = sent.message();
                learn_name(&mut names[0], &message);
                let key = key(sent.kind, &message, &names[0]);
                expected.entry(key).or_default().push_back(number);
            }
        }
        Self {
            states: vec![StepState::Pending; plan.steps.len()],
            cursor: 0,
            rest: 0,
            sent: HashMap::new(),
            answered: HashMap::new(),
            actual: Script::default(),
            last_send: None,
            blocked_since: None,
            misses: 0,
            reconnections: 0,
            has_reconnected: false,
            expected,
            answers,
            names,
            translator,
            plan,
            options,
        }
    }

    /// Returns the other side.
    fn other(&self) -> Side {
        match self.plan.side {
            Side::Edge => Side::Cloud,
            Side::Cloud => Side::Edge,
        }
    }

    /// Takes a message of the other side, and returns the answers.
    ///
    /// # Errors
    /// The other side sends more than a recording may have.
    pub fn receive(&mut self, now: Duration, message: Message) -> Result<Vec<Message>, LoadError> {
        let kind = record::kind_of(self.other(), &message);
        if kind == crate::compare::KEEPALIVE {
            return Ok(Vec::new());
        }
        self.note(self.other(), now, &message)?;
        learn_name(&mut self.names[1], &message);
        let key = key(kind, &message, &self.names[1]);
        let id = message.header.msg_id.clone();
        let mut replies = Vec::new();
        match self.counterpart(kind, &key, &message) {
            Some(step) => {
                self.states[step] = StepState::Done;
                let recorded = self.plan.script.sent[step].message();
                self.translator.learn(&recorded, &message);
                for answer in self.answers.get(&step).cloned().unwrap_or_default() {
                    replies.push(self.render(answer, now)?);
                }
                if !replies.is_empty() {
                    self.answered.insert(key, step);
                }
            }
            None => {
                // a question that was asked before gets the same answer
                if let Some(step) = self.answered.get(&key)
                    && self.plan.side == Side::Cloud
                {
                    for answer in self.answers.get(step).cloned().unwrap_or_default() {
                        let mut reply = self.render(answer, now)?;
                        reply.header.parent_msg_id.clone_from(&id);
                        replies.push(reply);
                    }
                }
            }
        }
        let is_answered = replies.iter().any(|one| one.header.parent_msg_id == id);
        // a cloud sends nothing else before its message is acknowledged
        if self.plan.side == Side::Edge && !is_answered && wire::lane::needs_ack(&message) {
            let acknowledgement = message.acknowledgement(self.now_ms(now));
            self.note(Side::Edge, now, &acknowledgement)?;
            replies.push(acknowledgement);
        }
        Ok(replies)
    }

    /// Finds the recorded message that corresponds to a message of the other side.
    fn counterpart(&mut self, kind: &str, key: &str, message: &Message) -> Option<usize> {
        if let Some(parent) = self.sent.get(&message.header.parent_msg_id) {
            let answers = self.answers.get(parent)?;
            let mut pending = answers
                .iter()
                .copied()
                .take(MAX_SEARCHED)
                .filter(|step| self.states[*step] != StepState::Done);
            let first = pending.clone().next();
            let same = pending.find(|step| self.plan.script.sent[*step].kind == kind);
            return same.or(first);
        }
        let (states, script, translator) = (&self.states, &self.plan.script, &self.translator);
        let steps = self.expected.get_mut(key)?;
        while steps
            .front()
            .is_some_and(|one| states[*one] == StepState::Done)
        {
            steps.pop_front();
        }
        let name = object_name(message).unwrap_or_default();
        let place = steps.iter().take(MAX_SEARCHED).position(|step| {
            states[*step] != StepState::Done
                && translator.may_be(
                    &object_name(&script.sent[*step].message()).unwrap_or_default(),
                    &name,
                )
        });
        steps.remove(place?)
    }

    /// Returns what to do next.
    ///
    /// # Errors
    /// The replay sends more than a recording may have.
    pub fn next(&mut self, now: Duration) -> Result<Next, LoadError> {
        while let Some(step) = self.plan.steps.get(self.cursor) {
            let number = self.cursor;
            let is_answer = step
                .answers
                .is_some_and(|one| !self.plan.steps[one].is_ours);
            if !step.is_ours || is_answer || self.states[number] != StepState::Pending {
                self.advance();
                continue;
            }
            if step.is_reconnection && !self.has_reconnected {
                self.has_reconnected = true;
                if self.reconnections < MAX_RECONNECTIONS {
                    self.reconnections += 1;
                    return Ok(Next::Reconnect);
                }
            }
            let is_lost =
                |one: &usize| matches!(self.states[*one], StepState::Missed | StepState::Skipped);
            if step.needs.iter().any(is_lost) {
                self.skip(number);
                self.advance();
                continue;
            }
            let awaited = step.needs.iter().copied().chain(step.follows);
            let awaited: Vec<usize> = awaited
                .filter(|one| self.states[*one] == StepState::Pending)
                .collect();
            let (time, pause) = self.pause(number);
            if !awaited.is_empty() {
                let since = *self.blocked_since.get_or_insert(now);
                let deadline = since + self.patience() + pause;
                if now < deadline {
                    return Ok(Next::Wait(deadline));
                }
                for one in awaited {
                    self.states[one] = StepState::Missed;
                }
                self.misses += 1;
                self.blocked_since = None;
                continue;
            }
            if let Some((_, at)) = self.last_send
                && now < at + pause
            {
                return Ok(Next::Wait(at + pause));
            }
            self.last_send = Some((time, now));
            let message = self.render(number, now)?;
            self.states[number] = StepState::Done;
            self.advance();
            let frame = self.plan.script.sent[number].frame;
            return Ok(Next::Send(frame, Box::new(message)));
        }
        Ok(self.wait_for_rest(now))
    }

    fn advance(&mut self) {
        self.cursor += 1;
        self.blocked_since = None;
        self.has_reconnected = false;
    }

    /// Returns the recorded time of a step, and the time to let pass after the last message.
    fn pause(&self, step: usize) -> (u64, Duration) {
        let time = self.plan.script.sent[step].time;
        let pause = match (self.options.speed, self.last_send) {
            (Some(speed), Some((last, _))) => {
                let recorded = Duration::from_nanos(time.saturating_sub(last));
                Duration::try_from_secs_f64(recorded.as_secs_f64() / speed)
                    .unwrap_or(Duration::ZERO)
            }
            _ => Duration::ZERO,
        };
        (time, pause)
    }

    fn patience(&self) -> Duration {
        match self.misses < MAX_MISSES {
            true => self.options.patience,
            false => Duration::ZERO,
        }
    }

    /// After the last message, waits for the other side's.
    fn wait_for_rest(&mut self, now: Duration) -> Next {
        let is_awaited = |number: usize| {
            !self.plan.steps[number].is_ours
                && self.states[number] == StepState::Pending
                && !PERIODIC.contains(&self.plan.script.sent[number].kind)
        };
        while self.rest < self.states.len() && !is_awaited(self.rest) {
            self.rest += 1;
        }
        let since = *self.blocked_since.get_or_insert(now);
        let deadline = since + self.patience();
        match self.rest < self.states.len() && now < deadline {
            true => Next::Wait(deadline),
            false => Next::Done,
        }
    }

    /// Skips a step and the answers to it.
    fn skip(&mut self, step: usize) {
        self.states[step] = StepState::Skipped;
        for answer in self.answers.get(&step).into_iter().flatten() {
            self.states[*answer] = StepState::Skipped;
        }
    }

    /// Returns a recorded message for the other side.
    fn render(&mut self, step: usize, now: Duration) -> Result<Message, LoadError> {
        let recorded = self.plan.script.sent[step].message();
        let id = Message::new_id();
        let message = self
            .translator
            .translate(&recorded, (id.clone(), self.now_ms(now)));
        self.translator.learn_id(&recorded, &message);
        self.states[step] = StepState::Done;
        self.sent.insert(id, step);
        self.note(self.plan.side, now, &message)?;
        Ok(message)
    }

    /// Adds a message to the session that is compared at the end.
    fn note(&mut self, from: Side, now: Duration, message: &Message) -> Result<(), LoadError> {
        let passed = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let sent = Sent {
            frame: self.actual.sent.len() as u64 + 1,
            time: self.options.started.saturating_add(passed),
            node: Arc::from(self.options.node.as_str()),
            from,
            kind: record::kind_of(from, message),
            ..Sent::default()
        };
        self.actual.push(sent, message)
    }

    fn now_ms(&self, now: Duration) -> i64 {
        let started = Duration::from_nanos(self.options.started);
        i64::try_from((started + now).as_millis()).unwrap_or(i64::MAX)
    }

    /// Compares what the other side sent with the recording.
    pub fn finish(self) -> Outcome {
        let other = self.other();
        let mut recorded = Script::default();
        let mut unsent = Vec::new();
        let mut count = 0;
        for (number, sent) in self.plan.script.sent.into_iter().enumerate() {
            let step = &self.plan.steps[number];
            match (step.is_ours, self.states[number]) {
                (true, StepState::Done) => count += 1,
                (true, _) => {
                    // an answer to a message that did not arrive is no loss of its own
                    if step.answers.is_none() {
                        unsent.push(sent.frame);
                    }
                    continue;
                }
                (false, StepState::Skipped) => continue,
                // as many arrive as the time allows
                (false, StepState::Pending) if PERIODIC.contains(&sent.kind) => continue,
                (false, _) => {}
            }
            recorded.sent.push(sent);
        }
        Outcome {
            comparison: compare_side(&recorded, &self.actual, other),
            sent: count,
            unsent,
            skipped: self.plan.skipped,
            ended: None,
        }
    }
}

/// Gives a generated name the text that all names with its prefix have.
fn learn_name(names: &mut Names, message: &Message) {
    if let Some((name, prefix)) = generated_name(message)
        && !names.generated.contains_key(name)
    {
        let common = format!("{prefix}*");
        Arc::make_mut(&mut names.generated).insert(name.to_owned(), common);
    }
}

fn object_name(message: &Message) -> Option<String> {
    let object = message.route.resource.as_object()?;
    object.name.map(str::to_owned)
}

/// Returns what a message and its counterpart have in common.
fn key(kind: &str, message: &Message, names: &Names) -> String {
    let resource = resource_key(kind, message, names);
    format!("{kind} {} {resource}", message.route.operation)
}
