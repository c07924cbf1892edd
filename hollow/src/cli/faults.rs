//! The command line of `cloudsim faults`.

use clap::{Args, Subcommand};
use cloudsim::faults::{
    Answers, Certificate, Conditions, FaultTarget, Link, Period, Profile, Schedule, Shape,
};

/// What to break or mend.
#[derive(Clone, Debug, Subcommand)]
pub enum FaultsCommand {
    /// Show everything that is wrong
    List,
    /// Make the link of a node bad
    Set {
        /// The node, or `all` for every node that has no conditions of its own
        #[arg(value_name = "NODE|all")]
        whom: FaultTarget,
        /// How it is bad
        #[command(flatten)]
        bad: Bad,
    },
    /// End the node's connections, and those to come
    Cut {
        /// The node, or `all`
        #[arg(value_name = "NODE|all")]
        whom: FaultTarget,
    },
    /// Let the node's connections stand, and nothing come through
    HalfOpen {
        /// The node, or `all`
        #[arg(value_name = "NODE|all")]
        whom: FaultTarget,
    },
    /// Mend the link of a node, or everything
    Restore {
        /// The node, or `all`; everything with certificates, too, where nobody is named
        #[arg(value_name = "NODE|all")]
        whom: Option<FaultTarget>,
    },
    /// Show nodes a certificate that is wrong: expired, notYetValid, wrongName, unknownAuthority, rotatedAuthority; or the genuine
    /// one. Connections end, so that it is seen. With a rotated authority, the token of the new one is printed
    Certificate {
        /// Which
        #[arg(value_name = "NAME")]
        certificate: Certificate,
    },
    /// Let the enrolment server answer with bodies that never end: endless, slow; or genuine ones
    Answers {
        /// How
        #[arg(value_name = "NAME")]
        answers: Answers,
    },
    /// Send a node messages that no cloud should send
    Send {
        /// The node
        #[arg(value_name = "NODE")]
        node: String,
        /// Which, as `shapes` lists them; all in turn where none is named
        #[arg(value_name = "SHAPE")]
        shapes: Vec<Shape>,
    },
    /// List the kinds of links
    Profiles,
    /// List the hostile messages
    Shapes,
}

/// A bad link.
#[derive(Args, Clone, Debug, Default)]
pub struct Bad {
    /// A kind of link: Satellite, Cellular3G, Cellular4G, Wifi, Offline555, Vehicle. What is given beside it counts in its place
    #[arg(long, value_name = "NAME")]
    pub profile: Option<Profile>,
    /// How long a message is on its way, as 300ms
    #[arg(long, value_name = "TIME")]
    pub delay: Option<Period>,
    /// So much longer at most, at random
    #[arg(long, value_name = "TIME")]
    pub jitter: Option<Period>,
    /// Bytes that pass in a second
    #[arg(long, value_name = "BYTES")]
    pub throttle: Option<u64>,
    /// The part of messages that are lost, as 0.05
    #[arg(long, value_name = "PART")]
    pub drop: Option<f64>,
    /// The part of messages that come twice
    #[arg(long, value_name = "PART")]
    pub duplicate: Option<f64>,
    /// The part of messages that later ones overtake
    #[arg(long, value_name = "PART")]
    pub reorder: Option<f64>,
    /// The part of objects that an older version follows
    #[arg(long, value_name = "PART")]
    pub stale: Option<f64>,
    /// So long up, as 5s; with --down, again and again
    #[arg(long, value_name = "TIME", requires = "down")]
    pub up: Option<Period>,
    /// So long cut
    #[arg(long, value_name = "TIME", requires = "up")]
    pub down: Option<Period>,
    /// Hear no acknowledgement of the node's
    #[arg(long)]
    pub refuse_acknowledgements: bool,
    /// Answer none of the node's reports and questions
    #[arg(long)]
    pub refuse_answers: bool,
    /// End its connection to the relay between nodes, and those to come
    #[arg(long)]
    pub cut_relay: bool,
}

impl Bad {
    /// Returns the options as link conditions.
    pub fn conditions(&self) -> Conditions {
        let schedule = self.up.zip(self.down).map(|(up, down)| Schedule { up, down });
        Conditions {
            profile: self.profile,
            link: None::<Link>,
            schedule,
            delay: self.delay,
            jitter: self.jitter,
            throttle: self.throttle,
            drop: self.drop,
            duplicate: self.duplicate,
            reorder: self.reorder,
            stale: self.stale,
            refuse_acknowledgements: self.refuse_acknowledgements.then_some(true),
            refuse_answers: self.refuse_answers.then_some(true),
            cut_relay: self.cut_relay.then_some(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn read(line: &str) -> Option<FaultsCommand> {
        let words = ["cloudsim", "faults"].into_iter().chain(line.split(' '));
        match Cli::try_parse_from(words).ok()?.command {
            Command::Faults { command, .. } => Some(command),
            _ => None,
        }
    }

    #[test]
    fn a_line_says_how_a_link_is_bad() {
        let line = "set edge-1 --profile satellite --delay 1s --drop 0.1 --up 5s --down 2s --refuse-answers";
        let Some(FaultsCommand::Set { whom, bad }) = read(line) else { panic!() };
        let conditions = bad.conditions();
        assert_eq!(whom, FaultTarget::Node("edge-1".to_owned()));
        assert_eq!((conditions.profile, conditions.drop), (Some(Profile::Satellite), Some(0.1)));
        assert_eq!(conditions.schedule, Some(Schedule { up: Period::seconds(5), down: Period::seconds(2) }));
        assert_eq!((conditions.refuse_answers, conditions.refuse_acknowledgements), (Some(true), None));
        assert!(matches!(read("cut all"), Some(FaultsCommand::Cut { whom: FaultTarget::All })));
        assert!(matches!(read("restore"), Some(FaultsCommand::Restore { whom: None })));
        assert!(matches!(read("answers slow"), Some(FaultsCommand::Answers { answers: Answers::Slow })));
        for wrong in [
            "set",
            "set edge-1 --up 5s",
            "set edge-1 --profile Pigeon",
            "send edge-1 kind-words",
            "certificate gold",
            "answers yes",
        ] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
    }
}
