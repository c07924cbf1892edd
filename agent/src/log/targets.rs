//! Names in log filters: the agent consists of several crates, and a filter of `agent` means all of them.

/// The crates of the agent beside `agent` itself.
const CRATES: [&str; 2] = ["componentbase", "edged"];

/// Crates that were modules of `agent`: filters with their former paths have the same effect.
const FORMER_PATHS: [(&str, &str); 2] = [("agent::edged", "edged"), ("agent::rt", "componentbase")];

/// Returns the filter with the directives that its names mean. A directive that names a crate has priority over one of `agent`.
pub(super) fn complete(filter: &str) -> String {
    let target = |directive: &str| directive.split('=').next().map_or("", str::trim).to_owned();
    let of_agent = filter
        .split(',')
        .filter(|directive| target(directive) == "agent");
    let of_crates =
        of_agent.flat_map(|directive| CRATES.map(|name| directive.replacen("agent", name, 1)));
    let written = filter.split(',').map(|directive| {
        let target = target(directive);
        let is_below = |path: &str| {
            let rest = target.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let former = FORMER_PATHS.iter().find(|(path, _)| is_below(path));
        former.map_or_else(
            || directive.to_owned(),
            |(path, name)| directive.replacen(path, name, 1),
        )
    });
    of_crates.chain(written).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_of_the_agent_selects_all_its_crates() {
        for (filter, completed) in [
            ("info", "info"),
            (
                "warn,agent=info",
                "componentbase=info,edged=info,warn,agent=info",
            ),
            ("agent", "componentbase,edged,agent"),
            (
                "edged=warn,agent=debug",
                "componentbase=debug,edged=debug,edged=warn,agent=debug",
            ),
            ("agent::edgehub=debug", "agent::edgehub=debug"),
            ("agent::edged=debug", "edged=debug"),
            ("off,agent::edged::pods=trace", "off,edged::pods=trace"),
            ("agent::edgedx=debug", "agent::edgedx=debug"),
            ("agent::rt::supervise=off", "componentbase::supervise=off"),
            ("edge_agent=info", "edge_agent=info"),
        ] {
            assert_eq!(complete(filter), completed, "{filter}");
        }
    }

    #[test]
    fn crate_named_in_the_filter_has_priority() {
        let targets: tracing_subscriber::filter::Targets =
            complete("edged=warn,agent=debug").parse().unwrap();
        for (target, is_shown) in [
            ("agent::edgehub", true),
            ("componentbase::supervise", true),
            ("edged::pods", false),
        ] {
            assert_eq!(
                targets.would_enable(target, &tracing::Level::DEBUG),
                is_shown,
                "{target}"
            );
        }
    }
}
