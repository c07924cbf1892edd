//! Probes and hooks of containers.

use crate::{
    cause::Cause,
    validate::{
        engine::{
            Row,
            Rule::{
                Always, AtLeast, Check, NonNegative, Port, Required, Supported, Table,
                Union as OneMember,
            },
            Union, member, row,
        },
        formats,
        place::Place,
    },
};

/// `lifecycle`.
pub static LIFECYCLE: &[Row] = &[
    row("postStart?", OneMember(&HOOK)),
    row("preStop?", OneMember(&HOOK)),
];

/// `livenessProbe` and `startupProbe`.
pub static LIVENESS: &[Row] = &[row("", Table(PROBE)), row("", Check(one_success))];

/// `readinessProbe`.
pub static READINESS: &[Row] = &[row("", Table(PROBE)), row("", Check(no_grace_period))];

static PROBE: &[Row] = &[
    row("", OneMember(&HANDLER)),
    row("initialDelaySeconds", NonNegative),
    row("timeoutSeconds", NonNegative),
    row("periodSeconds", NonNegative),
    row("successThreshold", NonNegative),
    row("failureThreshold", NonNegative),
    row(
        "terminationGracePeriodSeconds",
        AtLeast(1, "must be greater than 0"),
    ),
];

const MANY: &str = "may not specify more than 1 handler type";
const NONE: &str = "must specify a handler type";

static HANDLER: Union = Union {
    members: &[
        member("exec", EXEC),
        member("httpGet", HTTP),
        member("tcpSocket", SOCKET),
        member("grpc", SOCKET),
    ],
    many: MANY,
    none: NONE,
};
static HOOK: Union = Union {
    members: &[
        member("exec", EXEC),
        member("httpGet", HTTP),
        member("tcpSocket", SOCKET),
        member("sleep", SLEEP),
    ],
    many: MANY,
    none: NONE,
};
static EXEC: &[Row] = &[row("command", Required(""))];
static SOCKET: &[Row] = &[row("port", Port)];
static SLEEP: &[Row] = &[row("", Check(sleep))];
static HTTP: &[Row] = &[
    row("path", Required("")),
    row("port", Port),
    row("scheme", Supported(&["HTTP", "HTTPS"])),
    row("httpHeaders[-].name>", Always(formats::http_header)),
];

fn one_success(probe: &Place<'_>, causes: &mut Vec<Cause>) {
    let count = probe.number("successThreshold").unwrap_or_default();
    if count != 1 {
        causes.push(probe.invalid("successThreshold", &count.into(), "must be 1"));
    }
}

fn no_grace_period(probe: &Place<'_>, causes: &mut Vec<Cause>) {
    const FIELD: &str = "terminationGracePeriodSeconds";
    if probe.has(FIELD) {
        causes.push(probe.invalid(
            FIELD,
            probe.get(FIELD),
            "must not be set for readinessProbes",
        ));
    }
}

fn sleep(sleep: &Place<'_>, causes: &mut Vec<Cause>) {
    let seconds = sleep.number("seconds").unwrap_or_default();
    let Some(grace) = sleep
        .nearest("spec")
        .get("terminationGracePeriodSeconds")
        .and_then(serde_json::Value::as_i64)
    else {
        return;
    };
    if !(0..=grace).contains(&seconds) {
        let why =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        causes.push(Cause::invalid(sleep.path(), &seconds.into(), &why));
    }
}
