//! Compiles a `MutatingAdmissionPolicy`; what cannot be evaluated is refused when it is written.

use serde_json::Value;

use crate::{
    admission::{
        conditions::{self, Condition, compile_expression},
        policy::compile::{compile_variables, take_limited},
        variables::declarations,
    },
    cel::{Decl, JSON_PATCH, OBJECT, PATCH_TYPES, Program},
};
use kubeapi::{
    cause::Cause,
    object::{items, text_or_empty},
};

/// The most mutations of a policy.
const MAX_MUTATIONS: usize = 256;

/// The operations that a policy can change.
const OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// The expressions of a policy.
#[derive(Debug, Default)]
pub(in crate::admission) struct MutationPrograms {
    pub(super) conditions: Vec<Condition>,
    /// The expressions of `variables`, by name.
    pub(super) variables: Vec<(String, Program)>,
    pub(super) mutations: Vec<Mutation>,
}

/// One mutation of a policy.
#[derive(Debug)]
pub(super) struct Mutation {
    pub(super) kind: MutationKind,
    pub(super) program: Program,
}

/// What the value of a mutation's expression is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MutationKind {
    /// Fields that are applied.
    ApplyConfiguration,
    /// Operations on the object.
    JsonPatch,
}

impl MutationKind {
    const ALL: [Self; 2] = [Self::ApplyConfiguration, Self::JsonPatch];

    fn patch_type(self) -> &'static str {
        match self {
            Self::ApplyConfiguration => "ApplyConfiguration",
            Self::JsonPatch => "JSONPatch",
        }
    }

    fn field(self) -> &'static str {
        match self {
            Self::ApplyConfiguration => "applyConfiguration",
            Self::JsonPatch => "jsonPatch",
        }
    }

    fn decl(self) -> Decl {
        match self {
            Self::ApplyConfiguration => Decl::Message(OBJECT.into()),
            Self::JsonPatch => Decl::list(Decl::Message(JSON_PATCH.into())),
        }
    }
}

impl MutationPrograms {
    /// Compiles the policy, or returns what is invalid in it.
    pub(in crate::admission) fn compile(spec: &Value) -> (Self, Vec<Cause>) {
        let has_params = spec.get("paramKind").is_some_and(Value::is_object);
        let mut declared = declarations(has_params);
        let (conditions, mut causes) = conditions::compile(spec, "spec.", &declared);
        for rule in items(spec, "/matchConstraints/resourceRules") {
            let operations = items(rule, "/operations").iter();
            let unsupported =
                operations.filter(|one| !OPERATIONS.contains(&one.as_str().unwrap_or_default()));
            causes.extend(unsupported.map(|operation| {
                let field = "spec.matchConstraints.resourceRules.operations";
                Cause::unsupported(field, operation, &OPERATIONS)
            }));
        }
        declared.push((PATCH_TYPES, Decl::Dyn));
        let variables = compile_variables(spec, &mut declared, &mut causes);
        let mut programs = Self {
            conditions,
            variables,
            mutations: Vec::new(),
        };
        for (index, mutation) in
            take_limited(spec, "mutations", MAX_MUTATIONS, &mut causes).enumerate()
        {
            programs
                .mutations
                .extend(read_mutation(mutation, index, &declared, &mut causes));
        }
        (programs, causes)
    }
}

fn read_mutation(
    mutation: &Value,
    index: usize,
    declared: &[(&str, Decl)],
    causes: &mut Vec<Cause>,
) -> Option<Mutation> {
    let wanted = text_or_empty(mutation, "/patchType");
    let kind = MutationKind::ALL
        .into_iter()
        .find(|kind| kind.patch_type() == wanted)?;
    let field = |name: &str| format!("spec.mutations[{index}].{name}");
    let (own, type_) = (kind.field(), kind.patch_type());
    for other in MutationKind::ALL.into_iter().filter(|other| *other != kind) {
        if mutation.get(other.field()).is_some_and(Value::is_object) {
            let value = format!("{{{}}}", other.field()).into();
            let why = format!("must not be specified when patchType is {type_}");
            causes.push(Cause::invalid(field(other.field()), &value, &why));
        }
    }
    if !mutation.get(own).is_some_and(Value::is_object) {
        let why = format!("must be specified when patchType is {type_}");
        causes.push(Cause::required(field(own), &why));
        return None;
    }
    let source = text_or_empty(mutation, &format!("/{own}/expression"));
    let path = field(&format!("{own}.expression"));
    let decl = kind.decl();
    // an empty list fits, too
    let fits = |found: &Decl| found.is_dyn() || decl.takes(found, &mut [None, None]);
    match compile_expression(source.trim(), declared, &[], "") {
        Ok(program) if fits(program.decl()) => Some(Mutation { kind, program }),
        Ok(_) => {
            let why = format!("must evaluate to {decl}");
            causes.push(Cause::invalid(path, &source.into(), &why));
            None
        }
        Err(None) => {
            causes.push(Cause::required(path, ""));
            None
        }
        Err(Some(why)) => {
            causes.push(Cause::invalid(path, &source.into(), &why));
            None
        }
    }
}
