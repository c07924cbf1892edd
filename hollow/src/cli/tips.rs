//! Answers to commands that users of kubectl, kind, docker and keadm guess.

use std::ffi::OsString;

use agent::cli::{Tip, try_parse_with_tips, unknown_command};
use clap::{
    CommandFactory, Error,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::Cli;

/// Words before a list, which mean nothing: `get nodes` is `nodes`.
const LIST_WORDS: [&str; 3] = ["get", "list", "ls"];

/// Commands that print something which exists.
const LISTS: [&str; 8] = [
    "status",
    "nodes",
    "devices",
    "rules",
    "mesh",
    "faults",
    "token",
    "kubeconfig",
];

const TIPS: [Tip; 9] = [
    Tip {
        words: &LIST_WORDS,
        tip: "`cloudsim status` lists clouds; lists of a cloud are `cloudsim nodes`, `devices`, `rules`, `mesh` and `faults`; \
              kubectl lists everything else, for example `kubectl get pods`",
    },
    Tip {
        words: &[
            "apply",
            "create",
            "delete",
            "describe",
            "edit",
            "exec",
            "attach",
            "pod",
            "pods",
            "service",
            "services",
            "deployment",
            "deployments",
            "port-forward",
            "cp",
            "top",
            "label",
            "taint",
            "cordon",
            "drain",
        ],
        tip: "kubectl works with the objects of a cloud; `cloudsim kubeconfig` prints its kubeconfig",
    },
    Tip {
        words: &["restart", "reload"],
        tip: "`cloudsim down`, then `cloudsim up --detach`; --data-dir keeps the data",
    },
    Tip {
        words: &["log", "logs"],
        tip: "`cloudsim status -o wide` shows the log file of a cloud; `kubectl logs POD` prints the log of a pod",
    },
    Tip {
        words: &["join", "add"],
        tip: "`edge-agent join` joins a machine; `cloudsim hollow` joins simulated nodes",
    },
    Tip {
        words: &["config", "context", "contexts"],
        tip: "`cloudsim kubeconfig` prints a kubeconfig; `kubectl config get-contexts` lists contexts",
    },
    Tip {
        words: &["init", "install", "server", "serve", "agent"],
        tip: "`cloudsim up` runs a cloud; the chart in charts/cloudsim installs one on a cluster",
    },
    Tip {
        words: &["test", "check", "doctor"],
        tip: "`cloudsim run FILE` runs scenarios, `cloudsim selftest` tests a cloud, `cloudsim db check` checks a database",
    },
    Tip {
        words: &["chaos", "inject", "break"],
        tip: "`cloudsim faults set NODE` degrades a link; `cloudsim faults --help` lists all faults",
    },
];

/// Options that people guess, with what to type instead.
const OPTION_TIPS: [(&str, &str); 2] = [
    (
        "--port",
        "each server has its own option: --api-port for the Kubernetes API, --ws-port for CloudHub; `cloudsim up --help` lists all",
    ),
    (
        "--delay",
        "`cloudsim faults set NODE --delay TIME` delays the messages of a running cloud",
    ),
];

/// Adds what to type instead of a guessed option, or of a value that is separated from its option.
fn add_option_tip(args: &[OsString], mut error: Error) -> Error {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let at = args.iter().position(|arg| arg == unknown.as_str());
    let before = at.and_then(|at| args.get(at.checked_sub(1)?));
    let tip = match OPTION_TIPS.iter().find(|(option, _)| option == unknown) {
        Some((_, tip)) => (*tip).to_owned(),
        None if before.is_some_and(|before| before == "--rbac") => {
            "write the value after `=`: `--rbac=true` or `--rbac=false`".to_owned()
        }
        None => return error,
    };
    error.remove(ContextKind::SuggestedArg);
    let tips = vec![StyledStr::from(tip)];
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    error
}

/// Parses a command line.
pub(super) fn parse(mut args: Vec<OsString>) -> Result<Cli, Error> {
    let parsed = try_parse_with_tips(args.clone(), &TIPS);
    let Err(error) = parsed else { return parsed };
    let error = add_option_tip(&args, error);
    let command = Cli::command();
    let Some(word) =
        unknown_command(&command, &args, &error).filter(|word| LIST_WORDS.contains(word))
    else {
        return Err(error);
    };
    let at = args.iter().position(|arg| arg == word).unwrap_or_default();
    let next = args.get(at + 1).and_then(|next| next.to_str());
    let list = next.and_then(|next| command.find_subcommand(next));
    if list.is_none_or(|list| !LISTS.contains(&list.get_name())) {
        return Err(error);
    }
    args.remove(at);
    try_parse_with_tips(args, &TIPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn try_parse(line: &str) -> Result<String, String> {
        let args = ["cloudsim"].into_iter().chain(line.split_whitespace());
        let parsed = parse(args.map(OsString::from).collect());
        // the name of the variant is the command
        let name = |cli: Cli| {
            let text = format!("{:?}", cli.command);
            text.split(|c: char| !c.is_alphanumeric())
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        parsed.map(name).map_err(|error| error.to_string())
    }

    #[test]
    fn guessed_commands_do_what_they_mean_elsewhere() {
        for (line, command) in [
            ("start", "Up"),
            ("start -d --nodes 3", "Up"),
            ("stop", "Down"),
            ("stop --all", "Down"),
            ("ps", "Status"),
            ("clusters", "Status"),
            ("version", "Version"),
            ("get nodes", "Nodes"),
            ("get node -o wide", "Nodes"),
            ("--log-filter info get devices -w", "Devices"),
            ("list rules", "Rules"),
            ("ls faults", "Faults"),
            ("get clusters", "Status"),
            ("get kubeconfig --context c", "Kubeconfig"),
            ("get token", "Token"),
            ("gettoken", "Token"),
            ("nodes ls", "Nodes"),
            ("device ls -o json", "Devices"),
            ("database check --data-dir d", "Db"),
            ("faults profile", "Faults"),
            ("rbac", "Roles"),
            ("self-test --cloud c --token-file t", "Selftest"),
        ] {
            assert_eq!(try_parse(line).as_deref(), Ok(command), "{line}");
        }
    }

    #[test]
    fn other_guesses_are_answered_with_what_to_type() {
        for (line, tip) in [
            ("get pods", "`kubectl get pods`"),
            ("get", "`cloudsim status`"),
            ("list", "`cloudsim nodes`"),
            ("pods", "`cloudsim kubeconfig`"),
            ("apply -f x.yaml", "kubectl"),
            ("restart", "`cloudsim down`"),
            ("logs", "`kubectl logs POD`"),
            ("join", "`edge-agent join`"),
            ("config", "`cloudsim kubeconfig`"),
            ("server", "`cloudsim up`"),
            ("check", "`cloudsim db check`"),
            ("inject", "`cloudsim faults"),
            ("cut edge-1", "`cloudsim faults cut`"),
            ("reset edge-1", "`cloudsim nodes reset`"),
            ("repair", "`cloudsim db repair`"),
            ("send", "`cloudsim rules send` or `cloudsim faults send`"),
            ("up --port 7", "--api-port for the Kubernetes API"),
            ("up --rbac maybe", "`--rbac=false`"),
            ("up --delay 5s", "`cloudsim faults set NODE --delay TIME`"),
        ] {
            let error = try_parse(line).unwrap_err();
            assert!(
                error.contains("tip: ") && error.contains(tip),
                "{line}: {error}"
            );
        }
        // behind a command, the word is another one
        let nested = try_parse("db restart").unwrap_err();
        assert!(!nested.contains("cloudsim down"), "{nested}");
    }

    #[test]
    fn tips_are_for_words_that_are_no_commands() {
        let command = Cli::command();
        for word in TIPS.iter().flat_map(|tip| tip.words) {
            assert!(command.find_subcommand(word).is_none(), "{word}");
        }
        for list in LISTS {
            assert!(command.find_subcommand(list).is_some(), "{list}");
        }
    }
}
