//! The command line of `cloudsim faults`.

use agent::cli::values;
use clap::{Args, Subcommand};
use cloudsim::faults::{
    Answers, Certificate, Conditions, Direction, FaultTarget, Link, Period, Profile, Schedule,
    Shape, Skew,
};

const CERTIFICATE_NOTES: &str = "\
Certificates: expired, notYetValid, wrongName, unknownAuthority, rotatedAuthority, genuine.
The command closes all connections, so that nodes see the certificate.
With rotatedAuthority, it prints the new join token.";

/// What to break or mend.
#[derive(Clone, Debug, Subcommand)]
pub enum FaultsCommand {
    /// List all injected faults
    #[command(alias = "ls")]
    List {
        /// Print the list, then each change until Ctrl-C
        #[arg(short, long)]
        watch: bool,
    },
    /// Degrade a node's link, in addition to the faults that it has
    Set {
        /// The node, or `all` for every node that has no conditions of its own
        #[arg(value_name = "NODE|all")]
        whom: FaultTarget,
        /// Link conditions
        #[command(flatten)]
        bad: Box<Bad>,
    },
    /// Close a node's connections and refuse new ones
    Cut {
        /// The node, or `all`
        #[arg(value_name = "NODE|all")]
        whom: FaultTarget,
        /// Duration, for example 30s [default: until restored]
        #[arg(long = "for", value_name = "TIME")]
        lasting: Option<Period>,
    },
    /// Keep a node's connections open, but deliver nothing
    HalfOpen {
        /// The node, or `all`
        #[arg(value_name = "NODE|all")]
        whom: FaultTarget,
        /// Duration, for example 30s [default: until restored]
        #[arg(long = "for", value_name = "TIME")]
        lasting: Option<Period>,
    },
    /// Restore a node's link, or everything
    Restore {
        /// The node, or `all` [default: everything, including certificates]
        #[arg(value_name = "NODE|all")]
        whom: Option<FaultTarget>,
    },
    /// Present an invalid certificate to nodes, or the genuine one
    #[command(alias = "certificates", after_help = CERTIFICATE_NOTES)]
    Certificate {
        /// Certificate to present
        #[arg(value_name = "NAME")]
        certificate: Certificate,
        /// Duration, for example 30s [default: until restored]
        #[arg(long = "for", value_name = "TIME")]
        lasting: Option<Period>,
    },
    /// Send faulty or genuine responses from the enrolment server
    #[command(alias = "answer")]
    Answers {
        /// Response fault: endless, slow or genuine
        #[arg(value_name = "NAME")]
        answers: Answers,
    },
    /// Send malformed messages to a node, to test that it survives them
    Send {
        /// The node
        #[arg(value_name = "NODE")]
        node: String,
        /// Names of malformed messages, which `cloudsim faults messages` lists [default: all]
        #[arg(value_name = "MESSAGE")]
        messages: Vec<Shape>,
    },
    /// List link profiles
    #[command(alias = "profile")]
    Profiles,
    /// List the malformed messages of `send`
    #[command(aliases = ["message", "shapes", "shape"])]
    Messages,
}

