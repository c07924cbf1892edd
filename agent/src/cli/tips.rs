//! Answers to commands that people guess from similar programs. The program `cloudsim` has its own table.

use std::{
    ffi::OsString,
    io::{self, Write},
};

use clap::{
    Command, Parser,
    builder::StyledStr,
    error::{ContextKind, ContextValue, Error, ErrorKind},
};

/// Words that are no command of a program, with what to type instead.
#[derive(Clone, Copy, Debug)]
pub struct Tip {
    /// The guessed commands.
    pub words: &'static [&'static str],
    /// What to type instead.
    pub tip: &'static str,
}

/// The tips of `edge-agent`.
pub(super) const EDGE_AGENT: [Tip; 10] = [
    Tip {
        words: &["start", "run", "serve", "up"],
        tip: "`edge-agent` without a command runs the agent; `systemctl start edge-agent` starts the service",
    },
    Tip {
        words: &["stop", "kill", "down"],
        tip: "`systemctl stop edge-agent` stops the service; an agent in a terminal stops with Ctrl-C",
    },
    Tip {
        words: &["restart", "reload"],
        tip: "`systemctl restart edge-agent` restarts the service; pods continue to run",
    },
    Tip {
        words: &["ps", "health", "top", "info"],
        tip: "`edge-agent status` shows the state of this node; `edge-agent check` finds out what is wrong",
    },
    Tip {
        words: &["log", "logs"],
        tip: "`journalctl -u edge-agent -f` shows the log of the service",
    },
    Tip {
        words: &[
            "get", "list", "describe", "exec", "apply", "node", "nodes", "pod", "pods", "device",
            "devices",
        ],
        tip: "kubectl reads the objects on this node, if modules.metaManager.metaServer is enabled: \
              `kubectl --kubeconfig /var/lib/kubeedge/metaserver.kubeconfig get pods`",
    },
    Tip {
        words: &["leave", "remove", "uninstall", "delete"],
        tip: "`edge-agent reset` removes this node",
    },
    Tip {
        words: &["rejoin", "register"],
        tip: "`edge-agent join` joins a cloud; add --rejoin to take over the name of an existing Node",
    },
    Tip {
        words: &["token", "tokens", "gettoken"],
        tip: "the cloud prints the join token: `cloudsim token`, or `keadm gettoken` with CloudCore",
    },
    Tip {
        words: &["config", "init"],
        tip: "`edge-agent join` writes a configuration; `edge-agent --minconfig` prints one to edit",
    },
];

/// Parses the arguments of this process; exits if they are invalid, or help or the version was requested.
pub fn parse_or_exit<C: Parser>(tips: &[Tip]) -> C {
    try_parse_with_tips(std::env::args_os().collect(), tips).unwrap_or_else(|error| exit(&error))
}

/// Prints help, the version or an error, and exits. Unlike clap's own function, it fails if help cannot be written, except to a closed
/// pipe.
pub fn exit(error: &Error) -> ! {
    let code = match error.print() {
        Err(failed) if !error.use_stderr() && failed.kind() != io::ErrorKind::BrokenPipe => {
            // stderr may be the same full disk
            let _ = writeln!(
                io::stderr(),
                "error: cannot write to stdout; the output is incomplete: {failed}"
            );
            1
        }
        _ => error.exit_code(),
    };
    std::process::exit(code)
}

/// Parses a command line.
///
/// # Errors
/// It is invalid. For an unknown command, the error has the tip for this word, or the commands whose subcommand it is.
pub fn try_parse_with_tips<C: Parser>(args: Vec<OsString>, tips: &[Tip]) -> Result<C, Error> {
    C::try_parse_from(&args).map_err(|mut error| {
        if let Some(tip) = tip(&C::command(), &args, &error, tips) {
            error.remove(ContextKind::SuggestedSubcommand);
            let tips = vec![StyledStr::from(tip)];
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
        error
    })
}

fn tip(command: &Command, args: &[OsString], error: &Error, tips: &[Tip]) -> Option<String> {
    let word = unknown_command(command, args, error)?;
    if let Some(found) = tips.iter().find(|tip| tip.words.contains(&word)) {
        return Some(found.tip.to_owned());
    }
    let program = command.get_name();
    let outer = command.get_subcommands();
    let outer = outer.filter(|outer| outer.find_subcommand(word).is_some());
    let nested: Vec<String> = outer
        .map(|outer| format!("`{program} {} {word}`", outer.get_name()))
        .collect();
    (!nested.is_empty()).then(|| format!("the command is {}", nested.join(" or ")))
}

/// Returns the word that is no command of the program itself.
pub fn unknown_command<'a>(
    command: &Command,
    args: &'a [OsString],
    error: &Error,
) -> Option<&'a str> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let mut words = args.iter().skip(1).map_while(|word| word.to_str());
    // behind a command, it is a subcommand of that one
    words
        .find(|word| word == unknown || command.find_subcommand(word).is_some())
        .filter(|word| word == unknown)
}
