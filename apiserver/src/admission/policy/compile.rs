//! Compiles a `ValidatingAdmissionPolicy`; what cannot be evaluated is refused when it is written.

use serde_json::Value;

use crate::{
    admission::{
        conditions::{self, Condition, compile_expression},
        variables::declarations,
    },
    cel::{Decl, Program, escape},
};
use kubeapi::{
    cause::Cause,
    object::{items, text, text_or_empty},
};

/// The reasons with which a policy may refuse.
const REASONS: [&str; 4] = [
    "Forbidden",
    "Invalid",
    "RequestEntityTooLarge",
    "Unauthorized",
];

/// The most variables of a policy; each can use those before it.
const MAX_VARIABLES: usize = 256;

/// The most validations of a policy. Each is compiled when the policy is written, and again when policies are loaded.
const MAX_VALIDATIONS: usize = 1000;

/// The most audit annotations of a policy, as in Kubernetes.
const MAX_ANNOTATIONS: usize = 20;

/// The expressions of a policy.
#[derive(Debug, Default)]
pub(in crate::admission) struct Programs {
    pub(super) conditions: Vec<Condition>,
    /// The expressions of `variables`, by name.
    pub(super) variables: Vec<(String, Program)>,
    pub(super) validations: Vec<Validation>,
    /// The expressions of audit annotations, by key.
    pub(super) annotations: Vec<(String, Program)>,
}

/// One rule of a policy.
#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: String,
    pub(super) program: Program,
    pub(super) message: String,
    pub(super) message_expression: Option<Program>,
    pub(super) reason: String,
}

impl Programs {
    /// Compiles the policy, or returns what is invalid in it.
    pub(in crate::admission) fn compile(spec: &Value) -> (Self, Vec<Cause>) {
        let has_params = spec.get("paramKind").is_some_and(Value::is_object);
        let mut declared = declarations(has_params);
        let (conditions, mut causes) = conditions::compile(spec, "spec.", &declared);
        let mut programs = Self {
            conditions,
            ..Self::default()
        };
        programs.variables = compile_variables(spec, &mut declared, &mut causes);
        for (index, validation) in
            take_limited(spec, "validations", MAX_VALIDATIONS, &mut causes).enumerate()
        {
            programs
                .validations
                .extend(read_validation(validation, index, &declared, &mut causes));
        }
        for (index, annotation) in
            take_limited(spec, "auditAnnotations", MAX_ANNOTATIONS, &mut causes).enumerate()
        {
            let source = text_or_empty(annotation, "/valueExpression");
            let field = format!("spec.auditAnnotations[{index}].valueExpression");
            let why = "must evaluate to one of [string null_type]";
            match compile_expression(source, &declared, &[Decl::String, Decl::Null], why) {
                Ok(program) => {
                    programs
                        .annotations
                        .push((text_or_empty(annotation, "/key").to_owned(), program));
                }
                Err(None) => {
                    causes.push(Cause::required(field, "valueExpression is not specified"))
                }
                Err(Some(why)) => causes.push(Cause::invalid(field, &source.into(), &why)),
            }
        }
        (programs, causes)
    }
}

/// Compiles the variables of a policy, and declares `variables`.
pub(in crate::admission) fn compile_variables(
    spec: &Value,
    declared: &mut Vec<(&'static str, Decl)>,
    causes: &mut Vec<Cause>,
) -> Vec<(String, Program)> {
    let mut compiled = Vec::new();
    let mut fields: Vec<(String, Decl)> = Vec::new();
    declared.push(("variables", Decl::native(fields.clone())));
    for (index, variable) in take_limited(spec, "variables", MAX_VARIABLES, causes).enumerate() {
        let (name, source) = (
            text_or_empty(variable, "/name"),
            text_or_empty(variable, "/expression"),
        );
        let field = |part: &str| format!("spec.variables[{index}].{part}");
        if name.is_empty() {
            causes.push(Cause::required(field("name"), "name is not specified"));
        } else if escape(name).as_deref() != Some(name) {
            causes.push(Cause::invalid(
                field("name"),
                &name.into(),
                "name is not a valid CEL identifier",
            ));
        } else if fields.iter().any(|(known, _)| known == name) {
            causes.push(Cause::duplicate(field("name"), name));
        }
        match compile_expression(source, declared, &[], "") {
            Ok(program) => {
                fields.push((name.to_owned(), program.decl().clone()));
                compiled.push((name.to_owned(), program));
                if let Some(last) = declared.last_mut() {
                    last.1 = Decl::native(fields.clone());
                }
            }
            Err(None) => causes.push(Cause::required(
                field("expression"),
                "expression is not specified",
            )),
            Err(Some(why)) => {
                causes.push(Cause::invalid(field("expression"), &source.into(), &why))
            }
        }
    }
    compiled
}

/// The items of a list of the policy; none where there are too many, which is told.
pub(in crate::admission) fn take_limited<'a>(
    spec: &'a Value,
    list: &str,
    limit: usize,
    causes: &mut Vec<Cause>,
) -> impl Iterator<Item = &'a Value> + use<'a> {
    let all = items(spec, &format!("/{list}"));
    let is_too_long = all.len() > limit;
    if is_too_long {
        causes.push(Cause::too_many(
            format!("spec.{list}"),
            all.len() as u64,
            limit as u64,
        ));
    }
    all.iter().filter(move |_| !is_too_long)
}

fn read_validation(
    validation: &Value,
    index: usize,
    declared: &[(&str, Decl)],
    causes: &mut Vec<Cause>,
) -> Option<Validation> {
    let field = |part: &str| format!("spec.validations[{index}].{part}");
    let source = text_or_empty(validation, "/expression");
    let reason = text_or_empty(validation, "/reason");
    if !reason.is_empty() && !REASONS.contains(&reason) {
        causes.push(Cause::unsupported(
            field("reason"),
            &reason.into(),
            &REASONS,
        ));
    }
    let message = text_or_empty(validation, "/message").trim();
    if message.contains('\n') {
        causes.push(Cause::invalid(
            field("message"),
            &message.into(),
            "message must not contain line breaks",
        ));
    }
    let message_source = text(validation, "/messageExpression").unwrap_or_default();
    let message_expression = match compile_expression(
        message_source,
        declared,
        &[Decl::String],
        "must evaluate to string",
    ) {
        Ok(program) => Some(program),
        Err(None) => None,
        Err(Some(why)) => {
            causes.push(Cause::invalid(
                field("messageExpression"),
                &message_source.into(),
                &why,
            ));
            None
        }
    };
    match compile_expression(source, declared, &[Decl::Bool], "must evaluate to bool") {
        Ok(program) => Some(Validation {
            expression: source.trim().to_owned(),
            program,
            message: message.to_owned(),
            message_expression,
            reason: reason.to_owned(),
        }),
        Err(None) => {
            causes.push(Cause::required(
                field("expression"),
                "expression is not specified",
            ));
            None
        }
        Err(Some(why)) => {
            causes.push(Cause::invalid(field("expression"), &source.into(), &why));
            None
        }
    }
}