/// A bad link.
#[derive(Args, Clone, Debug, Default)]
pub struct Bad {
    /// Link profile, from the list of `profiles`; other options override its values
    #[arg(long, value_name = "NAME")]
    pub profile: Option<Profile>,
    /// Delay of each message, for example 300ms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub delay: Option<Period>,
    /// Longest additional random delay
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub jitter: Option<Period>,
    /// Bandwidth limit, bytes per second, for example 64Ki
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    pub throttle: Option<u64>,
    /// Fraction of messages dropped, for example 0.05
    #[arg(long, value_name = "FRACTION", value_parser = values::fraction)]
    pub drop: Option<f64>,
    /// Fraction of messages sent twice
    #[arg(long, value_name = "FRACTION", value_parser = values::fraction)]
    pub duplicate: Option<f64>,
    /// Fraction of messages overtaken by later ones
    #[arg(long, value_name = "FRACTION", value_parser = values::fraction)]
    pub reorder: Option<f64>,
    /// Fraction of objects followed by an older version
    #[arg(long, value_name = "FRACTION", value_parser = values::fraction)]
    pub stale: Option<f64>,
    /// Up time, for example 5s; alternates with --down
    #[arg(
        long,
        value_name = "TIME",
        requires = "down",
        allow_hyphen_values = true
    )]
    pub up: Option<Period>,
    /// Down time, for example 5s; alternates with --up
    #[arg(long, value_name = "TIME", requires = "up", allow_hyphen_values = true)]
    pub down: Option<Period>,
    /// Ignore the node's acknowledgements
    #[arg(long)]
    pub refuse_acknowledgements: bool,
    /// Answer none of the node's reports and requests
    #[arg(long)]
    pub refuse_answers: bool,
    /// Close the node's connection to the relay and refuse new ones
    #[arg(long)]
    pub cut_relay: bool,
    /// Fraction of messages with a flipped bit
    #[arg(long, value_name = "FRACTION", value_parser = values::fraction)]
    pub corrupt: Option<f64>,
    /// Error of the node's clock, for example 5m, or -90s for a slow one
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub clock_skew: Option<Skew>,
    /// Additional time of each write, for example 500ms; only of simulated nodes
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub disk_delay: Option<Period>,
    /// Let writes fail except deletions; only of simulated nodes
    #[arg(long)]
    pub disk_full: bool,
    /// Direction of the affected messages: toNode or toCloud [default: both]
    #[arg(long, value_name = "NAME")]
    pub direction: Option<Direction>,
    /// Kind of the affected messages, for example pod; repeatable [default: all]
    #[arg(long = "kind", value_name = "NAME")]
    pub kinds: Vec<String>,
    /// Duration of the fault, for example 30s [default: until restored]
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true)]
    pub lasting: Option<Period>,
}

impl Bad {
    /// Returns the options as link conditions.
    pub fn conditions(&self) -> Conditions {
        let schedule = self
            .up
            .zip(self.down)
            .map(|(up, down)| Schedule { up, down });
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
            corrupt: self.corrupt,
            clock_skew: self.clock_skew,
            disk_delay: self.disk_delay,
            disk_full: self.disk_full.then_some(true),
            direction: self.direction,
            kinds: self.kinds.clone(),
            lasting: self.lasting,
            certificate: None,
            answers: None,
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
            Command::Faults { command, .. } => command,
            _ => None,
        }
    }

    #[test]
    fn a_line_says_how_a_link_is_bad() {
        let line = "set edge-1 --profile satellite --delay 1s --drop 0.1 --up 5s --down 2s --refuse-answers";
        let Some(FaultsCommand::Set { whom, bad }) = read(line) else {
            panic!()
        };
        let conditions = bad.conditions();
        assert_eq!(whom, FaultTarget::Node("edge-1".to_owned()));
        assert_eq!(
            (conditions.profile, conditions.drop),
            (Some(Profile::Satellite), Some(0.1))
        );
        assert_eq!(
            conditions.schedule,
            Some(Schedule {
                up: Period::seconds(5),
                down: Period::seconds(2)
            })
        );
        assert_eq!(
            (
                conditions.refuse_answers,
                conditions.refuse_acknowledgements
            ),
            (Some(true), None)
        );
        assert!(matches!(
            read("cut all"),
            Some(FaultsCommand::Cut {
                whom: FaultTarget::All,
                lasting: None,
            })
        ));
        assert!(matches!(
            read("restore"),
            Some(FaultsCommand::Restore { whom: None })
        ));
        assert!(matches!(
            read("answers slow"),
            Some(FaultsCommand::Answers {
                answers: Answers::Slow
            })
        ));
        for wrong in [
            "set",
            "set edge-1 --up 5s",
            "set edge-1 --profile Pigeon",
            "set edge-1 --delay -5s",
            "set edge-1 --direction sideways",
            "set edge-1 --clock-skew soon",
            "send edge-1 kind-words",
            "certificate gold",
            "answers yes",
        ] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
    }
}
